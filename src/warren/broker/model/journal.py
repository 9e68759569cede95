"""Nouns of the data on disk: journal segments, the extents of queues in them, position ranges, and metadata changes.

The journal is a sequence of segments. A message is written once, into one segment, for all queues that hold it. A
`SegmentExtent` counts the live messages of one queue in one segment; an `Entry` on disk refers to its extent. The ready
entries of a queue that are on disk only are a sequence of `PositionRange`s.

Invariants: a segment's `live_count` and `live_bytes` are the sums over its extents. The positions of a range are in one
segment, and the ranges of a priority level are in the order of positions.

Not here: bytes and files (`broker.journal`, `node.disk`), which entries a queue keeps in memory
(`broker.queues.contents`).
"""

from typing import Final, final

from mypy_extensions import i64, mypyc_attr

ENTRY_COST_BYTES: Final[i64] = 64
"""About the size of a stored entry besides its content: record header, names, an index row."""


@final
class Segment:
    """One file of the journal. `live_bytes` and `total_bytes` count a message once for each queue that holds it."""

    def __init__(self, number: i64) -> None:
        self.number: i64 = number
        self.size_bytes: i64 = 0
        self.total_bytes: i64 = 0
        self.live_count: i64 = 0
        self.live_bytes: i64 = 0
        self.sealed: bool = False
        # compaction copied all live messages into that segment
        self.moved_to: Segment | None = None


@final
class SegmentExtent:
    """The live messages of one queue in one segment, at one priority level."""

    def __init__(self, queue_id: i64, segment: Segment, level: i64, durable: bool, first: i64) -> None:
        self.queue_id: i64 = queue_id
        self.segment: Segment = segment
        self.level: i64 = level
        # whether the messages survive a restart
        self.durable: bool = durable
        self.first: i64 = first
        self.last: i64 = first
        self.count: i64 = 0
        self.body_bytes: i64 = 0
        self.cost_bytes: i64 = 0
        self.deadlines: bool = False

    def add(self, position: i64, body_bytes: i64, cost_bytes: i64) -> None:
        if position > self.last:
            self.last = position
        self.count += 1
        self.body_bytes += body_bytes
        self.cost_bytes += cost_bytes
        segment = self.segment
        segment.live_count += 1
        segment.live_bytes += cost_bytes

    def covers(self, segment: Segment, level: i64, durable: bool, position: i64) -> bool:
        """Whether this extent counts a live entry at this position."""
        return (
            self.segment is segment
            and self.level == level
            and self.durable == durable
            and self.first <= position <= self.last
            and self.count > 0
        )

    def remove(self, count: i64, body_bytes: i64, cost_bytes: i64) -> None:
        self.count -= count
        if self.count == 0:
            # some costs are estimates
            cost_bytes = self.cost_bytes
            body_bytes = self.body_bytes
        self.body_bytes -= body_bytes
        self.cost_bytes -= cost_bytes
        segment = self.segment
        segment.live_count -= count
        segment.live_bytes -= cost_bytes


@final
class PositionRange:
    """Ready entries of one priority level that are on disk only: from `first` to `last` in one segment."""

    def __init__(self, segment: Segment, level: i64, first: i64) -> None:
        self.segment: Segment = segment
        self.level: i64 = level
        self.first: i64 = first
        self.last: i64 = first
        self.count: i64 = 0
        self.body_bytes: i64 = 0
        # whether any of the entries may have a deadline
        self.deadlines: bool = False

    def add(self, position: i64, body_bytes: i64) -> None:
        self.last = position
        self.count += 1
        self.body_bytes += body_bytes

    def add_extent(self, extent: SegmentExtent) -> None:
        """Add all messages of an extent in this segment that does not begin below the range."""
        self.last = max(self.last, extent.last)
        self.count += extent.count
        self.body_bytes += extent.body_bytes
        self.deadlines = self.deadlines or extent.deadlines


@final
@mypyc_attr(acyclic=True)
class MetadataChange:
    """One change of the metadata: the value of a key from this revision on, None if it was deleted."""

    def __init__(self, revision: int, key: str, value: bytes | None) -> None:
        self.revision: int = revision
        self.key: str = key
        self.value: bytes | None = value

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, MetadataChange)
            and self.revision == other.revision
            and self.key == other.key
            and self.value == other.value
        )

    def __hash__(self) -> int:
        return hash((self.revision, self.key))

    def __repr__(self) -> str:
        return f"MetadataChange({self.revision}, {self.key!r}, {self.value!r})"
