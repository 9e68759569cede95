"""A message of a stream as a reader gets it: with its offset among its headers, and its partition if it has one.

All other headers, and all other properties, stay as they are, byte for byte. Headers of these names which the publisher
wrote give way.

Not here: which message is shown to whom (`stream.readers`).
"""

from typing import Final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64, u8

from warren.model.message import Envelope, Message
from warren.model.partitions import PARTITION_HEADER
from warren.stream.chunk import Chunk
from warren.stream.offsets import OFFSET_ARGUMENT
from warren.wire.frames import BODY, HEADER, content_frames, write_channel, write_frame
from warren.wire.header_edits import edit_headers
from warren.wire.property_scan import CONTENT_ENCODING, CONTENT_TYPE, FIXED_BYTES, HEADERS
from warren.wire.values import Long, Table

FRAME_BYTES: Final[i64] = 131_072
"""How large the frames are of what is read from the archive."""

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
    """The message as a reader gets it, with the partition among its headers, too, unless that is -1."""
    payload = message.header_payload()
    out = BytesWriter()
    out.write(payload[:BEFORE_FLAGS])
    _write_properties(out, payload[BEFORE_FLAGS:], offset, partition)
    return message.with_header_payload(out.getvalue())


def message_in(chunk: Chunk, index: i64, envelope: Envelope, offset: i64, partition: i64 = -1) -> Message:
    """The same of a message from the archive; `envelope` is its own."""
    body = chunk.body(index)
    size: i64 = len(body)
    header = BytesWriter()
    header.append(int(HEADER))
    write_channel(header, CHANNEL)
    # how long it is, which is known when it is there
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
    """Properties, from their flags on, with the offset among the headers, and the partition unless that is -1."""
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
    """Whether the publisher wrote headers of these names, perhaps. `in` would raise and drop an exception each time."""
    return properties.find(OFFSET_NAME) >= 0 or properties.find(PARTITION_NAME) >= 0


def _edited_properties(properties: bytes, offset: i64, partition: i64) -> bytes:
    added: Table = {OFFSET_ARGUMENT: Long(int(offset))}
    if partition >= 0:
        added[PARTITION_HEADER] = Long(int(partition))
    payload = edit_headers(bytes(BEFORE_FLAGS) + properties, [], added)
    return payload[BEFORE_FLAGS:]
