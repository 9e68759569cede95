"""Content that arrives in pieces: a header frame, then body frames until the announced size is there.

Not here: content that arrived whole in one read, which is the ordinary case (`wire.frames.FrameReader.take_content`).
"""

from typing import final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.errors import FRAME_ERROR, UNEXPECTED_FRAME, ConnectionFault
from warren.model.turn import Turn
from warren.session.publishing import Publishing, too_large
from warren.wire.frames import FRAME_OVERHEAD
from warren.wire.properties import PropertyScan


@final
class Content:
    """A publish whose content is on its way. What it holds meanwhile counts as held by the node."""

    def __init__(self, publishing: Publishing, message_bytes_max: i64, turn: Turn) -> None:
        self.publishing: Publishing = publishing
        self.has_header: bool = False
        self.body_bytes: i64 = 0
        self.frame_bytes_max: i64 = 0
        self.header_frame: bytes = b""
        self._message_bytes_max: i64 = message_bytes_max
        self._turn: Turn = turn
        self._missing_bytes: i64 = 0
        self._frames: BytesWriter = BytesWriter()

    def add_header(self, frame: bytes) -> None:
        """The size it announces is judged here: nothing beyond the limit is ever kept."""
        if self.has_header:
            raise self.interrupted()
        scan = PropertyScan()
        scan.scan(frame, 7, len(frame) - 1)
        if scan.class_id != 60:
            raise ConnectionFault(
                UNEXPECTED_FRAME,
                f"expected content header for class 60, got one for class {scan.class_id} instead",
            )
        if scan.body_bytes > self._message_bytes_max:
            raise too_large(scan.body_bytes, self._message_bytes_max)
        self.has_header = True
        self.header_frame = frame
        self.body_bytes = scan.body_bytes
        self._missing_bytes = scan.body_bytes
        self._keep(frame)

    def add_body(self, frame: bytes) -> None:
        if not self.has_header:
            raise self.interrupted()
        size: i64 = len(frame)
        if size == FRAME_OVERHEAD:
            return
        if size - FRAME_OVERHEAD > self._missing_bytes:
            raise ConnectionFault(FRAME_ERROR, "content body is longer than its header announced")
        self._missing_bytes -= size - FRAME_OVERHEAD
        self.frame_bytes_max = max(self.frame_bytes_max, size)
        self._keep(frame)

    def interrupted(self) -> ConnectionFault:
        """Some other frame came where content was due."""
        if self.has_header:
            return ConnectionFault(UNEXPECTED_FRAME, "expected content body, got non content body frame instead")
        return ConnectionFault(
            UNEXPECTED_FRAME, "expected content header for class 60, got non content header frame instead"
        )

    def complete(self) -> bool:
        return self.has_header and self._missing_bytes == 0

    def release(self) -> bytes:
        """Header and body frames as one slice, held here no longer."""
        self._turn.held_bytes -= len(self._frames)
        frames = self._frames.getvalue()
        self._frames = BytesWriter()
        return frames

    def _keep(self, frame: bytes) -> None:
        self._frames.write(frame)
        self._turn.held_bytes += len(frame)
