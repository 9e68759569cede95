"""What a request is answered with, and values as JSON.

Names in AMQP are bytes, and need not be UTF-8. Inside the node such bytes are lone surrogates; in JSON they are the
escapes of these (`"\\udcff"`), which Python and JavaScript read back as they were. Integers may have any size, and a
number that is none (NaN, infinity) is `null`.

Not here: which fields an answer has (`admin.views`), faults (`http.faults`).
"""

import json
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import orjson

JSON = "application/json"


@dataclass(frozen=True)
class Answer:
    """Status, body, and headers beyond those that every answer has. A long body may come in chunks instead."""

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)
    chunks: AsyncIterator[bytes] | None = None

    async def whole(self) -> bytes:
        """The body, however it comes."""
        return self.body if self.chunks is None else b"".join([chunk async for chunk in self.chunks])


def json_answer(value: object, status: int = 200) -> Answer:
    return Answer(status, to_json(value))


def no_content() -> Answer:
    return Answer(204)


def created() -> Answer:
    return Answer(201)


def to_json(value: object) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(_plain(value), separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    """The same without what JSON cannot say."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
