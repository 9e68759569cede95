"""Content that arrives in pieces: a header frame, then body frames until the announced size is there.

Not here: content that arrived whole in one read, which is the ordinary case (`wire.frames.FrameReader.take_content`).
"""

from typing import final

from mypy_extensions import i64

from warren.errors import FRAME_ERROR, UNEXPECTED_FRAME, ConnectionFault
from warren.session.publishing import Publishing
from warren.wire.frames import FRAME_OVERHEAD
from warren.wire.properties import PropertyScan


@final
class Content:
    """A publish whose content is on its way."""

    def __init__(self, publishing: Publishing) -> None:
        self.publishing: Publishing = publishing
        self.has_header: bool = False
        self.body_bytes: i64 = 0
        self.frame_bytes_max: i64 = 0
        self._missing_bytes: i64 = 0
        self._frames: list[bytes] = []

    def add_header(self, frame: bytes) -> None:
        if self.has_header:
            raise self.interrupted()
        scan = PropertyScan()
        scan.scan(frame, 7, len(frame) - 1)
        if scan.class_id != 60:
            raise ConnectionFault(
                UNEXPECTED_FRAME,
                f"expected content header for class 60, got one for class {scan.class_id} instead",
            )
        if scan.body_bytes < 0:
            raise ConnectionFault(FRAME_ERROR, "content body size is out of range")
        self.has_header = True
        self.body_bytes = scan.body_bytes
        self._missing_bytes = scan.body_bytes
        self._frames.append(frame)

    def add_body(self, frame: bytes) -> None:
        if not self.has_header:
            raise self.interrupted()
        size: i64 = len(frame)
        if size - FRAME_OVERHEAD > self._missing_bytes:
            raise ConnectionFault(FRAME_ERROR, "content body is longer than its header announced")
        self._missing_bytes -= size - FRAME_OVERHEAD
        self.frame_bytes_max = max(self.frame_bytes_max, size)
        self._frames.append(frame)

    def interrupted(self) -> ConnectionFault:
        """Some other frame came where content was due."""
        if self.has_header:
            return ConnectionFault(UNEXPECTED_FRAME, "expected content body, got non content body frame instead")
        return ConnectionFault(
            UNEXPECTED_FRAME, "expected content header for class 60, got non content header frame instead"
        )

    def complete(self) -> bool:
        return self.has_header and self._missing_bytes == 0

    def held_bytes(self) -> i64:
        return self.body_bytes - self._missing_bytes

    def header_frame(self) -> bytes:
        return self._frames[0]

    def frames(self) -> bytes:
        """Header and body frames as one slice."""
        return b"".join(self._frames)
