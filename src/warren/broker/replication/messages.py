"""The messages between the members of a replica set, as bytes.

::

    0      1                     8     16
    | kind | the queue's id      | tag | words of 64 bits, then bytes for some kinds |

The *tag* is the epoch and the number that the mirror gave its attempt to join. All messages of this attempt carry it,
in both directions. A node ignores messages of an earlier attempt.

    mirror to master    JOIN             whole, end, committed, the metadata revision it knows, then each epoch and its
                                         first batch
                        FLUSHED          number
                        CONTENTS         spans: first, last
                        CAUGHT_UP
                        BACKFILL_ACK     bytes of the backfill that were stored in all
                        HEARTBEAT_REPLY  the time of the HEARTBEAT; for no queue
    master to mirror    RESUME           common, committed
                        START            number, watermark, whether the origin marks are complete, then the marks:
                                         incarnation, count, name
                        BATCH            number, epoch, the last committed batch or 0, then the batch
                        COMMIT           number, if no batch says it
                        BACKFILL         position, priority << 8 | persistent, deadline, returned, checksum, payload
                        SURPLUS          spans to remove
                        PUBLISHING_IDS   whether these replace all ids, then rows of ids
                        STORED_OFFSET    an offset, then the name of the reader
                        BACKFILL_END
                        HEARTBEAT        the time of sending; for no queue

Not here: what members do with them (`broker.replication.mirror`, `broker.replication.master`), the link
(`broker.links`).
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i64_be, write_i64_be
from mypy_extensions import i64

from warren.broker.model.replica_contents import PositionSpan
from warren.broker.replication.batches import EpochStart, OriginMarks, ReplicationBatch
from warren.broker.replication.mirror import MirrorJoinRequest
from warren.errors import PeerFault

JOIN: Final[i64] = 1
FLUSHED: Final[i64] = 2
CONTENTS: Final[i64] = 3
CAUGHT_UP: Final[i64] = 4
BACKFILL_ACK: Final[i64] = 5
HEARTBEAT_REPLY: Final[i64] = 6
RESUME: Final[i64] = 11
START: Final[i64] = 12
BATCH: Final[i64] = 13
COMMIT: Final[i64] = 14
BACKFILL: Final[i64] = 15
SURPLUS: Final[i64] = 16
BACKFILL_END: Final[i64] = 17
HEARTBEAT: Final[i64] = 18
PUBLISHING_IDS: Final[i64] = 19
STORED_OFFSET: Final[i64] = 20

HEAD_BYTES: Final[i64] = 16
QUEUE_ID_MAX: Final[i64] = (1 << 56) - 1
ATTEMPT_BITS: Final = 24


def is_from_mirror(kind: i64) -> bool:
    return kind < RESUME


def tag_of(epoch: int, attempt: int) -> int:
    return epoch << ATTEMPT_BITS | attempt & (1 << ATTEMPT_BITS) - 1


def epoch_of(tag: int) -> int:
    return tag >> ATTEMPT_BITS


def encode_words(kind: i64, queue_id: int, tag: int, values: list[int]) -> bytes:
    """A message of words, or the head of a message that continues with bytes."""
    out = BytesWriter()
    write_i64_be(out, kind << 56 | queue_id)
    write_i64_be(out, tag)
    for value in values:
        write_i64_be(out, value)
    return out.getvalue()


def encode_join(queue_id: int, tag: int, request: MirrorJoinRequest) -> bytes:
    values = [1 if request.whole else 0, int(request.end), int(request.committed), request.known_revision]
    for epoch, first in request.beginnings:
        values += [epoch, first]
    return encode_words(JOIN, queue_id, tag, values)


def encode_spans(kind: i64, queue_id: int, epoch: int, found: list[PositionSpan]) -> bytes:
    values: list[int] = []
    for span in found:
        values += [int(span.first), int(span.last)]
    return encode_words(kind, queue_id, epoch, values)


def encode_start(queue_id: int, tag: int, number: i64, watermark: i64, marks: OriginMarks) -> bytes:
    out = BytesWriter()
    out.write(encode_words(START, queue_id, tag, [int(number), int(watermark), 1 if marks.complete else 0]))
    for name, (incarnation, count) in marks.counts.items():
        text = name.encode("utf-8", "surrogateescape")
        write_i64_be(out, incarnation)
        write_i64_be(out, count)
        write_i64_be(out, len(text))
        out.write(text)
    return out.getvalue()


@final
class ReplicationMessageReader:
    """One message, in `data[start:end]`."""

    def __init__(self, data: bytes, start: i64, end: i64) -> None:
        if end - start < HEAD_BYTES:
            raise PeerFault("a replication message is cut short")
        head: i64 = read_i64_be(data, start)
        self.kind: i64 = (head >> 56) & 0xFF
        self.queue_id: int = int(head & QUEUE_ID_MAX)
        self.tag: int = int(read_i64_be(data, start + 8))
        self._data: bytes = data
        self._at: i64 = start + HEAD_BYTES
        self._end: i64 = end

    def word(self) -> i64:
        """The next word."""
        at = self._at
        if at + 8 > self._end:
            raise PeerFault("a replication message is cut short")
        self._at = at + 8
        return read_i64_be(self._data, at)

    def rest(self) -> bytes:
        """The remaining bytes."""
        return self._data[self._at : self._end]

    def batch(self, number: i64, epoch: i64) -> ReplicationBatch:
        """The remaining bytes as a batch, without a copy."""
        return ReplicationBatch(number, epoch, self._data, self._at, self._end)

    def at_end(self) -> bool:
        return self._at >= self._end

    def join(self) -> MirrorJoinRequest:
        whole, end, committed, known_revision = self.word(), self.word(), self.word(), int(self.word())
        beginnings: list[EpochStart] = []
        while not self.at_end():
            epoch = int(self.word())
            beginnings.append((epoch, int(self.word())))
        return MirrorJoinRequest(epoch_of(self.tag), whole != 0, end, committed, beginnings, known_revision)

    def spans(self) -> list[PositionSpan]:
        found: list[PositionSpan] = []
        while not self.at_end():
            first = self.word()
            found.append(PositionSpan(first, self.word()))
        return found

    def marks(self) -> OriginMarks:
        marks = OriginMarks(None, self.word() != 0)
        while not self.at_end():
            incarnation, count, size = int(self.word()), self.word(), self.word()
            if size < 0 or self._at + size > self._end:
                raise PeerFault("a replication message is cut short")
            name = self._data[self._at : self._at + size].decode("utf-8", "surrogateescape")
            self._at += size
            marks.record(name, incarnation, count)
        return marks
