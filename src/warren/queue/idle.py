"""The clock of a queue that goes away when nobody uses it (`x-expires`).

Use only writes down a time; the timer that fires compares, and sets itself again for the rest. A queue with
consumers is in use: the timer then lapses, and the going of the last consumer, being a use, sets it again.

Invariant: while the queue has no consumers a timer is set, no later than the queue's end.

Not here: what counts as use (`queue.queue`, and whoever calls `touch`), the deletion (`queue.keeper`).
"""

from typing import final

from mypy_extensions import i64

from warren.model.ports import QueuePort
from warren.model.turn import Timed, Timer, Turn
from warren.queue.keeper import QueueKeeper


@final
class IdleClock(Timed):
    """Tells the keeper when one queue went unused for long enough."""

    def __init__(self, queue: QueuePort, expires_ms: i64, turn: Turn, keeper: QueueKeeper) -> None:
        self._queue: QueuePort = queue
        self._expires_ms: i64 = expires_ms
        self._turn: Turn = turn
        self._keeper: QueueKeeper = keeper
        self._last_used_ms: i64 = turn.now_ms
        self._timer: Timer | None = None

    def touch(self) -> None:
        self._last_used_ms = self._turn.now_ms
        if self._timer is None and self._queue.consumer_count() == 0:
            self._timer = self._turn.set_timer(self._last_used_ms + self._expires_ms, self)

    def stop(self) -> None:
        if self._timer is not None:
            self._turn.cancel_timer(self._timer)
            self._timer = None

    def timer_fired(self) -> None:
        self._timer = None
        if self._queue.consumer_count() != 0:
            return
        deadline_ms = self._last_used_ms + self._expires_ms
        if self._turn.now_ms < deadline_ms:
            self._timer = self._turn.set_timer(deadline_ms, self)
        else:
            self._keeper.queue_expired(self._queue)
