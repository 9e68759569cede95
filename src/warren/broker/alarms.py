"""Alarms that block publishers when memory or disk space runs low.

Memory: the process is measured once a second. Between two measurements, changes of the bytes held in messages are added
to the last one. Freed memory is not always returned to the system, so a process above its watermark that holds few
messages, and few bodies of HTTP requests, raises no alarm: it uses the freed memory again. At a fraction of the
watermark memory is *low*: messages that arrive are kept on disk only.

Disk: an alarm is raised when free space is below its limit, or when a write finds no room.

Not here: measuring (`node.resources`, `node.disk`), the effect on a client (`broker.sessions.connection`).
"""

from typing import final

from mypy_extensions import i64

from warren.broker.model.events import DiskFull, DiskMeasured, Event, MemoryMeasured
from warren.broker.model.turn import Turn


@final
class Alarms:
    """The alarms of one node."""

    def __init__(self, turn: Turn, paging_ratio: float) -> None:
        self._turn: Turn = turn
        self._memory: MemoryAlarm = MemoryAlarm(paging_ratio)
        self._disk: DiskAlarm = DiskAlarm()

    def handle(self, event: Event) -> bool:
        """Whether the event was about memory or disk space."""
        if isinstance(event, MemoryMeasured):
            self._memory.measured(event.used_bytes, event.limit_bytes, self._turn.held_bytes, event.buffered_bytes)
        elif isinstance(event, DiskMeasured):
            self._disk.measured(event.free_bytes, event.limit_bytes)
        elif isinstance(event, DiskFull):
            self._disk.full(event.reason)
            if event.reason:
                self._turn.note("error", "disk.full", {"reason": event.reason})
            else:
                self._turn.note("warning", "disk.writable", {})
        else:
            return False
        return True

    def update(self) -> str:
        """The reason in connection.blocked; empty if no alarm is raised. Also sets `Turn.memory_low`."""
        held_bytes = self._turn.held_bytes
        self._turn.memory_low = self._memory.is_low(held_bytes)
        return reason_of(self._memory.update(held_bytes), self._disk.is_raised())


@final
class MemoryAlarm:
    """Compares the memory of the process with its watermark."""

    def __init__(self, paging_ratio: float) -> None:
        self._limit_bytes: i64 = 0
        self._tight_bytes: i64 = 0
        self._paging_ratio: float = paging_ratio
        # bodies of HTTP requests, and memory of the process without them and without messages, at the last measurement
        self._buffered_bytes: i64 = 0
        self._other_bytes: i64 = 0
        self.raised: bool = False

    def measured(self, used_bytes: int, limit_bytes: int, held_bytes: i64, buffered_bytes: int = 0) -> None:
        self._limit_bytes = limit_bytes
        self._tight_bytes = int(limit_bytes * self._paging_ratio)
        self._buffered_bytes = buffered_bytes
        self._other_bytes = max(i64(used_bytes) - buffered_bytes - held_bytes, 0)

    def update(self, message_bytes: i64) -> bool:
        """Whether the alarm is raised."""
        held_bytes: i64 = message_bytes + self._buffered_bytes
        if self._limit_bytes == 0:
            self.raised = False
            return False
        # the alarm is cleared a little below where it is raised, so that it does not flap with every message
        enough: i64 = (self._limit_bytes // 8 if self.raised else self._limit_bytes // 4) - 1
        ceiling: i64 = self._limit_bytes - self._limit_bytes // 20 if self.raised else self._limit_bytes
        self.raised = held_bytes > enough and self._other_bytes + held_bytes > ceiling
        return self.raised

    def is_low(self, message_bytes: i64) -> bool:
        """Whether arriving messages are kept on disk only."""
        held_bytes: i64 = message_bytes + self._buffered_bytes
        if self._limit_bytes == 0:
            return False
        return held_bytes > self._tight_bytes // 4 and self._other_bytes + held_bytes > self._tight_bytes


@final
class DiskAlarm:
    """Free space and failed writes."""

    def __init__(self) -> None:
        self._low: bool = False
        self._full: bool = False

    def measured(self, free_bytes: int, limit_bytes: int) -> None:
        self._low = free_bytes < limit_bytes

    def full(self, reason: str) -> None:
        """A write found no room; with an empty reason, a write succeeded again."""
        self._full = reason != ""

    def is_raised(self) -> bool:
        return self._low or self._full


def reason_of(memory: bool, disk: bool) -> str:
    """The reason in connection.blocked."""
    if memory:
        return "low on memory & disk" if disk else "low on memory"
    return "low on disk" if disk else ""
