"""Field tables as Python values: method arguments, message headers, client and server properties.

| wire                  | Python                | written as                                      |
|-----------------------|-----------------------|-------------------------------------------------|
| t                     | `bool`                | t                                               |
| b B s u I i l L       | `int`                 | I if it fits in 32 bits, else l                 |
| f d                   | `float`               | d                                               |
| D                     | `decimal.Decimal`     | D                                               |
| S                     | `str`                 | S                                               |
| x                     | `bytes`               | x                                               |
| A                     | `list`                | A                                               |
| F                     | `dict`                | F                                               |
| T                     | `Timestamp`           | T                                               |
| V                     | `None`                | V                                               |
|                       | `Long`                | l, even if it fits in 32 bits                   |

Invariants: any bytes decode or raise a `ConnectionFault`; the first value of a repeated name counts, as in RabbitMQ;
a decoded table survives `encode_table` and `decode_table`. Decoding loses the widths of integers, so code that must
forward a table unchanged copies its bytes (`properties.edit_headers`).

Not here: the type letters, and checking a table without decoding it (`wire.field_types`).
"""

import math
from decimal import Decimal
from typing import final

from librt.strings import (
    BytesWriter,
    read_f32_be,
    read_f64_be,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_f64_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i32, i64

from warren.wire.field_types import (
    ARRAY,
    BOOLEAN,
    BYTE_ARRAY,
    DECIMAL,
    DEPTH_MAX,
    DOUBLE,
    FLOAT,
    LONG_STRING,
    SIGNED_8,
    SIGNED_16,
    SIGNED_32,
    SIGNED_64,
    SIGNED_64_OLD,
    SIZED,
    TABLE,
    TIMESTAMP,
    UNSIGNED_16,
    UNSIGNED_32,
    VOID,
    check_finite,
    field_width,
    malformed,
    name_end,
    value_start,
)
from warren.wire.scalars import lossless_text, patch_size, write_longlong, write_longstr, write_shortstr

Table = dict[str, object]


@final
class Timestamp:
    """Seconds since 1970: any 64 bits, far beyond the range of a `datetime`."""

    def __init__(self, seconds: int) -> None:
        self.seconds: int = seconds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.seconds == other.seconds

    def __lt__(self, other: "Timestamp") -> bool:
        return self.seconds < other.seconds

    def __hash__(self) -> int:
        return hash(("Timestamp", self.seconds))

    def __repr__(self) -> str:
        return f"Timestamp({self.seconds})"


@final
class Long:
    """An integer that is always written in 64 bits: typed clients cast `x-death` counts to their long type."""

    def __init__(self, value: int) -> None:
        self.value: int = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Long) and self.value == other.value

    def __hash__(self) -> int:
        return hash(("Long", self.value))

    def __repr__(self) -> str:
        return f"Long({self.value})"


def decode_table(data: bytes, start: i64, end: i64) -> Table:
    """The table in `data[start:end]`, which excludes the table's length."""
    return _decode_table(data, start, end, 1)


def encode_table(table: Table) -> bytes:
    """The bytes of a table, length included."""
    out = BytesWriter()
    write_table(out, table)
    return out.getvalue()


def write_table(out: BytesWriter, table: Table) -> None:
    _write_table(out, table, 1)


def write_value(out: BytesWriter, value: object) -> None:
    """Write the type octet and the value of one field of a top-level table."""
    _write_value(out, value, 1)


def _decode_table(data: bytes, at: i64, end: i64, depth: i64) -> Table:
    if depth > DEPTH_MAX:
        raise malformed(f"nested deeper than {DEPTH_MAX}")
    cursor = _Cursor(data, at)
    table: Table = {}
    while cursor.at < end:
        name_start: i64 = cursor.at + 1
        cursor.at = name_end(data, cursor.at, end)
        name = lossless_text(data[name_start : cursor.at])
        value = cursor.value(end, depth)
        if name not in table:
            table[name] = value
    return table


def _decode_array(data: bytes, at: i64, end: i64, depth: i64) -> list[object]:
    if depth > DEPTH_MAX:
        raise malformed(f"nested deeper than {DEPTH_MAX}")
    cursor = _Cursor(data, at)
    values: list[object] = []
    while cursor.at < end:
        values.append(cursor.value(end, depth))
    return values


@final
class _Cursor:
    """Iterates over the fields of one table or array."""

    def __init__(self, data: bytes, at: i64) -> None:
        self.data: bytes = data
        self.at: i64 = at

    def value(self, end: i64, depth: i64) -> object:
        """Decode the field with its type octet here, and step past it."""
        data = self.data
        kind: i64 = data[self.at]
        at: i64 = self.at + 1
        width: i64 = field_width(kind)
        if width == SIZED:
            start: i64 = value_start(data, at, end)
            self.at = start + i64(read_i32_be(data, at))
            return _sized_value(data, start, self.at, kind, depth)
        if width > end - at:
            raise malformed("a value is cut short")
        self.at = at + width
        if width == 8:
            return _wide_value(data, at, kind)
        return _narrow_value(data, at, kind)


def _sized_value(data: bytes, start: i64, end: i64, kind: i64, depth: i64) -> object:
    if kind == LONG_STRING:
        return lossless_text(data[start:end])
    if kind == TABLE:
        return _decode_table(data, start, end, depth + 1)
    if kind == ARRAY:
        return _decode_array(data, start, end, depth + 1)
    return data[start:end]


def _wide_value(data: bytes, at: i64, kind: i64) -> object:
    if kind in (SIGNED_64, SIGNED_64_OLD):
        return int(read_i64_be(data, at))
    if kind == DOUBLE:
        check_finite(data, at, kind)
        return read_f64_be(data, at)
    return Timestamp(int.from_bytes(data[at : at + 8], "big"))


def _narrow_value(data: bytes, at: i64, kind: i64) -> object:
    number: i64 = 0
    if kind == BOOLEAN:
        return data[at] != 0
    if kind == VOID:
        return None
    if kind == FLOAT:
        check_finite(data, at, kind)
        return read_f32_be(data, at)
    if kind == DECIMAL:
        return _decimal(data[at], int.from_bytes(data[at + 1 : at + 5], "big"))
    if kind == SIGNED_32:
        number = i64(read_i32_be(data, at))
    elif kind == UNSIGNED_32:
        number = i64(read_i32_be(data, at)) & 0xFFFFFFFF
    elif kind == SIGNED_16:
        number = i64(read_i16_be(data, at))
    elif kind == UNSIGNED_16:
        number = i64(read_i16_be(data, at)) & 0xFFFF
    elif kind == SIGNED_8:
        number = data[at]
        number = number - 0x100 if number > 0x7F else number
    else:
        number = data[at]
    return int(number)


def _decimal(scale: int, unscaled: int) -> Decimal:
    return Decimal((0, Decimal(unscaled).as_tuple().digits, -scale))


def _write_table(out: BytesWriter, table: Table, depth: i64) -> None:
    _check_depth(depth)
    size_at: i64 = len(out)
    write_i32_be(out, 0)
    for name, value in table.items():
        write_shortstr(out, name)
        _write_value(out, value, depth)
    patch_size(out, size_at)


def _write_array(out: BytesWriter, values: list[object], depth: i64) -> None:
    _check_depth(depth)
    size_at: i64 = len(out)
    write_i32_be(out, 0)
    for value in values:
        _write_value(out, value, depth)
    patch_size(out, size_at)


def _check_depth(depth: i64) -> None:
    if depth > DEPTH_MAX:
        raise ValueError(f"a field table nests at most {DEPTH_MAX} deep")


def _write_value(out: BytesWriter, value: object, depth: i64) -> None:
    if isinstance(value, str):
        out.append(LONG_STRING)
        write_longstr(out, value.encode("utf-8", "surrogateescape"))
    elif isinstance(value, bool):
        out.append(BOOLEAN)
        out.append(1 if value else 0)
    elif isinstance(value, int):
        _write_int(out, value)
    elif isinstance(value, dict):
        out.append(TABLE)
        _write_table(out, value, depth + 1)
    elif isinstance(value, list):
        out.append(ARRAY)
        _write_array(out, value, depth + 1)
    else:
        _write_rarer_value(out, value)


def _write_rarer_value(out: BytesWriter, value: object) -> None:
    if value is None:
        out.append(VOID)
    elif isinstance(value, Long):
        _write_long_int(out, value.value)
    elif isinstance(value, Timestamp):
        out.append(TIMESTAMP)
        write_longlong(out, value.seconds)
    elif isinstance(value, bytes):
        out.append(BYTE_ARRAY)
        write_longstr(out, value)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"a field table carries finite numbers only, not {value}")
        out.append(DOUBLE)
        write_f64_be(out, value)
    elif isinstance(value, Decimal):
        _write_decimal(out, value)
    else:
        raise ValueError(f"a field table cannot carry a value of type {type(value).__name__}")


def _write_int(out: BytesWriter, value: int) -> None:
    if -0x80000000 <= value <= 0x7FFFFFFF:
        out.append(SIGNED_32)
        write_i32_be(out, i32(value))
    else:
        _write_long_int(out, value)


def _write_long_int(out: BytesWriter, value: int) -> None:
    if not -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        raise ValueError(f"a field table carries integers of 64 signed bits, {value} needs more")
    out.append(SIGNED_64)
    write_i64_be(out, i64(value))


def _write_decimal(out: BytesWriter, value: Decimal) -> None:
    """Write a scale of one octet and an unsigned number of four."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or sign or not -255 <= exponent <= 9:
        raise ValueError(f"a field table cannot carry the decimal {value}")
    unscaled = 0
    for digit in digits:
        unscaled = unscaled * 10 + digit
    unscaled *= 10 ** max(exponent, 0)
    if unscaled > 0xFFFFFFFF:
        raise ValueError(f"a field table cannot carry the decimal {value}")
    out.append(DECIMAL)
    out.append(max(-exponent, 0))
    out.write(unscaled.to_bytes(4, "big"))
