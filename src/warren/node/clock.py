"""The node's clock: wall time in whole milliseconds that never runs backwards.

The wall clock is read once, at start; from then on the monotonic clock counts. So a clock that is set back, or
slewed, neither expires messages early nor keeps a timer waiting.

Not here: who is woken when (`node.turns`).
"""

import time
from collections.abc import Callable


class Clock:
    """`now_ms` is the time of day at start plus what has elapsed since."""

    __slots__ = ("_monotonic_ns", "_offset_ns")

    def __init__(
        self, wall_ns: Callable[[], int] = time.time_ns, monotonic_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._monotonic_ns = monotonic_ns
        self._offset_ns = wall_ns() - monotonic_ns()

    def now_ms(self) -> int:
        return (self._monotonic_ns() + self._offset_ns) // 1_000_000
