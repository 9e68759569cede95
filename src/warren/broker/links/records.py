"""The records that go over a link.

::

    0        4      5       6          8                                        size
    | size   | kind | flags | envelope | words of 64 bits, then strings or content |

`size` counts the whole record. A *message* (PUBLISH, DELIVER, GOT, REPLY) has `number << 32 | frame_bytes_max`, then
`priority << 48 | channel << 32 | body_bytes`, one word more if `KINDS_WITH_WORD` is among its flags, and its content as
`broker.model.message` has it. All other records are read argument by argument, with `wire.values`.

An *envelope*, exchange and routing key, goes over a link once, and by its number from then on. Each direction has its
own table. The writer numbers envelopes from 0 in the order of their first use; when the table is full, the next one is
number 0 again, which tells the reader to begin anew, too.

`LinkOutput` gathers the records of a turn. Consecutive acks are joined to one range; any other record ends the range
first, so that everything arrives in order. Replication batches are large, and are bytes already: they are sent as
separate pieces without a copy.

Invariants: `RecordReader` refuses an invalid size before it waits for the bytes, buffers at most one incomplete record,
and joins it once. The content of a message consists of whole frames. The reader knows every envelope number that the
writer uses, because the definition goes over the same link first.

Not here: what records mean (`broker.links.link`, `broker.links.host_session`).
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i64_be, write_i64_be
from mypy_extensions import i64

from warren.broker.model.message import NO_EXPIRATION, Envelope, Message
from warren.errors import PeerFault
from warren.wire.frames import BODY, FRAME_END, FRAME_OVERHEAD, HEADER
from warren.wire.scalars import write_longlong, write_shortstr
from warren.wire.values import ArgumentReader

# both ways
ENVELOPE: Final[i64] = 1
NOTICE: Final[i64] = 2
REPLY_TO: Final[i64] = 3
REPLY: Final[i64] = 4
REPLICATION: Final[i64] = 5
"""A message between members of a replica set (`broker.replication.messages`)."""


# to the home
TO_HOME: Final[i64] = 9
ACKED_BY_POSITION: Final[i64] = 9
"""Positions of deliveries by an earlier master of a mirrored queue, which clients of the other node acked."""

QUEUE: Final[i64] = 10
FORGET_QUEUE: Final[i64] = 11
PUBLISH: Final[i64] = 12
FENCE: Final[i64] = 13
COUNT: Final[i64] = 14
PURGE: Final[i64] = 15
GET: Final[i64] = 16
CONSUME: Final[i64] = 17
CANCEL: Final[i64] = 18
ACKED: Final[i64] = 19
REQUEUED: Final[i64] = 20
REJECTED: Final[i64] = 21
RETURNED: Final[i64] = 22
CREDIT: Final[i64] = 23
PUBLISH_AGAIN: Final[i64] = 24
"""The message of the last PUBLISH, for another queue."""

LIMIT: Final[i64] = 25
STOP: Final[i64] = 26
REMOVE: Final[i64] = 27
"""Its flags are the conditions (`broker.model.remote_queue`)."""

NEXT: Final[i64] = 28
"""The origin count of the other node's next publish to a mirrored queue."""

CONSUMERS_GONE: Final[i64] = 29
"""The last consumer of the other node is gone; it may have consumed under an earlier master only."""

# from the home
FROM_HOME: Final[i64] = 30
SETTLED: Final[i64] = 30
REFUSED: Final[i64] = 31
DELIVER: Final[i64] = 32
CONSUMER_GONE: Final[i64] = 33
COUNTED: Final[i64] = 34
GOT: Final[i64] = 35
FAULT: Final[i64] = 36
OPENED: Final[i64] = 37
"""A mirrored queue is open here; how many of the other node's publishes it holds, and the epoch."""

HELD: Final[i64] = 38
"""The master has the other node's publishes up to this count, which is enough for a confirm by policy."""

POSITION: Final[i64] = 39
"""The position in a mirrored queue of the entry that is got next."""

# flags of messages
KINDS_WITH_WORD: Final[i64] = 1
PERSISTENT: Final[i64] = 2
REDELIVERED: Final[i64] = 4
UNCOUNTED: Final[i64] = 8
"""No channel published it, so it does not count as published."""

AT_POSITION: Final[i64] = 16
"""Its word is its position in a mirrored queue."""

IDENTIFIED: Final[i64] = 32
"""It has a publishing id, so that a repeated publish is recognized (`broker.model.deduplication`)."""

# flags of a consumer that left
FOR_GOOD: Final[i64] = 1
"""Its queue cannot serve it, and continues without it."""

# flags of the definition of a queue
MIRRORED: Final[i64] = 1

# flags of questions
NO_ACK: Final[i64] = 1
EXCLUSIVE: Final[i64] = 2

HEAD_BYTES: Final[i64] = 8
MESSAGE_HEAD_BYTES: Final[i64] = 24
RECORD_BYTES_MAX: Final[i64] = 1 << 30
NUMBER_MAX: Final[i64] = (1 << 31) - 1
"""The highest number of a queue, consumer or ticket on one link; a link that needs a higher one is ended."""


def begin(out: BytesWriter, kind: i64, flags: i64, size: i64) -> None:
    """The head of a record that has `size` octets in all."""
    write_i64_be(out, size << 32 | kind << 24 | flags << 16)


def write_words(out: BytesWriter, kind: i64, flags: i64, words: list[int]) -> None:
    """Write a record that consists of words."""
    begin(out, kind, flags, HEAD_BYTES + 8 * len(words))
    for word in words:
        write_i64_be(out, word)


def write_text(out: BytesWriter, kind: i64, flags: i64, payload: bytes) -> None:
    """Write a record whose arguments are encoded already."""
    begin(out, kind, flags, HEAD_BYTES + len(payload))
    out.write(payload)


def write_message(out: BytesWriter, kind: i64, flags: i64, envelope_no: i64, number: i64, message: Message) -> None:
    """Write a PUBLISH, with the time that the message has to live."""
    if message.persistent:
        flags |= PERSISTENT
    if message.identified:
        flags |= IDENTIFIED
    if message.expiration_ms != NO_EXPIRATION:
        write_with_word(out, kind, flags, envelope_no, number, message, message.expiration_ms)
        return
    content = message.content
    size: i64 = MESSAGE_HEAD_BYTES + len(content)
    write_i64_be(out, size << 32 | kind << 24 | flags << 16 | envelope_no)
    write_i64_be(out, number << 32 | message.frame_bytes_max)
    write_i64_be(out, message.priority << 48 | message.channel << 32 | message.body_bytes)
    out.write(content)


def write_with_word(
    out: BytesWriter, kind: i64, flags: i64, envelope_no: i64, number: i64, message: Message, word: i64
) -> None:
    content = message.content
    size: i64 = MESSAGE_HEAD_BYTES + 8 + len(content)
    write_i64_be(out, size << 32 | kind << 24 | (flags | KINDS_WITH_WORD) << 16 | envelope_no)
    write_i64_be(out, number << 32 | message.frame_bytes_max)
    write_i64_be(out, message.priority << 48 | message.channel << 32 | message.body_bytes)
    write_i64_be(out, word)
    out.write(content)


@final
class RecordReader:
    """Steps through the records of one link's input."""

    def __init__(self) -> None:
        self.data: bytes = b""
        # the current record, which `next()` found; its arguments begin at `start`
        self.kind: i64 = 0
        self.flags: i64 = 0
        self.envelope_no: i64 = 0
        self.start: i64 = 0
        self.end: i64 = 0
        # of a message
        self.number: i64 = 0
        self.word: i64 = 0
        # the parts of an incomplete record, which are copied when it is complete
        self._pending: list[memoryview] = []
        self._pending_bytes: i64 = 0
        self._wanted: i64 = 0

    def feed(self, data: bytes) -> None:
        """Add the bytes of one event; all complete records of the last one must have been stepped through."""
        if self._pending_bytes != 0:
            self._pending.append(memoryview(data))
            self._pending_bytes += len(data)
            if self._pending_bytes < self._wanted:
                return
            data = b"".join(self._pending)
            self._pending = []
            self._pending_bytes = 0
        self.data = data
        self.end = 0

    def next(self) -> bool:
        """Step to the next complete record; False when more bytes are needed."""
        data = self.data
        at: i64 = self.end
        have: i64 = len(data) - at
        if have < HEAD_BYTES:
            return self._await(have, HEAD_BYTES)
        head: i64 = read_i64_be(data, at)
        size: i64 = head >> 32
        if size < HEAD_BYTES or size > RECORD_BYTES_MAX:
            raise PeerFault(f"a record of {size} bytes")
        if have < size:
            return self._await(have, size)
        self.kind = (head >> 24) & 0xFF
        self.flags = (head >> 16) & 0xFF
        self.envelope_no = head & 0xFFFF
        self.start = at + HEAD_BYTES
        self.end = at + size
        return True

    def message(self, envelope: Envelope) -> Message:
        """The message in this record; `number` and `word` are set, too."""
        data = self.data
        at: i64 = self.start + 16
        if self.flags & KINDS_WITH_WORD:
            at += 8
        if at > self.end:
            raise PeerFault("a message is cut short")
        numbers: i64 = read_i64_be(data, self.start)
        facts: i64 = read_i64_be(data, self.start + 8)
        self.number = numbers >> 32
        self.word = NO_EXPIRATION
        if self.flags & KINDS_WITH_WORD:
            self.word = read_i64_be(data, self.start + 16)
        body_bytes: i64 = facts & 0xFFFFFFFF
        check_content(data, at, self.end, body_bytes)
        message = Message(
            envelope,
            data[at : self.end],
            (facts >> 32) & 0xFFFF,
            body_bytes,
            numbers & 0xFFFFFFFF,
            self.flags & PERSISTENT != 0,
            (facts >> 48) & 0xFF,
            self.word,
        )
        message.identified = self.flags & IDENTIFIED != 0
        return message

    def _await(self, have: i64, wanted: i64) -> bool:
        if have > 0:
            self._pending.append(memoryview(self.data)[self.end :])
            self._pending_bytes = have
            self._wanted = wanted
        self.data = b""
        self.end = 0
        return False


def check_content(data: bytes, at: i64, end: i64, body_bytes: i64) -> None:
    """Raise unless `data[at:end]` is a content header frame and body frames with this many bytes in all."""
    kind = HEADER
    while True:
        if end - at < FRAME_OVERHEAD:
            raise PeerFault("content is cut short")
        word: i64 = read_i64_be(data, at)
        size: i64 = (word >> 8) & 0xFFFFFFFF
        after: i64 = at + size + FRAME_OVERHEAD
        if (word >> 56) & 0xFF != kind or after > end or data[after - 1] != FRAME_END:
            raise PeerFault("content is not made of frames")
        if kind == BODY:
            body_bytes -= size
        elif size < 14:
            raise PeerFault("a content header is cut short")
        at = after
        kind = BODY
        if at == end:
            break
    if body_bytes != 0:
        raise PeerFault("content is not as long as it says")


ENVELOPES_MAX: Final[i64] = 4096
COPY_KEYS_MAX: Final[i64] = 1 << 20


@final
class EnvelopeWriter:
    """Numbers envelopes, and defines them as they come."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._last: Envelope | None = None
        self._last_no: i64 = 0

    def number(self, out: BytesWriter, envelope: Envelope) -> i64:
        """The number of an envelope, which is defined first if it is new."""
        if envelope is self._last:
            return self._last_no
        key = envelope.tail
        if envelope.copy_keys:
            copies = [copy.encode("utf-8", "surrogateescape") for copy in envelope.copy_keys]
            key += b"".join([bytes([len(copy)]) + copy for copy in copies])
        found = self._numbers.get(key)
        number: i64 = self._define(out, envelope, key) if found is None else i64(found)
        self._last = envelope
        self._last_no = number
        return number

    def _define(self, out: BytesWriter, envelope: Envelope, key: bytes) -> i64:
        if len(self._numbers) >= ENVELOPES_MAX:
            self._numbers = {}
        number: i64 = len(self._numbers)
        self._numbers[key] = int(number)
        payload = BytesWriter()
        write_longlong(payload, int(number))
        payload.write(envelope.tail)
        write_longlong(payload, len(envelope.copy_keys))
        for copy in envelope.copy_keys:
            write_shortstr(payload, copy)
        write_text(out, ENVELOPE, 0, payload.getvalue())
        return number


@final
class EnvelopeTable:
    """The envelopes of the other node's numbers."""

    def __init__(self) -> None:
        self._envelopes: list[Envelope] = []

    def define(self, arguments: ArgumentReader) -> None:
        number = arguments.longlong()
        exchange, routing_key = arguments.shortstr(), arguments.shortstr()
        count: i64 = arguments.longlong()
        if count < 0 or count > COPY_KEYS_MAX:
            raise PeerFault(f"an envelope with {count} copies")
        copy_keys: list[str] = []
        while len(copy_keys) < count:
            copy_keys.append(arguments.shortstr())
        if number == 0:
            self._envelopes = []
        if number != len(self._envelopes) or number >= ENVELOPES_MAX:
            raise PeerFault(f"envelope {number} is out of order")
        self._envelopes.append(Envelope(exchange, routing_key, copy_keys))

    def of(self, reader: RecordReader) -> Envelope:
        """The envelope of the current message."""
        number = reader.envelope_no
        if number >= len(self._envelopes):
            raise PeerFault(f"envelope {number} is not defined")
        return self._envelopes[number]


PIECE_BYTES_MIN: Final[i64] = 4096
"""Encoded bytes are copied into the output if they are fewer than this; others are sent as separate pieces."""


@final
class LinkOutput:
    """One direction of one link."""

    def __init__(self) -> None:
        # pieces, and the records behind them
        self._pieces: list[bytes] = []
        self._out: BytesWriter = BytesWriter()
        # the bytes of the pieces
        self._apart_bytes: i64 = 0
        self._envelopes: EnvelopeWriter = EnvelopeWriter()
        # acks that are not written yet; none if the first is 0
        self._acked_first: i64 = 0
        self._acked_last: i64 = 0

    def any(self) -> bool:
        return len(self._out) > 0 or len(self._pieces) > 0 or self._acked_first != 0

    def size_bytes(self) -> i64:
        return len(self._out) + self._apart_bytes

    # -- writing

    def writer(self) -> BytesWriter:
        """Where to write the next record."""
        if self._acked_first != 0:
            words = [int(self._acked_first), int(self._acked_last)]
            self._acked_first = 0
            write_words(self._out, ACKED, 0, words)
        return self._out

    def message(self, kind: i64, flags: i64, number: i64, message: Message) -> None:
        out = self.writer()
        write_message(out, kind, flags, self._envelopes.number(out, message.envelope), number, message)

    def message_with_word(self, kind: i64, flags: i64, number: i64, message: Message, word: i64) -> None:
        out = self.writer()
        write_with_word(out, kind, flags, self._envelopes.number(out, message.envelope), number, message, word)

    def replication(self, head: bytes, data: bytes) -> None:
        """A message between members of a replica set."""
        out = self.writer()
        begin(out, REPLICATION, 0, HEAD_BYTES + len(head) + len(data))
        out.write(head)
        if len(data) < PIECE_BYTES_MIN:
            out.write(data)
        else:
            self._pieces.append(out.getvalue())
            self._pieces.append(data)
            self._apart_bytes += len(data)
            self._out = BytesWriter()

    def ack(self, number: i64) -> None:
        """A delivery was acked."""
        if self._acked_first != 0:
            if number == self._acked_last + 1:
                self._acked_last = number
                return
            self.writer()
        self._acked_first = number
        self._acked_last = number

    # -- what was gathered

    def take(self) -> list[bytes]:
        """Take the whole output, in order."""
        data = self.writer().getvalue()
        pieces, self._pieces = self._pieces, []
        if data:
            pieces.append(data)
            self._out = BytesWriter()
        self._apart_bytes = 0
        return pieces
