"""Converters between payloads of a program and bodies of messages.

    payload ──▶ Converter.to_bytes ──▶ body, content_type, content_encoding ──▶ Converter.from_bytes ──▶ payload

A converter names its format in the message's properties, so a reader needs no configuration: `payload_of` chooses the
converter by content type. A user's converter is any object with the four names of `Converter`; it inherits nothing.

JSON takes dataclasses and dicts, with decimals, dates and UUIDs as text. A number with a fraction is read as a
`Decimal`, so an amount stays exact. A `Decimal` is sent as text, so that readers in other languages do not round it. A
date or a UUID is read as text.

Invariants: `body_of` and `payload_of` raise `CannotConvert` and nothing else, for any error of a converter. No
value is changed silently: JSON has no NaN, so NaN is refused.

Not here: the choice of a program's converter (`client.settings`, `client.template`), arrays of records and the form of
single values in JSON (`client.batches`).
"""

import dataclasses
import json
import math
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import Any, Protocol

from warren.client.batches import json_text
from warren.client.errors import CannotConvert
from warren.wire.properties import Properties


class Converter(Protocol):
    """Converts payloads to bodies and back."""

    @property
    def content_type(self) -> str:
        """The content type of its bodies, such as `application/json`."""

    @property
    def content_encoding(self) -> str | None:
        """Their text encoding or compression."""

    def to_bytes(self, payload: Any) -> bytes: ...

    def from_bytes(self, body: bytes, properties: Properties) -> Any: ...


class Received(Protocol):
    """A message from a transport or a channel."""

    @property
    def body(self) -> bytes: ...
    @property
    def properties(self) -> Properties: ...


class BytesConverter:
    """The payload is the body."""

    content_type = "application/octet-stream"
    content_encoding: str | None = None

    def to_bytes(self, payload: object) -> bytes:
        if isinstance(payload, bytes | bytearray | memoryview):
            return bytes(payload)
        raise CannotConvert(f"the converter for bytes takes bytes, not {type(payload).__name__}")

    def from_bytes(self, body: bytes, properties: Properties) -> bytes:
        return body


class TextConverter:
    """The payload is text; a message that names another encoding is decoded with that."""

    content_type = "text/plain"

    def __init__(self, encoding: str = "utf-8") -> None:
        try:
            "".encode(encoding)
        except LookupError:
            raise ValueError(f"Python knows no encoding of text named {encoding!r}") from None
        self.content_encoding: str | None = encoding

    def to_bytes(self, payload: object) -> bytes:
        if not isinstance(payload, str):
            raise CannotConvert(f"the converter for text takes text, not {type(payload).__name__}")
        try:
            return payload.encode(self.content_encoding or "utf-8")
        except UnicodeEncodeError as error:
            raise CannotConvert(f"the text cannot be written in {self.content_encoding}: {error.reason}") from None

    def from_bytes(self, body: bytes, properties: Properties) -> str:
        return decode_text(body, properties.content_encoding or self.content_encoding or "utf-8")


def decode_text(body: bytes, encoding: str) -> str:
    try:
        return body.decode(encoding)
    except LookupError:
        raise CannotConvert(f"the message is encoded as {encoding!r}, which is no encoding of text") from None
    except UnicodeDecodeError as error:
        raise CannotConvert(f"a body of {len(body)} bytes is not text in {encoding}: {error.reason}") from None


UTF_8 = "utf-8"


class JsonConverter:
    """The payload is a value that JSON can express."""

    content_type = "application/json"
    content_encoding: str | None = UTF_8

    def to_bytes(self, payload: object) -> bytes:
        body = json_text(payload)
        # NaN and infinity were written as null, and a null is rare enough to check the payload
        if b"null" in body:
            _check_numbers(payload)
        return body

    def from_bytes(self, body: bytes, properties: Properties) -> Any:
        text = decode_text(body, properties.content_encoding or UTF_8)
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


CONVERTERS: Mapping[str, Converter] = MappingProxyType(
    {"bytes": BytesConverter(), "text": TextConverter(), "json": JsonConverter()}
)
"""The converters that settings can name."""


def body_of(payload: object, converter: Converter) -> bytes:
    """Convert a payload to a body."""
    try:
        body = converter.to_bytes(payload)
    except CannotConvert:
        raise
    except Exception as error:
        raise CannotConvert(f"{_named(converter)} failed on {type(payload).__name__}: {error!r}") from error
    return _bytes(body, converter)


def payload_of(message: Received, converter: Converter | None = None) -> Any:
    """The payload of a message, read by the given converter or by the one for its content type."""
    properties = message.properties
    reader = converter or _reader(properties.content_type)
    try:
        return reader.from_bytes(message.body, properties)
    except CannotConvert:
        raise
    except Exception as error:
        raise CannotConvert(f"{_named(reader)} failed on {len(message.body)} bytes: {error!r}") from error


def _reader(content_type: str | None) -> Converter:
    kind = (content_type or "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return CONVERTERS["json"]
    if kind.startswith("text/"):
        return CONVERTERS["text"]
    if kind in ("", BytesConverter.content_type):
        return CONVERTERS["bytes"]
    raise CannotConvert(f"there is no converter for {content_type!r}; pass one")


def _bytes(body: object, converter: Converter) -> bytes:
    """Check the result of a user's converter, which may be untyped."""
    if isinstance(body, bytes):
        return body
    raise CannotConvert(f"{_named(converter)} made {type(body).__name__}, and a body is bytes")


def _named(converter: Converter) -> str:
    return type(converter).__name__


__all__ = [
    "CONVERTERS",
    "BytesConverter",
    "Converter",
    "JsonConverter",
    "Received",
    "TextConverter",
    "body_of",
    "payload_of",
]
