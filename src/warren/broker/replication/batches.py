"""Replication batches as bytes: everything that a master did to its queue in one turn.

::

    0        4      5       6          8
    | size   | kind | flags | priority | words of 64 bits, then the payload of a STORE, or a name |

    STORE            position, deadline, the origin's count, checksum, payload
    REMOVE           first, last              (`priority` is the level)
    WATERMARK        position
    RETURNED         position, count
    ORIGIN           incarnation, name        of the STOREs that follow in this batch
    OPEN             epoch
    STORED_OFFSET    offset, name             of a reader

`size` counts the whole operation. A batch is self-contained: it can be sent to every mirror that has the batch before,
and can be read again. A mirror reads it once, when it arrives, and keeps the operations that must wait for the commit.

**Origin marks.** An *origin* is one incarnation of a node; it counts its publishes to a queue. `OriginMarks` has the
highest count of each origin that is held. Only the latest incarnation of a node matters: earlier ones have ended.

**Epochs.** A batch keeps the epoch in which it was numbered. `Epochs` has the first batch of each epoch, back to the
last committed batch: up to there all members have the same batches.

Not here: when an operation is carried out (`broker.replication.mirror`), the payload (`broker.journal.records`).
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i64_be, write_i64_be
from mypy_extensions import i64

from warren.broker.model.turn import SpareBuffers
from warren.errors import InvariantBroken, PeerFault

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
"""The size of a STORE without its payload."""


DeferredOperation = tuple[int, int, int, int]
"""A REMOVE or RETURNED: its kind, level and two words."""

OriginCount = tuple[str, int, int]
"""The name and incarnation of an origin, and its count."""


@final
class ReplicationBatch:
    """One batch; its bytes never change.

    They may be a part, from `start` to `end`, of the bytes that came from another node: they are not copied.
    """

    def __init__(self, number: i64, epoch: i64, within: bytes, start: i64 = 0, end: i64 = -1) -> None:
        self.number: i64 = number
        self.epoch: i64 = epoch
        self.within: bytes = within
        self.start: i64 = start
        self.end: i64 = len(within) if end < 0 else end
        # set by a mirror: operations and origin counts that wait for the commit
        self.deferred: list[DeferredOperation] = []
        self.origin_counts: list[OriginCount] = []
        # the highest position that it stores; 0 if it stores nothing
        self.stored_to: i64 = 0

    @property
    def data(self) -> bytes:
        """The bytes of this batch alone."""
        if self.start == 0 and self.end == len(self.within):
            return self.within
        return self.within[self.start : self.end]


@final
class ReplicationBatchWriter:
    """Collects the operations of a turn."""

    def __init__(self, buffers: SpareBuffers) -> None:
        self._buffers: SpareBuffers = buffers
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
        """`origin_count` is the count of the origin named last; 0 if no node sent the message."""
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
        """Name the origin of the messages that follow."""
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
        """The bytes of the batch; the writer is empty afterwards."""
        data = self._out.getvalue()
        self._buffers.give_back(self._out)
        self._out = BytesWriter()
        self._name = None
        return data

    def _head(self, kind: i64, priority: i64, size: i64) -> None:
        if len(self._out) == 0:
            self._out = self._buffers.take()
        write_i64_be(self._out, size << 32 | kind << 24 | priority << 8)


@final
class ReplicationBatchReader:
    """Reads the operations of a batch one by one; a `PeerFault` if one is invalid."""

    def __init__(self, batch: ReplicationBatch) -> None:
        self.data: bytes = batch.within
        # of the current operation
        self.kind: i64 = 0
        self.flags: i64 = 0
        self.priority: i64 = 0
        # the words of a STORE
        self.position: i64 = 0
        self.expires_at_ms: i64 = 0
        self.origin_count: i64 = 0
        self.payload_crc: i64 = 0
        # the payload of a STORE
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
            raise PeerFault("a replication batch is cut short")
        head: i64 = read_i64_be(data, at)
        size: i64 = (head >> 32) & 0x7FFFFFFF
        kind: i64 = (head >> 24) & 0xFF
        if size > have or size < (STORE_BYTES if kind == STORE else _min_bytes(kind)):
            raise PeerFault(f"a replication batch has {size} bytes for an operation of kind {kind}")
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
        """A word of the current operation, by its place in the table above; those of a STORE also have names."""
        return read_i64_be(self.data, self._at + HEAD_BYTES + 8 * place)

    def payload(self) -> bytes:
        return self.data[self.start : self.end]

    def name(self) -> str:
        """The name in an ORIGIN or STORED_OFFSET."""
        return self.data[self._at + HEAD_BYTES + 8 : self.end].decode("utf-8", "surrogateescape")


def _min_bytes(kind: i64) -> i64:
    """The smallest size of an operation of that kind; a STORE has `STORE_BYTES`."""
    if kind in (REMOVE, RETURNED):
        return HEAD_BYTES + 16
    if kind in (WATERMARK, ORIGIN, OPEN, STORED_OFFSET):
        return HEAD_BYTES + 8
    raise PeerFault(f"a replication batch has an operation of kind {kind}")


@final
class OriginMarks:
    """The highest count of each origin."""

    def __init__(self, counts: dict[str, tuple[int, int]] | None = None, complete: bool = True) -> None:
        # by node: its incarnation, and its highest count
        self.counts: dict[str, tuple[int, int]] = {} if counts is None else counts
        # no mark was ever lost: an origin without a mark has published nothing
        self.complete: bool = complete

    def of(self, name: str, incarnation: int) -> int:
        """The highest count of an origin; 0 if there is no mark."""
        mark = self.counts.get(name)
        return mark[1] if mark is not None and mark[0] == incarnation else 0

    def is_certain(self, name: str, incarnation: int) -> bool:
        """Whether the count of this origin is certain."""
        mark = self.counts.get(name)
        return self.complete or (mark is not None and mark[0] == incarnation)

    def record(self, name: str, incarnation: int, count: i64) -> None:
        mark = self.counts.get(name)
        if mark is None or mark[0] < incarnation or (mark[0] == incarnation and mark[1] < count):
            self.counts[name] = (incarnation, int(count))

    def without(self, batches: list[ReplicationBatch]) -> "OriginMarks":
        """The marks before these batches, which are the last ones that were read."""
        before = self.copy()
        for batch in batches:
            reader = ReplicationBatchReader(batch)
            name, incarnation = "", 0
            while reader.next():
                if reader.kind == ORIGIN:
                    name, incarnation = reader.name(), int(reader.word(0))
                elif reader.kind == STORE and 0 < reader.origin_count <= before.of(name, incarnation):
                    before.counts[name] = (incarnation, int(reader.origin_count) - 1)
        return before

    def copy(self) -> "OriginMarks":
        return OriginMarks(dict(self.counts), self.complete)

    def read(self, batch: ReplicationBatch) -> None:
        """Add the counts of the messages that a batch stores."""
        reader = ReplicationBatchReader(batch)
        name, incarnation = "", 0
        count: i64 = 0
        while reader.next():
            if reader.kind == STORE:
                count = max(count, reader.origin_count)
            elif reader.kind == ORIGIN:
                if count:
                    self.record(name, incarnation, count)
                    count = 0
                name, incarnation = reader.name(), int(reader.word(0))
        if count:
            self.record(name, incarnation, count)

    def check(self) -> None:
        """Raise `InvariantBroken` if a mark is below the count with which every origin begins."""
        for name, (incarnation, count) in self.counts.items():
            if count < 0:
                raise InvariantBroken(f"the mark of {name}, incarnation {incarnation}, is {count}")


EpochStart = tuple[int, int]
"""An epoch, and the number of its first batch."""


@final
class Epochs:
    """The epochs of one member's batches, oldest first."""

    def __init__(self, beginnings: list[EpochStart] | None = None) -> None:
        self.beginnings: list[EpochStart] = [] if beginnings is None else beginnings

    def add(self, epoch: i64, number: i64) -> None:
        """The member has a batch of this epoch."""
        if not self.beginnings or self.beginnings[-1][0] != epoch:
            self.beginnings.append((int(epoch), int(number)))

    def of(self, number: i64) -> int:
        """The epoch of a batch; 0 if it is no longer known."""
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
        """The batches after this one were dropped."""
        self.beginnings = [(epoch, first) for epoch, first in self.beginnings if first <= last]

    def forget(self, committed: i64) -> None:
        """The batches up to this one are committed: their epochs are no longer needed."""
        while len(self.beginnings) > 1 and self.beginnings[1][1] <= committed:
            self.beginnings.pop(0)

    def check(self, committed: i64) -> None:
        """Raise `InvariantBroken` unless epochs and their first batches ascend, back to the committed batch."""
        before = (0, 0)
        for epoch, first in self.beginnings:
            if epoch <= before[0] or first <= before[1]:
                raise InvariantBroken(f"epoch {epoch} begins with batch {first}, behind {before}")
            before = (epoch, first)
        if committed > 0 and self.of(committed) == 0:
            raise InvariantBroken(f"the epoch of the committed batch {committed} is unknown")


def last_common_batch(ours: Epochs, our_end: i64, theirs: Epochs, their_end: i64) -> i64:
    """The last batch that two members have in common; 0 if their epochs do not show one.

    Both got their batches in order, from one master after another. So if a number has the same epoch at both, they have
    the same batches up to that number.
    """
    number: i64 = min(our_end, their_end)
    while number > 0:
        ours_there, theirs_there = ours.of(number), theirs.of(number)
        if ours_there == theirs_there and ours_there != 0:
            return number
        if ours_there == 0 or theirs_there == 0:
            return 0
        # the later epoch begins with batches that the other member does not have
        if ours_there > theirs_there:
            number = ours.first_of(ours_there) - 1
        else:
            number = theirs.first_of(theirs_there) - 1
    return 0
