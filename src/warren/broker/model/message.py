"""A message: one opaque slice of wire bytes, and the few properties that the broker itself uses.

`content` is the content header frame and the body frames exactly as the publisher sent them, channel number included.
A delivery copies the bytes and patches the channel number, so in general a body is never parsed, joined or re-framed.

Invariants: a `Message` never changes after it was accepted; code that rewrites properties (dead-lettering, BCC) makes
a new one. No body frame in `content` is longer than `frame_bytes_max`; a consumer with a smaller frame_max gets the
content re-framed.

Not here: writing a message to a consumer (`broker.sessions.output`).
"""

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i32, i64, mypyc_attr

from warren.broker.model.journal import SegmentExtent
from warren.wire.field_tables import Table
from warren.wire.frames import HEADER, write_frame
from warren.wire.properties import Properties, decode_properties

NEVER: Final[i64] = 0
"""The `expires_at_ms` of an entry without a deadline."""

NO_EXPIRATION: Final[i64] = -1
"""The `expiration_ms` of a message without an expiration."""


@final
@mypyc_attr(acyclic=True)
class Envelope:
    """Exchange and routing key of a publish, and their bytes at the end of every delivery."""

    def __init__(self, exchange: str, routing_key: str, copy_keys: list[str] | None = None) -> None:
        self.exchange: str = exchange
        self.routing_key: str = routing_key
        # the additional routing keys of the CC and BCC headers
        self.copy_keys: list[str] = [] if copy_keys is None else copy_keys
        exchange_bytes = exchange.encode("utf-8", "surrogateescape")
        key_bytes = routing_key.encode("utf-8", "surrogateescape")
        # exchange and routing key as short strings: the end of basic.deliver, get-ok and return
        self.tail: bytes = bytes([len(exchange_bytes)]) + exchange_bytes + bytes([len(key_bytes)]) + key_bytes
        # the same with the frame-end octet: one write completes the method frame of a delivery
        self.tail_and_end: bytes = self.tail + b"\xce"


@final
@mypyc_attr(acyclic=True)
class Message:
    """A published message; all queues that it was routed to share one object."""

    def __init__(
        self,
        envelope: Envelope,
        content: bytes,
        channel: i64,
        body_bytes: i64,
        frame_bytes_max: i64,
        persistent: bool = False,
        priority: i64 = 0,
        expiration_ms: i64 = NO_EXPIRATION,
    ) -> None:
        self.envelope: Envelope = envelope
        self.content: bytes = content
        self.channel: i64 = channel
        self.body_bytes: i64 = body_bytes
        self.frame_bytes_max: i64 = frame_bytes_max
        self.persistent: bool = persistent
        self.priority: i64 = priority
        self.expiration_ms: i64 = expiration_ms
        # its headers have a publishing identity (`broker.model.deduplication`); messages made from it have none
        self.identified: bool = False

    def header_payload(self) -> bytes:
        """The payload of the content header frame: class, weight, body size, property flags, properties."""
        size = int.from_bytes(self.content[3:7], "big")
        return self.content[7 : 7 + size]

    def properties(self) -> Properties:
        payload = self.header_payload()
        return decode_properties(payload, 0, len(payload))

    def headers(self) -> Table:
        headers = self.properties().headers
        return {} if headers is None else headers

    def with_header_payload(self, payload: bytes) -> "Message":
        """The same message with another content header."""
        body_start = int.from_bytes(self.content[3:7], "big") + 8
        out = BytesWriter()
        write_frame(out, HEADER, self.channel, payload)
        out.write(self.content[body_start:])
        return Message(
            self.envelope,
            out.getvalue(),
            self.channel,
            self.body_bytes,
            self.frame_bytes_max,
            self.persistent,
            self.priority,
            self.expiration_ms,
        )

    def body(self) -> bytes:
        """The body, joined from its frames; deliveries do not need it."""
        content = self.content
        start = 8 + int.from_bytes(content[3:7], "big")
        parts: list[bytes] = []
        while start < len(content):
            size = int.from_bytes(content[start + 3 : start + 7], "big")
            parts.append(content[start + 7 : start + 7 + size])
            start += size + 8
        return b"".join(parts)


@final
@mypyc_attr(acyclic=True)
class Entry:
    """A message in one queue: its position, its deadline, and its delivery state."""

    def __init__(self, message: Message, position: i64, expires_at_ms: i64) -> None:
        self.message: Message = message
        self.position: i64 = position
        self.expires_at_ms: i64 = expires_at_ms
        self.redelivered: bool = False
        # with 32 bits an entry has 64 octets, one cache line
        self.delivery_count: i32 = 0
        # the extent that counts it, if it is on disk
        self.extent: SegmentExtent | None = None

    def drop_message(self) -> None:
        """Release the message: the consumer has it, and only an ack can follow."""
        self.message = DROPPED


DROPPED: Final = Message(Envelope("", ""), b"", 1, 0, 4096)
"""The message of an entry after `drop_message`."""
