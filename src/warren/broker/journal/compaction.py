"""Compaction: the living messages of a mostly dead segment are copied to the journal's end, so the segment can go.

A segment is read in slices, one a turn. The living placements of each record are written again into the active
segment. At the end a MOVED record says that all of them are there; from then on the extents of the old segment count
in the other one. Copies without a MOVED record mean nothing: a node that died halfway finds every message where it
was. All copies of a segment go into one other segment, so the journal does not roll meanwhile.

A message that is removed during compaction is removed in both segments: a removal names a position, not a place.

Not here: which segment is compacted and when, and its deletion (`broker.journal.journal`).
"""

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.broker.journal.queue_index import QueueIndex
from warren.broker.journal.records import (
    COPY,
    COPY_PAGED,
    MESSAGE,
    MOVED,
    SEGMENT_HEADER_BYTES,
    RecordScanner,
    damaged_segment,
    record_sizes,
    write_triple,
)
from warren.broker.journal.tail import JournalTail, ReadWaiter
from warren.broker.model.journal import Segment

SLICE_BYTES: Final[i64] = 1024 * 1024
SLICE_BYTES_MAX: Final[i64] = 4 * 1024 * 1024
# the most records that one turn may look at without delaying other work
SLICE_RECORDS: Final[i64] = 8192


@final
class Compaction(ReadWaiter):
    """One segment at a time."""

    def __init__(self, tail: JournalTail, queue_indexes: dict[int, QueueIndex]) -> None:
        # a segment was compacted, so there may be another one to compact
        self.finished: bool = False
        self._tail: JournalTail = tail
        self._queue_indexes: dict[int, QueueIndex] = queue_indexes
        self._from: Segment | None = None
        # how far the segment was read
        self._at: i64 = 0
        self._slice_bytes: i64 = SLICE_BYTES
        # segments that could not be read to their end are not tried again
        self._damaged: set[int] = set()

    def running(self) -> bool:
        return self._from is not None

    def worthwhile(self, segment: Segment) -> bool:
        """Whether more than half of a segment is dead."""
        return (
            segment.sealed
            and segment.live_count > 0
            and segment.live_bytes * 2 < segment.total_bytes
            and int(segment.number) not in self._damaged
        )

    def begin(self, segment: Segment) -> None:
        assert self._from is None
        assert segment.sealed
        self._from = segment
        self._at = SEGMENT_HEADER_BYTES
        self._slice_bytes = SLICE_BYTES
        self._tail.compacting = {}
        self._read(self._slice_bytes)

    def index_read(self, rows: bytes, error: str) -> None:
        """Never asked for."""

    def journal_read(self, blocks: list[bytes], error: str) -> None:
        segment = self._from
        if segment is None:
            return
        if error:
            self._give_up(segment, error)
            return
        scanner = RecordScanner(blocks[0], segment.number, self._at, self._at)
        records: i64 = 0
        while scanner.next():
            records += 1
            if scanner.kind <= COPY_PAGED and not self._copy(segment, scanner):
                self._give_up(segment, str(damaged_segment(segment.number, scanner.at)))
                return
        self._suit_slices(scanner.at - self._at, records)
        if scanner.at >= segment.size_bytes or segment.live_count == 0:
            self._finish(segment)
        elif scanner.short:
            # the record is larger than a slice
            self._at = scanner.at
            self._read(max(scanner.end - scanner.at, self._slice_bytes))
        elif scanner.at > self._at:
            self._at = scanner.at
            self._read(self._slice_bytes)
        elif self._at + len(blocks[0]) < segment.size_bytes:
            # the header is larger than the slice
            self._read(len(blocks[0]) * 2)
        else:
            self._give_up(segment, str(damaged_segment(segment.number, scanner.at)))

    def _suit_slices(self, read_bytes: i64, records: i64) -> None:
        """The larger the records, the larger the slices: a slice is the work of one turn."""
        if records > 0:
            self._slice_bytes = max(SLICE_BYTES, min(SLICE_BYTES_MAX, read_bytes // records * SLICE_RECORDS))

    def _read(self, size: i64) -> None:
        segment = self._from
        assert segment is not None
        length = min(size, segment.size_bytes - self._at)
        self._tail.read_records(self, segment, [(int(self._at), int(length))])

    def _copy(self, segment: Segment, scanner: RecordScanner) -> bool:
        """Write the living placements of a record again; False if the record is damaged."""
        durable = scanner.kind == MESSAGE or scanner.kind == COPY
        living = BytesWriter()
        count: i64 = 0
        index: i64 = 0
        while index < scanner.count:
            if self._alive(segment, scanner.a(index), scanner.b(index), scanner.priority, durable):
                write_triple(living, scanner.a(index), scanner.b(index), scanner.c(index))
                count += 1
            index += 1
        if count == 0:
            return True
        if not scanner.intact():
            return False
        kind = COPY if durable else COPY_PAGED
        body_bytes, cost = record_sizes(scanner, False)
        self._tail.active.total_bytes += count * cost
        self._tail.batch.copy(
            kind, scanner.priority, living.getvalue(), count, body_bytes, scanner.payload(), scanner.payload_crc
        )
        return True

    def _alive(self, segment: Segment, queue_id: i64, position: i64, priority: i64, durable: bool) -> bool:
        queue_index = self._queue_indexes.get(int(queue_id))
        if queue_index is None:
            return False
        level = queue_index.level_of(priority)
        if queue_index.removed_at(level).has(position):
            return False
        durable = durable and queue_index.durable
        segment_extents = self._tail.compacting.get(int(queue_id))
        if segment_extents is None:
            # a sealed segment gets no further extent, unless one is split
            segment_extents = [extent for extent in queue_index.segment_extents if extent.segment is segment]
            self._tail.compacting[int(queue_id)] = segment_extents
        return any(extent.covers(segment, level, durable, position) for extent in segment_extents)

    def _finish(self, segment: Segment) -> None:
        self._from = None
        self._tail.compacting = {}
        home = self._tail.active
        assert home is not segment
        triple = BytesWriter()
        write_triple(triple, segment.number, 0, 0)
        self._tail.batch.mark(MOVED, triple.getvalue())
        for queue_index in self._queue_indexes.values():
            queue_index.move(segment, home)
        home.live_count += segment.live_count
        home.live_bytes += segment.live_bytes
        segment.live_count = 0
        segment.live_bytes = 0
        segment.moved_to = home
        self.finished = True

    def _give_up(self, segment: Segment, reason: str) -> None:
        """Leave the segment as it is: its other records can still be read."""
        self._from = None
        self._damaged.add(int(segment.number))
        self._tail.turn.note("error", "compaction.failed", {"segment": int(segment.number), "reason": reason})
