"""A chunk: consecutive messages of a stream, as columns; and a stream's messages as readers get them.

::

    0   u32 magic            4   u32 checksum of everything from byte 8 on
    8   u32 length           12  u32 count
    16  i64 first position   24  i64 first and 32  i64 last time of arrival, in ms
    40  i64 bytes of bodies  48  16 octets of nothing
    64  arrival times: i64 each, in microseconds
        exchanges, routing keys, properties, bodies: of each u32 * (count + 1) where values begin and end, then values

Everything is little-endian, and every part begins at a multiple of eight, so that a reader can use the parts as Arrow
columns. Properties are those of the content header, from its flags on. The checksum of a whole chunk is verified before
its messages are used.

A delivered message has its offset among its headers, and its partition if it has one. They replace headers of these
names from the publisher. All other headers and properties stay as they are, byte for byte.

Not here: files (`broker.streams.archive_index`), deliveries (`broker.streams.reader`).
"""

from typing import Final, final
from zlib import crc32

from librt.strings import (
    BytesWriter,
    read_i16_be,
    read_i32_be,
    read_i32_le,
    read_i64_le,
    write_i32_be,
    write_i32_le,
    write_i64_be,
    write_i64_le,
)
from mypy_extensions import i32, i64, u8

from warren.broker.model.message import Envelope, Message
from warren.broker.model.stream_partitions import PARTITION_HEADER
from warren.broker.streams.offsets import OFFSET_ARGUMENT, offset_of
from warren.errors import StoreError
from warren.wire.field_tables import Long, Table
from warren.wire.frames import BODY, HEADER, content_frames, write_channel, write_frame
from warren.wire.properties import edit_headers
from warren.wire.property_scan import CONTENT_ENCODING, CONTENT_TYPE, FIXED_BYTES, HEADERS

MAGIC: Final[i64] = 0x4B48_4357
HEADER_BYTES: Final[i64] = 64
LOW_32: Final[i64] = 0xFFFFFFFF
PADDING: Final = bytes(8)
CONTENT_HEADER_BYTES: Final[i64] = 7 + 12
"""The content up to the properties: frame header, class, weight and body size."""


@final
class Column:
    """Values of any length, one after another, and the end of each."""

    def __init__(self) -> None:
        self._ends: BytesWriter = BytesWriter()
        self._values: BytesWriter = BytesWriter()
        write_i32_le(self._ends, 0)

    def end_value(self) -> None:
        write_i32_le(self._ends, i32(len(self._values)))

    def add(self, value: bytes) -> None:
        self._values.write(value)
        self.end_value()

    def add_body(self, content: bytes, start: i64) -> None:
        """Add a body from its frames."""
        end: i64 = len(content)
        while start < end:
            size: i64 = int.from_bytes(content[start + 3 : start + 7], "big")
            self._values.write(content[start + 7 : start + 7 + size])
            start += size + 8
        self.end_value()

    def write_to(self, out: BytesWriter) -> None:
        for part in (self._ends.getvalue(), self._values.getvalue()):
            out.write(part)
            out.write(PADDING[: -len(part) % 8])


@final
class ChunkBuilder:
    """Builds a chunk of consecutive messages."""

    def __init__(self) -> None:
        self.count: i64 = 0
        self.size_bytes: i64 = HEADER_BYTES
        self._first_position: i64 = 0
        self._first_ms: i64 = 0
        self._last_ms: i64 = 0
        self._body_bytes: i64 = 0
        self._times: BytesWriter = BytesWriter()
        self._exchanges: Column = Column()
        self._keys: Column = Column()
        self._properties: Column = Column()
        self._bodies: Column = Column()

    def add(self, position: i64, arrived_ms: i64, message: Message) -> None:
        if self.count == 0:
            self._first_position = position
            self._first_ms = arrived_ms
        assert position == self._first_position + self.count
        self.count += 1
        self._last_ms = max(self._last_ms, arrived_ms)
        self._body_bytes += message.body_bytes
        write_i64_le(self._times, arrived_ms * 1000)
        tail = message.envelope.tail
        key_at: i64 = 1 + tail[0]
        self._exchanges.add(tail[1:key_at])
        self._keys.add(tail[key_at + 1 :])
        content = message.content
        header_end: i64 = 7 + int.from_bytes(content[3:7], "big")
        self._properties.add(content[CONTENT_HEADER_BYTES:header_end])
        self._bodies.add_body(content, header_end + 1)
        self.size_bytes += len(content) + len(tail) + 24

    def finish(self) -> bytes:
        columns = BytesWriter()
        columns.write(self._times.getvalue())
        for column in (self._exchanges, self._keys, self._properties, self._bodies):
            column.write_to(columns)
        rest = BytesWriter()
        write_i32_le(rest, i32(HEADER_BYTES + len(columns)))
        write_i32_le(rest, i32(self.count))
        write_i64_le(rest, self._first_position)
        write_i64_le(rest, self._first_ms)
        write_i64_le(rest, self._last_ms)
        write_i64_le(rest, self._body_bytes)
        rest.write(bytes(16))
        rest.write(columns.getvalue())
        data = rest.getvalue()
        out = BytesWriter()
        write_i32_le(out, i32(MAGIC))
        # as the signed number of the same bits
        write_i32_le(out, i32((i64(crc32(data)) ^ 0x8000_0000) - 0x8000_0000))
        out.write(data)
        return out.getvalue()


@final
class ChunkHead:
    """The head of a chunk."""

    def __init__(self, data: bytes, at: i64 = 0) -> None:
        """Decode the head at this byte; a `StoreError` if no chunk begins there."""
        if len(data) - at < HEADER_BYTES or i64(read_i32_le(data, at)) & LOW_32 != MAGIC:
            raise StoreError("no chunk begins here")
        self.checksum: i64 = i64(read_i32_le(data, at + 4)) & LOW_32
        self.length: i64 = i64(read_i32_le(data, at + 8)) & LOW_32
        self.count: i64 = i64(read_i32_le(data, at + 12)) & LOW_32
        self.first_position: i64 = read_i64_le(data, at + 16)
        self.first_ms: i64 = read_i64_le(data, at + 24)
        self.last_ms: i64 = read_i64_le(data, at + 32)
        self.body_bytes: i64 = read_i64_le(data, at + 40)
        if self.length < HEADER_BYTES or self.count < 1 or self.first_position < 1:
            raise StoreError("a chunk contradicts itself")

    def first_offset(self) -> i64:
        return offset_of(self.first_position)

    def bodies_at(self) -> i64:
        """The offset of the last column, the bodies."""
        ends_bytes: i64 = 4 * (self.count + 1)
        return self.length - _padded(ends_bytes) - _padded(self.body_bytes)


@final
class Chunk:
    """A complete and checked chunk; its messages by index."""

    def __init__(self, data: bytes) -> None:
        """Raises a `StoreError` if these bytes are no chunk, or are damaged."""
        self.head: ChunkHead = ChunkHead(data)
        if self.head.length != len(data) or crc32(memoryview(data)[8:]) != self.head.checksum:
            raise StoreError("a chunk is damaged")
        self.data: bytes = data
        self._exchanges: i64 = HEADER_BYTES + 8 * self.head.count
        self._keys: i64 = self._behind(self._exchanges)
        self._properties: i64 = self._behind(self._keys)
        self._bodies: i64 = self._behind(self._properties)

    def arrived_ms(self, index: i64) -> i64:
        return read_i64_le(self.data, HEADER_BYTES + 8 * index) // 1000

    def exchange(self, index: i64) -> bytes:
        return self._value(self._exchanges, index)

    def routing_key(self, index: i64) -> bytes:
        return self._value(self._keys, index)

    def properties(self, index: i64) -> bytes:
        return self._value(self._properties, index)

    def body(self, index: i64) -> bytes:
        return self._value(self._bodies, index)

    def first_arrived_from(self, arrived_ms: i64) -> i64:
        """The first message that arrived at this time or later; the count if there is none."""
        index: i64 = 0
        while index < self.head.count and self.arrived_ms(index) < arrived_ms:
            index += 1
        return index

    def _values_of(self, column: i64) -> i64:
        ends_bytes: i64 = 4 * (self.head.count + 1)
        return column + _padded(ends_bytes)

    def _behind(self, column: i64) -> i64:
        size = i64(read_i32_le(self.data, column + 4 * self.head.count)) & LOW_32
        return self._values_of(column) + _padded(size)

    def _value(self, column: i64, index: i64) -> bytes:
        values = self._values_of(column)
        start = i64(read_i32_le(self.data, column + 4 * index)) & LOW_32
        end = i64(read_i32_le(self.data, column + 4 * index + 4)) & LOW_32
        return self.data[values + start : values + end]


def _padded(size: i64) -> i64:
    """The size rounded up to a multiple of eight."""
    return (size + 7) & ~7


FRAME_BYTES: Final[i64] = 131_072
"""The frame size of messages from the archive."""

CHANNEL: Final[i64] = 1
FRAME_HEAD_BYTES: Final[i64] = 7
CLASS_AND_WEIGHT: Final = b"\x00\x3c\x00\x00"
BEFORE_FLAGS: Final[i64] = FIXED_BYTES - 2
OFFSET_NAME: Final = OFFSET_ARGUMENT.encode()
OFFSET_FIELD: Final = bytes([len(OFFSET_NAME)]) + OFFSET_NAME + b"l"
OFFSET_FIELD_BYTES: Final[i64] = len(OFFSET_FIELD) + 8
PARTITION_NAME: Final = PARTITION_HEADER.encode()
PARTITION_FIELD: Final = bytes([len(PARTITION_NAME)]) + PARTITION_NAME + b"l"
PARTITION_FIELD_BYTES: Final[i64] = len(PARTITION_FIELD) + 8


def with_offset(message: Message, offset: i64, partition: i64 = -1) -> Message:
    """The message as a reader gets it. A partition of -1 means none."""
    payload = message.header_payload()
    out = BytesWriter()
    out.write(payload[:BEFORE_FLAGS])
    _write_properties(out, payload[BEFORE_FLAGS:], offset, partition)
    return message.with_header_payload(out.getvalue())


def message_in(chunk: Chunk, index: i64, envelope: Envelope, offset: i64, partition: i64 = -1) -> Message:
    """The same for a message from the archive, which has this envelope."""
    body = chunk.body(index)
    size: i64 = len(body)
    header = BytesWriter()
    header.append(int(HEADER))
    write_channel(header, CHANNEL)
    # the length, which is filled in below
    write_i32_be(header, 0)
    header.write(CLASS_AND_WEIGHT)
    write_i64_be(header, size)
    _write_properties(header, chunk.properties(index), offset, partition)
    payload_bytes: i64 = len(header) - FRAME_HEAD_BYTES
    header[3] = u8((payload_bytes >> 24) & 0xFF)
    header[4] = u8((payload_bytes >> 16) & 0xFF)
    header[5] = u8((payload_bytes >> 8) & 0xFF)
    header[6] = u8(payload_bytes & 0xFF)
    if size > FRAME_BYTES - 8:
        payload = header.getvalue()[FRAME_HEAD_BYTES:]
        return Message(envelope, content_frames(payload, body, CHANNEL, FRAME_BYTES), CHANNEL, size, FRAME_BYTES, True)
    header.append(0xCE)
    if size > 0:
        write_frame(header, BODY, CHANNEL, body)
    return Message(envelope, header.getvalue(), CHANNEL, size, max(size + 8, 4096), True)


def _write_properties(out: BytesWriter, properties: bytes, offset: i64, partition: i64) -> None:
    """Write properties, from their flags on, with offset and partition among the headers."""
    flags = i64(read_i16_be(properties, 0)) & 0xFFFF
    if flags & HEADERS and _names_ours(properties):
        out.write(_edited_properties(properties, offset, partition))
        return
    at: i64 = 2
    if flags & CONTENT_TYPE:
        at += 1 + properties[at]
    if flags & CONTENT_ENCODING:
        at += 1 + properties[at]
    table_bytes: i64 = 0
    if flags & HEADERS:
        table_bytes = i64(read_i32_be(properties, at)) & 0xFFFFFFFF
        out.write(properties[:at])
        at += 4
    else:
        out.append(int((flags | HEADERS) >> 8))
        out.append(int(flags & 0xFF))
        out.write(properties[2:at])
    added_bytes: i64 = OFFSET_FIELD_BYTES if partition < 0 else OFFSET_FIELD_BYTES + PARTITION_FIELD_BYTES
    write_i32_be(out, i32(table_bytes + added_bytes))
    out.write(properties[at : at + table_bytes])
    out.write(OFFSET_FIELD)
    write_i64_be(out, offset)
    if partition >= 0:
        out.write(PARTITION_FIELD)
        write_i64_be(out, partition)
    out.write(properties[at + table_bytes :])


def _names_ours(properties: bytes) -> bool:
    """Whether the publisher may have used these header names. `in` would raise and drop an exception each time."""
    return properties.find(OFFSET_NAME) >= 0 or properties.find(PARTITION_NAME) >= 0


def _edited_properties(properties: bytes, offset: i64, partition: i64) -> bytes:
    added: Table = {OFFSET_ARGUMENT: Long(int(offset))}
    if partition >= 0:
        added[PARTITION_HEADER] = Long(int(partition))
    payload = edit_headers(bytes(BEFORE_FLAGS) + properties, [], added)
    return payload[BEFORE_FLAGS:]
