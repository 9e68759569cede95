"""When publishers are held back because memory or disk runs low.

Memory: the process is measured once a second, which is an age at this node's speed; between two measurements the bytes
of the messages it holds are added to the last one. Freed memory does not always return to the system, so a process
above its watermark that holds few messages is not alarmed: what it freed will be used again. Well below the watermark
memory is *tight*: what arrives goes to disk alone.

Disk: below its limit of free space, or when a write finds no room.

Not here: the measuring (`node.resources`, `node.disk`), what a blocked client sees (`broker.sessions.connection`).
"""

from typing import final

from mypy_extensions import i64

from warren.broker.model.events import DiskFull, DiskMeasured, Event, MemoryMeasured
from warren.broker.model.turn import Turn


@final
class Alarms:
    """Both alarms of one node."""

    def __init__(self, turn: Turn, paging_ratio: float) -> None:
        self._turn: Turn = turn
        self._memory: MemoryAlarm = MemoryAlarm(paging_ratio)
        self._disk: DiskAlarm = DiskAlarm()

    def take(self, event: Event) -> bool:
        """Whether the event was about memory or disk space."""
        if isinstance(event, MemoryMeasured):
            self._memory.measured(event.used_bytes, event.limit_bytes, self._turn.held_bytes)
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

    def look(self) -> str:
        """Why publishers must wait, as they are told; empty when they need not. Says also whether memory is tight."""
        held_bytes = self._turn.held_bytes
        self._turn.tight = self._memory.tight(held_bytes)
        return reason_of(self._memory.look(held_bytes), self._disk.look())


@final
class MemoryAlarm:
    """Compares what is used with what is allowed."""

    def __init__(self, paging_ratio: float) -> None:
        self._limit_bytes: i64 = 0
        self._tight_bytes: i64 = 0
        self._paging_ratio: float = paging_ratio
        # what the process would use if it held no messages, as of the last measurement
        self._other_bytes: i64 = 0
        self.raised: bool = False

    def measured(self, used_bytes: int, limit_bytes: int, held_bytes: i64) -> None:
        self._limit_bytes = limit_bytes
        self._tight_bytes = int(limit_bytes * self._paging_ratio)
        self._other_bytes = max(i64(used_bytes) - held_bytes, 0)

    def look(self, held_bytes: i64) -> bool:
        """Whether publishers must wait."""
        if self._limit_bytes == 0:
            self.raised = False
            return False
        # leave a little room between raising and clearing, or each message drained would let one publisher in
        enough: i64 = (self._limit_bytes // 8 if self.raised else self._limit_bytes // 4) - 1
        ceiling: i64 = self._limit_bytes - self._limit_bytes // 20 if self.raised else self._limit_bytes
        self.raised = held_bytes > enough and self._other_bytes + held_bytes > ceiling
        return self.raised

    def tight(self, held_bytes: i64) -> bool:
        """Whether what arrives had better go to disk alone."""
        if self._limit_bytes == 0:
            return False
        return held_bytes > self._tight_bytes // 4 and self._other_bytes + held_bytes > self._tight_bytes


@final
class DiskAlarm:
    """Whether there is room on the disk."""

    def __init__(self) -> None:
        self._low: bool = False
        self._full: bool = False

    def measured(self, free_bytes: int, limit_bytes: int) -> None:
        self._low = free_bytes < limit_bytes

    def full(self, reason: str) -> None:
        """A write found no room; with no reason, it succeeded at last."""
        self._full = reason != ""

    def look(self) -> bool:
        return self._low or self._full


def reason_of(memory: bool, disk: bool) -> str:
    """What publishers are told."""
    if memory:
        return "low on memory & disk" if disk else "low on memory"
    return "low on disk" if disk else ""
