"""What removals that were read back leave of each holding.

A removal names a range of positions of one level. A holding all of which is gone is known by that alone; one that
none of them touches, too. Of the others, and of those that were divided (`store.restored`), the rows of their segment
tell which positions there were.

Not here: the records (`store.recovery`), the rows (`store.found_rows`).
"""

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.model.journal import Holding
from warren.store.found_rows import FoundRows
from warren.store.index import ROW_BYTES, first_row_from, row_body_bytes, row_kind, row_position, row_priority
from warren.store.records import COPY, MESSAGE

if TYPE_CHECKING:
    from warren.store.journal import Journal
    from warren.store.queue_book import QueueBook

RANGES_MAX: Final = 100_000
"""More are joined before others are kept: consumers that share a queue ack every other position, one by one."""


@final
class Recount:
    """Counts again what is left where something was removed."""

    def __init__(self, journal: "Journal", rows: FoundRows) -> None:
        self._journal: Journal = journal
        self._rows: FoundRows = rows
        # by queue: level, first and last of what was removed
        self._ranges: dict[int, list[tuple[int, int, int]]] = {}
        self._count: int = 0
        self._count_max: int = RANGES_MAX

    def removed(self, book: "QueueBook", level: i64, first: i64, last: i64) -> None:
        ranges = self._ranges.setdefault(int(book.queue_id), [])
        if ranges and ranges[-1][0] == level and ranges[-1][2] + 1 == first:
            ranges[-1] = (int(level), ranges[-1][1], int(last))
        else:
            ranges.append((int(level), int(first), int(last)))
            self._count += 1
            if self._count >= self._count_max:
                self._join()

    def _join(self) -> None:
        self._ranges = {queue_id: joined_ranges(ranges) for queue_id, ranges in self._ranges.items()}
        self._count = sum([len(ranges) for ranges in self._ranges.values()])
        self._count_max = max(RANGES_MAX, 2 * self._count)

    def run(self) -> None:
        partly: dict[int, list[tuple[QueueBook, Holding]]] = {}
        for queue_id, book in self._journal.books.items():
            ranges = self._ranges.get(queue_id, [])
            divided = [] if book.restored is None else book.restored.divided
            if not ranges and not divided:
                continue
            joined = joined_ranges(ranges)
            for holding in book.holdings:
                if touched(holding, joined) or holding in divided:
                    partly.setdefault(int(holding.segment.number), []).append((book, holding))
        for number in sorted(partly):
            queue_ids = [int(book.queue_id) for book, _holding in partly[number]]
            rows = self._rows.rows_in(partly[number][0][1].segment, queue_ids)
            for book, holding in partly[number]:
                if int(book.queue_id) in rows:
                    count_again(book, holding, rows[int(book.queue_id)])


def joined_ranges(ranges: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """The same positions in as few ranges as there can be, in order."""
    joined: list[tuple[int, int, int]] = []
    for level, first, last in sorted(ranges):
        if joined and joined[-1][0] == level and first <= joined[-1][2] + 1:
            joined[-1] = (level, joined[-1][1], max(last, joined[-1][2]))
        else:
            joined.append((level, first, last))
    return joined


def touched(holding: Holding, ranges: list[tuple[int, int, int]]) -> bool:
    """Whether only its rows can tell what is left of a holding; if all of it is gone, it is emptied here."""
    level, first, last = int(holding.level), int(holding.first), int(holding.last)
    # the last range that does not begin behind it
    at = bisect_right(ranges, (level, last, 1 << 62)) - 1
    if at < 0 or ranges[at][0] != level or ranges[at][2] < first:
        return False
    if ranges[at][1] <= first and ranges[at][2] >= last:
        holding.count = 0
        holding.body_bytes = 0
        holding.cost_bytes = 0
        return False
    return True


def count_again(book: "QueueBook", holding: Holding, rows: bytes) -> None:
    """Count what rows say is alive of a holding."""
    removed = book.removed_at(holding.level)
    before: i64 = holding.count
    holding.count = 0
    holding.body_bytes = 0
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
            previous = position
        index += 1
    # a row does not tell what its entry costs: the length of a record counts every queue it is in
    if before > 0:
        holding.cost_bytes = holding.cost_bytes * holding.count // before
