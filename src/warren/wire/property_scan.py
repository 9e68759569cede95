"""One pass over a content header: it finds the properties that the broker itself uses, and checks all others.

Invariants: a scan allocates nothing. It accepts exactly the headers that `properties.decode_properties` decodes, so
every consumer can decode an accepted message. Offsets are into `data`.

The payload is class (2 octets), weight (2), body size (8), flags (2), then a value for each flag set, highest bit
first. Bit 0 announces a second flag word, which no AMQP 0-9-1 class has; bit 1 has no meaning and is ignored, as in
RabbitMQ.

Not here: the properties as Python values, and editing headers (`wire.properties`).
"""

from typing import Final, final

from librt.strings import read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from warren.errors import SYNTAX_ERROR, UNEXPECTED_FRAME, ConnectionFault
from warren.wire.field_types import skip_table
from warren.wire.frames import HEADER, unknown_frame

CONTENT_TYPE: Final[i64] = 0x8000
CONTENT_ENCODING: Final[i64] = 0x4000
HEADERS: Final[i64] = 0x2000
DELIVERY_MODE: Final[i64] = 0x1000
PRIORITY: Final[i64] = 0x0800
CORRELATION_ID: Final[i64] = 0x0400
REPLY_TO: Final[i64] = 0x0200
EXPIRATION: Final[i64] = 0x0100
MESSAGE_ID: Final[i64] = 0x0080
TIMESTAMP: Final[i64] = 0x0040
TYPE: Final[i64] = 0x0020
USER_ID: Final[i64] = 0x0010
APP_ID: Final[i64] = 0x0008
CLUSTER_ID: Final[i64] = 0x0004
MORE_FLAGS: Final[i64] = 0x0001

FIXED_BYTES: Final[i64] = 14
"""The length of class, weight, body size and flags: the offset of the first property."""

BODY_BYTES_MAX: Final[i64] = 0x7FFFFFFFFFFFFFFF
"""A body size that needs the 64th bit counts as this one; both are beyond any limit."""


def malformed_properties() -> ConnectionFault:
    return ConnectionFault(SYNTAX_ERROR, "malformed content header: the properties do not fit its flags")


def string_end(data: bytes, at: i64, end: i64) -> i64:
    """The end of the short string at `at`; its text starts at `at + 1`."""
    if at >= end:
        raise malformed_properties()
    after: i64 = at + 1 + data[at]
    if after > end:
        raise malformed_properties()
    return after


@final
class PropertyScan:
    """The result of a scan; one object serves any number of headers."""

    def __init__(self) -> None:
        self.class_id: i64 = 0
        self.body_bytes: i64 = 0
        self.flags: i64 = 0
        self.delivery_mode: i64 = 0
        self.priority: i64 = -1
        self.expiration_start: i64 = 0
        self.expiration_end: i64 = 0
        self.user_id_start: i64 = 0
        self.user_id_end: i64 = 0
        self.reply_to_start: i64 = 0
        self.reply_to_end: i64 = 0
        self.headers_start: i64 = 0
        self.headers_end: i64 = 0

    def scan(self, data: bytes, start: i64, end: i64) -> None:
        """Scan the payload of a content header frame, `data[start:end]`."""
        self._forget()
        if end - start < FIXED_BYTES:
            raise _too_short(data, start, end)
        self.class_id = i64(read_i16_be(data, start)) & 0xFFFF
        if read_i16_be(data, start + 2) != 0:
            # RabbitMQ does not recognise a header with a weight as a header
            raise ConnectionFault(
                UNEXPECTED_FRAME, "expected content header for class 60, got non content header frame instead"
            )
        body_bytes: i64 = read_i64_be(data, start + 4)
        self.body_bytes = body_bytes if body_bytes >= 0 else BODY_BYTES_MAX
        flags: i64 = i64(read_i16_be(data, start + 12)) & 0xFFFF
        self.flags = flags
        at: i64 = start + FIXED_BYTES
        if flags == DELIVERY_MODE and at < end:
            self.delivery_mode = data[at]
            at += 1
        elif flags != 0:
            at = self._first_half(data, at, end, flags)
            at = self._second_half(data, at, end, flags)
        if at != end:
            raise malformed_properties()

    def _forget(self) -> None:
        self.class_id = 0
        self.body_bytes = 0
        self.flags = 0
        self.delivery_mode = 0
        self.priority = -1
        self.expiration_start = 0
        self.expiration_end = 0
        self.user_id_start = 0
        self.user_id_end = 0
        self.reply_to_start = 0
        self.reply_to_end = 0
        self.headers_start = 0
        self.headers_end = 0

    def _first_half(self, data: bytes, at: i64, end: i64, flags: i64) -> i64:
        """Scan content-type to correlation-id, and return the offset after them."""
        if flags & MORE_FLAGS:
            raise malformed_properties()
        if flags & CONTENT_TYPE:
            at = string_end(data, at, end)
        if flags & CONTENT_ENCODING:
            at = string_end(data, at, end)
        if flags & HEADERS:
            at = self._headers(data, at, end)
        if flags & DELIVERY_MODE:
            if at >= end:
                raise malformed_properties()
            self.delivery_mode = data[at]
            at += 1
        if flags & PRIORITY:
            if at >= end:
                raise malformed_properties()
            self.priority = data[at]
            at += 1
        if flags & CORRELATION_ID:
            at = string_end(data, at, end)
        return at

    def _headers(self, data: bytes, at: i64, end: i64) -> i64:
        if end - at < 4:
            raise malformed_properties()
        size: i64 = i64(read_i32_be(data, at))
        at += 4
        if size < 0 or size > end - at:
            raise malformed_properties()
        skip_table(data, at, at + size, 1)
        self.headers_start = at
        self.headers_end = at + size
        return at + size

    def _second_half(self, data: bytes, at: i64, end: i64, flags: i64) -> i64:
        """Scan reply-to to cluster-id, and return the offset after them."""
        if flags & REPLY_TO:
            self.reply_to_start = at + 1
            at = string_end(data, at, end)
            self.reply_to_end = at
        if flags & EXPIRATION:
            self.expiration_start = at + 1
            at = string_end(data, at, end)
            self.expiration_end = at
        if flags & MESSAGE_ID:
            at = string_end(data, at, end)
        if flags & TIMESTAMP:
            if end - at < 8:
                raise malformed_properties()
            at += 8
        if flags & TYPE:
            at = string_end(data, at, end)
        if flags & USER_ID:
            self.user_id_start = at + 1
            at = string_end(data, at, end)
            self.user_id_end = at
        if flags & APP_ID:
            at = string_end(data, at, end)
        if flags & CLUSTER_ID:
            at = string_end(data, at, end)
        return at


def _too_short(data: bytes, start: i64, end: i64) -> ConnectionFault:
    if end - start >= FIXED_BYTES - 2:
        return malformed_properties()
    return unknown_frame(HEADER, data[start:end])
