"""Bytes from a peer as methods with their content: the receiving side of a client.

Not here: connection and channel state (`client.machine`).
"""

from typing import Final, final

from warren.wire.frames import BODY, HEADER, METHOD, FrameReader
from warren.wire.methods import BasicDeliver, BasicGetOk, BasicReturn, Method, decode_method

FRAME_BYTES_MAX: Final = 131_072


@final
class ReceivedMethod:
    """One complete method, and its content if it carries one: the payload of the header frame, and the body."""

    def __init__(self, channel: int, method: Method) -> None:
        self.channel: int = channel
        self.method: Method = method
        self.header: bytes = b""
        self.body: bytes = b""


@final
class MethodStream:
    """One connection's bytes in one direction, cut anywhere."""

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._reader: FrameReader = FrameReader(frame_bytes_max)
        # by channel: a method with incomplete content
        self._partial: dict[int, IncompleteMethod] = {}

    def feed(self, data: bytes) -> list[ReceivedMethod]:
        """The methods that these bytes complete, in order; heartbeats are skipped."""
        reader = self._reader
        reader.feed(data)
        complete: list[ReceivedMethod] = []
        while reader.next():
            kind = reader.frame_type
            if kind == METHOD:
                received = ReceivedMethod(int(reader.channel), decode_method(reader.data, reader.start, reader.end))
                if isinstance(received.method, BasicDeliver | BasicGetOk | BasicReturn):
                    self._partial[received.channel] = IncompleteMethod(received)
                else:
                    complete.append(received)
            elif kind in (HEADER, BODY):
                self._content(int(reader.channel), kind == HEADER, reader.payload(), complete)
        return complete

    def _content(self, channel: int, is_header: bool, payload: bytes, complete: list[ReceivedMethod]) -> None:
        partial = self._partial[channel]
        if is_header:
            partial.received.header = payload
            partial.missing_bytes = int.from_bytes(payload[4:12], "big")
        else:
            partial.pieces.append(payload)
            partial.missing_bytes -= len(payload)
        if partial.missing_bytes == 0:
            del self._partial[channel]
            partial.received.body = b"".join(partial.pieces)
            complete.append(partial.received)


@final
class IncompleteMethod:
    """A method with incomplete content."""

    def __init__(self, received: ReceivedMethod) -> None:
        self.received: ReceivedMethod = received
        self.pieces: list[bytes] = []
        self.missing_bytes: int = -1
