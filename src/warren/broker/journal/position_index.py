"""The positions that a replica has of one level, durable or transient: exactly which, and the extents they lie in.

Positions are bits in blocks of 4096. A block costs about as much memory as two messages, so the exact set of a queue of
millions of messages is small. Most queues have messages of one size, so a block has sizes one by one only if two of
them differ.

A replica that existed before the node started, or that was a queue, rebuilds the index (`IndexRebuild`): extents tell
how many messages a segment has, and the rows of the segment's index tell which. Nothing is stored or removed
meanwhile. If compaction moves a segment, its messages are looked up in the other one.

On promotion the positions become ranges that a queue reads from disk (`merge_position_ranges`). A range lies in one
segment, and no other message of its level lies between its ends. Durable and transient messages of a level are mostly
in the same segment. But a replica that was restarted lost its transient messages and received them again, into a later
segment; there the two alternate position by position.

Invariants: `count` and `body_bytes` are the sums over the blocks, and over the extents. Each present position lies
within one extent. In `PositionBlock._sizes` the size of an absent position is 0.

Not here: removed positions (`broker.journal.removed_positions`), the records (`broker.journal.replica_contents`), a
queue's ranges (`broker.queues.contents`).
"""

from array import array
from typing import Final, final

from mypy_extensions import i64

from warren.broker.journal.extents import ExtentList, extent_first
from warren.broker.journal.queue_index import QueueIndex
from warren.broker.journal.records import COPY, MESSAGE
from warren.broker.journal.segment_index import ROW_BYTES, row_body_bytes, row_kind, row_position, row_priority
from warren.broker.journal.tail import ReadWaiter, current_segment
from warren.broker.model.journal import PositionRange, Segment, SegmentExtent
from warren.broker.model.replica_contents import PositionSpan, ReplicaContentsWaiter
from warren.errors import InvariantBroken

POSITIONS_PER_BLOCK: Final[i64] = 4096
BLOCK_SHIFT: Final[i64] = 12
BITMAP_BYTES: Final[i64] = 512


@final
class PositionBlock:
    """4096 positions, relative to the block's first, and the body size of each."""

    def __init__(self) -> None:
        self.bits: bytearray = bytearray(512)
        self.count: i64 = 0
        self.body_bytes: i64 = 0
        self._size: i64 = 0
        self._sizes: array[int] | None = None

    def has(self, at: i64) -> bool:
        octet: i64 = self.bits[at >> 3]
        return octet & 1 << (at & 7) != 0

    def add(self, at: i64, size: i64) -> None:
        """Add an absent position."""
        octet: i64 = self.bits[at >> 3]
        self.bits[at >> 3] = int(octet | 1 << (at & 7))
        if self.count == 0:
            self._size = size
            self._sizes = None
        elif self._sizes is not None or size != self._size:
            self._write_size(at, size)
        self.count += 1
        self.body_bytes += size

    def _write_size(self, at: i64, size: i64) -> None:
        sizes = self._sizes
        if sizes is None:
            sizes = array("I", bytes(4 * 4096))
            for held in self.held(0, POSITIONS_PER_BLOCK):
                sizes[held] = int(self._size)
            self._sizes = sizes
        sizes[int(at)] = int(size)

    def size_of(self, at: i64) -> i64:
        """The body size of a present position."""
        return self._size if self._sizes is None else self._sizes[int(at)]

    def take(self, at: i64) -> i64:
        """Remove a position; its body size, -1 if it was absent."""
        octet: i64 = self.bits[at >> 3]
        bit: i64 = 1 << (at & 7)
        if octet & bit == 0:
            return -1
        self.bits[at >> 3] = int(octet ^ bit)
        size = self._size
        if self._sizes is not None:
            size = self._sizes[int(at)]
            self._sizes[int(at)] = 0
        self.count -= 1
        self.body_bytes -= size
        return size

    def take_range(self, first: i64, end: i64) -> tuple[i64, i64]:
        """Remove the positions from `first` to before `end`; how many were present, and their body bytes."""
        count: i64 = self.count
        body_bytes: i64 = self.body_bytes
        if first == 0 and end == POSITIONS_PER_BLOCK:
            self.bits = bytearray(512)
        else:
            count, body_bytes = self.sums(first, end)
            if count == 0:
                return 0, 0
            bits = int.from_bytes(self.bits, "little") & ~(((1 << int(end - first)) - 1) << int(first))
            self.bits = bytearray(bits.to_bytes(512, "little"))
        if self._sizes is not None:
            self._sizes[int(first) : int(end)] = array("I", bytes(int(4 * (end - first))))
        self.count -= count
        self.body_bytes -= body_bytes
        return count, body_bytes

    def sums(self, first: i64, end: i64) -> tuple[i64, i64]:
        """How many positions from `first` to before `end` are present, and their body bytes."""
        bits = int.from_bytes(self.bits, "little") >> int(first)
        count: i64 = (bits & ((1 << int(end - first)) - 1)).bit_count()
        if self._sizes is None:
            return count, count * self._size
        return count, sum(self._sizes[int(first) : int(end)])

    def held(self, first: i64, end: i64) -> list[int]:
        """The present positions from `first` to before `end`."""
        found: list[int] = []
        at: i64 = first
        while at < end:
            octet: i64 = self.bits[at >> 3]
            if octet == 0 and at & 7 == 0:
                at += 8
                continue
            if octet & 1 << (at & 7) != 0:
                found.append(int(at))
            at += 1
        return found

    def lowest_from(self, first: i64) -> i64:
        """The lowest present position from `first` on; -1 if there is none."""
        bits = int.from_bytes(self.bits, "little") >> int(first)
        return -1 if bits == 0 else first + (bits & -bits).bit_length() - 1

    def highest_below(self, end: i64) -> i64:
        """The highest present position below `end`; -1 if there is none."""
        bits = int.from_bytes(self.bits, "little") & ((1 << int(end)) - 1)
        return bits.bit_length() - 1

    def check(self) -> None:
        """Raise `InvariantBroken` if it does not count the positions that it has, and their body sizes."""
        if self.sums(0, POSITIONS_PER_BLOCK) != (self.count, self.body_bytes):
            raise InvariantBroken(f"a block of positions counts {self.count}, with {self.body_bytes} bytes of bodies")


@final
class PositionIndex:
    """The durable messages of one level, or its transient ones."""

    def __init__(self, queue_index: QueueIndex, level: i64, durable: bool) -> None:
        self.level: i64 = level
        self.durable: bool = durable
        self.count: i64 = 0
        self.body_bytes: i64 = 0
        # by block number
        self.blocks: dict[int, PositionBlock] = {}
        found = [
            one
            for one in queue_index.segment_extents
            if one.level == level and one.durable == durable and one.count > 0
        ]
        self.extents: ExtentList = ExtentList(queue_index.queue_id, level, durable, found)
        self._queue_index: QueueIndex = queue_index
        self._block: PositionBlock = PositionBlock()
        self._block_no: i64 = -1

    def has(self, position: i64) -> bool:
        block = self.blocks.get(int(position >> BLOCK_SHIFT))
        return block is not None and block.has(position & (POSITIONS_PER_BLOCK - 1))

    def add(self, segment: Segment, position: i64, body_bytes: i64, cost_bytes: i64) -> SegmentExtent:
        """Add an absent message that is written to this segment."""
        extent = self.extents.open_at(position, segment)
        if extent is None:
            extent = self._begin(position, segment)
        if position >> BLOCK_SHIFT != self._block_no:
            self._use_block(position >> BLOCK_SHIFT)
        self._block.add(position & (POSITIONS_PER_BLOCK - 1), body_bytes)
        self.count += 1
        self.body_bytes += body_bytes
        extent.add(position, body_bytes, cost_bytes)
        return extent

    def mark(self, position: i64, body_bytes: i64) -> None:
        """Mark a message as present that its extent already counts."""
        if position >> BLOCK_SHIFT != self._block_no:
            self._use_block(position >> BLOCK_SHIFT)
        self._block.add(position & (POSITIONS_PER_BLOCK - 1), body_bytes)
        self.count += 1
        self.body_bytes += body_bytes

    def _use_block(self, number: i64) -> None:
        if self._block.count == 0:
            self.blocks.pop(int(self._block_no), None)
        self._block = self.blocks.setdefault(int(number), PositionBlock())
        self._block_no = number

    def _begin(self, position: i64, segment: Segment) -> SegmentExtent:
        extents, segment_extents = self.extents, self._queue_index.segment_extents
        over = extents.across(position)
        if over is not None and over.count == 0:
            extents.drop(over)
        elif over is not None:
            above = extents.divide(over, position)
            if above is not None:
                segment_extents.append(above)
                self._share(over, above)
                self._queue_index.tail.compacting.pop(int(self._queue_index.queue_id), None)
        extent = extents.open_at(position, segment)
        if extent is None:
            extent = extents.begin(position, segment)
            segment_extents.append(extent)
        return extent

    def _share(self, below: SegmentExtent, above: SegmentExtent) -> None:
        """Divide the counts of a split extent, and shorten both parts to their present positions."""
        count, body_bytes = self.sums(above.first, above.last)
        cost_bytes: i64 = below.cost_bytes * count // below.count
        above.count = count
        above.body_bytes = body_bytes
        above.cost_bytes = cost_bytes
        below.count -= count
        below.body_bytes -= body_bytes
        below.cost_bytes -= cost_bytes
        if below.count == 0:
            self.extents.emptied(below)
        else:
            below.last = self._highest(below.first, below.last)
        if above.count == 0:
            self.extents.emptied(above)
        else:
            above.first = self._lowest(above.first, above.last)

    # -- removing

    def take(self, first: i64, last: i64) -> i64:
        """Remove the positions from `first` to `last`; how many were present."""
        if self.count == 0:
            return 0
        if first == last:
            return self._take_one(first)
        taken: i64 = 0
        for extent in self.extents.between(first, last):
            count, body_bytes = self._take_range(max(first, extent.first), min(last, extent.last))
            if count > 0:
                taken += count
                self._remove(extent, count, body_bytes)
        return taken

    def _take_one(self, position: i64) -> i64:
        number = int(position >> BLOCK_SHIFT)
        block = self.blocks.get(number)
        if block is None:
            return 0
        size = block.take(position & (POSITIONS_PER_BLOCK - 1))
        if size < 0:
            return 0
        self._forget_empty(number, block)
        extent = self.extents.across(position)
        if extent is None:
            raise InvariantBroken(f"position {position} is present and in no extent")
        self._remove(extent, 1, size)
        return 1

    def _take_range(self, first: i64, last: i64) -> tuple[i64, i64]:
        count: i64 = 0
        body_bytes: i64 = 0
        for number, block in self.blocks_between(first, last):
            start: i64 = number << BLOCK_SHIFT
            several, their_bytes = block.take_range(max(first - start, 0), min(last + 1 - start, POSITIONS_PER_BLOCK))
            count += several
            body_bytes += their_bytes
            self._forget_empty(int(number), block)
        return count, body_bytes

    def _forget_empty(self, number: int, block: PositionBlock) -> None:
        # the block that is being filled will be used again
        if block.count == 0 and block is not self._block:
            del self.blocks[number]

    def _remove(self, extent: SegmentExtent, count: i64, body_bytes: i64) -> None:
        self.count -= count
        self.body_bytes -= body_bytes
        # all messages of an extent are assumed to cost the same
        extent.remove(count, body_bytes, extent.cost_bytes * count // extent.count)
        if extent.count == 0:
            self.extents.emptied(extent)

    # -- looking

    def any_between(self, first: i64, last: i64) -> bool:
        """Whether a position from `first` to `last` is present."""
        for extent in self.extents.between(first, last):
            if self.sums(max(first, extent.first), min(last, extent.last))[0] > 0:
                return True
        return False

    def sums(self, first: i64, last: i64) -> tuple[i64, i64]:
        """How many positions from `first` to `last` are present, and their body bytes."""
        count: i64 = 0
        body_bytes: i64 = 0
        for number, block in self.blocks_between(first, last):
            start: i64 = number << BLOCK_SHIFT
            several, their_bytes = block.sums(max(first - start, 0), min(last + 1 - start, POSITIONS_PER_BLOCK))
            count += several
            body_bytes += their_bytes
        return count, body_bytes

    def _lowest(self, first: i64, last: i64) -> i64:
        """The lowest present position; there is one."""
        for number, block in self.blocks_between(first, last):
            start: i64 = number << BLOCK_SHIFT
            at = block.lowest_from(max(first - start, 0))
            if at >= 0:
                return start + at
        return first

    def _highest(self, first: i64, last: i64) -> i64:
        """The highest present position; there is one."""
        for number, block in reversed(self.blocks_between(first, last)):
            start: i64 = number << BLOCK_SHIFT
            at = block.highest_below(min(last + 1 - start, POSITIONS_PER_BLOCK))
            if at >= 0:
                return start + at
        return last

    def blocks_between(self, first: i64, last: i64) -> list[tuple[i64, PositionBlock]]:
        """The blocks that reach into this range of positions, by number and in order."""
        found: list[tuple[i64, PositionBlock]] = []
        number: i64 = first >> BLOCK_SHIFT
        while number <= last >> BLOCK_SHIFT:
            block = self.blocks.get(int(number))
            if block is not None:
                found.append((number, block))
            number += 1
        return found

    def check(self) -> None:
        """Raise `InvariantBroken` if sums are wrong or extents overlap."""
        self.extents.check()
        for block in self.blocks.values():
            block.check()
        for extent in self.extents.segment_extents:
            if extent.count > 0 and self.sums(extent.first, extent.last) != (extent.count, extent.body_bytes):
                raise InvariantBroken(f"an extent counts {extent.count} from {extent.first} to {extent.last}")
        sums = (
            sum([one.count for one in self.extents.segment_extents]),
            sum([one.body_bytes for one in self.extents.segment_extents]),
        )
        if sums != (self.count, self.body_bytes):
            raise InvariantBroken(f"a position index counts {self.count} messages, its extents {sums[0]}")


def merge_spans(position_indexes: list[PositionIndex]) -> list[PositionSpan]:
    """The positions of all indexes, in order; spans do not touch."""
    blocks: dict[int, list[PositionBlock]] = {}
    for position_index in position_indexes:
        for number, block in position_index.blocks.items():
            if block.count > 0:
                blocks.setdefault(number, []).append(block)
    spans: list[PositionSpan] = []
    for number in sorted(blocks):
        bits = bytes(blocks[number][0].bits)
        if len(blocks[number]) > 1:
            together = 0
            for block in blocks[number]:
                together |= int.from_bytes(block.bits, "little")
            bits = together.to_bytes(512, "little")
        _add_spans(spans, i64(number) << BLOCK_SHIFT, bits)
    return spans


def _add_spans(spans: list[PositionSpan], start: i64, bits: bytes) -> None:
    """Add the spans of the block that begins at position `start`."""
    span: PositionSpan | None = spans[-1] if spans else None
    if span is not None and span.last + 1 != start:
        span = None
    at: i64 = 0
    while at < POSITIONS_PER_BLOCK:
        octet: i64 = bits[at >> 3]
        step: i64 = 8 if at & 7 == 0 and (octet == 0 or octet == 0xFF) else 1
        if octet & 1 << (at & 7) == 0:
            span = None
        elif span is None:
            span = PositionSpan(start + at, start + at + step - 1)
            spans.append(span)
        else:
            span.last += step
        at += step


def merge_position_ranges(durable: PositionIndex, transient: PositionIndex) -> list[PositionRange]:
    """The ranges of one level, in order."""
    ranges: list[PositionRange] = []
    group: list[SegmentExtent] = []
    end: i64 = -1
    segment_extents = [
        extent for extent in durable.extents.segment_extents + transient.extents.segment_extents if extent.count > 0
    ]
    for extent in sorted(segment_extents, key=extent_first):
        if extent.first > end:
            _add_group(ranges, group, durable, transient)
            group = []
        group.append(extent)
        end = max(end, extent.last)
    _add_group(ranges, group, durable, transient)
    return ranges


def _add_group(
    ranges: list[PositionRange], group: list[SegmentExtent], durable: PositionIndex, transient: PositionIndex
) -> None:
    """Add the ranges of extents that overlap."""
    if not group:
        return
    if any(extent.segment is not group[0].segment for extent in group):
        _add_by_position(ranges, group, durable, transient)
        return
    positions = PositionRange(group[0].segment, durable.level, group[0].first)
    for extent in group:
        positions.add_extent(extent)
    ranges.append(positions)


def _add_by_position(
    ranges: list[PositionRange], group: list[SegmentExtent], durable: PositionIndex, transient: PositionIndex
) -> None:
    """Add the ranges of extents in several segments, position by position: a range ends where the segment changes."""
    first: i64 = group[0].first
    last: i64 = first
    for extent in group:
        last = max(last, extent.last)
    positions: PositionRange | None = None
    number: i64 = first >> BLOCK_SHIFT
    while number <= last >> BLOCK_SHIFT:
        start: i64 = number << BLOCK_SHIFT
        begin: i64 = max(first - start, 0)
        end: i64 = min(last + 1 - start, POSITIONS_PER_BLOCK)
        found: list[tuple[int, PositionIndex]] = []
        for position_index in (durable, transient):
            block = position_index.blocks.get(int(number))
            if block is not None:
                found += [(at, position_index) for at in block.held(begin, end)]
        found.sort(key=block_number)
        for at, position_index in found:
            position: i64 = start + at
            over = position_index.extents.across(position)
            assert over is not None
            if positions is None or positions.segment is not over.segment:
                positions = PositionRange(over.segment, position_index.level, position)
                ranges.append(positions)
            positions.add(position, position_index.blocks[int(number)].size_of(at))
            positions.deadlines = positions.deadlines or over.deadlines
        number += 1


def block_number(found: tuple[int, PositionIndex]) -> int:
    return found[0]


@final
class IndexRebuild(ReadWaiter):
    """Marks the positions that the extents of a queue index count."""

    def __init__(
        self,
        queue_index: QueueIndex,
        durable: list[PositionIndex],
        transient: list[PositionIndex],
        asker: ReplicaContentsWaiter,
    ) -> None:
        self._queue_index: QueueIndex = queue_index
        self._durable: list[PositionIndex] = durable
        self._transient: list[PositionIndex] = transient
        self._asker: ReplicaContentsWaiter = asker
        # all positions are marked
        self.done: bool = False
        self._left: list[Segment] = []
        self._reading: Segment | None = None
        for extent in queue_index.segment_extents:
            if extent.count > 0:
                self._add_segment(extent.segment)

    def go_on(self) -> None:
        """Mark the rows of one segment after another, until one has to be read."""
        tail, queue_id = self._queue_index.tail, self._queue_index.queue_id
        while self._left:
            segment = self._left.pop()
            if segment.moved_to is not None:
                # it has no messages any more, and may be dropped
                self._add_segment(current_segment(segment))
                continue
            if not tail.rows_at_hand(segment):
                self._reading = segment
                tail.read_index(self, segment, queue_id)
                return
            self._mark(segment, tail.rows_in(segment, queue_id))
        self._finish()

    def index_read(self, rows: bytes, error: str) -> None:
        segment = self._reading
        assert segment is not None
        self._reading = None
        if error:
            self._asker.contents_damaged(error)
            return
        if segment.moved_to is not None:
            self._add_segment(current_segment(segment))
        self._mark(segment, rows)
        self.go_on()

    def journal_read(self, blocks: list[bytes], error: str) -> None:
        """Records are never asked for."""

    def cancel(self) -> None:
        self._queue_index.tail.reads.withdraw(self)

    def _add_segment(self, segment: Segment) -> None:
        if segment not in self._left:
            self._left.append(segment)

    def _mark(self, segment: Segment, rows: bytes) -> None:
        queue_index = self._queue_index
        index: i64 = 0
        count: i64 = len(rows) // ROW_BYTES
        while index < count:
            position = row_position(rows, index)
            level = queue_index.level_of(row_priority(rows, index))
            kind = row_kind(rows, index)
            position_index = self._durable[level] if kind in (MESSAGE, COPY) else self._transient[level]
            if not queue_index.removed_at(level).has(position) and not position_index.has(position):
                extent = position_index.extents.across(position)
                if extent is not None and extent.segment is segment:
                    position_index.mark(position, row_body_bytes(rows, index))
            index += 1

    def _finish(self) -> None:
        for position_index in self._durable + self._transient:
            for extent in position_index.extents.segment_extents:
                count, body_bytes = position_index.sums(extent.first, extent.last)
                if count != extent.count:
                    where = f"segment {extent.segment.number} has {count} messages of a queue"
                    span = f"from position {extent.first} to {extent.last}"
                    self._asker.contents_damaged(f"{where} {span}, and not {extent.count}")
                    return
                # the bytes of some extents were estimates
                extent.body_bytes = body_bytes
        self.done = True
        self._asker.contents_prepared()
