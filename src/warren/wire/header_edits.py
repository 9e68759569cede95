"""Looking up one header of a message, and rewriting some while all others stay as they are, byte for byte.

Dead-lettering, BCC and delivery counts change a header or two of a message whose other headers a client wrote, with
integer widths and floats that a decoded table does not keep. So the table is copied field by field, never decoded.

Not here: deciding which headers to change (`queue`, `routing`).
"""

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.wire.field_tables import Table, write_value
from warren.wire.field_types import name_end, skip_value
from warren.wire.property_scan import (
    CONTENT_ENCODING,
    CONTENT_TYPE,
    EXPIRATION,
    FIXED_BYTES,
    HEADERS,
    PropertyScan,
    string_end,
)
from warren.wire.scalars import write_long, write_short, write_shortstr


def find_header(data: bytes, start: i64, end: i64, key: bytes) -> i64:
    """Where the type octet of the first header named `key` is in the table content `data[start:end]`; -1 without it."""
    key_bytes: i64 = len(key)
    at: i64 = start
    while at < end:
        value_at: i64 = name_end(data, at, end)
        if value_at - at - 1 == key_bytes and data[at + 1 : value_at] == key:
            return value_at
        at = skip_value(data, value_at, end, 1)
    return -1


def edit_headers(payload: bytes, remove: list[str], add: Table, drop_expiration: bool = False) -> bytes:
    """A copy of a content header frame's payload without the headers `remove`, with those in `add` behind the others.

    The headers property appears if something is added and stays, even empty, if it was there.
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
    """Where the headers property would stand in a payload that has none."""
    at: i64 = FIXED_BYTES
    if flags & CONTENT_TYPE:
        at = string_end(payload, at, len(payload))
    if flags & CONTENT_ENCODING:
        at = string_end(payload, at, len(payload))
    return at


def _edited_fields(data: bytes, start: i64, end: i64, remove: list[str], add: Table) -> bytes:
    """The content of a table without `remove` and what `add` replaces, with `add` at its end."""
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
