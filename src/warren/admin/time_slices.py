"""Long work in slices, between which the node continues with its turns.

A slice holds the event loop for about `SLICE_S`. All long work is in one queue, and the loop runs one slice per
iteration, so many parallel lists and scrapes delay each other, not the broker's clients.

Not here: the history's samples (`admin.history`), which have slices of their own.
"""

import asyncio
import time
from collections import deque

SLICE_S = 0.005


class SliceQueue:
    """Work that waits for its next slice; one slice per iteration of the loop."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._moving = False

    def busy(self) -> bool:
        return self._moving

    async def turn(self) -> None:
        """Wait for the next slice."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # the waiters of a former loop are gone with it
            self._loop, self._moving = loop, False
            self._waiting.clear()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        if not self._moving:
            self._moving = True
            loop.call_soon(self._move, loop)
        await turn

    def _move(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wake one waiter. It runs in the next iteration, alone."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                loop.call_soon(self._move, loop)
                return
        self._moving = False


_QUEUE = SliceQueue()


class TimeSlicer:
    """One piece of long work. It starts at the end of the queue, if there is one."""

    def __init__(self) -> None:
        self._until = 0.0 if _QUEUE.busy() else time.monotonic() + SLICE_S

    async def rest(self) -> None:
        if time.monotonic() >= self._until:
            await _QUEUE.turn()
            self._until = time.monotonic() + SLICE_S
