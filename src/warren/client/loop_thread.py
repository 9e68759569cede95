"""An event loop in a thread of its own, for programs without one: every blocking face stands on it.

Invariants: what is run begins behind what was posted before it; a thread that was stopped runs nothing more, and says
so with a `ConnectionClosed`.

Not here: what is run there (`client.blocking`, and the faces of what is built on the client).
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

from warren.client.errors import ClientError, ConnectionClosed

R = TypeVar("R")


class LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._posted: deque[Callable[[], None]] = deque()
        self._round_is_due = False
        self._trouble: Exception | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="warren-client", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """What a coroutine comes to; if the caller is interrupted it is cancelled."""
        if self._loop.is_closed():
            coroutine.close()
            raise ConnectionClosed("the connection was closed")
        return self._result(self._after_posted(coroutine))

    def post(self, call: Callable[[], None]) -> None:
        """Have something done without waiting for it; what is posted together is done together."""
        if self._loop.is_closed():
            raise ConnectionClosed("the connection was closed")
        self._posted.append(call)
        if not self._round_is_due:
            self._round_is_due = True
            self._loop.call_soon_threadsafe(self._do_posted)

    def stop(self, last: Coroutine[Any, Any, None] | None = None) -> None:
        """End the thread, after a last thing to do."""
        if self._loop.is_closed():
            if last is not None:
                last.close()
            return
        try:
            if last is not None:
                self._result(last)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _result(self, coroutine: Coroutine[Any, Any, R]) -> R:
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def _after_posted(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """Begins in the thread, behind what was posted before it."""
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            coroutine.close()
            raise trouble
        return await coroutine

    def _do_posted(self) -> None:
        # before the deque is looked at: whoever appends behind this round's last look asks for another round
        self._round_is_due = False
        while self._posted:
            try:
                self._posted.popleft()()
            except ValueError as mistake:
                self._trouble = mistake
            except ClientError:
                # the channel has ended, which its next call will tell
                continue
