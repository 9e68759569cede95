"""Warnings that strangers can cause, written down only so many at a time.

Ten lines a minute, whoever causes them; what is beyond is counted, and the number is one line at the end of the minute.

Not here: what is worth a line (whoever complains).
"""

import asyncio

from warren.node.logs import Log

LINES_MAX = 10
WINDOW_S = 60.0


class Complaints:
    """A log for warnings, with a limit."""

    def __init__(self, loop: asyncio.AbstractEventLoop, log: Log, window_s: float = WINDOW_S) -> None:
        self._loop = loop
        self._log = log
        self._window_s = window_s
        self._lines = 0
        self._window: asyncio.TimerHandle | None = None

    def warning(self, event: str, **fields: object) -> None:
        self._lines += 1
        if self._lines <= LINES_MAX:
            self._log.write("warning", event, fields)
        if self._window is None:
            self._window = self._loop.call_later(self._window_s, self._end_window)

    def close(self) -> None:
        if self._window is not None:
            self._window.cancel()
            self._end_window()

    def _end_window(self) -> None:
        self._window = None
        if self._lines > LINES_MAX:
            self._log.warning("notes.suppressed", about="the peer port", lines=self._lines - LINES_MAX)
        self._lines = 0
