"""The extents of one queue and priority level, in the order of their positions.

A queue stores its messages in order, so each of its extents begins where the one before ends. A mirror that joins
receives messages behind those it has: their positions lie below others, or between those of an extent in another
segment. Such an extent is split in two: the positions below the arriving message, and those above it.

A start reads messages in the order in which they were written. For a mirror that was joining this is not the order of
positions, and extents are split as they were when the messages were written (`ExtentRestore`).

Invariants: extents do not overlap. No extent reaches from one epoch's positions into another's, which are far apart,
so a walk from `first` to `last` is short. Only the extent that was used last may be empty.

Not here: which positions between the ends of an extent are present (`broker.journal.position_index`), what an extent
is (`broker.model.journal`).
"""

from typing import final

from mypy_extensions import i64

from warren.broker.model.journal import Segment, SegmentExtent
from warren.broker.model.replica_set import POSITION_BITS
from warren.errors import InvariantBroken


@final
class ExtentList:
    """The durable extents of one level, or its transient ones."""

    def __init__(self, queue_id: i64, level: i64, durable: bool, segment_extents: list[SegmentExtent]) -> None:
        self.segment_extents: list[SegmentExtent] = sorted(segment_extents, key=extent_first)
        self._queue_id: i64 = queue_id
        self._level: i64 = level
        self._durable: bool = durable
        # takes the next message, if its position is above the last one and below the ceiling, where the next begins
        self._current: SegmentExtent | None = None
        self._ceiling: i64 = 0

    def open_at(self, position: i64, segment: Segment) -> SegmentExtent | None:
        """The extent that counts a message at this position, written to this segment.

        None if no extent can take it: `divide` or `begin` makes one.
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
        """The extent that this position lies within."""
        segment_extents = self.segment_extents
        if segment_extents and segment_extents[0].first <= position <= segment_extents[0].last:
            # most messages leave in order
            return segment_extents[0]
        at = self._index(position)
        return self.segment_extents[at] if at >= 0 and position <= self.segment_extents[at].last else None

    def divide(self, extent: SegmentExtent, position: i64) -> SegmentExtent | None:
        """Split an extent of another segment at a position, or shorten it if the position is at its end.

        The extent above the position, which counts nothing yet; None if the extent was shortened.
        """
        assert extent.first <= position <= extent.last
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
        """A new extent that counts nothing yet. No other extent may reach over this position."""
        extent = SegmentExtent(self._queue_id, segment, self._level, self._durable, position)
        at = self._index(position) + 1
        self.segment_extents.insert(at, extent)
        self._use(at)
        return extent

    def _use(self, at: int) -> None:
        """Let this extent grow. Drop the one that grew before if it is empty."""
        idle = self._current
        self._current = self.segment_extents[at]
        self._ceiling = ((self._current.first >> POSITION_BITS) + 1) << POSITION_BITS
        if at + 1 < len(self.segment_extents):
            self._ceiling = min(self._ceiling, self.segment_extents[at + 1].first)
        if idle is not None and idle.count == 0 and idle is not self._current:
            self.segment_extents.remove(idle)

    def emptied(self, extent: SegmentExtent) -> None:
        """An extent counts nothing any more."""
        if extent is not self._current or extent is not self.segment_extents[-1]:
            self.drop(extent)

    def drop(self, extent: SegmentExtent) -> None:
        self.segment_extents.remove(extent)
        if extent is self._current:
            self._current = None

    def between(self, first: i64, last: i64) -> list[SegmentExtent]:
        """The extents that reach into this range of positions."""
        found: list[SegmentExtent] = []
        at = max(self._index(first), 0)
        while at < len(self.segment_extents) and self.segment_extents[at].first <= last:
            if self.segment_extents[at].last >= first:
                found.append(self.segment_extents[at])
            at += 1
        return found

    def _index(self, position: i64) -> int:
        """The last extent that begins at or below this position; -1 if there is none."""
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

    def check(self) -> None:
        """Raise `InvariantBroken` if extents overlap or are out of order."""
        above: i64 = 0
        for extent in self.segment_extents:
            if extent.count > 0:
                if extent.first <= above or extent.last < extent.first:
                    raise InvariantBroken(f"an extent from {extent.first} to {extent.last} begins at or below {above}")
                above = extent.last


@final
class ExtentRestore:
    """One queue's durable extents while the journal is read."""

    def __init__(self, queue_id: i64, segment_extents: list[SegmentExtent]) -> None:
        # the parts of extents that were split: only index rows tell which messages each has
        self.divided: list[SegmentExtent] = []
        self._queue_id: i64 = queue_id
        self._segment_extents: list[SegmentExtent] = segment_extents
        self._levels: dict[int, ExtentList] = {}

    def extent_for(self, segment: Segment, level: i64, position: i64) -> SegmentExtent:
        extents = self._levels.get(int(level))
        if extents is None:
            extents = ExtentList(
                self._queue_id, level, True, [one for one in self._segment_extents if one.level == level]
            )
            self._levels[int(level)] = extents
        extent = extents.open_at(position, segment)
        return self._make_way(extents, segment, position) if extent is None else extent

    def _make_way(self, extents: ExtentList, segment: Segment, position: i64) -> SegmentExtent:
        over = extents.across(position)
        if over is not None:
            above = extents.divide(over, position)
            if above is not None:
                # until they are counted, each part claims all messages
                above.count = over.count
                above.cost_bytes = over.cost_bytes
                self._segment_extents.append(above)
                self.divided += [over, above]
        extent = extents.open_at(position, segment)
        if extent is None:
            extent = extents.begin(position, segment)
            self._segment_extents.append(extent)
        return extent


def extent_first(extent: SegmentExtent) -> int:
    return int(extent.first)
