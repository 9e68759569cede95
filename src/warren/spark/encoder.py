"""Rows as the frames that publish them, thousands at once.

    method frame | header frame: size, flags, properties, headers | body frames

A part of a message is the same for all rows, and then a plain `bytes` or `int`, or it is an Arrow column. Arrow joins
columns of bytes row by row without an object for each row. Headers of all rows are encoded together, as columns, and
then gathered by row. A header that the sink sets itself, or that says where a message was read, is left out, so that
rows can be written as they were read.

Text that a reader wrote for bytes that are not UTF-8 becomes these bytes again (`wire.octet_text`). Otherwise two
messages with different ids could get one id, and the broker would drop the second one.

Every message has delivery mode 2 unless its row says otherwise, and the two headers for the broker's deduplication.

Invariants: columns have no nulls and are of type `binary` or `int64`. A row that does not fit (a key too long, no body)
is an `EncodingError` before any frame of its batch is returned.

Not here: the identity of a row (`spark.publishing_ids`).
"""

import struct
import sys
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from warren.spark.options import PROPERTIES, WriteOptions
from warren.spark.publishing_ids import RowIds, TaskPublisher, shares_of
from warren.wire.octet_text import NOT_UTF8, octets_of_text

BytesColumn = bytes | Any
"""`bytes`, or a column of them."""

NumberColumn = int | Any
"""An `int`, or a column of them."""

BINARY: Final = pa.binary()
EMPTY: Final = pa.scalar(b"", BINARY)
_INTEGERS: Final = {1: (pa.uint8(), "B"), 2: (pa.uint16(), "H"), 4: (pa.uint32(), "I"), 8: (pa.int64(), "q")}
"""By size in bytes: the Arrow type and the array type code."""


def joined(*parts: BytesColumn) -> BytesColumn:
    """The parts one after another, row by row."""
    merged: list[BytesColumn] = []
    for part in parts:
        if isinstance(part, bytes) and merged and isinstance(merged[-1], bytes):
            merged[-1] += part
        elif not isinstance(part, bytes) or part:
            merged.append(part)
    if len(merged) == 1:
        return merged[0]
    if not merged:
        return b""
    return pc.binary_join_element_wise(*(_argument(part) for part in merged), EMPTY)


def length(part: BytesColumn) -> NumberColumn:
    return len(part) if isinstance(part, bytes) else pc.cast(pc.binary_length(part), pa.int64())


def added(*numbers: NumberColumn) -> NumberColumn:
    total: NumberColumn = 0
    for number in numbers:
        if isinstance(number, int) and isinstance(total, int):
            total += number
        else:
            total = pc.add(total, number)
    return total


def integer(number: NumberColumn, size: int) -> BytesColumn:
    """A number as big-endian bytes."""
    if isinstance(number, int):
        return number.to_bytes(size, "big")
    kind, code = _INTEGERS[size]
    column = pc.cast(number, kind)
    values = array(code, b"")
    values.frombytes(memoryview(column.buffers()[1])[column.offset * size : (column.offset + len(column)) * size])
    if sys.byteorder == "little":
        values.byteswap()
    data = pa.py_buffer(values.tobytes())
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(size), len(column), [None, data]).cast(BINARY)


def short_text(text: BytesColumn) -> BytesColumn:
    """A short string with its length byte. The caller has checked its length."""
    return joined(integer(length(text), 1), text)


def octets(text: Any) -> Any:
    """A column of text as bytes. Text that stands for bytes that are not UTF-8 becomes these bytes again."""
    column = text.cast(BINARY)
    if not pc.any(pc.starts_with(column, NOT_UTF8)).as_py():
        return column
    return pa.array([None if each is None else octets_of_text(each) for each in column.to_pylist()], BINARY)


def either(condition: Any, yes: BytesColumn, no: BytesColumn) -> BytesColumn:
    return pc.if_else(condition, _argument(yes), _argument(no))


def all_bytes(column: Any) -> bytes:
    """All rows of a column in one piece."""
    offsets = array("i", b"")
    first = column.offset * 4
    offsets.frombytes(memoryview(column.buffers()[1])[first : first + 4 * (len(column) + 1)])
    values = column.buffers()[2]
    return b"" if values is None else bytes(memoryview(values)[offsets[0] : offsets[-1]])


def _argument(part: BytesColumn) -> Any:
    return pa.scalar(part, BINARY) if isinstance(part, bytes) else part


RESERVED: Final = (
    "x-warren-publisher",
    "x-warren-publishing-id",
    "x-warren-position",
    "x-stream-offset",
    "x-stream-partition",
)


def header_fields(maps: Any) -> BytesColumn:
    """The entries of each row, as in a table after its length."""
    if maps is None or len(maps) == 0 or maps.null_count == len(maps):
        return b""
    present = maps.is_valid()
    # null rows may have entries in the buffers, and a slice has those of its neighbours
    dense = pc.take(maps, pa.array(range(len(maps)), pa.int32()))
    keys, values = dense.keys, dense.items
    entries = _entries(keys, values)
    offsets = dense.offsets
    rows = pa.ListArray.from_arrays(offsets, entries.slice(0, len(entries)))
    return pc.if_else(present, pc.binary_join(rows, pa.scalar(b"", BINARY)), pa.scalar(b"", BINARY))


def _entries(keys: Any, values: Any) -> Any:
    names = octets(keys)
    if len(names) == 0:
        return pa.array([], BINARY)
    if pc.max(pc.binary_length(names)).as_py() > 128:
        raise ValueError("the name of a header has more than 128 bytes")
    entries = joined(short_text(names), _values(values))
    if values.null_count:
        entries = either(values.is_valid(), entries, b"")
    return either(pc.is_in(keys, pa.array(RESERVED, keys.type)), b"", entries)


def _values(values: Any) -> BytesColumn:
    """Type and value; the caller leaves out nulls."""
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = octets(values.fill_null(""))
        return joined(b"S", integer(length(text), 4), text)
    if pa.types.is_boolean(kind):
        return joined(b"t", integer(values.fill_null(False), 1))
    if pa.types.is_integer(kind):
        return joined(b"l", integer(values.fill_null(0).cast(pa.int64()), 8))
    if pa.types.is_floating(kind):
        numbers = values.fill_null(0.0).cast(pa.float64()).to_pylist()
        return joined(b"d", pa.array([struct.pack(">d", number) for number in numbers], BINARY))
    raw = values.fill_null(b"").cast(BINARY)
    return joined(b"x", integer(length(raw), 4), raw)


def views(column: Any) -> list[memoryview]:
    """Each value of a `binary` column without nulls, without a copy."""
    values = column.buffers()[2]
    whole = memoryview(b"" if values is None else values)
    return [whole[start:end] for start, end in pairwise(_ends(column))]


def copies(column: Any) -> list[bytes]:
    """Each value as `bytes`, which is faster for short values."""
    ends = _ends(column)
    values = column.buffers()[2]
    if values is None or not ends:
        return [b""] * len(column)
    first = ends[0]
    whole = bytes(memoryview(values)[first : ends[-1]])
    return [whole[start - first : end - first] for start, end in pairwise(ends)]


def _ends(column: Any) -> "array[int]":
    """The offset of each value, and the end of the last."""
    ends = array("i", b"")
    if len(column):
        first = column.offset * 4
        ends.frombytes(memoryview(column.buffers()[1])[first : first + 4 * (len(column) + 1)])
    return ends


CHANNEL: Final = b"\x00\x01"
"""Frames are for the first channel of a connection."""

END: Final = b"\xce"
BASIC_PUBLISH: Final = b"\x00\x3c\x00\x28\x00\x00"
BASIC: Final = b"\x00\x3c\x00\x00"
MANDATORY: Final = b"\x01"
PIECE_BYTES: Final = 1024 * 1024
"""How many bytes of bodies are encoded at a time."""

PROPERTY_FLAGS: Final[Mapping[str, int]] = {
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
"""Properties in wire order, with their flags."""

NUMBER_SIZES: Final[Mapping[str, int]] = {"delivery_mode": 1, "priority": 1, "timestamp": 8}
"""The sizes of numeric properties in bytes."""

PERSISTENT: Final = 2


class EncodingError(ValueError):
    """A row that is not a valid message, in one sentence."""


@dataclass(frozen=True)
class FrameBatch:
    """Encoded messages."""

    frames: bytes
    count: int


class RowEncoder:
    """Encodes the rows of one task."""

    def __init__(self, options: WriteOptions, author: TaskPublisher, payload_max: int) -> None:
        self._options = options
        names = [name.encode() for name in author.names()]
        self._publishers = pa.array([_long_text_field(b"x-warren-publisher", name) for name in names], BINARY)
        self._ids = RowIds(author.prefix)
        self._payload_max = payload_max

    def pieces(self, batch: pa.RecordBatch) -> Iterator[FrameBatch]:
        """All rows of a batch, in pieces of about a mebibyte."""
        columns = {name.lower(): batch.column(index) for index, name in enumerate(batch.schema.names)}
        columns["body"] = _bodies(columns["body"])
        body_bytes = int(pc.sum(pc.cast(pc.binary_length(columns["body"]), pa.int64())).as_py() or 0)
        rows = max(1, batch.num_rows * PIECE_BYTES // max(body_bytes, 1))
        for first in range(0, batch.num_rows, rows):
            yield self._piece({name: column.slice(first, rows) for name, column in columns.items()})

    def _piece(self, columns: dict[str, Any]) -> FrameBatch:
        body = columns["body"]
        method = self._method(columns)
        properties = _properties(columns)
        fields = header_fields(columns.get("headers"))
        ids = self._row_ids(columns, method, properties, fields)
        frames = joined(method, self._header(properties, fields, ids, length(body)), self._body(body))
        return FrameBatch(all_bytes(frames), len(body))

    def _method(self, columns: Mapping[str, Any]) -> BytesColumn:
        exchange = _text(columns.get("exchange"), "exchange", self._options.exchange)
        key = _text(columns.get("routing_key"), "routing_key", self._options.routing_key)
        bits = MANDATORY if self._options.mandatory else b"\x00"
        return _frame(b"\x01", joined(BASIC_PUBLISH, short_text(exchange), short_text(key), bits))

    def _header(
        self, properties: "PropertyBytes", fields: BytesColumn, ids: BytesColumn, size: NumberColumn
    ) -> BytesColumn:
        shares = pa.Array.from_buffers(pa.uint8(), len(ids), [None, pa.py_buffer(shares_of(copies(ids)))])
        table = joined(self._publishers.take(shares), _long_text_field(b"x-warren-publishing-id", ids), fields)
        headers = joined(integer(length(table), 4), table)
        payload = joined(
            BASIC, integer(size, 8), integer(properties.flags, 2), properties.before, headers, properties.behind
        )
        self._check_fits(length(payload))
        return _frame(b"\x02", payload)

    def _check_fits(self, size: NumberColumn) -> None:
        largest = size if isinstance(size, int) else pc.max(size).as_py()
        if largest > self._payload_max:
            raise EncodingError(
                f"the headers and properties of a row have {largest} bytes, and {self._payload_max} fit"
            )

    def _body(self, body: Any) -> BytesColumn:
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

    def _row_ids(
        self, columns: Mapping[str, Any], method: BytesColumn, properties: "PropertyBytes", fields: BytesColumn
    ) -> BytesColumn:
        """The message id of a row if it has one; else an id from all values of the row.

        This includes the values that all rows of the piece share, because the row may come again among others.
        """
        given = columns.get("message_id")
        if given is not None:
            given = octets(given)
            # the broker treats an empty id as none
            given = pc.if_else(pc.equal(given, b""), pa.scalar(None, BINARY), given)
            if given.null_count == 0:
                return given
        parts = (method, integer(properties.flags, 2), properties.before, properties.behind, fields)
        whole = joined(*(joined(integer(length(part), 4), part) for part in parts), columns["body"])
        ids = pa.array(self._ids.of(views(whole)), BINARY)
        return ids if given is None else pc.coalesce(given, ids)


@dataclass(frozen=True)
class PropertyBytes:
    """Flags, and the bytes of the properties before and after the headers."""

    flags: NumberColumn
    before: BytesColumn
    behind: BytesColumn


def _properties(columns: Mapping[str, Any]) -> PropertyBytes:
    given = columns.get("properties")
    values: dict[str, Any] = {} if given is None else _fields_of(given)
    values["message_id"] = columns.get("message_id")
    flags: NumberColumn = PROPERTY_FLAGS["headers"]
    before: list[BytesColumn] = []
    behind: list[BytesColumn] = []
    for name in PROPERTY_FLAGS:
        if name == "headers":
            continue
        flag, part = _property(name, values.get(name))
        flags = added(flags, flag)
        (before if PROPERTY_FLAGS[name] > PROPERTY_FLAGS["headers"] else behind).append(part)
    return PropertyBytes(flags, joined(*before), joined(*behind))


def _fields_of(structs: Any) -> dict[str, Any]:
    """The fields of a struct column, null where the struct is."""
    names = [structs.type.field(index).name.lower() for index in range(structs.type.num_fields)]
    return dict(zip(names, structs.flatten(), strict=True))


def _property(name: str, values: Any) -> tuple[NumberColumn, BytesColumn]:
    """The flag and bytes of a property, for rows that have it."""
    if name == "delivery_mode":
        mode: BytesColumn = integer(PERSISTENT, 1) if values is None else _number(name, values.fill_null(PERSISTENT))
        return PROPERTY_FLAGS[name], mode
    if values is None or values.null_count == len(values):
        return 0, b""
    present = pc.is_valid(values)
    if name in NUMBER_SIZES:
        part = either(present, _number(name, values.fill_null(0)), b"")
    else:
        part = either(present, short_text(_checked(octets(values.fill_null("")), name)), b"")
    return pc.multiply(pc.cast(present, pa.int64()), PROPERTY_FLAGS[name]), part


def _number(name: str, values: Any) -> BytesColumn:
    highest = 2**63 - 1 if name == "timestamp" else 255
    if pc.min(values).as_py() < 0 or pc.max(values).as_py() > highest:
        raise EncodingError(f"property {name} of a row is below 0 or above {highest}")
    return integer(values, NUMBER_SIZES[name])


def _bodies(column: Any) -> Any:
    if column.null_count:
        raise EncodingError("a row has no body: column body is null")
    return column.cast(BINARY)


def _text(column: Any, name: str, default: str | None) -> BytesColumn:
    if column is None:
        return (default or "").encode()
    return _checked(octets(column.fill_null(default or "")), name)


def _checked(column: Any, name: str) -> Any:
    if len(column) and pc.max(pc.binary_length(column)).as_py() > 255:
        raise EncodingError(f"{name} of a row has more than 255 bytes")
    return column


def _long_text_field(name: bytes, value: BytesColumn) -> BytesColumn:
    return joined(short_text(name), b"S", integer(length(value), 4), value)


def _frame(kind: bytes, payload: BytesColumn) -> BytesColumn:
    return joined(kind, CHANNEL, integer(length(payload), 4), payload, END)


assert set(PROPERTY_FLAGS) == {*PROPERTIES, "headers", "message_id"}
