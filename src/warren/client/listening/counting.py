"""How often a listener's messages failed, and what became of them then; and whether handling goes well of late.

    retried     it is tried again: at once, in hand after a while, or by way of a retry queue
    parked      it is in the parking queue
    rejected    it went to the dead letters of its queue, or of a stream was left behind
    stuck       it was to be moved, the broker did not take it, and it stays where it is

Not here: which of them it is (`listening.retrying`).
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

from warren.client.measures import DESTINATION, Measure, Point

Fate = Literal["retried", "parked", "rejected", "stuck"]

_SAYS: dict[Fate, str] = {
    "retried": "Messages that failed and are tried again",
    "parked": "Messages that failed and were parked",
    "rejected": "Messages that failed and were rejected",
    "stuck": "Messages that failed and could not be moved",
}

LEAST_LATELY = 3
"""Of fewer, a single failure would be half of them or more."""
MOST_LATELY = 100


class Lately:
    """How the last few messages fared: a few that nobody can handle among many, or all because something is away."""

    def __init__(self, count: int = LEAST_LATELY) -> None:
        self._fared: deque[bool] = deque(maxlen=min(max(count, LEAST_LATELY), MOST_LATELY))

    def note(self, well: bool) -> None:
        self._fared.append(well)

    @property
    def goes_well(self) -> bool:
        """Whether more were handled than failed."""
        return 2 * sum(self._fared) > len(self._fared)


class Fates:
    """Of each queue, since the listener began."""

    def __init__(self, queues: Iterable[str]) -> None:
        self._queues = tuple(queues)
        self._counts: Counter[tuple[Fate, str]] = Counter()

    def count(self, fate: Fate, queue: str) -> None:
        self._counts[fate, queue] += 1

    def total(self, fate: Fate) -> int:
        return sum(self._counts[fate, queue] for queue in self._queues)

    def measures(self) -> Sequence[Measure]:
        return [self._measure(fate) for fate in get_args(Fate)]

    def _measure(self, fate: Fate) -> Measure:
        def read() -> list[Point]:
            return [(self._counts[fate, queue], {DESTINATION: queue}) for queue in self._queues]

        return Measure(f"warren.client.{fate}.messages", "{message}", _SAYS[fate], "counter", read)
