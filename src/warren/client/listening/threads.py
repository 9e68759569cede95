"""Threads for handlers that are plain functions, so that heartbeats are answered while they compute.

They are daemons: a handler that does not return keeps neither a listener from stopping within its deadline nor the
process from ending. Its message has gone back to the queue by then.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from queue import SimpleQueue

Job = Callable[[], None]


class Threads:
    """As many as are needed at once, up to a number."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._started = 0
        self._at_work = 0
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()

    async def run(self, call: Callable[[], object]) -> object:
        """What the call comes to; if the caller is cancelled the thread goes on, and nobody hears of it."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[object] = loop.create_future()
        context = contextvars.copy_context()

        def job() -> None:
            result: object = None
            error: BaseException | None = None
            try:
                result = context.run(call)
            except BaseException as raised:
                error = raised
            try:
                loop.call_soon_threadsafe(self._ended, future, result, error)
            except RuntimeError:
                # the loop has ended without us: nobody waits for the result
                return

        self._at_work += 1
        if self._at_work > self._started and self._started < self._count_max:
            self._started += 1
            threading.Thread(target=self._work, name=f"warren-handler-{self._started}", daemon=True).start()
        self._jobs.put(job)
        return await future

    def stop(self) -> None:
        """Those at work end when they return."""
        for _ in range(self._started):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def _ended(self, future: asyncio.Future[object], result: object, error: BaseException | None) -> None:
        self._at_work -= 1
        if future.done():
            return
        if error is None:
            future.set_result(result)
        elif isinstance(error, Exception) and not isinstance(error, StopIteration):
            future.set_exception(error)
        else:
            # what ends a thread or an iterator is a failure like any other to the one who waits
            future.set_exception(RuntimeError(f"the handler raised {error!r}"))
