"""What an operator may ask of a node: orders that come in, as the event `Commanded`, and are answered, each once.

A command is a plain value. It is checked whole before anything changes; a `Refused` says why it was not carried out.
Several that belong together, a file of definitions for one, are checked together.

Not here: the commands themselves (`access.commands`, `policy.commands`, `broker.commands`), who may give them
(`admin`), how they are carried out (`broker.control`).
"""

from typing import final


class Command:
    """An operator's order."""


@final
class Together(Command):
    """Several commands: none is carried out unless all are found good; then all are, in order.

    A node alone carries them out in one turn, so all or none. The nodes of a cluster agree on many changes in several
    steps (`broker.sharing.proposal`). If the store is lost between two of them, what was agreed upon stays; the refusal
    says how much that is, and the same command again brings about the rest.
    """

    def __init__(self, commands: list[Command]) -> None:
        self.commands = commands
