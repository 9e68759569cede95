"""What one connection has written in a turn.

Most of it is small and gathers in one buffer. Something large is not copied into that: it leaves by itself, as it is,
between what was written before it and what comes behind.

Not here: when it leaves (`broker.sessions.connection`), what must wait for the disk (`broker.sessions.output`).

Output that may not leave before the disk has what it speaks of.

A gate is shut in one turn and opens when that turn's batch is on disk. What is written in that turn and in later ones
waits behind it, so that the order of the output stands. Gates open in the order they were shut: what was written
between two of them leaves with the first.

Invariants: what is kept is whole frames, oldest first, each piece with the number of the last gate before it; its bytes
count as held by the node.

Not here: which answers wait (`broker.sessions.declares`, `broker.sessions.transactions`).

What one connection has written into the log.

Invariant: a client that gives cause for many lines in a turn gets `NOTES_A_TURN`, and the rest counted in one. A link
of the node to itself is nobody's client: what goes wrong there is answered to whoever uses it.

Not here: where notes go (`node.logs`).

How a delivery is written.

The bytes of `basic.deliver` up to the delivery tag are the same for every message whose exchange and routing key have
the same length, so they are kept; the content follows verbatim with the channel number patched.

Not here: who gets which message (`broker.queues.consumers`), delivery tags (`broker.sessions.unacked`).
"""

from typing import Final, final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from warren.broker.model.events import ConnectionOpened
from warren.broker.model.message import Message
from warren.broker.model.turn import Turn
from warren.wire.frames import reframe, write_channel, write_content
from warren.wire.properties import edit_headers

SEPARATE_CHUNK_BYTES: Final[i64] = 262_144
"""What is as large as this is large."""


@final
class OutputBuffer:
    """Bytes in their order."""

    def __init__(self) -> None:
        self.writer: BytesWriter = BytesWriter()
        self._pieces: list[bytes] = []
        self._pieces_bytes: i64 = 0

    def size(self) -> i64:
        return self._pieces_bytes + len(self.writer)

    def add_apart(self, data: bytes) -> None:
        """Something large."""
        self._pieces.append(self.writer.getvalue())
        self._pieces.append(data)
        self._pieces_bytes += len(self.writer) + len(data)
        self.writer = BytesWriter()

    def take(self) -> list[bytes]:
        """All of it, at least one piece; nothing is left."""
        pieces, self._pieces = self._pieces, []
        self._pieces_bytes = 0
        pieces.append(self.writer.getvalue())
        if len(self.writer) > 0:
            self.writer = BytesWriter()
        return pieces


@final
class OutputGate:
    """What one connection's client must not read yet."""

    def __init__(self, turn: Turn) -> None:
        self.closed: bool = False
        self.kept_bytes: i64 = 0
        self._turn: Turn = turn
        self._shut_no: i64 = 0
        self._opened_no: i64 = 0
        self._pieces: list[bytes] = []
        self._behind: list[int] = []

    def shut(self) -> None:
        self._shut_no += 1
        self.closed = True

    def open_oldest(self) -> None:
        self._opened_no += 1
        self.closed = self._opened_no < self._shut_no

    def passed(self, data: bytes) -> bytes:
        """What may leave at the end of a turn in which `data` was written."""
        if not self._pieces and not self.closed:
            return data
        if data:
            self._pieces.append(data)
            self._behind.append(int(self._shut_no))
            self._count(len(data))
        free = 0
        while free < len(self._behind) and self._behind[free] <= self._opened_no:
            free += 1
        leaving = b"".join(self._pieces[:free])
        self._count(-len(leaving))
        del self._pieces[:free]
        del self._behind[:free]
        return leaving

    def drop(self) -> None:
        """There is nobody left to read it."""
        self._count(-self.kept_bytes)
        self._pieces = []
        self._behind = []

    def _count(self, size: i64) -> None:
        self.kept_bytes += size
        self._turn.held_bytes += size


LOG_ENTRIES_PER_TURN: Final = 10


@final
class ConnectionLog:
    """One connection's notes of one turn."""

    def __init__(self, opened: ConnectionOpened, turn: Turn) -> None:
        self._opened: ConnectionOpened = opened
        self._turn: Turn = turn
        self._count: int = 0

    def add(self, level: str, name: str, fields: dict[str, object]) -> None:
        if self._opened.internal:
            return
        self._count += 1
        if self._count <= LOG_ENTRIES_PER_TURN:
            self._put(level, name, fields)

    def end_turn(self) -> None:
        if self._count > LOG_ENTRIES_PER_TURN:
            self._put("warning", "notes.suppressed", {"count": self._count - LOG_ENTRIES_PER_TURN})
        self._count = 0

    def _put(self, level: str, name: str, fields: dict[str, object]) -> None:
        facts: dict[str, object] = {
            "connection": self._opened.connection_id,
            "peer": f"{self._opened.peer_host}:{self._opened.peer_port}",
        }
        facts.update(fields)
        self._turn.note(level, name, facts)


BASIC_DELIVER: Final[i32] = 60 << 16 | 60
EPOCH: Final = "x-warren-epoch"
"""What a consumer asks for with an argument of this name, and a delivery tells in a header."""


@final
class DeliveryWriter:
    """Writes basic.deliver for one consumer."""

    def __init__(self, channel: i64, consumer_tag: str) -> None:
        self._channel: i64 = channel
        self._consumer_tag: str = consumer_tag
        self._prefix: bytes = b""
        self._prefix_tail_bytes: i64 = -1

    def write(self, out: BytesWriter, message: Message, tag: i64, redelivered: bool, frame_max: i64) -> None:
        self.write_method(out, message, tag, redelivered)
        write_message(out, message, self._channel, frame_max)

    def write_method(self, out: BytesWriter, message: Message, tag: i64, redelivered: bool) -> None:
        """What stands before the content."""
        tail = message.envelope.tail_and_end
        tail_bytes: i64 = len(tail)
        if tail_bytes != self._prefix_tail_bytes:
            self._remember_prefix(tail_bytes)
        out.write(self._prefix)
        write_i64_be(out, tag)
        out.append(1 if redelivered else 0)
        out.write(tail)

    def _remember_prefix(self, tail_bytes: i64) -> None:
        tag = self._consumer_tag.encode("utf-8", "surrogateescape")
        out = BytesWriter()
        out.append(1)
        write_channel(out, self._channel)
        # class and method, consumer tag, delivery tag, redelivered, exchange and routing key without the frame end
        write_i32_be(out, i32(4 + 1 + len(tag) + 8 + 1 + tail_bytes - 1))
        write_i32_be(out, BASIC_DELIVER)
        out.append(len(tag))
        out.write(tag)
        self._prefix = out.getvalue()
        self._prefix_tail_bytes = tail_bytes


def write_message(out: BytesWriter, message: Message, channel: i64, frame_max: i64) -> None:
    """The content of a delivery, a get or a return."""
    if message.frame_bytes_max > frame_max:
        out.write(reframe(message.content, channel, frame_max))
    else:
        write_content(out, message.content, message.channel, channel)


def whole_content(message: Message, channel: i64, frame_max: i64) -> bytes:
    """The same, by itself."""
    if message.channel == channel and message.frame_bytes_max <= frame_max:
        return message.content
    out = BytesWriter()
    write_message(out, message, channel, frame_max)
    return out.getvalue()


def with_epoch(message: Message, epoch: i64) -> Message:
    """The message with a header that says in which epoch of a mirrored queue it is delivered."""
    return message.with_header_payload(edit_headers(message.header_payload(), [], {EPOCH: int(epoch)}))
