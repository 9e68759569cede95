"""The waiters for the publishes to one queue, by the numbers of the publishes.

Publishes are numbered from 1 in the order they are sent. The waiters are a row of ranges, oldest first: publishes that
follow one another and have the same waiter. A publish without a waiter stands in no range.

Invariant: ranges do not overlap, and their numbers grow; those before `_at` are settled.

Not here: the publishes (`broker.links.publish_window`), their numbers on a link (`broker.links.remote_queue`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.ports import PublishWaiter
from warren.errors import InvariantBroken

SETTLED_RANGES_MAX: Final[i64] = 256
"""Settled ranges are dropped when there are more than this, and more than unsettled ones."""


@final
class AwaitedRange:
    """Publishes `first` to `last`, none of them settled, and their waiter, which numbers them `shift` higher."""

    def __init__(self, number: i64, waiter: PublishWaiter, place: i64) -> None:
        self.first: i64 = number
        self.last: i64 = number
        self.waiter: PublishWaiter = waiter
        self.shift: i64 = place - number


@final
class PublishWaiters:
    """The waiters for the publishes to one queue."""

    def __init__(self) -> None:
        # publishes up to this one are settled
        self._settled: i64 = 0
        self._ranges: list[AwaitedRange] = []
        # the first of them that is not settled
        self._at: i64 = 0
        self._growing: AwaitedRange | None = None

    def add(self, number: i64, waiter: PublishWaiter, place: i64) -> None:
        """The waiter wants to know of this publish, the highest so far; `place` is its own number for it."""
        growing = self._growing
        if growing is not None:
            if growing.waiter is waiter and growing.last == number - 1 and growing.shift == place - number:
                growing.last = number
                return
            assert growing.last <= number, "publishes are awaited in order"
        growing = AwaitedRange(number, waiter, place)
        self._growing = growing
        self._ranges.append(growing)

    def settle_to(self, number: i64) -> None:
        """All publishes up to this one are decided."""
        assert number >= self._settled, "publishes are settled in order"
        self._settled = number
        ranges = self._ranges
        while self._at < len(ranges) and ranges[self._at].first <= number:
            one = ranges[self._at]
            count: i64 = min(one.last, number) - one.first + 1
            if one.last > number:
                one.first = number + 1
                one.waiter.settled(count)
                break
            self._at += 1
            one.waiter.settled(count)
        self._sweep()

    def refuse(self, number: i64, doubted: bool = False) -> None:
        """The queue refused this publish; `doubted`: this node cannot tell whether the queue has it."""
        assert number > self._settled, "a settled publish is not refused"
        low: i64 = self._at
        high: i64 = len(self._ranges)
        while low < high:
            middle: i64 = (low + high) // 2
            if self._ranges[middle].last < number:
                low = middle + 1
            else:
                high = middle
        if low < len(self._ranges) and self._ranges[low].first <= number:
            one = self._ranges[low]
            if doubted:
                one.waiter.doubted(number + one.shift)
            else:
                one.waiter.refused(number + one.shift)

    def lose(self, reason: str) -> None:
        """The outcome of all unsettled publishes stays unknown."""
        ranges = self._ranges[self._at :]
        self._ranges = []
        self._at = 0
        self._growing = None
        for one in ranges:
            one.waiter.lost(reason)

    def check(self) -> None:
        """Raise `InvariantBroken` if the ranges contradict each other."""
        last: i64 = self._settled
        for one in self._ranges[self._at :]:
            if one.first <= last or one.last < one.first:
                raise InvariantBroken(f"publishes {one.first} to {one.last} are awaited behind {last}")
            last = one.last

    def _sweep(self) -> None:
        """Drop settled ranges: at once if all are settled, else when most are."""
        if self._at == len(self._ranges):
            self._growing = None
            self._ranges = []
            self._at = 0
        elif self._at > SETTLED_RANGES_MAX and self._at * 2 > len(self._ranges):
            del self._ranges[: self._at]
            self._at = 0
