"""Reading a copy on disk for a member that lacks some of it, a slice at a time.

What is wanted is read holding by holding, so each segment's index is read once. A holding may be moved by compaction
meanwhile; the reading goes on where it went. What was removed since is left out; what came since is not wanted.

Not here: what a newcomer lacks (`mirroring.difference`), a queue's own reading (`store.fetching`).
"""

from bisect import bisect_left
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.model.copies import ANY_COUNT, PastReader, PastTaker, Span
from warren.model.effects import ReadIndex, ReadJournal
from warren.model.journal import Holding, Segment
from warren.store.fetching import damaged, extents_of
from warren.store.holding_row import first_of_holding
from warren.store.index import (
    ROW_BYTES,
    first_row_from,
    row_kind,
    row_length,
    row_offset,
    row_position,
    row_priority,
)
from warren.store.records import COPY, MESSAGE, Scanner
from warren.store.tickets import TicketHolder, WritingWaiter

if TYPE_CHECKING:
    from warren.store.queue_book import QueueBook

BEYOND: Final[i64] = 1 << 62
"""Above every position."""


@final
class ReadingPast(PastReader, TicketHolder, WritingWaiter):
    """One newcomer's."""

    def __init__(self, book: "QueueBook", spans: list[Span], taker: PastTaker) -> None:
        self._book: QueueBook = book
        self._taker: PastTaker = taker
        self._firsts: list[int] = [int(span.first) for span in spans]
        self._lasts: list[int] = [int(span.last) for span in spans]
        # what is left to read; of the first of them, from this position on
        self._holdings: list[Holding] = []
        self._from: i64 = 0
        for holding in sorted(book.holdings, key=first_of_holding):
            if holding.count > 0 and self._wanted_from(holding.first) <= holding.last:
                self._holdings.append(holding)
        self._holdings.reverse()
        # the rows in use, of which segment, and which holdings were in it when they were read
        self._rows: bytes = b""
        self._rows_of: Segment | None = None
        self._covered: list[Holding] = []
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
        self._book.journal.tickets.withdraw(self)

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
        while self._holdings:
            holding = self._holdings[-1]
            if holding.count > 0:
                if not self._rows_for(holding):
                    return
                if self._choose(holding) or self._unwritten:
                    return
            self._holdings.pop()
            self._from = 0
        self._over = True
        self._forget_rows()
        self._taker.past_is_over()

    def _rows_for(self, holding: Holding) -> bool:
        """Whether the rows of its segment are there; if not, they are being read."""
        journal, segment = self._book.journal, holding.segment
        if self._rows_of is segment and holding in self._covered:
            return True
        self._forget_rows()
        if journal.rows_at_hand(segment):
            self._remember_rows(segment, journal.rows_in(segment, self._book.queue_id))
            return True
        self._segment = segment
        ticket = journal.tickets.take(self, segment)
        journal.turn.effects.append(ReadIndex(ticket, int(segment.number), int(self._book.queue_id)))
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
        self._covered = [holding for holding in self._holdings if holding.segment is segment]
        self._book.journal.turn.held_bytes += len(rows)

    def _forget_rows(self) -> None:
        self._book.journal.turn.held_bytes -= len(self._rows)
        self._rows = b""
        self._rows_of = None
        self._covered = []

    def _choose(self, holding: Holding) -> bool:
        """Ask for what is wanted next of a holding; False if nothing is left, or it is not written yet."""
        journal, book, rows, segment = self._book.journal, self._book, self._rows, holding.segment
        removed = book.removed_at(holding.level)
        written_to = journal.written_to(segment)
        chosen: list[int] = []
        size: i64 = 0
        wanted: i64 = self._wanted_from(max(holding.first, self._from))
        index = first_row_from(rows, wanted)
        count: i64 = len(rows) // ROW_BYTES
        previous: i64 = 0
        while index < count and size < self._size_bytes and len(chosen) < self._count:
            position = row_position(rows, index)
            if position > wanted:
                wanted = self._wanted_from(position)
            if wanted > holding.last:
                break
            if (
                position == wanted
                and position != previous
                and self._counted(holding, index)
                and not removed.has(position)
            ):
                length = row_length(rows, index)
                if row_offset(rows, index) + length > written_to:
                    break
                chosen.append(int(index))
                size += length
                previous = position
            index += 1
        if not chosen and index < count and row_position(rows, index) <= holding.last and wanted <= holding.last:
            self._unwritten = True
            journal.await_writing(self)
        elif chosen:
            self._ask(segment, chosen)
        return len(chosen) > 0

    def _counted(self, holding: Holding, index: i64) -> bool:
        kind = row_kind(self._rows, index)
        level = self._book.level_of(row_priority(self._rows, index))
        return level == holding.level and (kind in (MESSAGE, COPY)) == holding.durable

    def _ask(self, segment: Segment, chosen: list[int]) -> None:
        journal = self._book.journal
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
            scanner = Scanner(blocks[piece], segment.number, row_offset(self._rows, index), self._extents[piece][0])
            if not scanner.next() or not scanner.intact() or not self._give(scanner, position):
                self._fail(str(damaged(segment, row_offset(self._rows, index))))
                return
            self._from = position + 1
        self._taker.past_given()

    def _give(self, scanner: Scanner, position: i64) -> bool:
        """Give it to whoever wants it, unless it is gone; False if this is not the message of that position."""
        book = self._book
        index: i64 = 0
        while scanner.a(index) != book.queue_id or scanner.b(index) != position:
            index += 1
            if index >= scanner.count:
                return False
        if not book.removed_at(book.level_of(scanner.priority)).has(position):
            persistent = scanner.kind in (MESSAGE, COPY)
            returned: i64 = book.return_counts.get(int(position), 0)
            payload, crc = scanner.payload(), scanner.payload_crc
            self._taker.past(position, scanner.priority, scanner.c(index), persistent, returned, payload, crc)
        return True

    def _fail(self, reason: str) -> None:
        self._over = True
        self._forget_rows()
        self._taker.past_failed(reason)
