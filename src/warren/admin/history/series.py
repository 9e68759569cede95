"""The samples of one object, and the retention policies.

The values of an object are a list; the kind of object gives their meaning. Only values that have changed take memory;
the others are still what they were when the object was first seen. So an idle object has no samples, and an object that
did nothing is not touched: missing slots are filled in when it changes again.

All samples of an object are in one array. A row has one sample of each value that has changed (`columns`). A level is a
circular buffer of rows, and the levels follow one another. A level keeps the last slot of every `every` slots. At a
multiple of the level's step that slot is the newest, so samples at such moments are exact.

Invariants: the row of unit `u` of a level (slot `u * every - 1`) has the values at that slot, for the last `size` units
up to `slot`, the last slot written; `last` has the values at `slot` and since.

*Retention.* Time is divided into *slots* of one sampling interval. A *level* keeps every n-th sample, the newest `size`
of them: the first level every slot, further levels longer periods. As in RabbitMQ, the levels of a node cover a day,
those of one queue or connection an hour.

*Memory.* Samples of queues, exchanges and channels have 32 bits, because an hour's messages differ by less than 2**31.
A queue with changing publishes, deliveries, acks and both lengths takes 5 x 183 x 4 = 3.7 KB; 10,000 queues take 37 MB
and some 6 MB of objects. Beyond `SAMPLES_BYTES_MAX` an object keeps only its last two samples, which a rate needs.

Not here: when samples are taken (`history.sampler`).
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
"""Type code of exact samples."""


class RetentionLevel(NamedTuple):
    """A circular buffer with one sample every so many slots."""

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
    """The policies for one sampling interval."""

    interval_ms: int
    whole: Retention
    counts: Retention
    sizes: Retention

    def short(self, shape: Retention) -> Retention:
        """A policy that keeps enough for a rate."""
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
    """The policy in slots; levels that are equal because of a long interval become one.

    Rates need every slot, so with a shorter interval than the policy's the first level keeps as many points.
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
    """The samples of one object."""

    __slots__ = ("born", "columns", "gap_ms", "last", "points", "shape", "slot", "snapshot", "still")

    def __init__(self, shape: Retention, slot: int, stats: list[int], snapshot: Snapshot | None = None) -> None:
        self.shape = shape
        self.snapshot = snapshot
        # the slot in which the object was first seen; all values were 0 before
        self.born = slot
        self.slot = slot
        # the time between the last two samples
        self.gap_ms = 0
        self.last = stats
        self.columns: tuple[int, ...] = ()
        # indexes of values that have not changed
        self.still = _others((), len(stats))
        self.points: array[int] | None = None

    @property
    def samples_bytes(self) -> int:
        return 0 if self.points is None else len(self.points) * self.points.itemsize

    def changed_columns(self, stats: list[int]) -> tuple[int, ...]:
        """The columns that the series needs for these values."""
        last = self.last
        more = [at for at in self.still if stats[at] != last[at]]
        return (*self.columns, *more) if more else self.columns

    def widen(self, columns: tuple[int, ...], shape: Retention) -> None:
        """Add columns for more values, which have not changed so far."""
        rows, width = shape.rows, len(columns)
        points = array(shape.type_code, self._row(columns, shape)) * rows
        if self.points is not None and shape is self.shape:
            old_width = len(self.columns)
            for at in range(old_width):
                points[at::width] = self.points[at::old_width]
        self.points, self.shape = points, shape
        self.columns, self.still = columns, _others(columns, len(self.last))

    def record(self, slot: int, gap_ms: int, stats: list[int]) -> None:
        """Record the values of a slot. Slots only increase, and `widen` has been called."""
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
        """Free the samples: no value has changed for longer than samples are kept."""
        self.points, self.columns, self.still = None, (), _others((), len(self.last))

    def at(self, slot: int, counter: int) -> int:
        """A value in a slot; 0 before the object existed."""
        if slot >= self.slot:
            return self.last[counter]
        if slot < self.born:
            return 0
        if self.points is None or counter not in self.columns:
            return self.last[counter]
        return self._kept(slot, counter, self.points)

    def _kept(self, slot: int, counter: int, points: "array[int]") -> int:
        unit, at, first_row = 0, 0, 0
        for every, size in self.shape.levels:
            newest = (self.slot + 1) // every
            unit, at = (slot + 1) // every, first_row
            if unit > newest - size:
                break
            # older than anything kept: the oldest sample
            unit = newest - size + 1
            first_row += size
        if unit * every <= self.born:
            return 0
        sample = points[(at + unit % size) * len(self.columns) + self.columns.index(counter)]
        if self.shape.type_code != COUNTS:
            return sample
        last = self.last[counter]
        return last + ((sample - last + _HALF) & _MASK) - _HALF

    def _row(self, columns: tuple[int, ...], shape: Retention) -> "array[int]":
        """The row of the last values."""
        if shape.type_code == COUNTS:
            return array(COUNTS, [self.last[at] & _MASK for at in columns])
        return array(shape.type_code, [self.last[at] for at in columns])

    def _fill(self, first_row: int, every: int, size: int, slot: int, row: "array[int]") -> None:
        """Repeat the last row for the slots without a pass."""
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
    """The indexes that are not among these; cached, because many objects change in the same columns."""
    return tuple(at for at in range(width) if at not in columns)
