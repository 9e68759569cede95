"""How much room the data directory's disk has left, measured against the limit.

Only what an ordinary user may still write counts: file systems keep a reserve that a node cannot use.

Not here: what happens below the limit (`broker`), a disk that is full all the same (`node.disk.writer`).
"""

import asyncio
import contextlib
import os
from collections.abc import Callable

from warren.model.events import DiskMeasured, Event

MEASURE_EVERY_S = 1.0
DEFAULT_LIMIT_BYTES = 50_000_000


class DiskWatch:
    """Adds a `DiskMeasured` to the turns every `interval_s`."""

    __slots__ = ("_add", "_handle", "_interval_s", "_limit_bytes", "_loop", "_path")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        add: Callable[[Event], None],
        path: str,
        limit_bytes: int,
        interval_s: float = MEASURE_EVERY_S,
    ) -> None:
        self._loop = loop
        self._add = add
        self._path = path
        self._limit_bytes = limit_bytes
        self._interval_s = interval_s
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._measure()

    def set_limit(self, limit_bytes: int) -> None:
        """Measure against another limit, from this moment on."""
        self._limit_bytes = limit_bytes
        if self._handle is not None:
            self._handle.cancel()
            self._measure()

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _measure(self) -> None:
        # a disk that does not answer is the writer's to report
        with contextlib.suppress(OSError):
            disk = os.statvfs(self._path)
            self._add(DiskMeasured(disk.f_bavail * disk.f_frsize, self._limit_bytes))
        self._handle = self._loop.call_later(self._interval_s, self._measure)
