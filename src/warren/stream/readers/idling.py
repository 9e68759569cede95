"""Readers whose clients take nothing: what they have in memory is let go when that is tight, and read again later.

A reader that stands still for a whole look, and whose client has no room, is idle. One that goes on slowly is not: it
would read its chunk anew for every message.

Not here: what a reader has in memory (`reader`), when memory is tight (`model.turn`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.model.turn import Timed, Turn
from warren.stream.readers.reader import Reader

LOOK_MS: Final[i64] = 2_000


@final
class Idling(Timed):
    """Those of one stream."""

    def __init__(self, turn: Turn) -> None:
        self._turn: Turn = turn
        # each, and where it was
        self._watched: dict[Reader, int] = {}
        self._waits: bool = False

    def stands(self, reader: Reader) -> None:
        """It has something in memory that its client has no room for."""
        if reader not in self._watched:
            self._watched[reader] = int(reader.offset)
            if not self._waits:
                self._waits = True
                self._turn.set_timer(self._turn.now_ms + LOOK_MS, self)

    def timer_fired(self) -> None:
        self._waits = False
        watched, self._watched = self._watched, {}
        for reader, offset in watched.items():
            stands = offset >= 0 and reader.offset == offset
            if stands and self._turn.tight and not reader.consumer.able():
                reader.close()
            elif reader.has_blocks():
                self.stands(reader)
