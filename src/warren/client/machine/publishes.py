"""Publishes as bytes, their confirms, and their returns.

**Frames.** The frames of a publish are

    method frame | header frame to its weight | body size | flags, properties, end | body frame | ...

and only the size and the body differ between messages with the same exchange, key and properties. So `PublishWriter`
caches the method frame by exchange and key, and the properties are encoded once for each call. A message that cannot be
encoded raises a `ValueError` before its first byte is written.

**Confirms.** Publishes are numbered from 1. A number is *decided* when the broker acks or nacks it, alone or with a
`multiple`. Every number up to `low` is decided, and `_apart` has the decided numbers above it. A number is decided
once; a repeated confirm is ignored. So each number is in exactly one range that `take` returns.

**Returns.** A `basic.return` carries the message without its number. It belongs to the oldest undecided mandatory
publish with the same exchange, routing key, properties and body. Two equal publishes can be confused only if one was
routed and a later one was not, and then their contents are equal anyway. A broker may change the properties: it removes
`BCC`, and interceptors may change more. So if no publish is equal, the oldest with the same route and body is taken, or
else the oldest with the same route. `MandatoryPublishes` holds only mandatory publishes that are undecided and not
returned.

Not here: numbering and the window (`machine.channel`).
"""

from collections import deque
from typing import Final, final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from warren.errors import UNEXPECTED_FRAME, ConnectionFault, InvariantBroken
from warren.wire.frames import BODY, FRAME_OVERHEAD, write_frame
from warren.wire.methods import BasicPublish, encode_method
from warren.wire.properties import Properties, encode_properties

METHODS_MAX: Final = 4096
"""The size of the cache of method frames."""

TAIL_AT: Final[i64] = 12
"""The offset of flags and properties in the payload of a header frame."""


@final
class Message:
    """A message to publish. Its own routing key replaces the routing key of the call."""

    def __init__(self, body: bytes, properties: Properties | None = None, routing_key: str | None = None) -> None:
        self.body: bytes = body
        self.properties: Properties | None = properties
        self.routing_key: str | None = routing_key

    def __repr__(self) -> str:
        return f"<Message of {len(self.body)} bytes>"


def property_tail(properties: Properties | None) -> bytes:
    """Flags and properties, as they follow the body size in the payload of a header frame."""
    if properties is None:
        return b"\x00\x00"
    return encode_properties(properties)


@final
class PublishWriter:
    """Writes the publishes of one channel."""

    def __init__(self, channel: int, frame_max: int) -> None:
        self._channel: int = channel
        self._payload_max: i64 = frame_max - FRAME_OVERHEAD
        # the first bytes of a frame: type and channel
        self._header_start: bytes = b"\x02" + channel.to_bytes(2, "big")
        self._body_start: bytes = b"\x03" + channel.to_bytes(2, "big")
        # by exchange, key and mandatory: the method frame, and the first bytes of the header frame
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


@final
class ConfirmRange:
    """Publishes with numbers from `first` to `last` that were all acked, or all nacked."""

    def __init__(self, first: int, last: int, acked: bool) -> None:
        self.first: int = first
        self.last: int = last
        self.acked: bool = acked

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfirmRange) and (self.first, self.last, self.acked) == (
            other.first,
            other.last,
            other.acked,
        )

    def __hash__(self) -> int:
        return hash((self.first, self.last, self.acked))

    def __repr__(self) -> str:
        return f"ConfirmRange({self.first}, {self.last}, {'acked' if self.acked else 'nacked'})"


@final
class ConfirmLedger:
    """Numbers publishes, and records their confirms."""

    def __init__(self) -> None:
        self.last_no: i64 = 0
        self.low: i64 = 0
        self._apart: set[int] = set()
        self._ranges: list[ConfirmRange] = []

    def unconfirmed(self) -> i64:
        return self.last_no - self.low - len(self._apart)

    def decide(self, number: i64, multiple: bool, acked: bool) -> None:
        """The broker's ack or nack; with `multiple`, 0 means all."""
        if multiple and number == 0:
            number = self.last_no
        if number > self.last_no or number < 0 or (number == 0 and not multiple):
            raise ConnectionFault(UNEXPECTED_FRAME, f"publish {number} was confirmed and never sent")
        if number <= self.low:
            return
        if multiple:
            self._decide_up_to(number, acked)
        elif number == self.low + 1:
            self._add(number, number, acked)
            self.low = number
        elif int(number) not in self._apart:
            self._add(number, number, acked)
            self._apart.add(int(number))
        self._close_up()

    def take(self) -> list[ConfirmRange]:
        """The ranges decided since the last call."""
        ranges = self._ranges
        self._ranges = []
        return ranges

    def check(self) -> None:
        if not 0 <= self.low <= self.last_no:
            raise InvariantBroken(f"{self.low} of {self.last_no} publishes are decided")
        if self._apart and not (self.low + 1 < min(self._apart) and max(self._apart) <= self.last_no):
            raise InvariantBroken("a publish is decided apart that is decided anyway, or was never sent")

    def _decide_up_to(self, number: i64, acked: bool) -> None:
        first: i64 = self.low + 1
        if self._apart:
            at: i64 = first
            while at <= number:
                if int(at) in self._apart:
                    self._apart.remove(int(at))
                    self._add(first, at - 1, acked)
                    first = at + 1
                at += 1
        self._add(first, number, acked)
        self.low = number

    def _add(self, first: i64, last: i64, acked: bool) -> None:
        if first > last:
            return
        if self._ranges:
            latest = self._ranges[-1]
            if latest.acked == acked and latest.last + 1 == first:
                latest.last = int(last)
                return
        self._ranges.append(ConfirmRange(int(first), int(last), acked))

    def _close_up(self) -> None:
        while self._apart and int(self.low + 1) in self._apart:
            self.low += 1
            self._apart.remove(int(self.low))


MessageFingerprint = tuple[str, str, bytes, bytes]
"""Exchange, routing key, payload of the header frame, body."""


@final
class MandatoryPublishes:
    """The fingerprints of mandatory publishes until they are decided."""

    def __init__(self) -> None:
        # equal publishes, oldest first
        self._numbers: dict[MessageFingerprint, deque[int]] = {}
        self._fingerprints: dict[int, MessageFingerprint] = {}

    def __len__(self) -> int:
        return len(self._fingerprints)

    def sent(self, number: int, fingerprint: MessageFingerprint) -> None:
        self._fingerprints[number] = fingerprint
        numbers = self._numbers.get(fingerprint)
        if numbers is None:
            self._numbers[fingerprint] = deque([number])
        else:
            numbers.append(number)

    def came_back(self, fingerprint: MessageFingerprint) -> int:
        """The number of the publish that was returned; 0 if none fits."""
        numbers = self._numbers.get(fingerprint)
        number = self._most_alike(fingerprint) if numbers is None else numbers[0]
        if number:
            self._forget(number)
        return number

    def _most_alike(self, fingerprint: MessageFingerprint) -> int:
        exchange, routing_key, _, body = fingerprint
        same_route = 0
        for number, each in self._fingerprints.items():
            if each[0] == exchange and each[1] == routing_key:
                if each[3] == body:
                    return number
                if same_route == 0:
                    same_route = number
        return same_route

    def decided(self, first: i64, last: i64) -> None:
        at: i64 = first
        while at <= last and self._fingerprints:
            if int(at) in self._fingerprints:
                self._forget(int(at))
            at += 1

    def _forget(self, number: int) -> None:
        fingerprint = self._fingerprints.pop(number)
        numbers = self._numbers[fingerprint]
        numbers.remove(number)
        if not numbers:
            del self._numbers[fingerprint]
