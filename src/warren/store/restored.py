"""Where messages that a start finds in the journal are counted.

They are read in the order they were written. For most queues that is the order of their positions; for a copy that was
catching up it is not, and what came late may lie between the positions of a holding in another segment. Such a holding
is divided, as it was when the message was written; what each part has is counted afterwards, by its rows.

Not here: reading (`store.recovery`), counting (`store.recount`), dividing while the node runs (`store.copies.shelf`).
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.model.journal import Holding, Segment
from warren.store.holding_row import HoldingRow

if TYPE_CHECKING:
    from warren.store.queue_book import QueueBook


@final
class Restored:
    """One queue's durable holdings while the journal is read."""

    def __init__(self, book: "QueueBook") -> None:
        # parts of holdings: only rows can tell what each has
        self.divided: list[Holding] = []
        self._book: QueueBook = book
        self._rows: dict[int, HoldingRow] = {}

    def holding_for(self, segment: Segment, level: i64, position: i64) -> Holding:
        row = self._rows.get(int(level))
        if row is None:
            book = self._book
            row = HoldingRow(book.queue_id, level, True, [one for one in book.holdings if one.level == level])
            self._rows[int(level)] = row
        holding = row.open_at(position, segment)
        return self._make_way(row, segment, position) if holding is None else holding

    def _make_way(self, row: HoldingRow, segment: Segment, position: i64) -> Holding:
        over = row.across(position)
        if over is not None:
            above = row.divide(over, position)
            if above is not None:
                # until they are counted each is said to have all
                above.count = over.count
                above.cost_bytes = over.cost_bytes
                self._book.holdings.append(above)
                self.divided += [over, above]
        holding = row.open_at(position, segment)
        if holding is None:
            holding = row.begin(position, segment)
            self._book.holdings.append(holding)
        return holding
