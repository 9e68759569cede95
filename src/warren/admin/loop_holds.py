"""How long the work of a node holds its event loop, measured on two clocks.

All clients wait while a turn of the broker or a step of a request runs (a *step* is the work between two waits). Both
are measured here in wall time, which is what clients wait, and in processor time of the loop's thread. Processor time
decides what is slow: on a busy machine a thread waits for the processor in the midst of its work, which says nothing
about the work. So slow work is a defect of the node or the doing of a client, and the machine is never the reason.

Work that takes longer than `SLOW_S` of the processor is counted and logged. Work that took longer than `STALLED_S` on
the wall clock is logged as well, even if it used little of the processor: it may have waited for a disk.

The second clock costs a system call, so at the end it is read only for work that took longer than `short_s`: shorter
work can neither be slow nor be the longest.

Not here: delays of the event loop by anything else (`node.admin_ports`).
"""

from collections.abc import Callable, Coroutine, Generator
from functools import partial
from time import perf_counter, thread_time
from types import coroutine
from typing import Any, Protocol

SLOW_S = 0.05
STALLED_S = 1.0
LOG_EVERY_S = 1.0


class WarningLog(Protocol):
    def warning(self, event: str, **fields: object) -> None: ...


class LoopHolds:
    """One kind of work. Logs at most a line a second, with the number of slow ones that it skipped."""

    __slots__ = ("_event", "_log", "_logged_at", "_skipped", "longest_cpu_s", "longest_s", "short_s", "slow_count")

    def __init__(self, event: str, log: WarningLog) -> None:
        """`event` is the name of the log line."""
        self.slow_count = 0
        self.longest_s = 0.0
        self.longest_cpu_s = 0.0
        self.short_s = 0.0
        self._event = event
        self._log = log
        self._logged_at = -LOG_EVERY_S
        self._skipped = 0

    def ended(
        self,
        started: float,
        cpu_started: float,
        ended: float,
        describe: Callable[..., dict[str, object]],
        *facts: object,
    ) -> None:
        """Work that took longer than `short_s` is over. `describe` makes the log's fields from the facts."""
        took_s, cpu_s = ended - started, thread_time() - cpu_started
        self.longest_s = max(self.longest_s, took_s)
        self.longest_cpu_s = max(self.longest_cpu_s, cpu_s)
        self.short_s = min(self.longest_cpu_s, SLOW_S)
        if cpu_s > SLOW_S:
            self.slow_count += 1
        elif took_s <= STALLED_S:
            return
        if ended - self._logged_at < LOG_EVERY_S:
            self._skipped += 1
            return
        times = {"ms": round(took_s * 1000), "cpu_ms": round(cpu_s * 1000)}
        self._log.warning(self._event, **times, **describe(*facts), skipped=self._skipped)
        self._logged_at = ended
        self._skipped = 0


@coroutine
def in_measured_steps(
    work: Coroutine[Any, Any, None], holds: LoopHolds, describe: Callable[..., dict[str, object]], *facts: object
) -> Generator[Any, Any, None]:
    """Await the coroutine, and measure each of its steps."""
    step: Callable[[], Any] = partial(work.send, None)
    while True:
        started, cpu_started = perf_counter(), thread_time()
        try:
            awaited = step()
        except StopIteration:
            return
        finally:
            ended = perf_counter()
            if ended - started > holds.short_s:
                holds.ended(started, cpu_started, ended, describe, *facts)
        try:
            result = yield awaited
        except BaseException as error:
            step = partial(work.throw, error)
        else:
            step = partial(work.send, result)
