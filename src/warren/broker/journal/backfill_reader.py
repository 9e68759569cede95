"""Reads a replica on disk for a joining mirror, a slice at a time.

The reader goes from extent to extent, so each segment's index is read once. Compaction may move an extent meanwhile;
the reader continues in the other segment. Messages removed meanwhile are left out; messages stored meanwhile are not
wanted.

Not here: which messages a joining mirror lacks (`broker.replication.backfill`), a queue's own reads
(`broker.journal.queue_index`).
"""

from bisect import bisect_left
from typing import Final, final

from mypy_extensions import i64

from warren.broker.journal.extents import extent_first
from warren.broker.journal.queue_index import QueueIndex
from warren.broker.journal.records import COPY, MESSAGE, RecordScanner, damaged_segment, find_placement
from warren.broker.journal.segment_index import (
    ROW_BYTES,
    first_row_from,
    pieces_of,
    row_kind,
    row_length,
    row_offset,
    row_position,
    row_priority,
)
from warren.broker.journal.tail import ReadWaiter, WriteWaiter
from warren.broker.model.journal import Segment, SegmentExtent
from warren.broker.model.replica_contents import ANY_COUNT, BackfillReader, BackfillReceiver, PositionSpan

BEYOND: Final[i64] = 1 << 62
"""A number above every position."""


@final
class DiskBackfillReader(BackfillReader, ReadWaiter, WriteWaiter):
    """One joining mirror's reader."""

    def __init__(self, queue_index: QueueIndex, spans: list[PositionSpan], receiver: BackfillReceiver) -> None:
        self._queue_index: QueueIndex = queue_index
        self._receiver: BackfillReceiver = receiver
        self._firsts: list[int] = [int(span.first) for span in spans]
        self._lasts: list[int] = [int(span.last) for span in spans]
        # the extents left to read, the last one first; of that one, from this position on
        self._segment_extents: list[SegmentExtent] = []
        self._from: i64 = 0
        for extent in sorted(queue_index.segment_extents, key=extent_first):
            if extent.count > 0 and self._wanted_from(extent.first) <= extent.last:
                self._segment_extents.append(extent)
        self._segment_extents.reverse()
        # the rows in use, their segment, and the extents that were in it when the rows were read
        self._rows: bytes = b""
        self._rows_of: Segment | None = None
        self._covered: list[SegmentExtent] = []
        # the read under way
        self._segment: Segment | None = None
        self._chosen: list[int] = []
        self._pieces: list[tuple[int, int]] = []
        self._piece_of: list[int] = []
        self._size_bytes: i64 = 0
        self._count: i64 = 0
        self._unwritten: bool = False
        self._done: bool = False

    def more(self, size_bytes: i64, count: i64 = ANY_COUNT) -> None:
        self._size_bytes = size_bytes
        self._count = count
        self._go_on()

    def cancel(self) -> None:
        self._done = True
        self._forget_rows()
        self._queue_index.tail.reads.withdraw(self)

    def retry(self) -> None:
        if self._unwritten and not self._done:
            self._unwritten = False
            self._go_on()

    def _wanted_from(self, position: i64) -> i64:
        """The first position from this one on that is wanted; `BEYOND` if there is none."""
        at = bisect_left(self._lasts, int(position))
        return max(position, self._firsts[at]) if at < len(self._lasts) else BEYOND

    # -- finding messages

    def _go_on(self) -> None:
        while self._segment_extents:
            extent = self._segment_extents[-1]
            if extent.count > 0:
                if not self._rows_for(extent):
                    return
                if self._choose(extent) or self._unwritten:
                    return
            self._segment_extents.pop()
            self._from = 0
        self._done = True
        self._forget_rows()
        self._receiver.backfill_done()

    def _rows_for(self, extent: SegmentExtent) -> bool:
        """Whether the rows of its segment are in memory; if not, they are being read."""
        tail, segment = self._queue_index.tail, extent.segment
        if self._rows_of is segment and extent in self._covered:
            return True
        self._forget_rows()
        if tail.rows_at_hand(segment):
            self._remember_rows(segment, tail.rows_in(segment, self._queue_index.queue_id))
            return True
        self._segment = segment
        tail.read_index(self, segment, self._queue_index.queue_id)
        return False

    def index_read(self, rows: bytes, error: str) -> None:
        segment = self._segment
        assert segment is not None
        if error:
            self._fail(error)
            return
        self._remember_rows(segment, rows)
        self._go_on()

    def _remember_rows(self, segment: Segment, rows: bytes) -> None:
        self._rows = rows
        self._rows_of = segment
        self._covered = [extent for extent in self._segment_extents if extent.segment is segment]
        self._queue_index.tail.turn.held_bytes += len(rows)

    def _forget_rows(self) -> None:
        self._queue_index.tail.turn.held_bytes -= len(self._rows)
        self._rows = b""
        self._rows_of = None
        self._covered = []

    def _choose(self, extent: SegmentExtent) -> bool:
        """Read the next wanted messages of an extent; False if none is left, or they are not written yet."""
        queue_index, rows, segment = self._queue_index, self._rows, extent.segment
        removed = queue_index.removed_at(extent.level)
        written_to = queue_index.tail.written_to(segment)
        chosen: list[int] = []
        size: i64 = 0
        wanted: i64 = self._wanted_from(max(extent.first, self._from))
        index = first_row_from(rows, wanted)
        count: i64 = len(rows) // ROW_BYTES
        previous: i64 = 0
        while index < count and size < self._size_bytes and len(chosen) < self._count:
            position = row_position(rows, index)
            if position > wanted:
                wanted = self._wanted_from(position)
            if wanted > extent.last:
                break
            if (
                position == wanted
                and position != previous
                and self._counted(extent, index)
                and not removed.has(position)
            ):
                length = row_length(rows, index)
                if row_offset(rows, index) + length > written_to:
                    break
                chosen.append(int(index))
                size += length
                previous = position
            index += 1
        if not chosen and index < count and row_position(rows, index) <= extent.last and wanted <= extent.last:
            self._unwritten = True
            queue_index.tail.await_writing(self)
        elif chosen:
            self._ask(segment, chosen)
        return len(chosen) > 0

    def _counted(self, extent: SegmentExtent, index: i64) -> bool:
        kind = row_kind(self._rows, index)
        level = self._queue_index.level_of(row_priority(self._rows, index))
        return level == extent.level and (kind in (MESSAGE, COPY)) == extent.durable

    def _ask(self, segment: Segment, chosen: list[int]) -> None:
        self._segment = segment
        self._chosen = chosen
        self._pieces, self._piece_of = pieces_of(self._rows, chosen)
        self._queue_index.tail.read_records(self, segment, self._pieces)

    # -- reading messages

    def journal_read(self, blocks: list[bytes], error: str) -> None:
        segment = self._segment
        assert segment is not None
        if error:
            self._fail(error)
            return
        for index, piece in zip(self._chosen, self._piece_of, strict=True):
            position, offset = row_position(self._rows, index), row_offset(self._rows, index)
            scanner = RecordScanner(blocks[piece], segment.number, offset, self._pieces[piece][0])
            placement = find_placement(scanner, self._queue_index.queue_id, position)
            if placement < 0:
                self._fail(str(damaged_segment(segment.number, offset)))
                return
            self._give(scanner, position, scanner.c(placement))
            self._from = position + 1
        self._receiver.backfill_slice_done()

    def _give(self, scanner: RecordScanner, position: i64, expires_at_ms: i64) -> None:
        """Hand a message to the receiver, unless it was removed meanwhile."""
        queue_index = self._queue_index
        if not queue_index.removed_at(queue_index.level_of(scanner.priority)).has(position):
            persistent = scanner.kind in (MESSAGE, COPY)
            returned: i64 = queue_index.return_counts.get(int(position), 0)
            payload, crc = scanner.payload(), scanner.payload_crc
            self._receiver.backfill_message(
                position, scanner.priority, expires_at_ms, persistent, returned, payload, crc
            )

    def _fail(self, reason: str) -> None:
        self._done = True
        self._forget_rows()
        self._receiver.backfill_failed(reason)
