"""How a delivery is written.

The bytes of `basic.deliver` up to the delivery tag are the same for every message whose exchange and routing key have
the same length, so they are kept; the content follows verbatim with the channel number patched.

Not here: who gets which message (`queue.consumers`), delivery tags (`session.ledger`).
"""

from typing import Final, final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from warren.model.message import Message
from warren.wire.frames import reframe, write_channel, write_content
from warren.wire.header_edits import edit_headers

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
