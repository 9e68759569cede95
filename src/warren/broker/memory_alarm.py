"""When publishers are held back because memory runs low.

The process is measured once a second, which is an age at this node's speed; between two measurements the bytes of the
messages it holds are added to the last one. Freed memory does not always return to the system, so a process above its
watermark that holds few messages is not alarmed: what it freed will be used again.

Not here: the measuring (`node.memory`), what a blocked client sees (`session.connection`).
"""

from typing import Final, final

from mypy_extensions import i64

LOW_ON_MEMORY: Final = "low on memory"


@final
class MemoryAlarm:
    """Compares what is used with what is allowed."""

    def __init__(self) -> None:
        self._limit_bytes: i64 = 0
        # what the process would use if it held no messages, as of the last measurement
        self._other_bytes: i64 = 0
        self._raised: bool = False

    def measured(self, used_bytes: int, limit_bytes: int, held_bytes: i64) -> None:
        self._limit_bytes = limit_bytes
        self._other_bytes = max(i64(used_bytes) - held_bytes, 0)

    def alarm(self, held_bytes: i64) -> str:
        """Why publishers must wait; empty when they need not."""
        if self._limit_bytes == 0:
            return ""
        # leave a little room between raising and clearing, or each message drained would let one publisher in
        enough: i64 = (self._limit_bytes // 8 if self._raised else self._limit_bytes // 4) - 1
        ceiling: i64 = self._limit_bytes - self._limit_bytes // 20 if self._raised else self._limit_bytes
        self._raised = held_bytes > enough and self._other_bytes + held_bytes > ceiling
        return LOW_ON_MEMORY if self._raised else ""
