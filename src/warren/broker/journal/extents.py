"""The holdings of one queue and level that are alike durable, in the order of their positions.

A queue stores its messages in order, so each of its holdings begins where the one before ends. A mirror gets what it
lacked behind what it has: positions below others, and between those of a holding that lies in another segment. That one
is then divided: what is below the newcomer, and what is above it.

Invariants: the holdings do not overlap, and none reaches from one epoch's positions to another's, which are far apart:
whoever goes through what is between its ends has an end. Only the last one used may be empty.

Not here: which positions between the ends of a holding are there (`broker.journal.position_index`), what a holding is
(`broker.model.journal`).
"""

from typing import final

from mypy_extensions import i64

from warren.broker.model.journal import Segment, SegmentExtent
from warren.broker.model.replica_set import POSITION_BITS


@final
class ExtentList:
    """One level's holdings, durable ones or others."""

    def __init__(self, queue_id: i64, level: i64, durable: bool, segment_extents: list[SegmentExtent]) -> None:
        self.segment_extents: list[SegmentExtent] = sorted(segment_extents, key=extent_first)
        self._queue_id: i64 = queue_id
        self._level: i64 = level
        self._durable: bool = durable
        # what comes next goes here, if it lies above the last and below the ceiling, where the next one begins
        self._current: SegmentExtent | None = None
        self._ceiling: i64 = 0

    def open_at(self, position: i64, segment: Segment) -> SegmentExtent | None:
        """Where a message of this position that is written to this segment is counted.

        None if no holding can take it: `divide` or `begin` makes one.
        """
        current = self._current
        if current is None or current.segment is not segment or not current.last < position < self._ceiling:
            current = self._look(position, segment)
        if current is not None and current.count == 0:
            current.first = position
            current.last = position
        return current

    def _look(self, position: i64, segment: Segment) -> SegmentExtent | None:
        at = self._index(position)
        if at < 0 or self.segment_extents[at].segment is not segment:
            return None
        found = self.segment_extents[at]
        if position > found.last:
            if (position ^ found.first) >> POSITION_BITS != 0:
                return None
            self._use(at)
        return found

    def across(self, position: i64) -> SegmentExtent | None:
        """The holding this position lies within."""
        segment_extents = self.segment_extents
        if segment_extents and segment_extents[0].first <= position <= segment_extents[0].last:
            # most leave in order
            return segment_extents[0]
        at = self._index(position)
        return self.segment_extents[at] if at >= 0 and position <= self.segment_extents[at].last else None

    def divide(self, extent: SegmentExtent, position: i64) -> SegmentExtent | None:
        """A holding of another segment makes way: it ends below the position, or begins above it, where it can.

        Otherwise there is another from here on, for what is above; that counts nothing yet.
        """
        self._current = None
        if position == extent.last:
            extent.last = position - 1
            return None
        if position == extent.first:
            extent.first = position + 1
            return None
        above = SegmentExtent(self._queue_id, extent.segment, self._level, self._durable, position + 1)
        above.last = extent.last
        above.deadlines = extent.deadlines
        extent.last = position - 1
        self.segment_extents.insert(self._index(position) + 1, above)
        return above

    def begin(self, position: i64, segment: Segment) -> SegmentExtent:
        """A holding that counts nothing yet; no other may reach over this position."""
        extent = SegmentExtent(self._queue_id, segment, self._level, self._durable, position)
        at = self._index(position) + 1
        self.segment_extents.insert(at, extent)
        self._use(at)
        return extent

    def _use(self, at: int) -> None:
        """This one may grow; one that was to grow, and is empty, goes."""
        idle = self._current
        self._current = self.segment_extents[at]
        self._ceiling = ((self._current.first >> POSITION_BITS) + 1) << POSITION_BITS
        if at + 1 < len(self.segment_extents):
            self._ceiling = min(self._ceiling, self.segment_extents[at + 1].first)
        if idle is not None and idle.count == 0 and idle is not self._current:
            self.segment_extents.remove(idle)

    def emptied(self, extent: SegmentExtent) -> None:
        """Nothing is left of a holding."""
        if extent is not self._current or extent is not self.segment_extents[-1]:
            self.drop(extent)

    def drop(self, extent: SegmentExtent) -> None:
        self.segment_extents.remove(extent)
        if extent is self._current:
            self._current = None

    def between(self, first: i64, last: i64) -> list[SegmentExtent]:
        """Those that have something from the first to the last position, about."""
        if len(self.segment_extents) == 1:
            return (
                self.segment_extents[:]
                if self.segment_extents[0].first <= last and self.segment_extents[0].last >= first
                else []
            )
        found: list[SegmentExtent] = []
        at = max(self._index(first), 0)
        while at < len(self.segment_extents) and self.segment_extents[at].first <= last:
            if self.segment_extents[at].last >= first:
                found.append(self.segment_extents[at])
            at += 1
        return found

    def _index(self, position: i64) -> int:
        """The last one that does not begin behind this position; -1 if there is none."""
        segment_extents = self.segment_extents
        low: i64 = 0
        high: i64 = len(segment_extents)
        while low < high:
            middle: i64 = (low + high) >> 1
            if segment_extents[middle].first <= position:
                low = middle + 1
            else:
                high = middle
        return int(low) - 1


def extent_first(extent: SegmentExtent) -> int:
    return int(extent.first)
