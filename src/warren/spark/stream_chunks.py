"""A chunk of a stream as Arrow columns, without copying its contents.

The broker stores the messages of a stream in chunks with the layout of Arrow arrays, little-endian::

    0   u32 magic            4   u32 checksum of everything from byte 8 on
    8   u32 length           12  u32 count
    16  i64 first position   24  i64 first and 32  i64 last time of arrival, in ms
    40  i64 bytes of bodies  48  16 bytes reserved
    64  arrival times: i64 each, in microseconds
        exchanges, routing keys, properties, bodies: for each u32 * (count + 1) where values begin and end, then values

Every part begins at a multiple of eight, so a column is a view of the received bytes. A chunk may come without its
bodies: then its length exceeds the data, and its checksum cannot be verified.

Invariant: damaged bytes are detected, as far as the checksum allows, before a column is returned. Text that is not
UTF-8, which AMQP allows and Spark does not, is written as in `wire.octet_text`.

Not here: properties (`spark.arrow_columns`), receiving chunks (`spark.stream_client`).
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc

from warren.spark.arrow_columns import PropertyFields, arrow_schema, arrow_type, header_column, valid_utf8
from warren.spark.options import COLUMNS

HEAD: Final = Struct("<IIIIqqqq16x")
MAGIC: Final = 0x4B48_4357
OFFSET_MASK: Final = (1 << 44) - 1
"""The lower bits of a position are the offset plus one; the upper bits do not concern readers."""

ENDS: Final = Struct("<I")


class DamagedChunk(ValueError):
    """The data is not a chunk, or is damaged."""


class ArrowChunk:
    """The chunk of one delivery."""

    def __init__(self, data: bytes, whole: bool = True) -> None:
        """`data` is a whole chunk, or one that is cut off before its bodies."""
        if len(data) < HEAD.size:
            raise DamagedChunk("a chunk is cut short")
        magic, checksum, length, count, position, _, _, body_bytes = HEAD.unpack_from(data)
        if magic != MAGIC or count < 1 or position < 1:
            raise DamagedChunk("what came is no chunk")
        if whole and (length != len(data) or crc32(memoryview(data)[8:]) != checksum):
            raise DamagedChunk("a chunk is damaged")
        self.whole = whole
        self.count: int = count
        self.first_offset: int = (position & OFFSET_MASK) - 1
        self.body_bytes: int = body_bytes
        self._data = data
        self._buffer = pa.py_buffer(data)
        self._exchanges = HEAD.size + 8 * count
        self._keys = self._behind(self._exchanges)
        self._tails = self._behind(self._keys)
        self._bodies = self._behind(self._tails)
        if (self._behind(self._bodies) if whole else self._bodies) != len(data):
            raise DamagedChunk("a chunk contradicts itself")

    @property
    def end_offset(self) -> int:
        return self.first_offset + self.count

    def times(self) -> pa.Array:
        return self._numbers(HEAD.size, arrow_type("timestamp"), 8 * self.count)

    def first_from(self, arrived_ms: int) -> int:
        """The offset of the first message that arrived at that time or later; the end if there is none."""
        times = self._numbers(HEAD.size, pa.int64(), 8 * self.count)
        place: int = pc.index(pc.greater_equal(times, arrived_ms * 1000), True).as_py()
        return self.end_offset if place < 0 else self.first_offset + place

    def exchanges(self) -> pa.Array:
        return valid_utf8(self._values(self._exchanges, pa.string()))

    def routing_keys(self) -> pa.Array:
        return valid_utf8(self._values(self._keys, pa.string()))

    def property_tails(self) -> pa.Array:
        """The properties of each message as in its content header, from the flags on."""
        return self._values(self._tails, pa.binary())

    def bodies(self) -> pa.Array:
        if not self.whole:
            raise DamagedChunk("a chunk came without its bodies")
        return self._values(self._bodies, pa.binary())

    def _numbers(self, at: int, kind: pa.DataType, size: int) -> pa.Array:
        return pa.Array.from_buffers(kind, self.count, [None, self._buffer.slice(at, size)])

    def _values(self, column: int, kind: pa.DataType) -> pa.Array:
        ends_bytes = 4 * (self.count + 1)
        start = column + ends_bytes + -ends_bytes % 8
        values = self._buffer.slice(start, self._value_bytes(column))
        array = pa.Array.from_buffers(kind, self.count, [None, self._buffer.slice(column, ends_bytes), values])
        if not self.whole:
            array.validate()
        return array

    def _value_bytes(self, column: int) -> int:
        at = column + 4 * self.count
        if at + 4 > len(self._data):
            raise DamagedChunk("a chunk is cut short")
        size: int = ENDS.unpack_from(self._data, at)[0]
        return size

    def _behind(self, column: int) -> int:
        ends_bytes = 4 * (self.count + 1)
        size = self._value_bytes(column)
        behind = column + ends_bytes + -ends_bytes % 8 + size + -size % 8
        if behind > len(self._data):
            raise DamagedChunk("a chunk is cut short")
        return behind


class ChunkProjection:
    """Makes the wanted columns from chunks."""

    def __init__(self, columns: Sequence[str], partition: int) -> None:
        self.needs_bodies = "body" in columns
        self._columns = tuple(columns)
        self._schema = arrow_schema(columns)
        self._partition = pa.scalar(partition, arrow_type("partition"))
        unknown = set(columns) - set(COLUMNS)
        assert not unknown, f"there are no columns {unknown}"

    def batch(self, chunk: ArrowChunk, start: int, end: int) -> pa.RecordBatch:
        """The messages of a chunk within these offsets."""
        tails = chunk.property_tails()
        fields = PropertyFields(tails)
        arrays = [self._column(name, chunk, fields) for name in self._columns]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        first = max(start - chunk.first_offset, 0)
        return batch.slice(first, min(end, chunk.end_offset) - chunk.first_offset - first)

    def _column(self, name: str, chunk: ArrowChunk, fields: PropertyFields) -> pa.Array:
        match name:
            case "partition":
                return pa.repeat(self._partition, chunk.count)
            case "offset":
                return pa.arange(chunk.first_offset, chunk.end_offset)
            case "timestamp":
                return chunk.times()
            case "exchange":
                return chunk.exchanges()
            case "routing_key":
                return chunk.routing_keys()
            case "message_id":
                return fields.text("message_id")
            case "properties":
                return fields.struct()
            case "headers":
                return header_column(fields.tables())
            case _:
                return chunk.bodies()
