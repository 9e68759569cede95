"""The properties of a message as Python values, and edits of single headers in an encoded content header.

The broker decodes properties only for display and for plugins; the path of a message uses `PropertyScan`.
Dead-lettering, BCC and delivery counts change one or two headers of a client's message. A decoded table loses integer
widths and float types, so `edit_headers` copies the table field by field and never decodes it.

Invariants: a property that is `None` is absent on the wire; strings keep bytes that are not UTF-8.

Not here: the scan (`wire.property_scan`), deciding which headers to change (`broker.queues`, `broker.routing`).
"""

from typing import Final, final

from librt.strings import BytesWriter, write_i16_be
from mypy_extensions import i16, i64

from warren.wire.field_tables import Table, write_table, write_value
from warren.wire.field_types import name_end, skip_value
from warren.wire.property_scan import (
    APP_ID,
    CLUSTER_ID,
    CONTENT_ENCODING,
    CONTENT_TYPE,
    CORRELATION_ID,
    DELIVERY_MODE,
    EXPIRATION,
    FIXED_BYTES,
    HEADERS,
    MESSAGE_ID,
    PRIORITY,
    REPLY_TO,
    TIMESTAMP,
    TYPE,
    USER_ID,
    PropertyScan,
    string_end,
)
from warren.wire.scalars import write_long, write_longlong, write_octet, write_short, write_shortstr
from warren.wire.values import ArgumentReader


def find_header(data: bytes, start: i64, end: i64, key: bytes) -> i64:
    """The offset of the type octet of the first header `key` in the table content `data[start:end]`; -1 if absent."""
    key_bytes: i64 = len(key)
    at: i64 = start
    while at < end:
        value_at: i64 = name_end(data, at, end)
        if value_at - at - 1 == key_bytes and data[at + 1 : value_at] == key:
            return value_at
        at = skip_value(data, value_at, end, 1)
    return -1


def edit_headers(payload: bytes, remove: list[str], add: Table, drop_expiration: bool = False) -> bytes:
    """A copy of a content header payload without the headers `remove`, with the headers `add` after the others.

    The headers property is created if a header is added; an existing one stays, even if it becomes empty.
    """
    scan = PropertyScan()
    scan.scan(payload, 0, len(payload))
    headers = _edited_fields(payload, scan.headers_start, scan.headers_end, remove, add)
    had_headers = scan.flags & HEADERS != 0
    keeps_headers = had_headers or len(headers) > 0
    flags: i64 = scan.flags | HEADERS if keeps_headers else scan.flags
    before_end: i64 = scan.headers_start - 4 if had_headers else _headers_place(payload, scan.flags)
    after_start: i64 = scan.headers_end if had_headers else before_end
    if drop_expiration:
        flags &= ~EXPIRATION
    out = BytesWriter()
    out.write(payload[: FIXED_BYTES - 2])
    write_short(out, flags)
    out.write(payload[FIXED_BYTES:before_end])
    if keeps_headers:
        write_long(out, len(headers))
        out.write(headers)
    if drop_expiration and scan.flags & EXPIRATION:
        out.write(payload[after_start : scan.expiration_start - 1])
        out.write(payload[scan.expiration_end :])
    else:
        out.write(payload[after_start:])
    return out.getvalue()


def _headers_place(payload: bytes, flags: i64) -> i64:
    """Where the headers property belongs in a payload that has none."""
    at: i64 = FIXED_BYTES
    if flags & CONTENT_TYPE:
        at = string_end(payload, at, len(payload))
    if flags & CONTENT_ENCODING:
        at = string_end(payload, at, len(payload))
    return at


def _edited_fields(data: bytes, start: i64, end: i64, remove: list[str], add: Table) -> bytes:
    """The content of a table without the fields of `remove` and `add`, then the fields of `add`."""
    dropped = {name.encode("utf-8", "surrogateescape") for name in remove}
    dropped.update([name.encode("utf-8", "surrogateescape") for name in add])
    out = BytesWriter()
    at: i64 = start
    while at < end:
        value_at: i64 = name_end(data, at, end)
        after: i64 = skip_value(data, value_at, end, 1)
        if data[at + 1 : value_at] not in dropped:
            out.write(data[at:after])
        at = after
    for name, value in add.items():
        write_shortstr(out, name)
        write_value(out, value)
    return out.getvalue()


BASIC_CLASS: Final = 60


@final
class Properties:
    """The fourteen properties of class basic."""

    def __init__(
        self,
        content_type: str | None = None,
        content_encoding: str | None = None,
        headers: Table | None = None,
        delivery_mode: int | None = None,
        priority: int | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        expiration: str | None = None,
        message_id: str | None = None,
        timestamp: int | None = None,
        type: str | None = None,
        user_id: str | None = None,
        app_id: str | None = None,
        cluster_id: str | None = None,
    ) -> None:
        self.content_type: str | None = content_type
        self.content_encoding: str | None = content_encoding
        self.headers: Table | None = headers
        self.delivery_mode: int | None = delivery_mode
        self.priority: int | None = priority
        self.correlation_id: str | None = correlation_id
        self.reply_to: str | None = reply_to
        self.expiration: str | None = expiration
        self.message_id: str | None = message_id
        # seconds since 1970, any 64 bits
        self.timestamp: int | None = timestamp
        self.type: str | None = type
        self.user_id: str | None = user_id
        self.app_id: str | None = app_id
        self.cluster_id: str | None = cluster_id

    def fields(self) -> list[tuple[str, object]]:
        """Name and value of every property, present or not, in the order of the wire."""
        return [
            ("content_type", self.content_type),
            ("content_encoding", self.content_encoding),
            ("headers", self.headers),
            ("delivery_mode", self.delivery_mode),
            ("priority", self.priority),
            ("correlation_id", self.correlation_id),
            ("reply_to", self.reply_to),
            ("expiration", self.expiration),
            ("message_id", self.message_id),
            ("timestamp", self.timestamp),
            ("type", self.type),
            ("user_id", self.user_id),
            ("app_id", self.app_id),
            ("cluster_id", self.cluster_id),
        ]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Properties) and self.fields() == other.fields()

    def __hash__(self) -> int:
        return hash((self.message_id, self.correlation_id, self.timestamp))

    def __repr__(self) -> str:
        present = ", ".join([f"{name}={value!r}" for name, value in self.fields() if value is not None])
        return f"Properties({present})"


def decode_properties(payload: bytes, start: i64, end: i64) -> Properties:
    """The properties in the content header payload `payload[start:end]`."""
    scan = PropertyScan()
    scan.scan(payload, start, end)
    flags: i64 = scan.flags
    # the scan has checked that all values are there
    source = ArgumentReader(payload, start + FIXED_BYTES, end)
    properties = Properties()
    if flags & CONTENT_TYPE:
        properties.content_type = source.shortstr()
    if flags & CONTENT_ENCODING:
        properties.content_encoding = source.shortstr()
    if flags & HEADERS:
        properties.headers = source.table()
    if flags & DELIVERY_MODE:
        properties.delivery_mode = source.octet()
    if flags & PRIORITY:
        properties.priority = source.octet()
    if flags & CORRELATION_ID:
        properties.correlation_id = source.shortstr()
    if flags & REPLY_TO:
        properties.reply_to = source.shortstr()
    if flags & EXPIRATION:
        properties.expiration = source.shortstr()
    if flags & MESSAGE_ID:
        properties.message_id = source.shortstr()
    if flags & TIMESTAMP:
        properties.timestamp = int(source.longlong()) & 0xFFFFFFFFFFFFFFFF
    if flags & TYPE:
        properties.type = source.shortstr()
    if flags & USER_ID:
        properties.user_id = source.shortstr()
    if flags & APP_ID:
        properties.app_id = source.shortstr()
    if flags & CLUSTER_ID:
        properties.cluster_id = source.shortstr()
    return properties


def encode_header_payload(properties: Properties, body_bytes: int) -> bytes:
    """The payload of a content header frame."""
    out = BytesWriter()
    write_short(out, BASIC_CLASS)
    write_short(out, 0)
    write_longlong(out, body_bytes)
    _write_properties(out, properties)
    return out.getvalue()


def encode_properties(properties: Properties) -> bytes:
    """Flags and properties: the end of a content header payload."""
    out = BytesWriter()
    _write_properties(out, properties)
    return out.getvalue()


def _write_properties(out: BytesWriter, properties: Properties) -> None:
    flags: i64 = _flags(properties)
    write_i16_be(out, i16(flags - 0x10000 if flags > 0x7FFF else flags))
    _write_text(out, properties.content_type)
    _write_text(out, properties.content_encoding)
    if properties.headers is not None:
        write_table(out, properties.headers)
    if properties.delivery_mode is not None:
        write_octet(out, properties.delivery_mode)
    if properties.priority is not None:
        write_octet(out, properties.priority)
    _write_text(out, properties.correlation_id)
    _write_text(out, properties.reply_to)
    _write_text(out, properties.expiration)
    _write_text(out, properties.message_id)
    if properties.timestamp is not None:
        write_longlong(out, properties.timestamp)
    _write_text(out, properties.type)
    _write_text(out, properties.user_id)
    _write_text(out, properties.app_id)
    _write_text(out, properties.cluster_id)


def _write_text(out: BytesWriter, text: str | None) -> None:
    if text is not None:
        write_shortstr(out, text)


def _flags(properties: Properties) -> i64:
    """A bit for each property that is present."""
    flags: i64 = 0
    if properties.content_type is not None:
        flags |= CONTENT_TYPE
    if properties.content_encoding is not None:
        flags |= CONTENT_ENCODING
    if properties.headers is not None:
        flags |= HEADERS
    if properties.delivery_mode is not None:
        flags |= DELIVERY_MODE
    if properties.priority is not None:
        flags |= PRIORITY
    if properties.correlation_id is not None:
        flags |= CORRELATION_ID
    if properties.reply_to is not None:
        flags |= REPLY_TO
    if properties.expiration is not None:
        flags |= EXPIRATION
    if properties.message_id is not None:
        flags |= MESSAGE_ID
    if properties.timestamp is not None:
        flags |= TIMESTAMP
    if properties.type is not None:
        flags |= TYPE
    if properties.user_id is not None:
        flags |= USER_ID
    if properties.app_id is not None:
        flags |= APP_ID
    if properties.cluster_id is not None:
        flags |= CLUSTER_ID
    return flags
