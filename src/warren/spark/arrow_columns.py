"""AMQP properties and headers of many messages as Arrow columns.

The properties of a message begin with sixteen flags; the present ones follow in the order of their flags: text with its
length in a byte, single bytes, a time of eight bytes, and the headers, a table with its length in four bytes. A cursor
for each message steps over one property after another. Every step is the same for all messages, so Arrow's kernels take
it for all at once. Nothing here loops over messages.

Messages of one publisher often have the same headers, so each distinct table is decoded once and rows refer to it.

Invariants: an absent value is null. A cursor outside the values is an error and reads nothing. A table that no broker
would accept is decoded to null, and never fails a read. The Arrow types agree field by field with `spark.options`,
because Spark checks only a reader's first batch.

Not here: the meaning of the columns (`spark.options`).
"""

import json
from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property
from struct import unpack
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from warren.client import Timestamp
from warren.errors import ConnectionFault
from warren.spark.options import COLUMNS, PROPERTIES
from warren.wire.field_tables import Table, decode_table
from warren.wire.octet_text import text_of_octets

_SCALARS: Final[dict[str, pa.DataType]] = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "binary": pa.binary(),
}

PROPERTIES_TYPE: Final = pa.struct([pa.field(name, _SCALARS[kind]) for name, kind in PROPERTIES.items()])
HEADERS_TYPE: Final = pa.map_(pa.string(), pa.string())


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """The schema of record batches."""
    return pa.schema([pa.field(name, arrow_type(name)) for name in columns])


def arrow_type(column: str) -> pa.DataType:
    if column == "properties":
        return PROPERTIES_TYPE
    if column == "headers":
        return HEADERS_TYPE
    return _SCALARS[COLUMNS[column]]


TEXT: Final = "text"
OCTET: Final = "octet"
TIME: Final = "time"
TABLE: Final = "table"

WIRE_ORDER: Final[dict[str, str]] = {
    "content_type": TEXT,
    "content_encoding": TEXT,
    "headers": TABLE,
    "delivery_mode": OCTET,
    "priority": OCTET,
    "correlation_id": TEXT,
    "reply_to": TEXT,
    "expiration": TEXT,
    "message_id": TEXT,
    "timestamp": TIME,
    "type": TEXT,
    "user_id": TEXT,
    "app_id": TEXT,
    "cluster_id": TEXT,
}
"""In the order of their flags, from the highest of sixteen bits."""

FLAGS_BYTES: Final = 2


class FieldPositions:
    """The position of one property in each message: its first byte, its length, and whether it is present."""

    def __init__(self, starts: pa.Array, lengths: pa.Array, present: pa.Array) -> None:
        self.starts = starts
        self.lengths = lengths
        self.present = present


class PropertyFields:
    """The properties of the messages of one chunk, located on first use."""

    def __init__(self, tails: pa.Array) -> None:
        """`tails` is an array of binary values, not a slice of another."""
        self._tails = tails
        self._count = len(tails)
        _, ends, values = tails.buffers()
        self._octets = pa.Array.from_buffers(pa.uint8(), 0 if values is None else values.size, [None, values])
        self._starts = pa.Array.from_buffers(pa.int32(), self._count, [None, ends])

    def text(self, name: str) -> pa.Array:
        """A text property, as strings."""
        found = self._found.get(name)
        if found is None:
            return pa.nulls(self._count, pa.string())
        return valid_utf8(self._slices(found, pa.string()))

    def tables(self) -> pa.Array:
        """The headers, each as the bytes of its table."""
        found = self._found.get("headers")
        return pa.nulls(self._count, pa.binary()) if found is None else self._slices(found, pa.binary())

    def struct(self) -> pa.Array:
        """All properties but the message id and the headers."""
        fields = [self._field(name) for name in PROPERTIES]
        return pa.StructArray.from_arrays(fields, fields=list(PROPERTIES_TYPE))

    def _field(self, name: str) -> pa.Array:
        kind = WIRE_ORDER[name]
        found = self._found.get(name)
        if found is None:
            return pa.nulls(self._count, PROPERTIES_TYPE.field(name).type)
        if kind == TEXT:
            return self.text(name)
        if kind == OCTET:
            return pc.if_else(found.present, self._number_at(found.starts, 1), _int32(None))
        octets = self._slices(found, pa.binary()).buffers()[2]
        times = iter(unpack(f">{octets.size // 8}q", octets))
        return pa.array([next(times) if each else None for each in found.present.to_pylist()], pa.int64())

    @cached_property
    def _found(self) -> dict[str, FieldPositions]:
        """Every property that at least one message has."""
        flags = self._number_at(self._starts, FLAGS_BYTES)
        used = 0
        for each in pc.unique(flags).to_pylist():
            used |= each
        found: dict[str, FieldPositions] = {}
        cursor = pc.add(self._starts, _int32(FLAGS_BYTES))
        bit = 0x8000
        for name, kind in WIRE_ORDER.items():
            if used & bit:
                present = pc.not_equal(pc.bit_wise_and(flags, _int32(bit)), _int32(0))
                found[name], cursor = self._step(kind, cursor, present)
            bit >>= 1
        return found

    def _step(self, kind: str, cursor: pa.Array, present: pa.Array) -> tuple[FieldPositions, pa.Array]:
        """The property at the cursor, where present, and the cursor after it."""
        if kind == TEXT:
            ahead, lengths = 1, self._number_at(cursor, 1)
        elif kind == TABLE:
            ahead, lengths = 4, self._number_at(cursor, 4)
        else:
            ahead, lengths = 0, _int32(1 if kind == OCTET else 8)
        lengths = pc.if_else(present, lengths, _int32(0))
        starts = pc.if_else(present, pc.add(cursor, _int32(ahead)), cursor)
        return FieldPositions(starts, lengths, present), pc.add(starts, lengths)

    def _number_at(self, places: pa.Array, octets: int) -> pa.Array:
        """A position after the last byte belongs to a message without the property."""
        last = _int32(len(self._octets) - 1)
        value = self._octets.take(pc.min_element_wise(places, last)).cast(pa.int32())
        for ahead in range(1, octets):
            place = pc.min_element_wise(pc.add(places, _int32(ahead)), last)
            value = pc.add(pc.multiply(value, _int32(256)), self._octets.take(place).cast(pa.int32()))
        return value

    def _slices(self, found: FieldPositions, kind: pa.DataType) -> pa.Array:
        """The located bytes as values of this type."""
        views = pa.ListViewArray.from_arrays(found.starts, found.lengths, self._octets)
        views.validate(full=True)
        values = views.flatten()
        ends = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(found.lengths)])
        octets = values.buffers()[1].slice(values.offset, len(values))
        return pa.Array.from_buffers(kind, self._count, [found.present.buffers()[1], ends.buffers()[1], octets])


def _int32(value: int | None) -> pa.Scalar:
    return pa.scalar(value, pa.int32())


def valid_utf8(array: pa.Array) -> pa.Array:
    """The text; values that are not UTF-8 as `wire.octet_text` writes them."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        octets = pa.Array.from_buffers(pa.binary(), len(array), array.buffers(), offset=array.offset)
        octets.validate(full=True)
        texts = [None if value is None else text_of_octets(value) for value in octets.to_pylist()]
        return pa.array(texts, pa.string())
    return array


def property_columns(tails: Any) -> tuple[Any, Any, Any]:
    """Message ids, properties and headers from a column of content headers, each from its flags on."""
    fields = PropertyFields(tails)
    return fields.text("message_id"), fields.struct(), header_column(fields.tables())


def header_column(tables: Any) -> Any:
    """Headers as text, from a column of encoded tables."""
    if tables.null_count == len(tables):
        return pa.nulls(len(tables), HEADERS_TYPE)
    distinct = pc.dictionary_encode(tables)
    decoded = [_headers(_decoded(table)) for table in distinct.dictionary.to_pylist()]
    return pa.array(decoded, HEADERS_TYPE).take(distinct.indices)


def _decoded(table: bytes) -> Table:
    try:
        return decode_table(table, 0, len(table))
    except ConnectionFault:
        return {}


def _headers(table: Table) -> list[tuple[str, str | None]] | None:
    if not table:
        return None
    return [(clean_text(name), header_text(value)) for name, value in table.items()]


def header_text(value: object) -> str | None:
    """A header's value as text."""
    if value is None or isinstance(value, str):
        return value if value is None else clean_text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Decimal):
        return str(value)
    if isinstance(value, Timestamp):
        return str(value.seconds)
    if isinstance(value, bytes):
        return text_of_octets(value)
    return json.dumps(_json_value(value), ensure_ascii=False, sort_keys=True)


def _json_value(value: object) -> object:
    """A table or an array as JSON has it. A lone surrogate anywhere in it would fail the whole read."""
    if isinstance(value, dict):
        return {clean_text(name): _json_value(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_json_value(item) for item in value]
    return value if isinstance(value, bool | int | float) else header_text(value)


def clean_text(text: str) -> str:
    """Text as AMQP's strings come, without lone surrogates."""
    return text if text.isascii() else text_of_octets(text.encode("utf-8", "surrogateescape"))
