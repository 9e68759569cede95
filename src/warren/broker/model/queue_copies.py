"""The arguments that make a queue receive copies of other queues' messages.

`x-copy-from` is the name of a queue, or a list of names and of tables with `src_name` and an optional `routing_key`.
The routing key is a topic pattern: only matching messages are copied. A source without a pattern has that of
`x-copy-routing-key`; without that, all messages are copied.

Not here: checking the arguments (`broker.queues.arguments`), copying (`broker.routing.copies`).
"""

from typing import Final, final

from warren.wire.field_tables import Table

COPY_FROM: Final = "x-copy-from"
COPY_ROUTING_KEY: Final = "x-copy-routing-key"
SOURCE_NAME: Final = "src_name"
SOURCE_ROUTING_KEY: Final = "routing_key"
EVERYTHING: Final = "#"


@final
class CopySource:
    """A source queue, and the topic pattern of the messages that are copied."""

    def __init__(self, name: str, pattern: str) -> None:
        self.name: str = name
        self.pattern: str = pattern


def copy_sources(arguments: Table) -> list[CopySource]:
    """The sources that the arguments name; invalid values are ignored."""
    if COPY_FROM not in arguments:
        return []
    given = arguments[COPY_FROM]
    usual = arguments.get(COPY_ROUTING_KEY)
    pattern = usual if isinstance(usual, str) else EVERYTHING
    sources: list[CopySource] = []
    for source in given if isinstance(given, list) else [given]:
        if isinstance(source, str):
            sources.append(CopySource(source, pattern))
        elif isinstance(source, dict):
            name, own = source.get(SOURCE_NAME), source.get(SOURCE_ROUTING_KEY)
            if isinstance(name, str):
                sources.append(CopySource(name, own if isinstance(own, str) else pattern))
    return sources
