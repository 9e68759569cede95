"""What an operator may ask of a node: orders that come in, as the event `Commanded`, and are answered, each once.

A command is a plain value. It is checked whole before anything changes; a `Refused` says why it was not carried out.
Several that belong together, a file of definitions for one, are carried out together or not at all.

Not here: the commands themselves (`access.commands`, `policy.commands`, `broker.commands`), who may give them
(`admin`), how they are carried out (`broker.control`).
"""

from typing import final


class Command:
    """An operator's order."""


@final
class Together(Command):
    """Several commands: all are carried out, in order, in one turn, or none is."""

    def __init__(self, commands: list[Command]) -> None:
        self.commands = commands
