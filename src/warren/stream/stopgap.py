"""Chunks in the place of messages that are lost, so that all others keep their offsets.

An offset never means another message than it did, and none is left out. So what was salvaged of a stream has, for each
message that is missing, one without a body, whose header `x-warren-lost` is true.

Not here: what is missing (`stream.survey`), who puts them into files (`node.disk.stream_salvage`).
"""

from typing import Final

from mypy_extensions import i64

from warren.model.message import Envelope, Message
from warren.stream.chunk import ChunkBuilder
from warren.stream.shown import CHANNEL, FRAME_BYTES
from warren.stream.tail import CHUNK_MESSAGES
from warren.wire.frames import content_frames
from warren.wire.properties import Properties, encode_header_payload

LOST_HEADER: Final = "x-warren-lost"


def stopgaps(first_position: i64, count: i64, arrived_ms: i64, stream: str) -> list[bytes]:
    """Chunks of so many messages, which all arrived then."""
    payload = encode_header_payload(Properties(headers={LOST_HEADER: True}, delivery_mode=2), 0)
    content = content_frames(payload, b"", CHANNEL, FRAME_BYTES)
    message = Message(Envelope("", stream), content, CHANNEL, 0, FRAME_BYTES, True)
    chunks: list[bytes] = []
    position: i64 = first_position
    end: i64 = first_position + count
    while position < end:
        builder = ChunkBuilder()
        while position < end and builder.count < CHUNK_MESSAGES:
            builder.add(position, arrived_ms, message)
            position += 1
        chunks.append(builder.finish())
    return chunks
