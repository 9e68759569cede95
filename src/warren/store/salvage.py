"""Putting a journal together again from the rows of every segment, when the checkpoint cannot be trusted to know.

Offline only: everything is in memory at once.

Not here: reading around damage (`store.recovery`, when it is lenient).
"""

from typing import TYPE_CHECKING

from warren.model.journal import ENTRY_COST_BYTES, Holding, Segment
from warren.store.index import ROW_BYTES, SegmentRows, row_body_bytes, row_length, row_position, row_priority

if TYPE_CHECKING:
    from warren.store.journal import Journal
    from warren.store.queue_book import QueueBook


def rebuild_holdings(journal: "Journal", segments: dict[int, Segment], rows: dict[int, SegmentRows]) -> None:
    """Count what is alive of every queue from the rows alone; a position that is there twice counts once."""
    for segment in segments.values():
        segment.total_bytes = 0
    for book in journal.books.values():
        found: list[tuple[int, int, int, int, int]] = []
        for number, segment_rows in rows.items():
            found += _living(book, number, segment_rows.rows_of(book.queue_id))
        found.sort()
        _hold(book, segments, found)


def _living(book: "QueueBook", number: int, rows: bytes) -> list[tuple[int, int, int, int, int]]:
    """Level, position, segment, body and cost of the rows that were not removed."""
    found: list[tuple[int, int, int, int, int]] = []
    for index in range(len(rows) // int(ROW_BYTES)):
        position = row_position(rows, index)
        level = book.level_of(row_priority(rows, index))
        if not book.removed_at(level).has(position):
            cost = row_length(rows, index) + ENTRY_COST_BYTES
            found.append((int(level), int(position), number, int(row_body_bytes(rows, index)), int(cost)))
    return found


def _hold(book: "QueueBook", segments: dict[int, Segment], found: list[tuple[int, int, int, int, int]]) -> None:
    book.holdings = []
    holding: Holding | None = None
    for level, position, number, body_bytes, cost_bytes in found:
        segment = segments[number]
        if holding is not None and holding.level == level and holding.last == position:
            continue
        if holding is None or holding.level != level or holding.segment is not segment:
            holding = Holding(book.queue_id, segment, level, True, position)
            # whether any has one is not in the rows; looking for nothing does no harm
            holding.deadlines = True
            book.holdings.append(holding)
        holding.add(position, body_bytes, cost_bytes)
        segment.total_bytes += cost_bytes
