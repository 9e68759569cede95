"""What a copy holds of one level, durable or not: exactly which positions, and what they come to in which segment.

Positions are marked in blocks of 4096; a block costs about as much as two messages, so the exact set of a queue of
millions is small. The holdings tell where messages lie.

Invariants: `count` and `body_bytes` are the sums over the blocks, and over the holdings; each position that is held
lies within one holding.

Not here: what is gone for good (`store.removed`), what is written (`store.copies.disk_copy`).
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.errors import InvariantBroken
from warren.model.journal import Holding, Segment
from warren.store.copies.block import BLOCK, BLOCK_SHIFT, Block
from warren.store.holding_row import HoldingRow

if TYPE_CHECKING:
    from warren.store.queue_book import QueueBook


@final
class Shelf:
    """Durable messages of one level, or others of it."""

    def __init__(self, book: "QueueBook", level: i64, durable: bool) -> None:
        self.level: i64 = level
        self.durable: bool = durable
        self.count: i64 = 0
        self.body_bytes: i64 = 0
        # by the number of the block
        self.blocks: dict[int, Block] = {}
        found = [one for one in book.holdings if one.level == level and one.durable == durable and one.count > 0]
        self.row: HoldingRow = HoldingRow(book.queue_id, level, durable, found)
        self._book: QueueBook = book
        self._block: Block = Block()
        self._block_no: i64 = -1

    def has(self, position: i64) -> bool:
        block = self.blocks.get(int(position >> BLOCK_SHIFT))
        return block is not None and block.has(position & (BLOCK - 1))

    def add(self, segment: Segment, position: i64, body_bytes: i64, cost_bytes: i64) -> Holding:
        """A message that is not held is written to this segment."""
        holding = self.row.open_at(position, segment)
        if holding is None:
            holding = self._begin(position, segment)
        self.found(position, body_bytes)
        holding.add(position, body_bytes, cost_bytes)
        return holding

    def found(self, position: i64, body_bytes: i64) -> None:
        """A message that is not marked as held, and is counted in its holding."""
        number: i64 = position >> BLOCK_SHIFT
        if number != self._block_no:
            self._use_block(number)
        self._block.add(position & (BLOCK - 1), body_bytes)
        self.count += 1
        self.body_bytes += body_bytes

    def _use_block(self, number: i64) -> None:
        if self._block.count == 0:
            self.blocks.pop(int(self._block_no), None)
        self._block = self.blocks.setdefault(int(number), Block())
        self._block_no = number

    def _begin(self, position: i64, segment: Segment) -> Holding:
        row, holdings = self.row, self._book.holdings
        over = row.across(position)
        if over is not None and over.count == 0:
            row.drop(over)
        elif over is not None:
            above = row.divide(over, position)
            if above is not None:
                holdings.append(above)
                self._share(over, above)
                self._book.journal.compaction.divided(self._book.queue_id)
        holding = row.open_at(position, segment)
        if holding is None:
            holding = row.begin(position, segment)
            holdings.append(holding)
        return holding

    def _share(self, below: Holding, above: Holding) -> None:
        """Two holdings that were one each count their own; and reach no further than what they have."""
        count, body_bytes = self.sums(above.first, above.last)
        cost_bytes: i64 = below.cost_bytes * count // below.count
        above.count = count
        above.body_bytes = body_bytes
        above.cost_bytes = cost_bytes
        below.count -= count
        below.body_bytes -= body_bytes
        below.cost_bytes -= cost_bytes
        if below.count == 0:
            self.row.emptied(below)
        else:
            below.last = self._highest(below.first, below.last)
        if above.count == 0:
            self.row.emptied(above)
        else:
            above.first = self._lowest(above.first, above.last)

    # -- taking off

    def take(self, first: i64, last: i64) -> i64:
        """Hold nothing from the first position to the last; how many that were."""
        if self.count == 0:
            return 0
        if first == last:
            return self._take_one(first)
        taken: i64 = 0
        for holding in self.row.between(first, last):
            count, body_bytes = self._take_range(max(first, holding.first), min(last, holding.last))
            if count > 0:
                taken += count
                self._remove(holding, count, body_bytes)
        return taken

    def _take_one(self, position: i64) -> i64:
        number = int(position >> BLOCK_SHIFT)
        block = self.blocks.get(number)
        if block is None:
            return 0
        size = block.take(position & (BLOCK - 1))
        if size < 0:
            return 0
        self._forget_empty(number, block)
        holding = self.row.across(position)
        if holding is None:
            raise InvariantBroken(f"position {position} is held and in no holding")
        self._remove(holding, 1, size)
        return 1

    def _take_range(self, first: i64, last: i64) -> tuple[i64, i64]:
        count: i64 = 0
        body_bytes: i64 = 0
        number: i64 = first >> BLOCK_SHIFT
        while number <= last >> BLOCK_SHIFT:
            block = self.blocks.get(int(number))
            if block is not None:
                start: i64 = number << BLOCK_SHIFT
                several, their_bytes = block.take_range(max(first - start, 0), min(last + 1 - start, BLOCK))
                count += several
                body_bytes += their_bytes
                self._forget_empty(int(number), block)
            number += 1
        return count, body_bytes

    def _forget_empty(self, number: int, block: Block) -> None:
        # the one that is being filled is about to be used again
        if block.count == 0 and block is not self._block:
            del self.blocks[number]

    def _remove(self, holding: Holding, count: i64, body_bytes: i64) -> None:
        self.count -= count
        self.body_bytes -= body_bytes
        # what each of them costs is about the same
        holding.remove(count, body_bytes, holding.cost_bytes * count // holding.count)
        if holding.count == 0:
            self.row.emptied(holding)

    # -- looking

    def any_between(self, first: i64, last: i64) -> bool:
        """Whether something is held from the first position to the last."""
        for holding in self.row.between(first, last):
            if self.sums(max(first, holding.first), min(last, holding.last))[0] > 0:
                return True
        return False

    def sums(self, first: i64, last: i64) -> tuple[i64, i64]:
        """How many are held from the first position to the last, and the bytes of their bodies."""
        count: i64 = 0
        body_bytes: i64 = 0
        number: i64 = first >> BLOCK_SHIFT
        while number <= last >> BLOCK_SHIFT:
            block = self.blocks.get(int(number))
            if block is not None:
                start: i64 = number << BLOCK_SHIFT
                several, their_bytes = block.sums(max(first - start, 0), min(last + 1 - start, BLOCK))
                count += several
                body_bytes += their_bytes
            number += 1
        return count, body_bytes

    def _lowest(self, first: i64, last: i64) -> i64:
        """The lowest position that is held; there is one."""
        number: i64 = first >> BLOCK_SHIFT
        while number <= last >> BLOCK_SHIFT:
            block = self.blocks.get(int(number))
            if block is not None:
                start: i64 = number << BLOCK_SHIFT
                at = block.lowest_from(max(first - start, 0))
                if at >= 0:
                    return start + at
            number += 1
        return first

    def _highest(self, first: i64, last: i64) -> i64:
        """The highest position that is held; there is one."""
        number: i64 = last >> BLOCK_SHIFT
        while number >= first >> BLOCK_SHIFT:
            block = self.blocks.get(int(number))
            if block is not None:
                start: i64 = number << BLOCK_SHIFT
                at = block.highest_below(min(last + 1 - start, BLOCK))
                if at >= 0:
                    return start + at
            number -= 1
        return last

    def check(self) -> None:
        """Raise `InvariantBroken` if the sums are wrong or holdings overlap."""
        above: i64 = 0
        for holding in self.row.holdings:
            if holding.count > 0 and holding.first <= above:
                raise InvariantBroken(f"a holding begins with position {holding.first} behind {above}")
            above = max(above, holding.last)
            if holding.count > 0 and self.sums(holding.first, holding.last) != (holding.count, holding.body_bytes):
                raise InvariantBroken(f"a holding counts {holding.count} from {holding.first} to {holding.last}")
        sums = (sum([one.count for one in self.row.holdings]), sum([one.body_bytes for one in self.row.holdings]))
        if sums != (self.count, self.body_bytes):
            raise InvariantBroken(f"a shelf counts {self.count} messages but its holdings {sums[0]}")
