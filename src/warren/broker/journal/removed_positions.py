"""The removed positions of one queue: a floor, and bitmaps for positions removed above it.

Messages mostly leave in the order in which they arrived, so nearly all removed positions lie below one number.
Positions that left out of order are kept in bitmaps of 4096 positions until the floor catches up: when the position at
the floor is removed, the floor advances over every set bit and drops the bitmaps it has passed. A bitmap with all bits
set is one shared object, so a queue purged above a single unacked message costs a dictionary entry for 4096 positions.

Invariants: every position below `floor` is removed and the one at `floor` is not. `_above` counts the bits set at or
above the floor; when it is 0 there are no bitmaps, and a removal in order is one comparison and one addition. Bits
below the floor have no meaning. The shared bitmap is never written to.

Not here: living messages (`broker.model.journal.SegmentExtent`), the removals (`broker.journal.queue_index`).
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i64_be, write_i64_be
from mypy_extensions import i64

from warren.errors import InvariantBroken, StoreError

SPAN: Final[i64] = 4096
SPAN_SHIFT: Final[i64] = 12
BITMAP_BYTES: Final[i64] = 512
FULL: Final = bytearray(b"\xff" * 512)

BITMAP_COST_BYTES: Final[i64] = 700
"""The approximate memory of a bitmap and its dictionary entry."""

SHARED_COST_BYTES: Final[i64] = 120
"""The approximate memory of a dictionary entry for the shared bitmap."""


@final
class RemovedPositions:
    """The set of removed positions of one level."""

    def __init__(self) -> None:
        self.floor: i64 = 1
        self._bitmaps: dict[int, bytearray] = {}
        self._above: i64 = 0
        # the number of bitmaps that are not the shared one
        self._own: i64 = 0

    def add(self, position: i64) -> None:
        if position == self.floor and self._above == 0:
            self.floor = position + 1
            return
        if position < self.floor:
            return
        number = int(position >> SPAN_SHIFT)
        bitmap = self._bitmaps.get(number)
        if bitmap is None:
            bitmap = bytearray(512)
            self._bitmaps[number] = bitmap
            self._own += 1
        at: i64 = (position & (SPAN - 1)) >> 3
        old: i64 = bitmap[at]
        octet: i64 = old | 1 << (position & 7)
        if octet == old:
            return
        bitmap[at] = int(octet)
        self._above += 1
        if octet == 0xFF and bitmap == FULL:
            self._bitmaps[number] = FULL
            self._own -= 1
        if position == self.floor:
            self._advance()

    def add_range(self, first: i64, last: i64) -> None:
        """Remove a range, both ends included."""
        if first == last:
            self.add(first)
            return
        if first <= self.floor:
            self.raise_floor(last + 1)
            return
        start: i64 = first
        while start <= last:
            number: i64 = start >> SPAN_SHIFT
            span_end: i64 = (number + 1) << SPAN_SHIFT
            end: i64 = min(span_end, last + 1)
            self._set_bits(int(number), start & (SPAN - 1), end - start)
            start = end

    def _set_bits(self, number: int, first: i64, count: i64) -> None:
        bitmap = self._bitmaps.get(number)
        if bitmap is FULL:
            return
        if bitmap is None:
            if count == SPAN and i64(number) << SPAN_SHIFT >= self.floor:
                self._bitmaps[number] = FULL
                self._above += SPAN
                return
            bits = 0
        else:
            bits = int.from_bytes(bitmap, "little")
            self._above -= self._count_above(number, bits)
            self._own -= 1
        bits |= ((1 << int(count)) - 1) << int(first)
        self._above += self._count_above(number, bits)
        fresh = bytearray(bits.to_bytes(512, "little"))
        if fresh == FULL:
            self._bitmaps[number] = FULL
            return
        self._bitmaps[number] = fresh
        self._own += 1

    def _count_above(self, number: int, bits: int) -> i64:
        """How many bits of a bitmap are set at or above the floor."""
        below: i64 = self.floor - (i64(number) << SPAN_SHIFT)
        if below > 0:
            bits >>= int(below)
        return bits.bit_count()

    def has(self, position: i64) -> bool:
        if position < self.floor:
            return True
        if self._above == 0:
            return False
        bitmap = self._bitmaps.get(int(position >> SPAN_SHIFT))
        if bitmap is None:
            return False
        octet: i64 = bitmap[(position & (SPAN - 1)) >> 3]
        return octet & 1 << (position & 7) != 0

    def revive(self, position: i64) -> None:
        """Undo the removal of this position alone."""
        if not self.has(position):
            return
        if position < self.floor:
            floor = self.floor
            self._clear_below_floor()
            self.floor = position
            if position + 1 < floor:
                self.add_range(position + 1, floor - 1)
            return
        number = int(position >> SPAN_SHIFT)
        bits = int.from_bytes(self._bitmaps[number], "little") ^ 1 << int(position & (SPAN - 1))
        self._drop(number)
        self._bitmaps[number] = bytearray(bits.to_bytes(512, "little"))
        self._own += 1
        self._above -= 1
        self._drop_idle()

    def _clear_below_floor(self) -> None:
        """Clear the bits below the floor, before the floor is lowered and they have a meaning again."""
        number = int(self.floor >> SPAN_SHIFT)
        bitmap = self._bitmaps.get(number)
        if bitmap is not None:
            # never the shared bitmap: the bit of the floor is not set
            below = int(self.floor & (SPAN - 1))
            bits = int.from_bytes(bitmap, "little") >> below << below
            self._bitmaps[number] = bytearray(bits.to_bytes(512, "little"))

    def raise_floor(self, to: i64) -> None:
        """Every position below `to` is removed, or was never used."""
        if to <= self.floor:
            return
        if self._above != 0:
            self._forget_below(to)
        self.floor = to
        if self._above != 0:
            self._advance()

    def _forget_below(self, to: i64) -> None:
        """Stop counting bits below `to`, the next floor, and drop the bitmaps below it."""
        boundary: i64 = to >> SPAN_SHIFT
        for number in list(self._bitmaps):
            if i64(number) > boundary:
                continue
            bits = int.from_bytes(self._bitmaps[number], "little")
            self._above -= self._count_above(number, bits)
            if i64(number) < boundary:
                self._drop(number)
            else:
                self._above += (bits >> int(to & (SPAN - 1))).bit_count()
        self._drop_idle()

    def _advance(self) -> None:
        """Move the floor over removed positions."""
        floor: i64 = self.floor
        while True:
            number = int(floor >> SPAN_SHIFT)
            bitmap = self._bitmaps.get(number)
            if bitmap is None:
                break
            passed: i64 = _ones_from(bitmap, floor & (SPAN - 1))
            floor += passed
            self._above -= passed
            if floor & (SPAN - 1) != 0 or passed == 0:
                break
            self._drop(number)
        self.floor = floor
        self._drop_idle()

    def _drop(self, number: int) -> None:
        if self._bitmaps[number] is not FULL:
            self._own -= 1
        del self._bitmaps[number]

    def _drop_idle(self) -> None:
        """Without a bit above the floor, the next removal in order takes the fast path."""
        if self._above == 0:
            self._bitmaps.clear()
            self._own = 0

    def bytes_held(self) -> i64:
        """The approximate memory of the set besides the object itself."""
        shared: i64 = len(self._bitmaps) - self._own
        return self._own * BITMAP_COST_BYTES + shared * SHARED_COST_BYTES

    def check(self) -> None:
        """Raise `InvariantBroken` if the floor or the counts are wrong. Linear in bitmaps."""
        own = sum([1 for bitmap in self._bitmaps.values() if bitmap is not FULL])
        if self.floor < 1 or self._above < 0 or own != self._own or (self._above == 0 and len(self._bitmaps) > 0):
            raise InvariantBroken(
                f"{self._above} positions above {self.floor} in {len(self._bitmaps)} bitmaps, {own} of its own"
            )

    def encode(self, out: BytesWriter) -> None:
        """The floor, the number of bitmaps, and of each its number, its length (0 if it is full) and its bytes."""
        write_i64_be(out, self.floor)
        write_i64_be(out, len(self._bitmaps))
        for number in sorted(self._bitmaps):
            bitmap = self._bitmaps[number]
            write_i64_be(out, number)
            if bitmap is FULL:
                write_i64_be(out, 0)
            else:
                write_i64_be(out, BITMAP_BYTES)
                out.write(bitmap)

    def restore(self, number: int, bitmap: bytearray) -> None:
        """Add a bitmap that `encode` wrote."""
        self._bitmaps[number] = bitmap
        self._above += self._count_above(number, int.from_bytes(bitmap, "little"))
        if bitmap is not FULL:
            self._own += 1


def _ones_from(bitmap: bytearray, start: i64) -> i64:
    """How many bits are set in a row from `start` on."""
    if bitmap is FULL:
        return SPAN - start
    at: i64 = start
    while at < SPAN:
        octet: i64 = bitmap[at >> 3]
        if octet == 0xFF and at & 7 == 0:
            at += 8
        elif octet & 1 << (at & 7) != 0:
            at += 1
        else:
            break
    return at - start


def decode_removed(data: bytes, at: i64) -> tuple[RemovedPositions, int]:
    """The set encoded at this byte, and the byte after it."""
    size: i64 = len(data)
    if at + 16 > size:
        raise StoreError("a set of removed positions is cut short")
    removed = RemovedPositions()
    removed.floor = read_i64_be(data, at)
    left: i64 = read_i64_be(data, at + 8)
    at += 16
    while left > 0:
        if at + 16 > size:
            raise StoreError("a set of removed positions is cut short")
        number: i64 = read_i64_be(data, at)
        follow: i64 = read_i64_be(data, at + 8)
        at += 16
        if follow == 0:
            removed.restore(int(number), FULL)
        elif follow == BITMAP_BYTES and at + BITMAP_BYTES <= size:
            removed.restore(int(number), bytearray(data[at : at + BITMAP_BYTES]))
            at += BITMAP_BYTES
        else:
            raise StoreError("a set of removed positions is cut short")
        left -= 1
    return removed, int(at)
