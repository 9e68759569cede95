"""Long work in slices, between which the node goes on with its turns.

A slice holds the loop up for about `SLICE_S`. All long work stands in one row: however many lists and scrapes are
under way, the loop goes round after each slice, and not after a slice of each of them. So whoever asks for many at
once waits for them, and clients of the broker do not.

Not here: the history's samples (`history.history`), which are one piece of work and have slices of their own.
"""

import asyncio
import time
from collections import deque

SLICE_S = 0.005


class SliceQueue:
    """Those whose slice was over, each of whom has another when it is their turn: one a round of the loop."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._moving = False

    def busy(self) -> bool:
        return self._moving

    async def turn(self) -> None:
        """Wait until it is one's turn."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # who waited in another is gone with it
            self._loop, self._moving = loop, False
            self._waiting.clear()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        if not self._moving:
            self._moving = True
            loop.call_soon(self._move, loop)
        await turn

    def _move(self, loop: asyncio.AbstractEventLoop) -> None:
        """Whoever is let go on does so in the next round, in which nobody else is."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                loop.call_soon(self._move, loop)
                return
        self._moving = False


_QUEUE = SliceQueue()


class TimeSlicer:
    """One piece of long work, which rests when its slice is over; it begins at the end of the row, if there is one."""

    def __init__(self) -> None:
        self._until = 0.0 if _QUEUE.busy() else time.monotonic() + SLICE_S

    async def rest(self) -> None:
        if time.monotonic() >= self._until:
            await _QUEUE.turn()
            self._until = time.monotonic() + SLICE_S
