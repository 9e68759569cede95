"""The loops of a node that run beside its turns. A loop that fails is logged and starts again.

A loop is a function that returns a coroutine. If the coroutine raises, the loop is started again after a pause, which
doubles with each failure up to `PAUSE_MAX_S`. A loop counts as failing from its failure until it has run for `STEADY_S`
without another one; the health check names the failing loops. A coroutine that returns is done.

Every loop of the node and of the admin package runs here, so that none of them can end unnoticed.

Not here: bridges, which have states of their own (`bridges.supervisor`), and work that ends by itself: requests,
handshakes, traces. Threads of the disk end the node when they fail (`node.disk`).
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

PAUSE_MIN_S = 1.0
PAUSE_MAX_S = 60.0
STEADY_S = 60.0

Work = Callable[[], Coroutine[Any, Any, None]]


class ErrorLog(Protocol):
    """The log for bugs."""

    def error(self, event: str, **fields: object) -> None: ...


class BackgroundTask:
    """One loop."""

    def __init__(self, name: str, work: Work, log: ErrorLog, clock: Callable[[], float]) -> None:
        self.name = name
        self.failures = 0
        # why it failed last
        self.reason = ""
        self._work = work
        self._log = log
        self._clock = clock
        self._failed_at = 0.0
        self._pause_s = PAUSE_MIN_S
        self.task = asyncio.get_running_loop().create_task(self._run(), name=name)

    def cancel(self) -> None:
        self.task.cancel()

    def is_failing(self) -> bool:
        return self.failures > 0 and not self.task.done() and self._clock() - self._failed_at < self._pause_s + STEADY_S

    async def _run(self) -> None:
        while True:
            started = self._clock()
            try:
                await self._work()
                return
            except Exception as error:
                steady = self._clock() - started >= STEADY_S
                self._pause_s = PAUSE_MIN_S if steady or not self.failures else min(self._pause_s * 2, PAUSE_MAX_S)
                self._failed(error)
            await asyncio.sleep(self._pause_s)

    def _failed(self, error: Exception) -> None:
        self.failures += 1
        self.reason = f"{type(error).__name__}: {error}"
        self._failed_at = self._clock()
        self._log.error(
            "task.failed",
            task=self.name,
            reason=self.reason,
            failures=self.failures,
            again_in_s=self._pause_s,
            exc_info=error,
        )


class BackgroundTasks:
    """The loops of one run of a node."""

    def __init__(self, log: ErrorLog, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._running: list[BackgroundTask] = []
        # of loops that are done
        self._past_failures = 0

    def start(self, name: str, work: Work) -> BackgroundTask:
        """Run this loop until it returns or is cancelled."""
        started = BackgroundTask(name, work, self._log, self._clock)
        self._running.append(started)
        started.task.add_done_callback(lambda task: self._ended(started))
        return started

    def every(self, name: str, interval_s: float, call: Callable[[], None]) -> BackgroundTask:
        """Call this function after each interval."""

        async def repeat() -> None:
            while True:
                await asyncio.sleep(interval_s)
                call()

        return self.start(name, repeat)

    def failing(self) -> list[BackgroundTask]:
        """The loops that failed lately, and have not run for long since."""
        return [task for task in self._running if task.is_failing()]

    def failures(self) -> int:
        """How often a loop has failed since the node started."""
        return self._past_failures + sum(task.failures for task in self._running)

    def _ended(self, ended: BackgroundTask) -> None:
        self._running.remove(ended)
        self._past_failures += ended.failures
