"""What removals that were read back leave of each holding.

A removal names a range of positions of one level. A holding all of which is gone is known by that alone; one that
none of them touches, too. Of the others the rows of their segment tell which positions there were: those of segments
that were just read are in memory, those of older ones are read from their indexes, one segment after another.

Not here: the records (`store.recovery`).
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.errors import StoreError
from warren.model.journal import Holding
from warren.store.index import (
    ROW_BYTES,
    SegmentRows,
    check_index,
    first_row_from,
    row_body_bytes,
    row_kind,
    row_length,
    row_position,
    row_priority,
    rows_in,
)
from warren.store.records import COPY, MESSAGE

if TYPE_CHECKING:
    from warren.store.journal import Journal
    from warren.store.queue_book import QueueBook
    from warren.store.recovery import JournalFiles


@final
class Recount:
    """Counts again what is left where something was removed."""

    def __init__(self, journal: "Journal", files: "JournalFiles", rows: dict[int, SegmentRows]) -> None:
        self._journal: Journal = journal
        self._files: JournalFiles = files
        self._rows: dict[int, SegmentRows] = rows
        # by queue: level, first and last of what was removed
        self._ranges: dict[int, list[tuple[int, int, int]]] = {}

    def removed(self, book: "QueueBook", level: i64, first: i64, last: i64) -> None:
        ranges = self._ranges.setdefault(int(book.queue_id), [])
        if ranges and ranges[-1][0] == level and ranges[-1][2] + 1 == first:
            ranges[-1] = (int(level), ranges[-1][1], int(last))
        else:
            ranges.append((int(level), int(first), int(last)))

    def run(self) -> None:
        partly: dict[int, list[tuple[QueueBook, Holding]]] = {}
        for queue_id, ranges in self._ranges.items():
            book = self._journal.books[queue_id]
            for holding in book.holdings:
                if self._touched(book, holding, ranges):
                    partly.setdefault(int(holding.segment.number), []).append((book, holding))
        for number in sorted(partly):
            index = None if number in self._rows else self._index(number)
            for book, holding in partly[number]:
                rows = (
                    self._rows[number].rows_of(book.queue_id) if index is None else rows_in(index, int(book.queue_id))
                )
                count_again(book, holding, rows)

    def _touched(self, book: "QueueBook", holding: Holding, ranges: list[tuple[int, int, int]]) -> bool:
        """Whether only its rows can tell what is left; if all of it is gone, it is emptied here."""
        overlaps = False
        for level, first, last in ranges:
            if level == holding.level and first <= holding.last and last >= holding.first:
                overlaps = True
                if first <= holding.first and last >= holding.last:
                    break
        if not overlaps:
            return False
        if holding.last < book.removed_at(holding.level).floor or any(
            level == holding.level and first <= holding.first and last >= holding.last for level, first, last in ranges
        ):
            holding.count = 0
            holding.body_bytes = 0
            holding.cost_bytes = 0
            return False
        return True

    def _index(self, number: int) -> bytes:
        data = self._files.index(number)
        if data is None:
            raise StoreError(f"the index of segment {number} of the journal is missing")
        try:
            check_index(data, number)
        except StoreError as fault:
            raise StoreError(f"the index of segment {number} of the journal cannot be used: it is {fault}") from fault
        return data


def count_again(book: "QueueBook", holding: Holding, rows: bytes) -> None:
    """Count what rows say is alive of a holding."""
    removed = book.removed_at(holding.level)
    holding.count = 0
    holding.body_bytes = 0
    holding.cost_bytes = 0
    index = first_row_from(rows, holding.first)
    end: i64 = len(rows) // ROW_BYTES
    previous: i64 = 0
    while index < end:
        position = row_position(rows, index)
        if position > holding.last:
            break
        kind = row_kind(rows, index)
        if (
            kind in (MESSAGE, COPY)
            and position != previous
            and book.level_of(row_priority(rows, index)) == holding.level
            and not removed.has(position)
        ):
            holding.count += 1
            holding.body_bytes += row_body_bytes(rows, index)
            holding.cost_bytes += row_length(rows, index)
        previous = position
        index += 1
