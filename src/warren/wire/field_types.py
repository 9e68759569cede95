"""The types of table fields: their letters, their widths, and how to skip a field without decoding it.

The letters are RabbitMQ's, which differ from the specification: `l` and `L` are both signed, `s` is a short integer
and not a short string, `x` is a byte array.

Invariants: `skip_table` accepts exactly the tables that `field_tables.decode_table` decodes. Nesting is bounded, so a
frame full of opening brackets cannot exhaust the stack. Infinities and NaNs are refused, as in RabbitMQ.

Not here: the Python values (`wire.field_tables`).
"""

from typing import Final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from warren.errors import SYNTAX_ERROR, ConnectionFault

BOOLEAN: Final[i64] = 0x74  # t
SIGNED_8: Final[i64] = 0x62  # b
UNSIGNED_8: Final[i64] = 0x42  # B
SIGNED_16: Final[i64] = 0x73  # s
UNSIGNED_16: Final[i64] = 0x75  # u
SIGNED_32: Final[i64] = 0x49  # I
UNSIGNED_32: Final[i64] = 0x69  # i
SIGNED_64: Final[i64] = 0x6C  # l
SIGNED_64_OLD: Final[i64] = 0x4C  # L
FLOAT: Final[i64] = 0x66  # f
DOUBLE: Final[i64] = 0x64  # d
DECIMAL: Final[i64] = 0x44  # D
LONG_STRING: Final[i64] = 0x53  # S
ARRAY: Final[i64] = 0x41  # A
TABLE: Final[i64] = 0x46  # F
TIMESTAMP: Final[i64] = 0x54  # T
VOID: Final[i64] = 0x56  # V
BYTE_ARRAY: Final[i64] = 0x78  # x

DEPTH_MAX: Final[i64] = 128
"""How deep tables and arrays may nest; the outermost table is level 1."""

SIZED: Final[i64] = -1
"""The width of a value that starts with its length."""


def malformed(reason: str) -> ConnectionFault:
    return ConnectionFault(SYNTAX_ERROR, f"malformed field table: {reason}")


def field_width(kind: i64) -> i64:
    """How many octets follow the type octet, or `SIZED`; a fault for an unknown type."""
    if kind in (LONG_STRING, TABLE, ARRAY, BYTE_ARRAY):
        return SIZED
    if kind in (SIGNED_32, UNSIGNED_32, FLOAT):
        return 4
    if kind in (BOOLEAN, SIGNED_8, UNSIGNED_8):
        return 1
    if kind in (SIGNED_64, SIGNED_64_OLD, DOUBLE, TIMESTAMP):
        return 8
    if kind in (SIGNED_16, UNSIGNED_16):
        return 2
    if kind == DECIMAL:
        return 5
    if kind == VOID:
        return 0
    raise malformed(f"unknown field type {kind}")


def value_start(data: bytes, at: i64, end: i64) -> i64:
    """The offset of the value whose length is at `at`; a fault if the value ends after `end`."""
    if end - at < 4:
        raise malformed("a length is cut short")
    size: i64 = i64(read_i32_be(data, at))
    if size < 0 or size > end - at - 4:
        raise malformed(f"a field of {size & 0xFFFFFFFF} octets overruns its table")
    return at + 4


def name_end(data: bytes, at: i64, end: i64) -> i64:
    """The end of the field name at `at`; its text starts at `at + 1`."""
    after: i64 = at + 1 + data[at]
    if after >= end:
        raise malformed("a field without a value")
    return after


def check_finite(data: bytes, at: i64, kind: i64) -> None:
    """Refuse infinities and NaNs in a float or double at `at`."""
    if kind == FLOAT:
        infinite = (read_i32_be(data, at) & 0x7F800000) == 0x7F800000
    else:
        infinite = (read_i64_be(data, at) & 0x7FF0000000000000) == 0x7FF0000000000000
    if infinite:
        raise malformed("a number that is not finite")


def skip_value(data: bytes, at: i64, end: i64, depth: i64) -> i64:
    """Check the field with its type octet at `at`, and return the offset after it."""
    kind: i64 = data[at]
    at += 1
    width: i64 = field_width(kind)
    if width == SIZED:
        start: i64 = value_start(data, at, end)
        after: i64 = start + i64(read_i32_be(data, at))
        if kind == TABLE:
            skip_table(data, start, after, depth + 1)
        elif kind == ARRAY:
            skip_array(data, start, after, depth + 1)
        return after
    if width > end - at:
        raise malformed("a value is cut short")
    if kind in (FLOAT, DOUBLE):
        check_finite(data, at, kind)
    return at + width


def skip_table(data: bytes, at: i64, end: i64, depth: i64) -> None:
    """Check the content of a table that ends at `end`."""
    if depth > DEPTH_MAX:
        raise malformed(f"nested deeper than {DEPTH_MAX}")
    while at < end:
        at = skip_value(data, name_end(data, at, end), end, depth)


def skip_array(data: bytes, at: i64, end: i64, depth: i64) -> None:
    if depth > DEPTH_MAX:
        raise malformed(f"nested deeper than {DEPTH_MAX}")
    while at < end:
        at = skip_value(data, at, end, depth)
