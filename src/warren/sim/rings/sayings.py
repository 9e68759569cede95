"""What steps say, taken apart, so that the rules can compare and apply them.

Not here: steps as bytes (`mirroring.steps`).
"""

from typing import NamedTuple

from warren.mirroring.steps import LEND, OPEN, ORIGIN, PERSISTENT, REMOVE, RETURNED, STORE, Step, StepReader


class Saying(NamedTuple):
    """One thing a step says; `last` is the second word of those that have two, and the origin's count of a STORE."""

    kind: int
    level: int
    first: int
    last: int = 0
    persistent: bool = False
    payload: bytes = b""


def sayings(data: bytes) -> tuple[Saying, ...]:
    """All that a step says."""
    found: list[Saying] = []
    reader = StepReader(Step(0, 0, data))
    while reader.next():
        kind, level, first = int(reader.kind), int(reader.priority), int(reader.word(0))
        if kind == STORE:
            persistent = reader.flags & PERSISTENT != 0
            found.append(Saying(kind, level, first, int(reader.word(2)), persistent, reader.payload()))
        elif kind in (REMOVE, RETURNED):
            found.append(Saying(kind, level, first, int(reader.word(1))))
        elif kind in (LEND, OPEN):
            found.append(Saying(kind, level, first))
        else:
            assert kind == ORIGIN
    return tuple(found)
