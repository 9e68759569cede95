"""How far readers have come who want their queue to know it: an offset for each name.

A queue is to know at most `NAMES_MAX` names; whoever takes readers in refuses new ones then. What is told is always
kept: a reader whose place was forgotten would be somewhere else the next time, and might miss something.

Not here: who tells (`stream`), where it is written down (`store.remembrance`).
"""

from typing import Final, final

from mypy_extensions import i64

NAMES_MAX: Final = 1_000

NOWHERE: Final = -2
"""Instead of an offset: the name is to be forgotten. One that has dealt with nothing is at -1."""


@final
class StoredOffsets:
    """Those of one queue."""

    def __init__(self) -> None:
        self.by_name: dict[str, int] = {}

    def keep(self, name: str, offset: i64) -> None:
        if offset == NOWHERE:
            self.by_name.pop(name, None)
        else:
            self.by_name[name] = int(offset)

    def clear(self) -> None:
        self.by_name = {}
