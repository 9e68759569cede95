"""A message as it travels: one opaque slice of wire bytes plus the few facts the broker itself acts on.

`content` is the content header frame and the body frames exactly as the publisher sent them, channel number included.
A delivery copies it verbatim and patches the channel number, so that a body is never parsed, joined or re-framed on
the ordinary road.

Invariants: a `Message` never changes after it was accepted; whatever rewrites properties (dead-lettering, BCC) makes
a new one. `frame_bytes_max` bounds every body frame in `content`, so that a consumer that negotiated less gets it
re-framed.

Not here: where a message stands in a queue (`Entry` below), how it is written to a consumer (`broker.sessions.output`).
"""

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i32, i64, mypyc_attr

from warren.broker.model.journal import SegmentExtent
from warren.wire.field_tables import Table
from warren.wire.frames import HEADER, write_frame
from warren.wire.properties import Properties, decode_properties

NEVER: Final[i64] = 0
"""An `expires_at_ms` that is not a deadline."""

NO_EXPIRATION: Final[i64] = -1
"""An `expiration_ms` of a message that carries none."""


@final
@mypyc_attr(acyclic=True)
class Envelope:
    """Exchange and routing key as published, with the bytes that end every delivery of it."""

    def __init__(self, exchange: str, routing_key: str, copy_keys: list[str] | None = None) -> None:
        self.exchange: str = exchange
        self.routing_key: str = routing_key
        # the further keys that CC and BCC named
        self.copy_keys: list[str] = [] if copy_keys is None else copy_keys
        exchange_bytes = exchange.encode("utf-8", "surrogateescape")
        key_bytes = routing_key.encode("utf-8", "surrogateescape")
        # exchange and routing key as short strings, as they stand at the end of basic.deliver, get-ok and return
        self.tail: bytes = bytes([len(exchange_bytes)]) + exchange_bytes + bytes([len(key_bytes)]) + key_bytes
        # the same with the frame-end octet: one write finishes the method frame of a delivery
        self.tail_and_end: bytes = self.tail + b"\xce"


@final
@mypyc_attr(acyclic=True)
class Message:
    """What was published, once, however many queues hold it."""

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
        # whether its headers have an identity that counts (`broker.model.deduplication`); what is made of it has none
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
        """The body, joined from its frames; for the rare reader that is not a consumer."""
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
    """A message in one queue: its position, its deadline, and what befell it there."""

    def __init__(self, message: Message, position: i64, expires_at_ms: i64) -> None:
        self.message: Message = message
        self.position: i64 = position
        self.expires_at_ms: i64 = expires_at_ms
        self.redelivered: bool = False
        # 32 bits: an entry with them is 64 octets, one line of the cache
        self.delivery_count: i32 = 0
        # where it is counted if it is on disk
        self.extent: SegmentExtent | None = None

    def drop_message(self) -> None:
        """Whoever was given it has it, and nobody else will want it: an ack is all that can follow."""
        self.message = DROPPED


DROPPED: Final = Message(Envelope("", ""), b"", 1, 0, 4096)
"""The message of an entry whose own is not needed any more."""
