"""Reading a copy on disk for a member that lacks some of it, a slice at a time.

What is wanted is read holding by holding, so each segment's index is read once. A holding may be moved by compaction
meanwhile; the reading goes on where it went. What was removed since is left out; what came since is not wanted.

Not here: what a newcomer lacks (`broker.replication.backfill`), a queue's own reading (`broker.journal.entry_fetch`).
"""

from bisect import bisect_left
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.broker.journal.entry_fetch import damaged_segment, extents_of
from warren.broker.journal.extents import extent_first
from warren.broker.journal.pending_reads import ReadWaiter, WriteWaiter
from warren.broker.journal.records import COPY, MESSAGE, RecordScanner
from warren.broker.journal.segment_index import (
    ROW_BYTES,
    first_row_from,
    row_kind,
    row_length,
    row_offset,
    row_position,
    row_priority,
)
from warren.broker.model.effects import ReadIndex, ReadJournal
from warren.broker.model.journal import Segment, SegmentExtent
from warren.broker.model.replica_contents import ANY_COUNT, BackfillReader, BackfillReceiver, PositionSpan

if TYPE_CHECKING:
    from warren.broker.journal.queue_index import QueueIndex


BEYOND: Final[i64] = 1 << 62
"""Above every position."""


@final
class DiskBackfillReader(BackfillReader, ReadWaiter, WriteWaiter):
    """One newcomer's."""

    def __init__(self, queue_index: "QueueIndex", spans: list[PositionSpan], taker: BackfillReceiver) -> None:
        self._queue_index: QueueIndex = queue_index
        self._taker: BackfillReceiver = taker
        self._firsts: list[int] = [int(span.first) for span in spans]
        self._lasts: list[int] = [int(span.last) for span in spans]
        # what is left to read; of the first of them, from this position on
        self._segment_extents: list[SegmentExtent] = []
        self._from: i64 = 0
        for extent in sorted(queue_index.segment_extents, key=extent_first):
            if extent.count > 0 and self._wanted_from(extent.first) <= extent.last:
                self._segment_extents.append(extent)
        self._segment_extents.reverse()
        # the rows in use, of which segment, and which holdings were in it when they were read
        self._rows: bytes = b""
        self._rows_of: Segment | None = None
        self._covered: list[SegmentExtent] = []
        # what is being read
        self._segment: Segment | None = None
        self._chosen: list[int] = []
        self._extents: list[tuple[int, int]] = []
        self._pieces: list[int] = []
        self._size_bytes: i64 = 0
        self._count: i64 = 0
        self._unwritten: bool = False
        self._over: bool = False

    def more(self, size_bytes: i64, count: i64 = ANY_COUNT) -> None:
        self._size_bytes = size_bytes
        self._count = count
        self._go_on()

    def cancel(self) -> None:
        self._over = True
        self._forget_rows()
        self._queue_index.journal.tickets.withdraw(self)

    def retry(self) -> None:
        if self._unwritten and not self._over:
            self._unwritten = False
            self._go_on()

    def _wanted_from(self, position: i64) -> i64:
        """The first position from this one on that is wanted; `BEYOND` if there is none."""
        at = bisect_left(self._lasts, int(position))
        return max(position, self._firsts[at]) if at < len(self._lasts) else BEYOND

    # -- where it is

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
        self._over = True
        self._forget_rows()
        self._taker.backfill_done()

    def _rows_for(self, extent: SegmentExtent) -> bool:
        """Whether the rows of its segment are there; if not, they are being read."""
        journal, segment = self._queue_index.journal, extent.segment
        if self._rows_of is segment and extent in self._covered:
            return True
        self._forget_rows()
        if journal.rows_at_hand(segment):
            self._remember_rows(segment, journal.rows_in(segment, self._queue_index.queue_id))
            return True
        self._segment = segment
        ticket = journal.tickets.take(self, segment)
        journal.turn.effects.append(ReadIndex(ticket, int(segment.number), int(self._queue_index.queue_id)))
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
        self._queue_index.journal.turn.held_bytes += len(rows)

    def _forget_rows(self) -> None:
        self._queue_index.journal.turn.held_bytes -= len(self._rows)
        self._rows = b""
        self._rows_of = None
        self._covered = []

    def _choose(self, extent: SegmentExtent) -> bool:
        """Ask for what is wanted next of a holding; False if nothing is left, or it is not written yet."""
        journal, queue_index, rows, segment = self._queue_index.journal, self._queue_index, self._rows, extent.segment
        removed = queue_index.removed_at(extent.level)
        written_to = journal.written_to(segment)
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
            journal.await_writing(self)
        elif chosen:
            self._ask(segment, chosen)
        return len(chosen) > 0

    def _counted(self, extent: SegmentExtent, index: i64) -> bool:
        kind = row_kind(self._rows, index)
        level = self._queue_index.level_of(row_priority(self._rows, index))
        return level == extent.level and (kind in (MESSAGE, COPY)) == extent.durable

    def _ask(self, segment: Segment, chosen: list[int]) -> None:
        journal = self._queue_index.journal
        self._segment = segment
        self._chosen = chosen
        self._extents, self._pieces = extents_of(self._rows, chosen)
        ticket = journal.tickets.take(self, segment)
        journal.turn.effects.append(ReadJournal(ticket, int(segment.number), self._extents))

    # -- what it is

    def journal_read(self, blocks: list[bytes], error: str) -> None:
        segment = self._segment
        assert segment is not None
        if error:
            self._fail(error)
            return
        for index, piece in zip(self._chosen, self._pieces, strict=True):
            position = row_position(self._rows, index)
            scanner = RecordScanner(
                blocks[piece], segment.number, row_offset(self._rows, index), self._extents[piece][0]
            )
            if not scanner.next() or not scanner.intact() or not self._give(scanner, position):
                self._fail(str(damaged_segment(segment, row_offset(self._rows, index))))
                return
            self._from = position + 1
        self._taker.backfill_slice_done()

    def _give(self, scanner: RecordScanner, position: i64) -> bool:
        """Give it to whoever wants it, unless it is gone; False if this is not the message of that position."""
        queue_index = self._queue_index
        index: i64 = 0
        while scanner.a(index) != queue_index.queue_id or scanner.b(index) != position:
            index += 1
            if index >= scanner.count:
                return False
        if not queue_index.removed_at(queue_index.level_of(scanner.priority)).has(position):
            persistent = scanner.kind in (MESSAGE, COPY)
            returned: i64 = queue_index.return_counts.get(int(position), 0)
            payload, crc = scanner.payload(), scanner.payload_crc
            self._taker.backfill_message(
                position, scanner.priority, scanner.c(index), persistent, returned, payload, crc
            )
        return True

    def _fail(self, reason: str) -> None:
        self._over = True
        self._forget_rows()
        self._taker.backfill_failed(reason)
