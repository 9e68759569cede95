"""What a queue's arguments say of the queues whose messages it gets copies of.

`x-copy-from` is the name of a queue, or a list: of names, and of tables with a `src_name` and perhaps a `routing_key`.
Only what matches that topic pattern is copied. Where a source has none of its own that of `x-copy-routing-key` counts,
and where there is none either, everything is.

Not here: whether all this may be said (`broker.queues.arguments`), copying (`broker.routing.copies`).
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
    """A queue that is copied, and the pattern of what is."""

    def __init__(self, name: str, pattern: str) -> None:
        self.name: str = name
        self.pattern: str = pattern


def copy_sources(arguments: Table) -> list[CopySource]:
    """Those that are named; whatever cannot be understood names none."""
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
