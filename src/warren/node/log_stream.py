"""A stream to standard error that never holds up the node.

Lines are written by a thread of their own. While whoever reads them is too slow, the newest are dropped and counted;
once nobody reads them any more, all are. A node that cannot tell its story goes on serving.

Not here: what a line looks like (`node.logs`).
"""

import queue
import threading
from collections.abc import Callable
from typing import Final, TextIO

LINES_WAITING_MAX: Final = 10_000
PATIENCE_S: Final = 1.0


class BackgroundStream:
    """`write` puts a text on a queue; a thread empties it."""

    def __init__(self, stream: TextIO, dropped: Callable[[int], str]) -> None:
        """`dropped` is the line that tells how many were dropped."""
        self._stream = stream
        self._dropped_line = dropped
        self._texts: queue.SimpleQueue[str | threading.Event | None] = queue.SimpleQueue()
        self._dropped = 0
        self._broken = False
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        if self._texts.qsize() < LINES_WAITING_MAX:
            self._texts.put(text)
        else:
            self._dropped += 1
        return len(text)

    def flush(self) -> None:
        """The thread flushes; nobody waits for it."""

    def settle(self) -> None:
        """Wait, for a moment at most, until what was written so far is out."""
        out = threading.Event()
        self._texts.put(out)
        out.wait(PATIENCE_S)

    def close(self) -> None:
        """Give the last lines a moment to get out."""
        self._texts.put(None)
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        while (text := self._texts.get()) is not None:
            if isinstance(text, threading.Event):
                text.set()
                continue
            dropped, self._dropped = self._dropped, 0
            self._put(text)
            if dropped:
                self._put(f"{self._dropped_line(dropped)}\n")

    def _put(self, text: str) -> None:
        if self._broken:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            # the other end is gone; there is nobody left to tell
            self._broken = True
