"""The rate at which one node sends backfills: one limit for all queues and all joining mirrors together.

Not here: backfills (`broker.replication.backfill`).
"""

from typing import final

from mypy_extensions import i64


@final
class SyncThrottle:
    """Delays the next slice until the bytes sent so far fit the rate."""

    def __init__(self, bytes_per_s: int) -> None:
        """0 means no limit."""
        self._bytes_per_s: i64 = bytes_per_s
        self._free_at_us: i64 = 0

    def sent(self, size_bytes: i64, now_ms: i64) -> None:
        if self._bytes_per_s > 0:
            self._free_at_us = max(self._free_at_us, now_ms * 1000) + size_bytes * 1_000_000 // self._bytes_per_s

    def free_at_ms(self) -> i64:
        """When more may be sent."""
        return -(-self._free_at_us // 1000)
