"""The holdings of one queue and level that are alike durable, in the order of their positions.

A queue stores its messages in order, so each of its holdings begins where the one before ends. A mirror gets what it
lacked behind what it has: positions below others, and between those of a holding that lies in another segment. That one
is then divided: what is below the newcomer, and what is above it.

Invariants: the holdings do not overlap, and none reaches from one epoch's positions to another's, which are far apart:
whoever goes through what is between its ends has an end. Only the last one used may be empty.

Not here: which positions between the ends of a holding are there (`store.copies.shelf`), what a holding is
(`model.journal`).
"""

from typing import final

from mypy_extensions import i64

from warren.model.journal import Holding, Segment
from warren.model.rings import POSITION_BITS


@final
class HoldingRow:
    """One level's holdings, durable ones or others."""

    def __init__(self, queue_id: i64, level: i64, durable: bool, holdings: list[Holding]) -> None:
        self.holdings: list[Holding] = sorted(holdings, key=first_of_holding)
        self._queue_id: i64 = queue_id
        self._level: i64 = level
        self._durable: bool = durable
        # what comes next goes here, if it lies above the last and below the ceiling, where the next one begins
        self._current: Holding | None = None
        self._ceiling: i64 = 0

    def open_at(self, position: i64, segment: Segment) -> Holding | None:
        """Where a message of this position that is written to this segment is counted.

        None if no holding can take it: `divide` or `begin` makes one.
        """
        current = self._current
        if current is None or current.segment is not segment or not current.last < position < self._ceiling:
            current = self._look(position, segment)
        if current is not None and current.count == 0:
            current.first = position
            current.last = position
        return current

    def _look(self, position: i64, segment: Segment) -> Holding | None:
        at = self._index(position)
        if at < 0 or self.holdings[at].segment is not segment:
            return None
        found = self.holdings[at]
        if position > found.last:
            if (position ^ found.first) >> POSITION_BITS != 0:
                return None
            self._use(at)
        return found

    def across(self, position: i64) -> Holding | None:
        """The holding this position lies within."""
        holdings = self.holdings
        if holdings and holdings[0].first <= position <= holdings[0].last:
            # most leave in order
            return holdings[0]
        at = self._index(position)
        return self.holdings[at] if at >= 0 and position <= self.holdings[at].last else None

    def divide(self, holding: Holding, position: i64) -> Holding | None:
        """A holding of another segment makes way: it ends below the position, or begins above it, where it can.

        Otherwise there is another from here on, for what is above; that counts nothing yet.
        """
        self._current = None
        if position == holding.last:
            holding.last = position - 1
            return None
        if position == holding.first:
            holding.first = position + 1
            return None
        above = Holding(self._queue_id, holding.segment, self._level, self._durable, position + 1)
        above.last = holding.last
        above.deadlines = holding.deadlines
        holding.last = position - 1
        self.holdings.insert(self._index(position) + 1, above)
        return above

    def begin(self, position: i64, segment: Segment) -> Holding:
        """A holding that counts nothing yet; no other may reach over this position."""
        holding = Holding(self._queue_id, segment, self._level, self._durable, position)
        at = self._index(position) + 1
        self.holdings.insert(at, holding)
        self._use(at)
        return holding

    def _use(self, at: int) -> None:
        """This one may grow; one that was to grow, and is empty, goes."""
        idle = self._current
        self._current = self.holdings[at]
        self._ceiling = ((self._current.first >> POSITION_BITS) + 1) << POSITION_BITS
        if at + 1 < len(self.holdings):
            self._ceiling = min(self._ceiling, self.holdings[at + 1].first)
        if idle is not None and idle.count == 0 and idle is not self._current:
            self.holdings.remove(idle)

    def emptied(self, holding: Holding) -> None:
        """Nothing is left of a holding."""
        if holding is not self._current or holding is not self.holdings[-1]:
            self.drop(holding)

    def drop(self, holding: Holding) -> None:
        self.holdings.remove(holding)
        if holding is self._current:
            self._current = None

    def between(self, first: i64, last: i64) -> list[Holding]:
        """Those that have something from the first to the last position, about."""
        if len(self.holdings) == 1:
            return self.holdings[:] if self.holdings[0].first <= last and self.holdings[0].last >= first else []
        found: list[Holding] = []
        at = max(self._index(first), 0)
        while at < len(self.holdings) and self.holdings[at].first <= last:
            if self.holdings[at].last >= first:
                found.append(self.holdings[at])
            at += 1
        return found

    def _index(self, position: i64) -> int:
        """The last one that does not begin behind this position; -1 if there is none."""
        holdings = self.holdings
        low: i64 = 0
        high: i64 = len(holdings)
        while low < high:
            middle: i64 = (low + high) >> 1
            if holdings[middle].first <= position:
                low = middle + 1
            else:
                high = middle
        return int(low) - 1


def first_of_holding(holding: Holding) -> int:
    return int(holding.first)
