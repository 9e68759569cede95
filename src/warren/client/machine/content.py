"""Messages that come in several pieces, and what becomes of one that is whole.

Most messages are read in one piece and never become a `PartialContent`.

Not here: the frames (`machine.input`).
"""

from typing import final

from librt.strings import read_i64_be
from mypy_extensions import i64

from warren.errors import UNEXPECTED_FRAME, ConnectionFault
from warren.wire.methods import Method
from warren.wire.property_scan import FIXED_BYTES


@final
class Opening:
    """A method that content follows: a delivery in its parts, anything else as it was decoded."""

    def __init__(self, method: Method | None, consumer_tag: bytes, tag: i64, redelivered: bool, route: bytes) -> None:
        self.method: Method | None = method
        self.consumer_tag: bytes = consumer_tag
        self.delivery_tag: i64 = tag
        self.redelivered: bool = redelivered
        # exchange and routing key as two short strings
        self.route: bytes = route


@final
class PartialContent:
    """A message whose frames have not all come."""

    def __init__(self, opening: Opening) -> None:
        self.opening: Opening = opening
        self.header: bytes = b""
        self.missing_bytes: i64 = -1
        self._pieces: list[bytes] = []

    def add_header(self, payload: bytes) -> None:
        if self.missing_bytes >= 0:
            raise ConnectionFault(UNEXPECTED_FRAME, "a second content header")
        if len(payload) < FIXED_BYTES:
            raise ConnectionFault(UNEXPECTED_FRAME, "a content header that is cut short")
        self.header = payload
        self.missing_bytes = read_i64_be(payload, 4)
        if self.missing_bytes < 0:
            raise ConnectionFault(UNEXPECTED_FRAME, "a body beyond measure")

    def add_body(self, payload: bytes) -> None:
        if self.missing_bytes < len(payload):
            raise ConnectionFault(UNEXPECTED_FRAME, "more content than was announced")
        self._pieces.append(payload)
        self.missing_bytes -= len(payload)

    def complete(self) -> bool:
        return self.missing_bytes == 0

    def body(self) -> bytes:
        return b"".join(self._pieces)
