"""Publishes as bytes, many of them at little cost.

The frames of a publish are

    method frame | header frame to its weight | body size | flags, properties, end | body frame | ...

and all but the size and the body is the same for messages with the same exchange, key and properties. So the method
frame is remembered for each exchange and key, and the properties are encoded once for each call.

Invariant: what cannot be encoded raises a `ValueError` before an octet of its message is written.

Not here: numbering, the window (`machine.channel`).
"""

from typing import Final, final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from warren.wire.frames import BODY, FRAME_OVERHEAD, write_frame
from warren.wire.methods import BasicPublish, encode_method
from warren.wire.properties import Properties, encode_properties

METHODS_MAX: Final = 4096
"""How many exchanges and keys are remembered."""

TAIL_AT: Final[i64] = 12
"""Where flags and properties stand."""


@final
class Message:
    """What is to be published. A routing key of its own takes the place of the one that is given with the call."""

    def __init__(self, body: bytes, properties: Properties | None = None, routing_key: str | None = None) -> None:
        self.body: bytes = body
        self.properties: Properties | None = properties
        self.routing_key: str | None = routing_key

    def __repr__(self) -> str:
        return f"<Message of {len(self.body)} bytes>"


def property_tail(properties: Properties | None) -> bytes:
    """Flags and properties, as they stand behind the size in the payload of a header frame."""
    if properties is None:
        return b"\x00\x00"
    return encode_properties(properties)


@final
class PublishWriter:
    """Writes the publishes of one channel."""

    def __init__(self, channel: int, frame_max: int) -> None:
        self._channel: int = channel
        self._payload_max: i64 = frame_max - FRAME_OVERHEAD
        # type and channel, with which a frame begins
        self._header_start: bytes = b"\x02" + channel.to_bytes(2, "big")
        self._body_start: bytes = b"\x03" + channel.to_bytes(2, "big")
        # by exchange, key and whether mandatory: the method frame, and the start of the header frame behind it
        self._methods: dict[tuple[str, str, bool], bytes] = {}

    def write(
        self, out: BytesWriter, exchange: str, routing_key: str, mandatory: bool, tail: bytes, body: bytes
    ) -> None:
        """All frames of one message."""
        method = self._methods.get((exchange, routing_key, mandatory))
        if method is None:
            method = self._encoded(exchange, routing_key, mandatory)
        header_bytes: i64 = TAIL_AT + len(tail)
        if header_bytes > self._payload_max:
            raise ValueError(f"properties of {header_bytes} bytes do not fit a frame of {self._payload_max}")
        size: i64 = len(body)
        out.write(method)
        write_i32_be(out, i32(header_bytes))
        write_i32_be(out, 60 << 16)
        write_i64_be(out, size)
        out.write(tail)
        out.append(0xCE)
        if size > self._payload_max:
            self._write_in_parts(out, body)
        elif size > 0:
            out.write(self._body_start)
            write_i32_be(out, i32(size))
            out.write(body)
            out.append(0xCE)

    def _encoded(self, exchange: str, routing_key: str, mandatory: bool) -> bytes:
        method = encode_method(self._channel, BasicPublish(exchange, routing_key, mandatory)) + self._header_start
        if len(self._methods) >= METHODS_MAX:
            self._methods.clear()
        self._methods[(exchange, routing_key, mandatory)] = method
        return method

    def _write_in_parts(self, out: BytesWriter, body: bytes) -> None:
        at: i64 = 0
        while at < len(body):
            write_frame(out, BODY, self._channel, body[at : at + self._payload_max])
            at += self._payload_max
