"""The samples of one object: for each of its figures what it was in the slots that are kept.

The figures of an object are a list; what each of them means is the kind's business. Only figures that have moved take
up room: the rest are what they were when the object was first seen. So an idle object has no samples at all, and an
object that did nothing since the last look is not touched: what is missing is filled in when it moves again.

All samples of an object are one array. A row has one sample of each figure that moved (`columns`), a level is a ring
of rows, and the levels follow one another.

A level keeps the last slot of every `every`: at a moment that is a multiple of the level's step it is the newest one,
so samples asked for at such moments are exact.

Invariants: the row of unit `u` of a level (slot `u * every - 1`) has the figures as they were at that slot, for the
last `size` units up to `slot`, the last slot written; `last` are the figures at `slot` and ever since.

Not here: when samples are taken (`history.sampler`), how many are kept (`history.shapes`).

How many samples are kept, and how far apart: RabbitMQ's retention policies.

Time is cut into *slots* of one sampling interval. A *level* keeps the sample of every n-th slot, the newest `size` of
them; the first level has every slot, further ones reach back further. As in RabbitMQ the levels of a whole node reach
back a day, those of one queue or connection an hour.

What is kept of single objects is bounded. The samples of queues, exchanges and channels are 32 bits wide: they count
messages, and an hour's worth of these differs by less than 2**31. A queue whose publishes, deliveries, acks and both
lengths move takes 5 x 183 x 4 = 3.7 KB; 10,000 of them 37 MB, and some 6 MB for the objects around. Beyond
`SAMPLES_BYTES_MAX` an object has only its last two samples, which are what rates need.

Not here: the samples (`history.track`).
"""

from array import array
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from warren.broker.snapshots import Snapshot

SAMPLES_BYTES_MAX = 64 * 1024 * 1024

# seconds kept, seconds between samples
_GLOBAL_POLICY = ((605, 5), (3660, 60), (29400, 600), (86400, 1800))
_BASIC_POLICY = ((605, 5), (3600, 60))

COUNTS = "I"
"""Type code of samples that are compared modulo 2**32."""

SIZES = "q"
"""Type code of samples that are exact."""


class RetentionLevel(NamedTuple):
    """A ring of samples, one every so many slots."""

    every: int
    size: int


@dataclass(frozen=True)
class Retention:
    """How the samples of one kind of object are kept."""

    levels: tuple[RetentionLevel, ...]
    type_code: str

    @property
    def rows(self) -> int:
        return sum(level.size for level in self.levels)


@dataclass(frozen=True)
class RetentionPolicies:
    """The shapes there are, for one sampling interval."""

    interval_ms: int
    whole: Retention
    counts: Retention
    sizes: Retention

    def short(self, shape: Retention) -> Retention:
        """Enough for a rate."""
        return Retention((RetentionLevel(1, 2),), shape.type_code)


def retention_policies(interval_ms: int) -> RetentionPolicies:
    basic = _levels(_BASIC_POLICY, interval_ms)
    return RetentionPolicies(
        interval_ms,
        whole=Retention(_levels(_GLOBAL_POLICY, interval_ms), SIZES),
        counts=Retention(basic, COUNTS),
        sizes=Retention(basic, SIZES),
    )


def _levels(policy: tuple[tuple[int, int], ...], interval_ms: int) -> tuple[RetentionLevel, ...]:
    """The policy in slots; levels that an unusually long interval makes alike become one.

    Rates need every slot, so whoever samples more often than the policy asks for keeps as many points of that.
    """
    age_s, apart_s = policy[0]
    kept: dict[int, int] = {1: age_s // apart_s + 1}
    for age_s, apart_s in policy:
        every = max(1, round(apart_s * 1000 / interval_ms))
        kept[every] = max(2, age_s * 1000 // (every * interval_ms) + 1)
    return tuple(RetentionLevel(every, size) for every, size in kept.items())


_MASK = 0xFFFFFFFF
_HALF = 0x80000000


class SampleSeries:
    """What one object has been doing."""

    __slots__ = ("born", "columns", "gap_ms", "glance", "last", "points", "shape", "slot", "still")

    def __init__(self, shape: Retention, slot: int, stats: list[int], glance: Snapshot | None = None) -> None:
        self.shape = shape
        self.glance = glance
        # the first slot it was seen in; it was nothing before
        self.born = slot
        self.slot = slot
        # how long before the last sample the one before it was taken
        self.gap_ms = 0
        self.last = stats
        self.columns: tuple[int, ...] = ()
        # the figures that have not moved
        self.still = _others((), len(stats))
        self.points: array[int] | None = None

    @property
    def samples_bytes(self) -> int:
        return 0 if self.points is None else len(self.points) * self.points.itemsize

    def stirred_columns(self, stats: list[int]) -> tuple[int, ...]:
        """The columns it needs once these are its figures."""
        last = self.last
        more = [at for at in self.still if stats[at] != last[at]]
        return (*self.columns, *more) if more else self.columns

    def widen(self, columns: tuple[int, ...], shape: Retention) -> None:
        """Make room for the samples of more figures, which have not moved so far."""
        rows, width = shape.rows, len(columns)
        points = array(shape.type_code, self._row(columns, shape)) * rows
        if self.points is not None and shape is self.shape:
            old_width = len(self.columns)
            for at in range(old_width):
                points[at::width] = self.points[at::old_width]
        self.points, self.shape = points, shape
        self.columns, self.still = columns, _others(columns, len(self.last))

    def record(self, slot: int, gap_ms: int, stats: list[int]) -> None:
        """These are the figures from here on; slots only go up, and `widen` has made room."""
        points = self.points
        self.gap_ms = gap_ms
        if points is None:
            self.last, self.slot = stats, slot
            return
        before, width, columns = self.slot, len(self.columns), self.columns
        old = self._row(columns, self.shape) if slot > before + 1 else None
        if self.shape.type_code == COUNTS:
            row = array(COUNTS, [stats[at] & _MASK for at in columns])
        else:
            row = array(self.shape.type_code, [stats[at] for at in columns])
        first_row = 0
        for every, size in self.shape.levels:
            if old is not None:
                self._fill(first_row, every, size, slot, old)
            if (slot + 1) % every == 0:
                at = (first_row + (slot + 1) // every % size) * width
                points[at : at + width] = row
            first_row += size
        self.last, self.slot = stats, slot

    def rest(self) -> None:
        """It has been still for longer than anything is kept: what it is, it was in all that time."""
        self.points, self.columns, self.still = None, (), _others((), len(self.last))

    def at(self, slot: int, figure: int) -> int:
        """A figure as it was in a slot; 0 before the object was there."""
        if slot >= self.slot:
            return self.last[figure]
        if slot < self.born:
            return 0
        if self.points is None or figure not in self.columns:
            return self.last[figure]
        return self._kept(slot, figure, self.points)

    def _kept(self, slot: int, figure: int, points: "array[int]") -> int:
        unit, at, first_row = 0, 0, 0
        for every, size in self.shape.levels:
            newest = (self.slot + 1) // every
            unit, at = (slot + 1) // every, first_row
            if unit > newest - size:
                break
            # of what is older than anything kept, the oldest that is
            unit = newest - size + 1
            first_row += size
        if unit * every <= self.born:
            return 0
        sample = points[(at + unit % size) * len(self.columns) + self.columns.index(figure)]
        if self.shape.type_code != COUNTS:
            return sample
        last = self.last[figure]
        return last + ((sample - last + _HALF) & _MASK) - _HALF

    def _row(self, columns: tuple[int, ...], shape: Retention) -> "array[int]":
        """The row of the last figures."""
        if shape.type_code == COUNTS:
            return array(COUNTS, [self.last[at] & _MASK for at in columns])
        return array(shape.type_code, [self.last[at] for at in columns])

    def _fill(self, first_row: int, every: int, size: int, slot: int, row: "array[int]") -> None:
        """Between the last slot written and this one everything stayed as it was."""
        points, width = self.points, len(row)
        assert points is not None
        first = (self.slot + 1) // every + 1
        final = slot // every
        first = max(first, final - size + 1)
        while first <= final:
            place = first % size
            count = min(final - first + 1, size - place)
            start = (first_row + place) * width
            points[start : start + count * width] = row * count
            first += count


@lru_cache(maxsize=4096)
def _others(columns: tuple[int, ...], width: int) -> tuple[int, ...]:
    """The places of a list that are none of these; objects whose figures move alike share it."""
    return tuple(at for at in range(width) if at not in columns)
