"""Bytes from a node, put together into methods with their content: a client's ear, and the witness's.

Not here: what a client then does (`sim.client`), what may be said when (`sim.witness`).
"""

from dataclasses import dataclass

from warren.wire.frames import BODY, HEADER, METHOD, FrameReader
from warren.wire.methods import BasicDeliver, BasicGetOk, BasicReturn, Method, decode_method

FRAME_BYTES_MAX = 131_072
WITH_CONTENT = (BasicDeliver, BasicGetOk, BasicReturn)


@dataclass(slots=True, eq=False)
class Heard:
    """One whole method, and the content that came with it."""

    channel: int
    method: Method
    header: bytes = b""
    body: bytes = b""


class MethodStream:
    """One connection's bytes in one direction, in whatever pieces they come."""

    def __init__(self) -> None:
        self._reader = FrameReader(FRAME_BYTES_MAX)
        # by channel: a method whose content is not complete, and the octets of body still to come
        self._partial: dict[int, tuple[Heard, int]] = {}

    def feed(self, data: bytes) -> list[Heard]:
        """Everything that is complete with these bytes, in order; heartbeats say nothing."""
        reader = self._reader
        reader.feed(data)
        complete: list[Heard] = []
        while reader.next():
            kind = reader.frame_type
            if kind == METHOD:
                heard = Heard(reader.channel, decode_method(reader.data, reader.start, reader.end))
                if isinstance(heard.method, WITH_CONTENT):
                    self._partial[heard.channel] = (heard, -1)
                else:
                    complete.append(heard)
            elif kind in (HEADER, BODY):
                self._content(reader.channel, kind == HEADER, reader.payload(), complete)
        return complete

    def _content(self, channel: int, is_header: bool, payload: bytes, complete: list[Heard]) -> None:
        heard, missing = self._partial.pop(channel)
        if is_header:
            heard.header = payload
            missing = int.from_bytes(payload[4:12], "big")
        else:
            heard.body += payload
            missing -= len(payload)
        if missing == 0:
            complete.append(heard)
        else:
            self._partial[channel] = (heard, missing)
