"""Finding out which positions a copy holds that was not made in this life of the node, or was a queue.

Holdings tell how many messages there are in which segment; the rows of the segments' indexes tell which. Those of the
active segment and of one just sealed are in memory; others are read, one after another.

Nothing is stored or removed meanwhile. Compaction may move what is looked for: then it is looked for where it went.

Not here: the marks that are made (`store.copies.shelf`), the reading (`node.disk`).
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.model.copies import CopyAsker
from warren.model.effects import ReadIndex
from warren.model.journal import Segment
from warren.store.copies.shelf import Shelf
from warren.store.index import ROW_BYTES, row_body_bytes, row_kind, row_position, row_priority
from warren.store.records import COPY, MESSAGE
from warren.store.tickets import TicketHolder

if TYPE_CHECKING:
    from warren.store.queue_book import QueueBook


@final
class Stocktaking(TicketHolder):
    """Marks on shelves what the holdings of a book count."""

    def __init__(self, book: "QueueBook", lasting: list[Shelf], passing: list[Shelf], asker: CopyAsker) -> None:
        self._book: QueueBook = book
        self._lasting: list[Shelf] = lasting
        self._passing: list[Shelf] = passing
        self._asker: CopyAsker = asker
        self._left: list[Segment] = []
        self._reading: Segment | None = None
        for holding in book.holdings:
            if holding.count > 0:
                self._look_at(holding.segment)

    def go_on(self) -> None:
        """Look into one segment after another, as far as that goes without reading."""
        journal = self._book.journal
        while self._left:
            segment = self._left.pop()
            if not journal.rows_at_hand(segment):
                self._reading = segment
                ticket = journal.tickets.take(self, segment)
                journal.turn.effects.append(ReadIndex(ticket, int(segment.number), int(self._book.queue_id)))
                return
            self._mark(segment, journal.rows_in(segment, self._book.queue_id))
        self._finish()

    def index_read(self, rows: bytes, error: str) -> None:
        segment = self._reading
        assert segment is not None
        self._reading = None
        if error:
            self._asker.copy_damaged(error)
            return
        if segment.moved_to is not None:
            self._look_at(self._book.journal.home_of(segment))
        self._mark(segment, rows)
        self.go_on()

    def journal_read(self, blocks: list[bytes], error: str) -> None:
        """Never asked for."""

    def cancel(self) -> None:
        self._book.journal.tickets.withdraw(self)

    def _look_at(self, segment: Segment) -> None:
        if segment not in self._left:
            self._left.append(segment)

    def _mark(self, segment: Segment, rows: bytes) -> None:
        book = self._book
        index: i64 = 0
        count: i64 = len(rows) // ROW_BYTES
        while index < count:
            position = row_position(rows, index)
            level = book.level_of(row_priority(rows, index))
            kind = row_kind(rows, index)
            shelf = self._lasting[level] if kind in (MESSAGE, COPY) else self._passing[level]
            if not book.removed_at(level).has(position) and not shelf.has(position):
                holding = shelf.row.across(position)
                if holding is not None and holding.segment is segment:
                    shelf.found(position, row_body_bytes(rows, index))
            index += 1

    def _finish(self) -> None:
        for shelf in self._lasting + self._passing:
            for holding in shelf.row.holdings:
                count, body_bytes = shelf.sums(holding.first, holding.last)
                if count != holding.count:
                    where = f"segment {holding.segment.number} has {count} messages of a queue"
                    span = f"from position {holding.first} to {holding.last}"
                    self._asker.copy_damaged(f"{where} {span}, and not {holding.count}")
                    return
                # of some it was only about known
                holding.body_bytes = body_bytes
        self._asker.copy_prepared()
