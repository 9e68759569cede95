"""Rows as the frames that publish them, thousands at once.

    method frame | header frame: size, flags, properties, headers | body frames

Properties and headers are put together column by column (`spark.sinking.parts`). Every message has delivery mode 2
unless its row says otherwise, and the two headers by which the broker knows it when it comes again.

Invariant: a row that does not fit (a key too long, no body) is an `EncodingError` before any frame of its rows is
handed out.

Not here: what identifies a row (`spark.sinking.ids`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from warren.spark.options import WriteOptions
from warren.spark.schema import PROPERTIES
from warren.spark.sinking.header_parts import header_fields
from warren.spark.sinking.ids import Author, RowIds, shares_of
from warren.spark.sinking.parts import (
    BINARY,
    Number,
    Part,
    added,
    all_bytes,
    either,
    integer,
    joined,
    length,
    short_text,
)
from warren.spark.sinking.views import copies, views

CHANNEL: Final = b"\x00\x01"
"""Frames are made for the first channel of a connection."""

END: Final = b"\xce"
BASIC_PUBLISH: Final = b"\x00\x3c\x00\x28\x00\x00"
BASIC: Final = b"\x00\x3c\x00\x00"
MANDATORY: Final = b"\x01"
PIECE_BYTES: Final = 1024 * 1024
"""How much of bodies is encoded at a time."""

BITS: Final[Mapping[str, int]] = {
    "content_type": 0x8000,
    "content_encoding": 0x4000,
    "headers": 0x2000,
    "delivery_mode": 0x1000,
    "priority": 0x0800,
    "correlation_id": 0x0400,
    "reply_to": 0x0200,
    "expiration": 0x0100,
    "message_id": 0x0080,
    "timestamp": 0x0040,
    "type": 0x0020,
    "user_id": 0x0010,
    "app_id": 0x0008,
    "cluster_id": 0x0004,
}
"""Properties in the order of the wire, with their flags."""

SIZES: Final[Mapping[str, int]] = {"delivery_mode": 1, "priority": 1, "timestamp": 8}
"""Octets of those that are numbers."""

PERSISTENT: Final = 2


class EncodingError(ValueError):
    """A row that is no message, in one sentence."""


@dataclass(frozen=True)
class Piece:
    """Some messages, as they are sent."""

    frames: bytes
    count: int


class RowEncoder:
    """Makes the frames of one task's rows."""

    def __init__(self, options: WriteOptions, author: Author, payload_max: int) -> None:
        self._options = options
        names = [name.encode() for name in author.names()]
        self._publishers = pa.array([_long_text_field(b"x-warren-publisher", name) for name in names], BINARY)
        self._ids = RowIds(author.prefix)
        self._payload_max = payload_max

    def pieces(self, batch: pa.RecordBatch) -> Iterator[Piece]:
        """All rows of a batch, in pieces of about a mebibyte."""
        columns = {name.lower(): batch.column(index) for index, name in enumerate(batch.schema.names)}
        columns["body"] = _bodies(columns["body"])
        body_bytes = int(pc.sum(pc.cast(pc.binary_length(columns["body"]), pa.int64())).as_py() or 0)
        rows = max(1, batch.num_rows * PIECE_BYTES // max(body_bytes, 1))
        for first in range(0, batch.num_rows, rows):
            yield self._piece({name: column.slice(first, rows) for name, column in columns.items()})

    def _piece(self, columns: dict[str, Any]) -> Piece:
        body = columns["body"]
        method = self._method(columns)
        properties = _properties(columns)
        fields = header_fields(columns.get("headers"))
        ids = self._row_ids(columns, method, properties, fields)
        frames = joined(method, self._header(properties, fields, ids, length(body)), self._body(body))
        return Piece(all_bytes(frames), len(body))

    def _method(self, columns: Mapping[str, Any]) -> Part:
        exchange = _text(columns.get("exchange"), "exchange", self._options.exchange)
        key = _text(columns.get("routing_key"), "routing_key", self._options.routing_key)
        bits = MANDATORY if self._options.mandatory else b"\x00"
        return _frame(b"\x01", joined(BASIC_PUBLISH, short_text(exchange), short_text(key), bits))

    def _header(self, properties: "Properties", fields: Part, ids: Part, size: Number) -> Part:
        shares = pa.Array.from_buffers(pa.uint8(), len(ids), [None, pa.py_buffer(shares_of(copies(ids)))])
        table = joined(self._publishers.take(shares), _long_text_field(b"x-warren-publishing-id", ids), fields)
        headers = joined(integer(length(table), 4), table)
        payload = joined(
            BASIC, integer(size, 8), integer(properties.flags, 2), properties.before, headers, properties.behind
        )
        self._check_fits(length(payload))
        return _frame(b"\x02", payload)

    def _check_fits(self, size: Number) -> None:
        largest = size if isinstance(size, int) else pc.max(size).as_py()
        if largest > self._payload_max:
            raise EncodingError(
                f"the headers and properties of a row have {largest} bytes, and {self._payload_max} fit"
            )

    def _body(self, body: Any) -> Part:
        sizes = length(body)
        whole = either(pc.equal(sizes, 0), b"", _frame(b"\x03", body))
        if pc.max(sizes).as_py() <= self._payload_max:
            return whole
        return pa.array(
            [frames.as_py() if len(row) <= self._payload_max else self._in_parts(row) for frames, row in
             zip(whole, views(body), strict=True)],
            BINARY,
        )  # fmt: skip

    def _in_parts(self, body: memoryview) -> bytes:
        step = self._payload_max
        parts = [bytes(body[at : at + step]) for at in range(0, len(body), step)]
        return b"".join([b"\x03" + CHANNEL + len(part).to_bytes(4, "big") + part + END for part in parts])

    def _row_ids(self, columns: Mapping[str, Any], method: Part, properties: "Properties", fields: Part) -> Part:
        """The message id where there is one; else by everything that the row says.

        Also by what all rows of the piece have in common: the row may come again among others.
        """
        given = columns.get("message_id")
        if given is not None:
            given = given.cast(BINARY)
            # the broker takes an empty id for none
            given = pc.if_else(pc.equal(given, b""), pa.scalar(None, BINARY), given)
            if given.null_count == 0:
                return given
        parts = (method, integer(properties.flags, 2), properties.before, properties.behind, fields)
        whole = joined(*(joined(integer(length(part), 4), part) for part in parts), columns["body"])
        ids = pa.array(self._ids.of(views(whole)), BINARY)
        return ids if given is None else pc.coalesce(given, ids)


@dataclass(frozen=True)
class Properties:
    """Flags, and the octets of the properties before and behind the headers."""

    flags: Number
    before: Part
    behind: Part


def _properties(columns: Mapping[str, Any]) -> Properties:
    given = columns.get("properties")
    values: dict[str, Any] = {} if given is None else _fields_of(given)
    values["message_id"] = columns.get("message_id")
    flags: Number = BITS["headers"]
    before: list[Part] = []
    behind: list[Part] = []
    for name in BITS:
        if name == "headers":
            continue
        flag, part = _property(name, values.get(name))
        flags = added(flags, flag)
        (before if BITS[name] > BITS["headers"] else behind).append(part)
    return Properties(flags, joined(*before), joined(*behind))


def _fields_of(structs: Any) -> dict[str, Any]:
    """A struct's columns, with null where the struct is."""
    names = [structs.type.field(index).name.lower() for index in range(structs.type.num_fields)]
    return dict(zip(names, structs.flatten(), strict=True))


def _property(name: str, values: Any) -> tuple[Number, Part]:
    """Its flag and its octets, for rows that have it."""
    if name == "delivery_mode":
        mode: Part = integer(PERSISTENT, 1) if values is None else _number(name, values.fill_null(PERSISTENT))
        return BITS[name], mode
    if values is None or values.null_count == len(values):
        return 0, b""
    present = pc.is_valid(values)
    if name in SIZES:
        part = either(present, _number(name, values.fill_null(0)), b"")
    else:
        part = either(present, short_text(_checked(values.fill_null("").cast(BINARY), name)), b"")
    return pc.multiply(pc.cast(present, pa.int64()), BITS[name]), part


def _number(name: str, values: Any) -> Part:
    highest = 2**63 - 1 if name == "timestamp" else 255
    if pc.min(values).as_py() < 0 or pc.max(values).as_py() > highest:
        raise EncodingError(f"property {name} of a row is below 0 or above {highest}")
    return integer(values, SIZES[name])


def _bodies(column: Any) -> Any:
    if column.null_count:
        raise EncodingError("a row has no body: column body is null")
    return column.cast(BINARY)


def _text(column: Any, name: str, default: str | None) -> Part:
    if column is None:
        return (default or "").encode()
    return _checked(column.fill_null(default or "").cast(BINARY), name)


def _checked(column: Any, name: str) -> Any:
    if len(column) and pc.max(pc.binary_length(column)).as_py() > 255:
        raise EncodingError(f"{name} of a row has more than 255 bytes")
    return column


def _long_text_field(name: bytes, value: Part) -> Part:
    return joined(short_text(name), b"S", integer(length(value), 4), value)


def _frame(kind: bytes, payload: Part) -> Part:
    return joined(kind, CHANNEL, integer(length(payload), 4), payload, END)


assert set(BITS) == {*PROPERTIES, "headers", "message_id"}
