"""What a converter is, and those for bytes and text.

A user's own converter is any object with these four names; it need not inherit anything.

Not here: JSON (`converters.json_content`), errors of a converter that knows nothing of ours (`converters.choosing`).
"""

from typing import Any, Protocol

from warren.client.errors import CannotConvert
from warren.wire.properties import Properties


class Converter(Protocol):
    """Makes bodies of payloads, and payloads of bodies."""

    @property
    def content_type(self) -> str:
        """What the bodies are, such as `application/json`."""

    @property
    def content_encoding(self) -> str | None:
        """In what way their text is written, or that they are compressed."""

    def to_bytes(self, payload: Any) -> bytes: ...

    def from_bytes(self, body: bytes, properties: Properties) -> Any: ...


class Received(Protocol):
    """A message that came, by a transport or on a channel."""

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
    """The payload is text; a message that names another encoding is read by that."""

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
        return text_of(body, properties.content_encoding or self.content_encoding or "utf-8")


def text_of(body: bytes, encoding: str) -> str:
    """The text of a body."""
    try:
        return body.decode(encoding)
    except LookupError:
        raise CannotConvert(f"the message is encoded as {encoding!r}, which is no encoding of text") from None
    except UnicodeDecodeError as error:
        raise CannotConvert(f"a body of {len(body)} bytes is not text in {encoding}: {error.reason}") from None
