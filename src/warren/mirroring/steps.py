"""What a step says, as bytes: all that a master did to its queue in one turn.

::

    0        4      5       6          8
    | size   | kind | flags | priority | words of 64 bits, and of a STORE the payload |

    STORE      position, deadline, the origin's count, checksum, payload
    REMOVE     first, last              (`priority` is the level)
    LEND       position
    RETURNED   position, count
    ORIGIN     incarnation, name        of the STOREs that follow in this step
    OPEN       epoch
    REMEMBER   offset, name             of a reader

`size` counts all of it. A step stands for itself: it can be sent to whoever has the one before, and read again later.
A mirror reads it once, when it comes, and keeps beside it what is to be done later.

Not here: when what is carried out (`mirroring.mirror`), the payload (`store.records`).
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i64_be, write_i64_be
from mypy_extensions import i64

from warren.errors import PeerFault

STORE: Final[i64] = 1
REMOVE: Final[i64] = 2
LEND: Final[i64] = 3
RETURNED: Final[i64] = 4
ORIGIN: Final[i64] = 5
OPEN: Final[i64] = 6
REMEMBER: Final[i64] = 7

PERSISTENT: Final[i64] = 1

HEAD_BYTES: Final[i64] = 8
STORE_BYTES: Final[i64] = 40
"""Of a STORE, up to its payload."""


Later = tuple[int, int, int, int]
"""A REMOVE or a RETURNED: its kind, its level, its two words."""

Heard = tuple[str, int, int]
"""An origin, name and incarnation, and how far it counted."""


@final
class Step:
    """One step; what it says never changes.

    It may lie within the bytes that came from another node, from `start` to `end`: what was read once is not copied.
    """

    def __init__(self, number: i64, epoch: i64, within: bytes, start: i64 = 0, end: i64 = -1) -> None:
        self.number: i64 = number
        self.epoch: i64 = epoch
        self.within: bytes = within
        self.start: i64 = start
        self.end: i64 = len(within) if end < 0 else end
        # of one that was read: what is to be done, and to be noted, when it is settled
        self.later: list[Later] = []
        self.heard: list[Heard] = []
        # the highest position that it stores under; 0 if it stores nothing
        self.stored_to: i64 = 0

    @property
    def data(self) -> bytes:
        """All that it says."""
        if self.start == 0 and self.end == len(self.within):
            return self.within
        return self.within[self.start : self.end]


@final
class StepWriter:
    """Gathers what a turn does."""

    def __init__(self) -> None:
        self._out: BytesWriter = BytesWriter()
        # the origin named last
        self._name: str | None = None
        self._incarnation: int = 0

    def __len__(self) -> int:
        return len(self._out)

    def store(
        self,
        position: i64,
        priority: i64,
        expires_at_ms: i64,
        persistent: bool,
        origin_count: i64,
        payload: bytes,
        payload_crc: i64,
    ) -> None:
        """`origin_count` is 0 for a message that no node sent; otherwise it is that of the origin named last."""
        out = self._out
        flags: i64 = PERSISTENT if persistent else 0
        size: i64 = STORE_BYTES + len(payload)
        write_i64_be(out, size << 32 | STORE << 24 | flags << 16 | priority << 8)
        write_i64_be(out, position)
        write_i64_be(out, expires_at_ms)
        write_i64_be(out, origin_count)
        write_i64_be(out, payload_crc)
        out.write(payload)

    def origin(self, name: str, incarnation: int) -> None:
        """Who sent what is stored from here on."""
        if name is self._name and incarnation == self._incarnation:
            return
        self._name, self._incarnation = name, incarnation
        text = name.encode("utf-8", "surrogateescape")
        self._head(ORIGIN, 0, HEAD_BYTES + 8 + len(text))
        write_i64_be(self._out, incarnation)
        self._out.write(text)

    def remove(self, level: i64, first: i64, last: i64) -> None:
        self._head(REMOVE, level, HEAD_BYTES + 16)
        write_i64_be(self._out, first)
        write_i64_be(self._out, last)

    def lend(self, position: i64) -> None:
        self._head(LEND, 0, HEAD_BYTES + 8)
        write_i64_be(self._out, position)

    def returned(self, position: i64, count: i64) -> None:
        self._head(RETURNED, 0, HEAD_BYTES + 16)
        write_i64_be(self._out, position)
        write_i64_be(self._out, count)

    def open(self, epoch: int) -> None:
        self._head(OPEN, 0, HEAD_BYTES + 8)
        write_i64_be(self._out, epoch)

    def remember(self, name: str, offset: i64) -> None:
        text = name.encode("utf-8", "surrogateescape")
        self._head(REMEMBER, 0, HEAD_BYTES + 8 + len(text))
        write_i64_be(self._out, offset)
        self._out.write(text)

    def finish(self) -> bytes:
        """All of it; the next step begins with nothing."""
        data = self._out.getvalue()
        self._out = BytesWriter()
        self._name = None
        return data

    def _head(self, kind: i64, priority: i64, size: i64) -> None:
        write_i64_be(self._out, size << 32 | kind << 24 | priority << 8)


@final
class StepReader:
    """Goes through what a step says; a `PeerFault` if it makes no sense."""

    def __init__(self, step: Step) -> None:
        self.data: bytes = step.within
        # where `next()` stopped
        self.kind: i64 = 0
        self.flags: i64 = 0
        self.priority: i64 = 0
        # of a STORE: its payload
        self.start: i64 = step.start
        self.end: i64 = step.start
        self._at: i64 = step.start
        self._all: i64 = step.end

    def next(self) -> bool:
        data = self.data
        at: i64 = self.end
        have: i64 = self._all - at
        if have == 0:
            return False
        if have < HEAD_BYTES:
            raise PeerFault("a step is cut short")
        head: i64 = read_i64_be(data, at)
        size: i64 = (head >> 32) & 0x7FFFFFFF
        kind: i64 = (head >> 24) & 0xFF
        if size > have or size < _least(kind):
            raise PeerFault(f"a step has {size} bytes for something of kind {kind}")
        self.kind = kind
        self.flags = (head >> 16) & 0xFF
        self.priority = (head >> 8) & 0xFF
        self._at = at
        self.start = at + STORE_BYTES
        self.end = at + size
        return True

    def word(self, place: i64) -> i64:
        """Those of a STORE, in order: position, deadline, the origin's count, checksum; of others as listed above."""
        return read_i64_be(self.data, self._at + HEAD_BYTES + 8 * place)

    def payload(self) -> bytes:
        return self.data[self.start : self.end]

    def name(self) -> str:
        """Of an ORIGIN, or a REMEMBER."""
        return self.data[self._at + HEAD_BYTES + 8 : self.end].decode("utf-8", "surrogateescape")


def _least(kind: i64) -> i64:
    """The fewest bytes something of that kind has."""
    if kind == STORE:
        return STORE_BYTES
    if kind in (REMOVE, RETURNED):
        return HEAD_BYTES + 16
    if kind in (LEND, ORIGIN, OPEN, REMEMBER):
        return HEAD_BYTES + 8
    raise PeerFault(f"a step has something of kind {kind}")
