"""The output of one connection: bytes, log lines, and the encoding of deliveries.

`OutputBuffer` gathers the bytes of a turn. A large chunk is not copied into the buffer: it is sent by itself, between
the bytes written before it and those written after it.

`OutputGate` holds bytes that must not be sent before a batch is on disk. A gate closes in one turn and opens when that
turn's batch is flushed. Bytes written in that turn and later wait behind it, so that the order of the output stays.
Gates open in the order in which they closed. Invariants: the held bytes are whole frames, oldest first, each chunk with
the number of the last gate before it; they count as held by the node.

`ConnectionLog` bounds the log lines of a client to `LOG_ENTRIES_PER_TURN` a turn; one more line has the count of the
rest. Internal connections log nothing: their faults are reported to the code that uses them.

`DeliveryWriter` encodes basic.deliver. The bytes before the delivery tag depend only on the length of exchange name and
routing key, so they are kept; the content follows verbatim, with the channel number patched.

Not here: when output is sent (`broker.sessions.connection`), which answers wait for the disk
(`broker.sessions.declares`, `broker.sessions.tx_methods`), delivery tags (`broker.sessions.unacked`).
"""

from typing import Final, final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from warren.broker.model.events import ConnectionOpened
from warren.broker.model.message import Message
from warren.broker.model.turn import SpareBuffers, Turn
from warren.wire.frames import reframe, write_channel, write_on_channel
from warren.wire.properties import edit_headers

SEPARATE_CHUNK_BYTES: Final[i64] = 262_144
"""A chunk of this size is sent without being copied into the buffer."""


NOTHING_WRITTEN: Final = BytesWriter()
"""The buffer of a connection that has written nothing in this turn."""


@final
class OutputBuffer:
    """The bytes of one turn, in order. Between turns it holds no large buffer."""

    def __init__(self, buffers: SpareBuffers) -> None:
        self.writer: BytesWriter = NOTHING_WRITTEN
        # the bytes in front of those in `writer`
        self.pieces_bytes: i64 = 0
        self._pieces: list[bytes] = []
        self._buffers: SpareBuffers = buffers

    def begin(self) -> None:
        """The first bytes of a turn follow."""
        self.writer = self._buffers.take()

    def add_apart(self, data: bytes) -> None:
        """Add a large chunk without copying it."""
        self._pieces.append(self.writer.getvalue())
        self._pieces.append(data)
        self.pieces_bytes += len(self.writer) + len(data)
        self.writer.truncate(0)

    def take(self) -> list[bytes]:
        """All chunks, at least one; the buffer is empty afterwards."""
        pieces, self._pieces = self._pieces, []
        self.pieces_bytes = 0
        pieces.append(self.writer.getvalue())
        if self.writer is not NOTHING_WRITTEN:
            self._buffers.give_back(self.writer)
            self.writer = NOTHING_WRITTEN
        return pieces

    def check(self) -> None:
        held = sum([len(piece) for piece in self._pieces])
        assert self.pieces_bytes == held, f"{self.pieces_bytes} bytes are counted in front of the writer, {held} are"
        assert self.writer is not NOTHING_WRITTEN or not self._pieces, "chunks wait in a buffer that has not begun"


@final
class OutputGate:
    """The bytes of one connection that wait for the disk."""

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
        assert self._opened_no <= self._shut_no, "a gate opens once"
        self.closed = self._opened_no < self._shut_no

    def passed(self, data: bytes) -> bytes:
        """The bytes that may be sent at the end of a turn in which `data` was written."""
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
        """Discard the held bytes: the socket is gone."""
        self._count(-self.kept_bytes)
        self._pieces = []
        self._behind = []

    def check(self) -> None:
        held = sum([len(piece) for piece in self._pieces])
        assert self.kept_bytes == held, f"{self.kept_bytes} bytes are counted as held, {held} are"
        assert len(self._pieces) == len(self._behind), "a chunk has no gate"
        assert self._behind == sorted(self._behind), "chunks are out of order"
        assert self.closed == (self._opened_no < self._shut_no), "the gate is open before its flush"

    def _count(self, size: i64) -> None:
        self.kept_bytes += size
        self._turn.held_bytes += size


LOG_ENTRIES_PER_TURN: Final = 10


@final
class ConnectionLog:
    """The log lines of one connection in one turn."""

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
"""The consumer argument that asks for the epoch of a mirrored queue, and the header that has it."""


@final
class DeliveryWriter:
    """Encodes basic.deliver for one consumer."""

    def __init__(self, channel: i64, consumer_tag: str) -> None:
        self._channel: i64 = channel
        self._consumer_tag: str = consumer_tag
        self._prefix: bytes = b""
        self._prefix_tail_bytes: i64 = -1

    def write(self, out: BytesWriter, message: Message, tag: i64, redelivered: bool) -> None:
        """Write the method frame, which stands before the content."""
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
    """The content of a delivery, a basic.get-ok or a basic.return."""
    if message.frame_bytes_max > frame_max:
        out.write(reframe(message.content, channel, frame_max))
    elif message.channel == channel:
        out.write(message.content)
    else:
        write_on_channel(out, message.content, channel)


def whole_content(message: Message, channel: i64, frame_max: i64) -> bytes:
    """The content of a message for this channel and frame size, as bytes."""
    if message.channel == channel and message.frame_bytes_max <= frame_max:
        return message.content
    out = BytesWriter()
    write_message(out, message, channel, frame_max)
    return out.getvalue()


def with_epoch(message: Message, epoch: i64) -> Message:
    """The message with a header that has the epoch of its mirrored queue."""
    return message.with_header_payload(edit_headers(message.header_payload(), [], {EPOCH: int(epoch)}))
