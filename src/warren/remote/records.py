"""What goes over a link: records, each with its size before it.

::

    0        4      5       6          8                                        size
    | size   | kind | flags | envelope | words of 64 bits, then strings or content |

`size` counts the whole record. A *message* (PUBLISH, DELIVER, GOT, REPLY) has `number << 32 | frame_bytes_max`, then
`priority << 48 | channel << 32 | body_bytes`, one word more if `WITH_WORD` is among its flags, and its content as
`model.message` has it. All other records are read argument by argument, with `wire.values`.

Invariants: `RecordReader` refuses a size that no record has before it awaits the bytes, buffers at most one incomplete
record, and joins it once; content that was taken for a message is whole frames, whatever the other node sent.

Not here: what records mean (`remote.link`, `remote.hosting`), the numbers of envelopes (`remote.envelopes`).
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i64_be, write_i64_be
from mypy_extensions import i64

from warren.errors import PeerFault
from warren.model.message import NO_EXPIRATION, Envelope, Message
from warren.wire.frames import BODY, FRAME_END, FRAME_OVERHEAD, HEADER

# both ways
ENVELOPE: Final[i64] = 1
NOTICE: Final[i64] = 2
REPLY_TO: Final[i64] = 3
REPLY: Final[i64] = 4
RING: Final[i64] = 5
"""What the members of a ring tell each other (`mirroring.messages`)."""


# to the home
TO_HOME: Final[i64] = 9
ACKED_LATE: Final[i64] = 9
"""What an earlier master of a mirrored queue delivered, by positions: clients of the other node are done with it."""

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
TAKEN: Final[i64] = 23
PUBLISH_AGAIN: Final[i64] = 24
"""The message of the last PUBLISH, for another queue."""

LIMIT: Final[i64] = 25
STOP: Final[i64] = 26
REMOVE: Final[i64] = 27
"""Its flags are the conditions (`model.distant`)."""

NEXT: Final[i64] = 28
"""How the other node counts what it publishes next to a mirrored queue."""

DESERTED: Final[i64] = 29
"""Clients of the other node consumed from a mirrored queue, under an earlier master perhaps, and none does any more."""

# from the home
FROM_HOME: Final[i64] = 30
SETTLED: Final[i64] = 30
REFUSED: Final[i64] = 31
DELIVER: Final[i64] = 32
GONE: Final[i64] = 33
COUNTED: Final[i64] = 34
GOT: Final[i64] = 35
FAULT: Final[i64] = 36
OPENED: Final[i64] = 37
"""A mirrored queue is open here, how much of what the other node sent it has, and in which epoch."""

HELD: Final[i64] = 38
"""Up to which count the master of a mirrored queue holds what the other node sent, if that is enough for a confirm."""

POSITION: Final[i64] = 39
"""Where that stands in a mirrored queue which is got next."""

# flags of messages
WITH_WORD: Final[i64] = 1
PERSISTENT: Final[i64] = 2
REDELIVERED: Final[i64] = 4
UNCOUNTED: Final[i64] = 8
"""No channel published it, so it does not count as published."""

AT_POSITION: Final[i64] = 16
"""Its word says where it stands in a mirrored queue."""

IDENTIFIED: Final[i64] = 32
"""A publisher that repeats it is known by its headers (`model.identity`)."""

# of a consumer that is gone
FOR_GOOD: Final[i64] = 1
"""Its queue cannot serve it, and goes on without it."""

# of a queue that is defined
MIRRORED: Final[i64] = 1

# flags of questions
NO_ACK: Final[i64] = 1
EXCLUSIVE: Final[i64] = 2

HEAD_BYTES: Final[i64] = 8
MESSAGE_HEAD_BYTES: Final[i64] = 24
RECORD_BYTES_MAX: Final[i64] = 1 << 30
NUMBER_MAX: Final[i64] = (1 << 31) - 1
"""Queues, consumers and tickets of one link are counted up to this; then the link has lived long enough."""


def begin(out: BytesWriter, kind: i64, flags: i64, size: i64) -> None:
    """The head of a record that has `size` octets in all."""
    write_i64_be(out, size << 32 | kind << 24 | flags << 16)


def write_words(out: BytesWriter, kind: i64, flags: i64, words: list[int]) -> None:
    """A whole record of words alone."""
    begin(out, kind, flags, HEAD_BYTES + 8 * len(words))
    for word in words:
        write_i64_be(out, word)


def write_text(out: BytesWriter, kind: i64, flags: i64, payload: bytes) -> None:
    """A whole record whose arguments were written elsewhere."""
    begin(out, kind, flags, HEAD_BYTES + len(payload))
    out.write(payload)


def write_message(out: BytesWriter, kind: i64, flags: i64, envelope_no: i64, number: i64, message: Message) -> None:
    """A message as it is published; how long it lives goes with it."""
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


def write_message_head(out: BytesWriter, kind: i64, flags: i64, number: i64, word: i64) -> None:
    """What is to be known of a message that reaches its reader by another way."""
    write_i64_be(out, (HEAD_BYTES + 16) << 32 | kind << 24 | flags << 16)
    write_i64_be(out, number)
    write_i64_be(out, word)


def write_with_word(
    out: BytesWriter, kind: i64, flags: i64, envelope_no: i64, number: i64, message: Message, word: i64
) -> None:
    content = message.content
    size: i64 = MESSAGE_HEAD_BYTES + 8 + len(content)
    write_i64_be(out, size << 32 | kind << 24 | (flags | WITH_WORD) << 16 | envelope_no)
    write_i64_be(out, number << 32 | message.frame_bytes_max)
    write_i64_be(out, message.priority << 48 | message.channel << 32 | message.body_bytes)
    write_i64_be(out, word)
    out.write(content)


@final
class RecordReader:
    """Steps through the records of one link's input."""

    def __init__(self) -> None:
        self.data: bytes = b""
        # the record `next()` stopped at; its arguments begin at `start`
        self.kind: i64 = 0
        self.flags: i64 = 0
        self.envelope_no: i64 = 0
        self.start: i64 = 0
        self.end: i64 = 0
        # of a message
        self.number: i64 = 0
        self.word: i64 = 0
        self._pending: list[bytes] = []
        self._pending_bytes: i64 = 0
        self._wanted: i64 = 0

    def feed(self, data: bytes) -> None:
        """Add one read; all complete records of the one before were stepped through."""
        if self._pending_bytes != 0:
            self._pending.append(data)
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

    def message_head(self) -> None:
        """The message in this record is elsewhere; `number` and `word` are set."""
        self.number = read_i64_be(self.data, self.start)
        self.word = read_i64_be(self.data, self.start + 8)

    def message(self, envelope: Envelope) -> Message:
        """The message in this record; `number` and `word` are set, too."""
        data = self.data
        at: i64 = self.start + 16
        if self.flags & WITH_WORD:
            at += 8
        if at > self.end:
            raise PeerFault("a message is cut short")
        numbers: i64 = read_i64_be(data, self.start)
        facts: i64 = read_i64_be(data, self.start + 8)
        self.number = numbers >> 32
        self.word = NO_EXPIRATION
        if self.flags & WITH_WORD:
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
            self._pending.append(self.data[self.end :] if self.end else self.data)
            self._pending_bytes = have
            self._wanted = wanted
        self.data = b""
        self.end = 0
        return False


def check_content(data: bytes, at: i64, end: i64, body_bytes: i64) -> None:
    """Raise unless `data[at:end]` is a content header frame and body frames with so many bytes in all."""
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
