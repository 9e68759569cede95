"""How many samples are kept, and how far apart: RabbitMQ's retention policies.

Time is cut into *slots* of one sampling interval. A *level* keeps the sample of every n-th slot, the newest `size` of
them; the first level has every slot, further ones reach back further. As in RabbitMQ the levels of a whole node reach
back a day, those of one queue or connection an hour.

What is kept of single objects is bounded. The samples of queues, exchanges and channels are 32 bits wide: they count
messages, and an hour's worth of these differs by less than 2**31. A queue whose publishes, deliveries, acks and both
lengths move takes 5 x 183 x 4 = 3.7 KB; 10,000 of them 37 MB, and some 6 MB for the objects around. Beyond
`SAMPLES_BYTES_MAX` an object has only its last two samples, which are what rates need.

Not here: the samples (`history.track`).
"""

from dataclasses import dataclass
from typing import NamedTuple

SAMPLES_BYTES_MAX = 64 * 1024 * 1024

# seconds kept, seconds between samples
_GLOBAL_POLICY = ((605, 5), (3660, 60), (29400, 600), (86400, 1800))
_BASIC_POLICY = ((605, 5), (3600, 60))

COUNTS = "I"
"""Type code of samples that are compared modulo 2**32."""

SIZES = "q"
"""Type code of samples that are exact."""


class Level(NamedTuple):
    """A ring of samples, one every so many slots."""

    every: int
    size: int


@dataclass(frozen=True)
class Shape:
    """How the samples of one kind of object are kept."""

    levels: tuple[Level, ...]
    type_code: str

    @property
    def rows(self) -> int:
        return sum(level.size for level in self.levels)


@dataclass(frozen=True)
class Shapes:
    """The shapes there are, for one sampling interval."""

    interval_ms: int
    whole: Shape
    counts: Shape
    sizes: Shape

    def short(self, shape: Shape) -> Shape:
        """Enough for a rate."""
        return Shape((Level(1, 2),), shape.type_code)


def shapes_for(interval_ms: int) -> Shapes:
    basic = _levels(_BASIC_POLICY, interval_ms)
    return Shapes(
        interval_ms,
        whole=Shape(_levels(_GLOBAL_POLICY, interval_ms), SIZES),
        counts=Shape(basic, COUNTS),
        sizes=Shape(basic, SIZES),
    )


def _levels(policy: tuple[tuple[int, int], ...], interval_ms: int) -> tuple[Level, ...]:
    """The policy in slots; levels that an unusually long interval makes alike become one.

    Rates need every slot, so whoever samples more often than the policy asks for keeps as many points of that.
    """
    age_s, apart_s = policy[0]
    kept: dict[int, int] = {1: age_s // apart_s + 1}
    for age_s, apart_s in policy:
        every = max(1, round(apart_s * 1000 / interval_ms))
        kept[every] = max(2, age_s * 1000 // (every * interval_ms) + 1)
    return tuple(Level(every, size) for every, size in kept.items())
