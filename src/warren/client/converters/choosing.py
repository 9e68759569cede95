"""Which converter reads a message, and what becomes of anything that a converter raises.

Not here: the converters themselves.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from warren.client.converters.content import BytesConverter, Converter, Received, TextConverter
from warren.client.converters.json_content import JsonConverter
from warren.client.errors import CannotConvert

CONVERTERS: Mapping[str, Converter] = MappingProxyType(
    {"bytes": BytesConverter(), "text": TextConverter(), "json": JsonConverter()}
)
"""The names that settings know."""


def body_of(payload: object, converter: Converter) -> bytes:
    """The body that a payload becomes."""
    try:
        body = converter.to_bytes(payload)
    except CannotConvert:
        raise
    except Exception as error:
        raise CannotConvert(f"{_named(converter)} failed on {type(payload).__name__}: {error!r}") from error
    return _bytes(body, converter)


def payload_of(message: Received, converter: Converter | None = None) -> Any:
    """What a message carries, read by the converter that is given, or by the one that its content type asks for."""
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
    raise CannotConvert(f"nobody is known who reads {content_type!r}; give a converter for it")


def _bytes(body: object, converter: Converter) -> bytes:
    """A user's own converter may be without types, so it is looked at."""
    if isinstance(body, bytes):
        return body
    raise CannotConvert(f"{_named(converter)} made {type(body).__name__}, and a body is bytes")


def _named(converter: Converter) -> str:
    return type(converter).__name__
