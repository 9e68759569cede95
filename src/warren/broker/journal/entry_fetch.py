"""Reading a queue's entries back from the journal: first where they are, then what they are.

A fetch takes the first entries of a run. Their places come from the rows of the segment's index: those of the active
segment, and of one just sealed, are in memory; others are read once and kept while the queue reads that segment. The
records themselves are read in few pieces: what lies between two of them is read along if it is little.

What is read is checked as it was written, byte for byte, before anybody sees it. Damage stops the queue.

Not here: how far ahead a queue reads (`queue`), the reading (`node.disk`).
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.broker.journal.payloads import decode_message
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
from warren.broker.model.journal import PositionRange, Segment, SegmentExtent
from warren.broker.model.message import Entry
from warren.broker.model.ports import FetchWaiter
from warren.errors import StoreError

if TYPE_CHECKING:
    from warren.broker.journal.journal import Journal
    from warren.broker.journal.queue_index import QueueIndex


FETCH_BYTES: Final[i64] = 256 * 1024
GAP_BYTES: Final[i64] = 4 * 1024

SHORT_RANGE: Final[i64] = 64
"""Behind a run of a copy that is no longer than this there may be others, in the same segments by turns."""


@final
class EntryFetch(ReadWaiter, WriteWaiter):
    """One queue's fetches, one at a time."""

    def __init__(self, journal: "Journal", queue_index: "QueueIndex") -> None:
        self._journal: Journal = journal
        self._queue_index: QueueIndex = queue_index
        self._run: PositionRange | None = None
        self._asker: FetchWaiter | None = None
        self._entries_max: i64 = 0
        # the index rows last used, and the segment they are of; and those used before, should runs take turns
        self._rows: bytes = b""
        self._rows_of: Segment | None = None
        self._rows_before: bytes = b""
        self._rows_before_of: Segment | None = None
        # of the pieces under way
        self._segment: Segment | None = None
        self._wanted: list[int] = []
        self._extents: list[tuple[int, int]] = []
        # which of them each wanted one is in
        self._pieces: list[int] = []
        # the one that was last counted on
        self._extent: SegmentExtent | None = None
        # what is wanted is not written yet; and whether the journal will call when more is, for a cancelled one, too
        self._unwritten: bool = False
        self._called: bool = False

    def begin(self, run: PositionRange, asker: FetchWaiter, entries_max: i64) -> None:
        self._entries_max = entries_max
        self._run = run
        self._asker = asker
        self._go_on()

    def cancel(self) -> None:
        """A ticket that is still out brings an answer nobody wants."""
        self._journal.tickets.withdraw(self)
        self._run = None
        self._asker = None
        self._unwritten = False
        self.forget_rows()

    def retry(self) -> None:
        """More of the journal was written."""
        self._called = False
        if self._unwritten:
            self._unwritten = False
            self._go_on()

    # -- where the entries are

    def _go_on(self) -> None:
        run = self._run
        assert run is not None
        segment = self._journal.home_of(run.segment)
        if self._rows_of is not segment:
            self._put_rows_aside()
        if self._rows_of is segment and self._choose(run, segment):
            return
        if not self._journal.rows_at_hand(segment):
            self._drop_rows()
            self._segment = segment
            ticket = self._journal.tickets.take(self, segment)
            self._journal.turn.effects.append(ReadIndex(ticket, int(segment.number), int(self._queue_index.queue_id)))
            return
        self._remember_rows(segment, self._journal.rows_in(segment, self._queue_index.queue_id))
        if not self._choose(run, segment):
            self._unwritten = True
            if not self._called:
                self._called = True
                self._journal.await_writing(self)

    def index_read(self, rows: bytes, error: str) -> None:
        run, segment = self._run, self._segment
        if run is None or segment is None:
            return
        if error:
            self._stop(error)
            return
        self._remember_rows(segment, rows)
        if self._journal.home_of(run.segment) is not segment:
            self._go_on()
        elif not self._choose(run, segment):
            self._stop(f"segment {segment.number} lacks messages from position {run.first} on")

    def _remember_rows(self, segment: Segment, rows: bytes) -> None:
        self._drop_rows()
        self._rows = rows
        self._rows_of = segment
        self._journal.turn.held_bytes += len(rows)

    def _put_rows_aside(self) -> None:
        """Those in use may be wanted again; use those that were put aside before."""
        self._rows, self._rows_before = self._rows_before, self._rows
        self._rows_of, self._rows_before_of = self._rows_before_of, self._rows_of

    def _drop_rows(self) -> None:
        self._journal.turn.held_bytes -= len(self._rows)
        self._rows = b""
        self._rows_of = None

    def forget_rows(self) -> None:
        self._drop_rows()
        self._put_rows_aside()
        self._drop_rows()

    def _choose(self, run: PositionRange, segment: Segment) -> bool:
        """Ask for the first entries of the run that can be read; False if there are none."""
        rows, queue_index = self._rows, self._queue_index
        removed = queue_index.removed_at(run.level)
        written_to = self._journal.written_to(segment)
        # transient messages of a node that ran before mean nothing
        durable_only = segment.number < self._journal.first_number
        chosen: list[int] = []
        size: i64 = 0
        last: i64 = 0
        index = first_row_from(rows, run.first)
        count: i64 = len(rows) // ROW_BYTES
        while index < count and size < FETCH_BYTES and len(chosen) < self._entries_max:
            position = row_position(rows, index)
            if position > run.last:
                break
            length = row_length(rows, index)
            if row_offset(rows, index) + length > written_to:
                break
            kind = row_kind(rows, index)
            alive = position != last and queue_index.level_of(row_priority(rows, index)) == run.level
            if alive and not removed.has(position) and not (durable_only and kind != MESSAGE and kind != COPY):
                chosen.append(int(index))
                size += length
                last = position
            index += 1
        if not chosen:
            return False
        self._ask(segment, chosen)
        return True

    def _ask(self, segment: Segment, chosen: list[int]) -> None:
        self._segment = segment
        self._wanted = chosen
        extents, pieces = extents_of(self._rows, chosen)
        self._extents = extents
        self._pieces = pieces
        ticket = self._journal.tickets.take(self, segment)
        self._journal.turn.effects.append(ReadJournal(ticket, int(segment.number), extents))

    # -- what they are

    def journal_read(self, blocks: list[bytes], error: str) -> None:
        run, asker, segment = self._run, self._asker, self._segment
        if run is None or asker is None or segment is None:
            return
        if error:
            self._stop(error)
            return
        try:
            entries = self._decode(run, segment, blocks)
            if len(entries) < run.count and entries[len(entries) - 1].position >= run.last:
                raise StoreError(f"segment {segment.number} lacks messages between {run.first} and {run.last}")
        except StoreError as fault:
            self._stop(str(fault))
            return
        self._run = None
        self._asker = None
        if len(entries) >= run.count and (len(entries) > SHORT_RANGE or not self._queue_index.whole):
            self.forget_rows()
        asker.paged_in(entries)

    def _decode(self, run: PositionRange, segment: Segment, blocks: list[bytes]) -> list[Entry]:
        entries: list[Entry] = []
        rows = self._rows
        for index, piece in zip(self._wanted, self._pieces, strict=True):
            offset = row_offset(rows, index)
            base: i64 = self._extents[piece][0]
            entries.append(self._decode_one(run, segment, blocks[piece], base, offset, row_position(rows, index)))
        return entries

    def _decode_one(
        self, run: PositionRange, segment: Segment, block: bytes, base: i64, offset: i64, position: i64
    ) -> Entry:
        scanner = RecordScanner(block, segment.number, offset, base)
        if not scanner.next() or scanner.at != offset or not scanner.intact():
            raise damaged_segment(segment, offset)
        queue_index = self._queue_index
        index: i64 = 0
        while scanner.a(index) != queue_index.queue_id or scanner.b(index) != position:
            index += 1
            if index >= scanner.count:
                raise damaged_segment(segment, offset)
        durable_kind = scanner.kind == MESSAGE or scanner.kind == COPY
        message = decode_message(scanner.payload(), scanner.priority, durable_kind, self._journal.envelopes())
        entry = Entry(message, position, scanner.c(index))
        durable = durable_kind and queue_index.durable
        home = self._journal.home_of(segment)
        extent = self._extent
        if extent is None or not extent.covers(home, run.level, durable, position):
            extent = queue_index.extent_at(home, run.level, durable, position)
            self._extent = extent
        if extent is None:
            raise StoreError(f"segment {segment.number} holds position {position} that nobody counts")
        entry.extent = extent
        if not durable and not queue_index.whole:
            # in memory again, it is not needed on disk any more
            queue_index.unpage(entry)
        entry.redelivered = position <= queue_index.watermark.redelivered_to
        entry.delivery_count = queue_index.return_counts.get(int(position), 0)
        return entry

    def _stop(self, reason: str) -> None:
        asker = self._asker
        self._run = None
        self._asker = None
        self.forget_rows()
        if asker is not None:
            asker.stop(reason)


def extents_of(rows: bytes, chosen: list[int]) -> tuple[list[tuple[int, int]], list[int]]:
    """The pieces to read for some rows, each where it begins and its length; and in which of them each row's lies."""
    extents: list[tuple[int, int]] = []
    pieces: list[int] = []
    start: i64 = -1
    end: i64 = -1
    for index in chosen:
        # copies do not lie in the order of their positions
        offset = row_offset(rows, index)
        length = row_length(rows, index)
        if start >= 0 and not end <= offset <= end + GAP_BYTES:
            extents.append((int(start), int(end - start)))
            start = -1
        if start < 0:
            start = offset
        end = offset + length
        pieces.append(len(extents))
    extents.append((int(start), int(end - start)))
    return extents, pieces


def damaged_segment(segment: Segment, offset: i64) -> StoreError:
    return StoreError(f"segment {segment.number} of the journal is damaged at byte {offset}")
