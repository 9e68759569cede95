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

Not here: when what is carried out (`broker.replication.mirror`), the payload (`broker.journal.records`).

How much of what each origin sent is held: an origin is one run of a node, which counts its publishes to a queue.

Of a node only its latest run matters: an earlier one sends nothing any more, and asks nothing.

Not here: who asks (`broker.mirrors`).

In which epoch steps were numbered: where each epoch begins, as far back as anybody has to know.

Steps up to the settled one are the same everywhere, so only those above have to be told apart.

Not here: the steps themselves (`broker.replication.batches`).
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i64_be, write_i64_be
from mypy_extensions import i64

from warren.errors import PeerFault

STORE: Final[i64] = 1
REMOVE: Final[i64] = 2
WATERMARK: Final[i64] = 3
RETURNED: Final[i64] = 4
ORIGIN: Final[i64] = 5
OPEN: Final[i64] = 6
STORED_OFFSET: Final[i64] = 7

PERSISTENT: Final[i64] = 1

HEAD_BYTES: Final[i64] = 8
STORE_BYTES: Final[i64] = 40
"""Of a STORE, up to its payload."""


DeferredOperation = tuple[int, int, int, int]
"""A REMOVE or a RETURNED: its kind, its level, its two words."""

OriginCount = tuple[str, int, int]
"""An origin, name and incarnation, and how far it counted."""


@final
class ReplicationBatch:
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
        self.later: list[DeferredOperation] = []
        self.heard: list[OriginCount] = []
        # the highest position that it stores under; 0 if it stores nothing
        self.stored_to: i64 = 0

    @property
    def data(self) -> bytes:
        """All that it says."""
        if self.start == 0 and self.end == len(self.within):
            return self.within
        return self.within[self.start : self.end]


@final
class ReplicationBatchWriter:
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

    def mark_delivered(self, position: i64) -> None:
        self._head(WATERMARK, 0, HEAD_BYTES + 8)
        write_i64_be(self._out, position)

    def returned(self, position: i64, count: i64) -> None:
        self._head(RETURNED, 0, HEAD_BYTES + 16)
        write_i64_be(self._out, position)
        write_i64_be(self._out, count)

    def open(self, epoch: int) -> None:
        self._head(OPEN, 0, HEAD_BYTES + 8)
        write_i64_be(self._out, epoch)

    def store_offset(self, name: str, offset: i64) -> None:
        text = name.encode("utf-8", "surrogateescape")
        self._head(STORED_OFFSET, 0, HEAD_BYTES + 8 + len(text))
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
class ReplicationBatchReader:
    """Goes through what a step says; a `PeerFault` if it makes no sense."""

    def __init__(self, batch: ReplicationBatch) -> None:
        self.data: bytes = batch.within
        # where `next()` stopped
        self.kind: i64 = 0
        self.flags: i64 = 0
        self.priority: i64 = 0
        # of a STORE: its words
        self.position: i64 = 0
        self.expires_at_ms: i64 = 0
        self.origin_count: i64 = 0
        self.payload_crc: i64 = 0
        # and its payload
        self.start: i64 = batch.start
        self.end: i64 = batch.start
        self._at: i64 = batch.start
        self._all: i64 = batch.end

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
        if size > have or size < (STORE_BYTES if kind == STORE else _min_bytes(kind)):
            raise PeerFault(f"a step has {size} bytes for something of kind {kind}")
        self.kind = kind
        self.flags = (head >> 16) & 0xFF
        self.priority = (head >> 8) & 0xFF
        self._at = at
        self.start = at + STORE_BYTES
        self.end = at + size
        if kind == STORE:
            self.position = read_i64_be(data, at + 8)
            self.expires_at_ms = read_i64_be(data, at + 16)
            self.origin_count = read_i64_be(data, at + 24)
            self.payload_crc = read_i64_be(data, at + 32)
        return True

    def word(self, place: i64) -> i64:
        """One of the words listed above, by its place; those of a STORE have names, too."""
        return read_i64_be(self.data, self._at + HEAD_BYTES + 8 * place)

    def payload(self) -> bytes:
        return self.data[self.start : self.end]

    def name(self) -> str:
        """Of an ORIGIN, or a REMEMBER."""
        return self.data[self._at + HEAD_BYTES + 8 : self.end].decode("utf-8", "surrogateescape")


def _min_bytes(kind: i64) -> i64:
    """The fewest bytes something of that kind has; a STORE has `STORE_BYTES`."""
    if kind in (REMOVE, RETURNED):
        return HEAD_BYTES + 16
    if kind in (WATERMARK, ORIGIN, OPEN, STORED_OFFSET):
        return HEAD_BYTES + 8
    raise PeerFault(f"a step has something of kind {kind}")


@final
class OriginMarks:
    """The highest count of each origin."""

    def __init__(self, runs: dict[str, tuple[int, int]] | None = None, complete: bool = True) -> None:
        # by node: its incarnation, and how far its count was heard
        self.runs: dict[str, tuple[int, int]] = {} if runs is None else runs
        # nothing was ever forgotten: of an origin that is not here nothing is held
        self.complete: bool = complete

    def of(self, name: str, incarnation: int) -> int:
        """How much of it is here."""
        run = self.runs.get(name)
        return run[1] if run is not None and run[0] == incarnation else 0

    def knows(self, name: str, incarnation: int) -> bool:
        """Whether it can be told how much of it is here."""
        run = self.runs.get(name)
        return self.complete or (run is not None and run[0] == incarnation)

    def heard(self, name: str, incarnation: int, count: i64) -> None:
        run = self.runs.get(name)
        if run is None or run[0] < incarnation or (run[0] == incarnation and run[1] < count):
            self.runs[name] = (incarnation, int(count))

    def without(self, batches: list[ReplicationBatch]) -> "OriginMarks":
        """As they were before these steps, which are the last that were read."""
        before = self.copy()
        for batch in batches:
            reader = ReplicationBatchReader(batch)
            name, incarnation = "", 0
            while reader.next():
                if reader.kind == ORIGIN:
                    name, incarnation = reader.name(), int(reader.word(0))
                elif reader.kind == STORE and 0 < reader.origin_count <= before.of(name, incarnation):
                    before.runs[name] = (incarnation, int(reader.origin_count) - 1)
        return before

    def copy(self) -> "OriginMarks":
        return OriginMarks(dict(self.runs), self.complete)

    def read(self, batch: ReplicationBatch) -> None:
        """Everything that a step stored was heard of."""
        reader = ReplicationBatchReader(batch)
        name, incarnation = "", 0
        count: i64 = 0
        while reader.next():
            if reader.kind == STORE:
                count = max(count, reader.origin_count)
            elif reader.kind == ORIGIN:
                if count:
                    self.heard(name, incarnation, count)
                    count = 0
                name, incarnation = reader.name(), int(reader.word(0))
        if count:
            self.heard(name, incarnation, count)


EpochStart = tuple[int, int]
"""An epoch, and its first step."""


@final
class Epochs:
    """Those of one member's steps, oldest first."""

    def __init__(self, beginnings: list[EpochStart] | None = None) -> None:
        self.beginnings: list[EpochStart] = [] if beginnings is None else beginnings

    def add(self, epoch: i64, number: i64) -> None:
        """A step of that epoch is held."""
        if not self.beginnings or self.beginnings[-1][0] != epoch:
            self.beginnings.append((int(epoch), int(number)))

    def of(self, number: i64) -> int:
        """The epoch of a step; 0 if it was too long ago."""
        found = 0
        for epoch, first in self.beginnings:
            if first > number:
                break
            found = epoch
        return found

    def first_of(self, epoch: int) -> int:
        for each, first in self.beginnings:
            if each == epoch:
                return first
        return 0

    def cut(self, last: i64) -> None:
        """Steps above this one are no more."""
        self.beginnings = [(epoch, first) for epoch, first in self.beginnings if first <= last]

    def forget(self, committed: i64) -> None:
        """Steps up to this one need not be told apart any more."""
        while len(self.beginnings) > 1 and self.beginnings[1][1] <= committed:
            self.beginnings.pop(0)


def last_common_batch(ours: Epochs, our_end: i64, theirs: Epochs, their_end: i64) -> i64:
    """The last step that two members both have; 0 if there is none that they can tell.

    Both got their steps, in order, from one master after another. So if they have the same epoch for a step, they have
    the same steps up to there.
    """
    number: i64 = min(our_end, their_end)
    while number > 0:
        ours_there, theirs_there = ours.of(number), theirs.of(number)
        if ours_there == theirs_there and ours_there != 0:
            return number
        if ours_there == 0 or theirs_there == 0:
            return 0
        # the one of the later epoch begins with steps that the other does not have
        if ours_there > theirs_there:
            number = ours.first_of(ours_there) - 1
        else:
            number = theirs.first_of(theirs_there) - 1
    return 0
