"""An event loop in its own thread: the base of all blocking interfaces.

Other threads append their work to one queue, and one wake-up of the loop does all work in it. A waiting thread blocks
on a lock, which the loop releases when the coroutine has ended. The threads share nothing else.

Invariants: work begins after all work posted before it, even if that raised. Every waiting thread gets an answer: a
thread that was stopped, or left behind by a fork, runs nothing more and raises `ConnectionClosed`.

Not here: the work itself (`client.blocking` and the other blocking modules).
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar, cast

import uvloop

from warren.client.errors import ClientError, ConnectionClosed

R = TypeVar("R")

CLOSED: Final = "the connection was closed"
OWN_THREAD: Final = "a blocking call in the thread of its own connection would wait for itself"
END_DEADLINE_S: Final = 1.0
"""The time for running coroutines to end when the thread stops."""


class ForkCounter:
    """The number of forks between this process and the one that imported this module."""

    count = 0

    @classmethod
    def happened(cls) -> None:
        cls.count += 1


os.register_at_fork(after_in_child=ForkCounter.happened)


class LoopFuture(Generic[R]):
    """A future that the loop completes and one other thread waits for; cheaper than `concurrent.futures.Future`."""

    def __init__(
        self, begin: "Callable[[LoopFuture[R]], None] | None" = None, coroutine: Coroutine[Any, Any, R] | None = None
    ) -> None:
        """`begin` starts the work, or `coroutine` is the work."""
        self._begin = begin
        self._coroutine = coroutine
        self._task: asyncio.Task[None] | None = None
        self._value: R | None = None
        self._error: BaseException | None = None
        self._is_done = False
        self._over = threading.Lock()
        self._over.acquire()

    # on the loop

    def begin(self) -> None:
        if self._coroutine is not None:
            self.follow(self._coroutine)
        elif self._begin is not None:
            try:
                self._begin(self)
            except Exception as error:
                self.set_exception(error)

    def refuse(self, error: Exception) -> None:
        if self._coroutine is not None:
            self._coroutine.close()
        self.set_exception(error)

    def follow(self, coroutine: Coroutine[Any, Any, R]) -> None:
        """Complete with the result of a coroutine."""
        self._task = asyncio.get_running_loop().create_task(self._run(coroutine))

    def done(self) -> bool:
        return self._is_done

    def set_result(self, value: R) -> None:
        self._value = value
        self._is_done = True
        self._over.release()

    def set_exception(self, error: BaseException) -> None:
        self._error = error
        self._is_done = True
        self._over.release()

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self, coroutine: Coroutine[Any, Any, R]) -> None:
        try:
            value = await coroutine
        except asyncio.CancelledError:
            # cancelled by the end of the thread, or by a caller that was interrupted and no longer waits
            self.set_exception(ConnectionClosed(CLOSED))
        except BaseException as error:
            self.set_exception(error)
        else:
            self.set_result(value)

    # on the other thread

    def wait(self) -> None:
        self._over.acquire()

    def result(self) -> R:
        """The result, after `wait`."""
        if self._error is None:
            return cast("R", self._value)
        try:
            raise self._error
        finally:
            # the traceback of the error refers to this frame
            del self


class LoopThread:
    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._forks = ForkCounter.count
        self._posted: deque[Callable[[], None] | LoopFuture[Any]] = deque()
        self._round_is_due = False
        self._trouble: Exception | None = None
        # futures with a waiting thread
        self._waits: set[LoopFuture[Any]] = set()
        self._stopping = threading.Lock()
        self._is_ending = False
        self._ending: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="warren-client", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """The result of a coroutine. If the caller is interrupted, the coroutine is cancelled."""
        return self._wait(LoopFuture(coroutine=coroutine))

    def wait(self, begin: Callable[[LoopFuture[R]], None]) -> R:
        """Begin work on the loop, and wait until its future is completed."""
        return self._wait(LoopFuture(begin))

    def post(self, call: Callable[[], None]) -> None:
        """Run a call on the loop without waiting; calls posted together run together."""
        if reason := self._closed_reason():
            raise ConnectionClosed(reason)
        self._put(call)

    def stop(self, last: Coroutine[Any, Any, None] | None = None) -> None:
        """End the thread, after a last coroutine."""
        if self._is_this_thread():
            if last is not None:
                last.close()
            raise ValueError(OWN_THREAD)
        with self._stopping:
            if self._closed_reason():
                if last is not None:
                    last.close()
                return
            try:
                if last is not None:
                    waited = LoopFuture(coroutine=last)
                    self._loop.call_soon_threadsafe(waited.begin)
                    self._result(waited)
            finally:
                self._loop.call_soon_threadsafe(self._end)
                self._thread.join()
                self._loop.close()
                self._refuse_posted()
                self._refuse_begun()

    def _wait(self, waited: LoopFuture[R]) -> R:
        if self._is_this_thread():
            waited.refuse(ValueError(OWN_THREAD))
            return waited.result()
        self._waits.add(waited)
        try:
            reason = self._closed_reason()
            if reason:
                waited.refuse(ConnectionClosed(reason))
            else:
                self._put(waited)
            return self._result(waited)
        finally:
            self._waits.discard(waited)

    def _is_this_thread(self) -> bool:
        """Whether a call from this thread would wait for itself."""
        return threading.get_ident() == self._thread.ident

    def _put(self, what: Callable[[], None] | LoopFuture[Any]) -> None:
        self._posted.append(what)
        if not self._round_is_due:
            self._round_is_due = True
            try:
                self._loop.call_soon_threadsafe(self._do_posted)
            except RuntimeError:
                # another thread has stopped it meanwhile
                self._refuse_posted()

    def _closed_reason(self) -> str:
        if self._forks != ForkCounter.count:
            return "the connection belongs to the process that this one was forked from: open one in this process"
        return CLOSED if self._loop.is_closed() else ""

    def _result(self, waited: LoopFuture[R]) -> R:
        try:
            waited.wait()
        except BaseException:
            # a signal handler has raised
            self._loop.call_soon_threadsafe(waited.cancel)
            raise
        return waited.result()

    def _do_posted(self) -> None:
        # reset before reading the deque: work appended after the last read requests another round
        self._round_is_due = False
        while self._posted:
            posted = self._posted.popleft()
            if isinstance(posted, LoopFuture):
                self._begin(posted)
            else:
                self._do(posted)

    def _begin(self, waited: LoopFuture[Any]) -> None:
        trouble, self._trouble = self._trouble, None
        if self._is_ending:
            waited.refuse(ConnectionClosed(CLOSED))
        elif trouble is None:
            waited.begin()
        else:
            waited.refuse(trouble)

    def _do(self, call: Callable[[], None]) -> None:
        try:
            call()
        except ClientError:
            # the channel has ended; its next call raises the reason
            return
        except Exception as mistake:
            self._trouble = mistake

    def _end(self) -> None:
        """Begin nothing more, and stop the loop after all running coroutines are cancelled."""
        self._is_ending = True
        self._ending = self._loop.create_task(self._end_all())

    async def _end_all(self) -> None:
        left = asyncio.all_tasks() - {self._ending}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=END_DEADLINE_S)
        self._loop.stop()

    def _refuse_posted(self) -> None:
        """Refuse work that came too late; later callers find the loop closed."""
        self._round_is_due = False
        while self._posted:
            posted = self._posted.popleft()
            if isinstance(posted, LoopFuture):
                posted.refuse(ConnectionClosed(CLOSED))

    def _refuse_begun(self) -> None:
        """Complete the futures of coroutines that did not end when cancelled."""
        for waited in list(self._waits):
            if not waited.done():
                waited.set_exception(ConnectionClosed(CLOSED))
