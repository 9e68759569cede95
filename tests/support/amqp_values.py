"""The values of AMQP 0-9-1, written and read for tests: strings, field tables, method arguments, content properties.

It shares no code with the broker's own codec, so that a mistake there cannot hide behind the same mistake here.
A Python value has one natural field type (`int` is a signed 32-bit `I`, or `l` when it does not fit); `TypedValue`
picks any other.

Not here: frames and conversations (`amqp_client`).
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NUMBER_FORMATS = {
    "b": ">b", "B": ">B", "s": ">h", "u": ">H", "I": ">i", "i": ">I",
    "l": ">q", "L": ">q", "f": ">f", "d": ">d", "T": ">Q",
}  # fmt: skip

PROPERTIES: tuple[tuple[str, str], ...] = (
    ("content_type", "shortstr"),
    ("content_encoding", "shortstr"),
    ("headers", "table"),
    ("delivery_mode", "octet"),
    ("priority", "octet"),
    ("correlation_id", "shortstr"),
    ("reply_to", "shortstr"),
    ("expiration", "shortstr"),
    ("message_id", "shortstr"),
    ("timestamp", "longlong"),
    ("type", "shortstr"),
    ("user_id", "shortstr"),
    ("app_id", "shortstr"),
    ("cluster_id", "shortstr"),
)

_ARGUMENT_FORMATS = {"octet": ">B", "short": ">H", "long": ">I", "longlong": ">Q"}


@dataclass(frozen=True)
class Typed:
    """A field value with its type letter spelled out; `x` and `S` take bytes, `D` takes (scale, value)."""

    letter: str
    value: Any = None


def write_shortstr(text: str | bytes) -> bytes:
    octets = text.encode() if isinstance(text, str) else text
    return bytes((len(octets),)) + octets


def write_longstr(text: str | bytes) -> bytes:
    octets = text.encode() if isinstance(text, str) else text
    return struct.pack(">I", len(octets)) + octets


def natural_type(value: Any) -> Typed:
    match value:
        case Typed():
            return value
        case bool():
            return Typed("t", value)
        case int():
            return Typed("I" if -(2**31) <= value < 2**31 else "l", value)
        case float():
            return Typed("d", value)
        case str() | bytes():
            return Typed("S", value)
        case None:
            return Typed("V")
        case Mapping():
            return Typed("F", value)
        case Sequence():
            return Typed("A", value)
    raise TypeError(f"no field type for {value!r}")


def write_field(value: Any) -> bytes:
    typed = natural_type(value)
    letter, inner = typed.letter, typed.value
    if letter in NUMBER_FORMATS:
        payload = struct.pack(NUMBER_FORMATS[letter], inner)
    elif letter == "t":
        payload = bytes((int(inner),))
    elif letter == "D":
        payload = struct.pack(">BI", *inner)
    elif letter in "Sx":
        payload = write_longstr(inner)
    elif letter == "F":
        payload = write_table(inner)
    elif letter == "A":
        payload = write_longstr(b"".join(write_field(item) for item in inner))
    else:
        payload = b"" if inner is None else inner
    return letter.encode() + payload


def write_table(table: Mapping[str, Any] | bytes) -> bytes:
    """Bytes are taken as the inside of a table that is wrong on purpose."""
    if isinstance(table, bytes):
        return write_longstr(table)
    return write_longstr(b"".join(write_shortstr(key) + write_field(value) for key, value in table.items()))


class Reader:
    """A cursor over one payload."""

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.at = 0

    def octets(self, count: int) -> bytes:
        chunk = self.payload[self.at : self.at + count]
        assert len(chunk) == count, f"payload ends early: {self.payload!r}"
        self.at += count
        return chunk

    def number(self, layout: str) -> Any:
        return struct.unpack(layout, self.octets(struct.calcsize(layout)))[0]

    def shortstr(self) -> str:
        return self.octets(self.octets(1)[0]).decode(errors="surrogateescape")

    def longstr(self) -> bytes:
        return self.octets(self.number(">I"))

    def table(self) -> dict[str, Any]:
        inside = Reader(self.longstr())
        entries: dict[str, Any] = {}
        while inside.at < len(inside.payload):
            key = inside.shortstr()
            entries[key] = inside.field()
        return entries

    def array(self) -> list[Any]:
        inside = Reader(self.longstr())
        items = []
        while inside.at < len(inside.payload):
            items.append(inside.field())
        return items

    def field(self) -> Any:
        letter = self.octets(1).decode()
        if letter in NUMBER_FORMATS:
            return self.number(NUMBER_FORMATS[letter])
        match letter:
            case "t":
                return self.octets(1) != b"\0"
            case "S":
                return self.longstr().decode(errors="surrogateescape")
            case "x":
                return self.longstr()
            case "D":
                return struct.unpack(">BI", self.octets(5))
            case "F":
                return self.table()
            case "A":
                return self.array()
            case "V":
                return None
        raise AssertionError(f"unknown field type {letter!r}")

    def argument(self, kind: str) -> Any:
        match kind:
            case "shortstr":
                return self.shortstr()
            case "longstr":
                return self.longstr()
            case "table":
                return self.table()
        return self.number(_ARGUMENT_FORMATS[kind])


def write_argument(kind: str, value: Any) -> bytes:
    match kind:
        case "shortstr":
            return write_shortstr(value)
        case "longstr":
            return write_longstr(value)
        case "table":
            return write_table(value)
    return struct.pack(_ARGUMENT_FORMATS[kind], value)


def write_properties(properties: Mapping[str, Any]) -> bytes:
    unknown = set(properties) - {name for name, _ in PROPERTIES}
    assert not unknown, f"no such properties: {unknown}"
    flags, values = 0, b""
    for position, (name, kind) in enumerate(PROPERTIES):
        if name in properties:
            flags |= 1 << (15 - position)
            values += write_argument(kind, properties[name])
    return struct.pack(">H", flags) + values


def read_properties(reader: Reader) -> dict[str, Any]:
    flags = reader.number(">H")
    return {
        name: reader.argument(kind)
        for position, (name, kind) in enumerate(PROPERTIES)
        if flags & (1 << (15 - position))
    }
