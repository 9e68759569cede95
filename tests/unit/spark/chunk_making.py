"""Chunks as a broker writes them, of messages that a test describes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from warren.broker.model.message import Envelope, Message
from warren.broker.streams.chunk import ChunkBuilder
from warren.wire.frames import content_frames
from warren.wire.properties import Properties, encode_header_payload

START_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Sent:
    body: bytes
    exchange: str = ""
    routing_key: str = "orders"
    properties: Properties = field(default_factory=Properties)


def chunk_of(messages: Sequence[Sent], first_offset: int = 0, epoch: int = 1) -> bytes:
    """Arrived a millisecond after one another."""
    builder = ChunkBuilder()
    for index, sent in enumerate(messages):
        header = encode_header_payload(sent.properties, len(sent.body))
        content = content_frames(header, sent.body, 1, 131_072)
        envelope = Envelope(sent.exchange, sent.routing_key)
        message = Message(envelope, content, 1, len(sent.body), 131_072, True)
        builder.add(epoch << 44 | first_offset + index + 1, START_MS + first_offset + index, message)
    return builder.finish()


def without_bodies(chunk: bytes) -> bytes:
    """As it is cut for a reader that wants no bodies."""
    count = int.from_bytes(chunk[12:16], "little")
    body_bytes = int.from_bytes(chunk[40:48], "little")
    ends_bytes = 4 * (count + 1)
    return chunk[: len(chunk) - (ends_bytes + -ends_bytes % 8) - (body_bytes + -body_bytes % 8)]
