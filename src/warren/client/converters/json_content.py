"""JSON: dataclasses and dicts, with decimals, dates and UUIDs as text.

A number with a fraction is read as a `Decimal`, so an amount is what was written; a `Decimal` is sent as text, so that
readers in other languages do not round it. What was a date or a UUID is text when it is read.

Not here: how a single value is written (`client.batches`).
"""

import dataclasses
import json
import math
from decimal import Decimal
from enum import Enum
from typing import Any

from warren.client.batches import json_text
from warren.client.converters.content import text_of
from warren.client.errors import CannotConvert
from warren.wire.properties import Properties

UTF_8 = "utf-8"


class JsonConverter:
    """The payload is whatever JSON has a form for."""

    content_type = "application/json"
    content_encoding: str | None = UTF_8

    def to_bytes(self, payload: object) -> bytes:
        body = json_text(payload)
        # what JSON has no number for was written as null, and a null is rare enough to look what it was
        if b"null" in body:
            _check_numbers(payload)
        return body

    def from_bytes(self, body: bytes, properties: Properties) -> Any:
        text = text_of(body, properties.content_encoding or UTF_8)
        try:
            return json.loads(text, parse_float=Decimal, parse_constant=_no_constant)
        except RecursionError:
            raise CannotConvert(f"a body of {len(body)} bytes is JSON that is nested too deep") from None
        except ValueError as error:
            raise CannotConvert(f"a body of {len(body)} bytes is not JSON: {error}") from None


def _check_numbers(value: object) -> None:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise CannotConvert(f"{value} has no form in JSON; send null or text in its place")
    elif isinstance(value, dict):
        for each in value.values():
            _check_numbers(each)
    elif isinstance(value, list | tuple):
        for each in value:
            _check_numbers(each)
    elif isinstance(value, Enum):
        _check_numbers(value.value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for item in dataclasses.fields(value):
            _check_numbers(getattr(value, item.name))


def _no_constant(name: str) -> None:
    raise ValueError(f"JSON has no {name}")
