"""AMQP tables with the type of every field and the octets of every string, as they stand on the wire.

A trace shows what was sent, so nothing may be lost of it: an integer keeps its width, a string its octets. The tables
come from the core, which has checked them.

Not here: tables as Python values (`wire.field_tables`).
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass

from warren.wire.properties import PropertyScan

Value = bytes | int | float | None | tuple[int, int] | list["Field"] | list["Typed"]


@dataclass(frozen=True)
class Typed:
    """A value with RabbitMQ's name for its type. A decimal is its scale and its digits."""

    type: str
    value: Value


@dataclass(frozen=True)
class Field:
    """A named value in a table."""

    name: bytes
    content: Typed


_FIXED: dict[int, tuple[str, struct.Struct]] = {
    ord("t"): ("bool", struct.Struct(">?")),
    ord("b"): ("byte", struct.Struct(">b")),
    ord("B"): ("unsignedbyte", struct.Struct(">B")),
    ord("s"): ("short", struct.Struct(">h")),
    ord("u"): ("unsignedshort", struct.Struct(">H")),
    ord("I"): ("signedint", struct.Struct(">i")),
    ord("i"): ("unsignedint", struct.Struct(">I")),
    ord("l"): ("long", struct.Struct(">q")),
    ord("L"): ("long", struct.Struct(">q")),
    ord("f"): ("float", struct.Struct(">f")),
    ord("d"): ("double", struct.Struct(">d")),
    ord("T"): ("timestamp", struct.Struct(">Q")),
}
_DECIMAL = struct.Struct(">BI")
_SIZE = struct.Struct(">I")


def headers_of(header: bytes) -> dict[bytes, Typed]:
    """The headers in the payload of a content header frame."""
    scan = PropertyScan()
    scan.scan(header, 0, len(header))
    return {field.name: field.content for field in _table(header, scan.headers_start, scan.headers_end)}


def _table(data: bytes, at: int, end: int) -> list[Field]:
    fields: list[Field] = []
    while at < end:
        name_end = at + 1 + data[at]
        content, after = _value(data, name_end)
        fields.append(Field(data[at + 1 : name_end], content))
        at = after
    return fields


def _array(data: bytes, at: int, end: int) -> list[Typed]:
    items: list[Typed] = []
    while at < end:
        item, at = _value(data, at)
        items.append(item)
    return items


def _octets(data: bytes, at: int, end: int) -> bytes:
    return data[at:end]


_SIZED: dict[int, tuple[str, Callable[[bytes, int, int], Value]]] = {
    ord("S"): ("longstr", _octets),
    ord("x"): ("binary", _octets),
    ord("F"): ("table", _table),
    ord("A"): ("array", _array),
}


def _value(data: bytes, at: int) -> tuple[Typed, int]:
    """The value whose type octet is at `at`, and where it ends."""
    kind = data[at]
    at += 1
    if kind in _SIZED:
        type_name, read = _SIZED[kind]
        start = at + _SIZE.size
        end = start + _SIZE.unpack_from(data, at)[0]
        return Typed(type_name, read(data, start, end)), end
    if kind == ord("V"):
        return Typed("void", None), at
    if kind == ord("D"):
        return Typed("decimal", _DECIMAL.unpack_from(data, at)), at + _DECIMAL.size
    type_name, shape = _FIXED[kind]
    return Typed(type_name, shape.unpack_from(data, at)[0]), at + shape.size
