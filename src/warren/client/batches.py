"""Batch messages: records merged into JSON arrays up to a size limit, and their reader.

    record ──▶ text ──▶ BatchBody ──▶ message      batch_messages
    record ◀──────────────────────────── body      batch_records

In JSON, integers, doubles and booleans are themselves. Decimals are strings with all digits; dates, times and durations
are ISO 8601 strings; bytes are base64 strings. NaN and infinity are `null`. Reading is exact too: a number with a
fraction becomes a `Decimal`.

Invariants: no body is longer than its limit. Every record is in exactly one message, in order. The same records under
the same id become the same messages, so an inbox recognises a batch that is sent twice.

Not here: records of files (`pipeline.load`), batches as rows of Spark (`pipeline.load.splitting`).
"""

import base64
import json
from collections.abc import Iterable, Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

import orjson

from warren.client.errors import CannotConvert
from warren.client.machine.publishes import Message
from warren.wire.properties import Properties

__all__ = ["BATCH_BYTES_MAX", "BatchBody", "batch_messages", "batch_records", "json_text", "plain_text"]

BATCH_BYTES_MAX: Final = 4_000_000
CONTENT_TYPE: Final = "application/json"
PERSISTENT: Final = 2
BRACKETS_BYTES: Final = 2


def batch_messages(records: Iterable[object], batch_id: str, *, max_bytes: int = BATCH_BYTES_MAX) -> Iterator[Message]:
    """The records in as few messages as fit; message ids are the batch id, a dash and a number from 1."""
    number = 1
    body = BatchBody(max_bytes)
    for place, record in enumerate(records):
        try:
            text = json_text(record)
        except CannotConvert as error:
            raise CannotConvert(f"record {place} of batch {batch_id}: {error}") from None
        if reason := body.refusal(text):
            raise CannotConvert(f"record {place} of batch {batch_id} {reason}")
        if not body.takes(text):
            yield _message(f"{batch_id}-{number}", body)
            number += 1
            body = BatchBody(max_bytes)
        body.add(text)
    if body.records:
        yield _message(f"{batch_id}-{number}", body)


def batch_records(body: bytes) -> list[Any]:
    """The records of a message; a `CannotConvert` if the body is not a JSON array in UTF-8."""
    try:
        found = json.loads(body.decode(), parse_float=Decimal, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise CannotConvert(f"a batch of {len(body)} bytes is not JSON in UTF-8: {reason}") from None
    if not isinstance(found, list):
        raise CannotConvert(f"a batch is a JSON array, and this message of {len(body)} bytes is none")
    return found


class BatchBody:
    """A JSON array that takes records until it is full."""

    def __init__(self, max_bytes: int = BATCH_BYTES_MAX) -> None:
        self.max_bytes = max_bytes
        self.size = BRACKETS_BYTES
        self._texts: list[bytes] = []

    @property
    def records(self) -> int:
        return len(self._texts)

    def refusal(self, text: bytes) -> str:
        """Why an array of this size cannot hold the record; empty if it can."""
        size = len(text)
        fits = size + BRACKETS_BYTES <= self.max_bytes
        return "" if fits else f"has {size} bytes, and a message of {self.max_bytes} has no room for it"

    def takes(self, text: bytes) -> bool:
        return self.size + len(text) + bool(self._texts) <= self.max_bytes

    def add(self, text: bytes) -> int:
        """Add a record, and return by how many bytes the array grew."""
        # a comma before each record but the first
        grown = len(text) + bool(self._texts)
        self._texts.append(text)
        self.size += grown
        return grown

    def text(self) -> bytes:
        return b"[" + b",".join(self._texts) + b"]"


def json_text(value: object) -> bytes:
    """A value as JSON; a `CannotConvert` if JSON has no form for it."""
    try:
        return orjson.dumps(value, default=plain_text, option=orjson.OPT_NON_STR_KEYS)
    except TypeError as error:
        raise CannotConvert(f"{error.__cause__ or error}, so it cannot be sent as JSON") from None


def plain_text(value: object) -> str:
    """The string for a value of a type that JSON does not have."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, timedelta):
        return f"PT{value.total_seconds():f}S"
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _message(message_id: str, body: BatchBody) -> Message:
    properties = Properties(content_type=CONTENT_TYPE, delivery_mode=PERSISTENT, message_id=message_id)
    return Message(body.text(), properties)


def _no_constant(name: str) -> None:
    raise ValueError(f"JSON has no {name}")
