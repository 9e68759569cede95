"""A reader that wants to know where a stream begins and ends, and nothing of what is in it (`x-stream-probe`).

It is given one delivery, without a body, whose headers say the lowest offset there is (`x-stream-first`), the one
behind the last that is settled (`x-stream-end`), and what its own argument `x-stream-offset` comes to.

Not here: progress that is stored by a probe (`stream.readers.opening`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.model.message import Entry, Envelope, Message
from warren.model.ports import Consumer
from warren.stream.offsets import OFFSET_ARGUMENT, Start
from warren.stream.readers.reader import Reader, Source
from warren.stream.shown import CHANNEL, FRAME_BYTES
from warren.stream.tail import Tail
from warren.wire.frames import content_frames
from warren.wire.properties import Properties, encode_header_payload
from warren.wire.values import Long, Table

PROBE_ARGUMENT: Final = "x-stream-probe"
FIRST_HEADER: Final = "x-stream-first"
END_HEADER: Final = "x-stream-end"
NOWHERE: Final[i64] = 0
"""The position of what is in no stream."""


@final
class Probe(Reader):
    """Answers once."""

    def __init__(self, consumer: Consumer, start: Start, source: Source, key: str) -> None:
        super().__init__(consumer, start, source)
        self._answered: bool = False
        self._envelope: Envelope = Envelope("", key)

    def entry(self, tail: Tail) -> Entry | None:
        if self._answered or not self.find(tail):
            return None
        self._answered = True
        self.close()
        first = self._source.first(tail)
        headers: Table = {
            FIRST_HEADER: Long(int(first)),
            END_HEADER: Long(int(tail.settled)),
            OFFSET_ARGUMENT: Long(int(max(first, self.offset))),
        }
        payload = encode_header_payload(Properties(headers=headers), 0)
        content = content_frames(payload, b"", CHANNEL, FRAME_BYTES)
        return Entry(Message(self._envelope, content, CHANNEL, 0, FRAME_BYTES, True), NOWHERE, 0)
