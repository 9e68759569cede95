"""Which of 4096 positions are held, and how long the body of each is.

Most queues have messages of one size, or nearly: the sizes are written down one by one only when two of them differ.

Invariants: `count` and `body_bytes` are the sums over the bits that are set. In `_sizes` there is 0 for whatever is not
held.

Not here: where the messages lie (`store.copies.shelf`).
"""

from array import array
from typing import Final, final

from mypy_extensions import i64

BLOCK: Final[i64] = 4096
BLOCK_SHIFT: Final[i64] = 12
BITMAP_BYTES: Final[i64] = 512


@final
class Block:
    """4096 positions, counted from the block's first."""

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
        """One that is not held."""
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
            for held in self.held(0, BLOCK):
                sizes[held] = int(self._size)
            self._sizes = sizes
        sizes[int(at)] = int(size)

    def size_of(self, at: i64) -> i64:
        """Of one that is held."""
        return self._size if self._sizes is None else self._sizes[int(at)]

    def take(self, at: i64) -> i64:
        """Hold this one no more; the size of its body, -1 if it was not held."""
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
        """Hold none from the first to the one before the end; how many they were, and the bytes of their bodies."""
        count: i64 = self.count
        body_bytes: i64 = self.body_bytes
        if first == 0 and end == BLOCK:
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
        """How many are held from the first to the one before the end, and the bytes of their bodies."""
        bits = int.from_bytes(self.bits, "little") >> int(first)
        count: i64 = (bits & ((1 << int(end - first)) - 1)).bit_count()
        if self._sizes is None:
            return count, count * self._size
        return count, sum(self._sizes[int(first) : int(end)])

    def held(self, first: i64, end: i64) -> list[int]:
        """Those that are held, from the first to the one before the end."""
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
        """The lowest that is held from this one on; -1 if there is none."""
        bits = int.from_bytes(self.bits, "little") >> int(first)
        return -1 if bits == 0 else first + (bits & -bits).bit_length() - 1

    def highest_below(self, end: i64) -> i64:
        """The highest that is held below this one; -1 if there is none."""
        bits = int.from_bytes(self.bits, "little") & ((1 << int(end)) - 1)
        return bits.bit_length() - 1
