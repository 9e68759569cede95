"""Frames and SASL responses as bytes, valid ones and, on request, invalid ones.

Not here: the meaning of payloads (`amqp_methods`, `amqp_values`).
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.amqp_values import write_properties, write_table

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END = b"\xce"
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"


@dataclass(frozen=True)
class Frame:
    kind: int
    channel: int
    payload: bytes


def frame(kind: int, channel: int, payload: bytes, end: bytes = FRAME_END) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + end


def content_frames(
    channel: int, body: bytes, properties: Mapping[str, Any], frame_max: int = 131072, class_id: int = 60
) -> bytes:
    header = struct.pack(">HHQ", class_id, 0, len(body)) + write_properties(properties)
    room = frame_max - 8
    chunks = (body[start : start + room] for start in range(0, len(body), room))
    return frame(HEADER, channel, header) + b"".join(frame(BODY, channel, chunk) for chunk in chunks)


def plain(user: str = "guest", password: str = "guest") -> bytes:
    return f"\0{user}\0{password}".encode()


def amqplain(user: str = "guest", password: str = "guest") -> bytes:
    return write_table({"LOGIN": user, "PASSWORD": password})[4:]
