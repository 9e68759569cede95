"""The timer that stands for the earliest deadline among a queue's heads.

It is set anew only for an earlier one; a deadline that went away leaves it to fire for nothing. So it may fire early,
never late.

Not here: which deadlines there are (`queue.contents`), what happens at one (`queue.queue`).
"""

from typing import final

from mypy_extensions import i64

from warren.model.message import NEVER
from warren.model.turn import Timed, Timer, Turn


@final
class DeadlineTimer:
    """One queue's timer."""

    def __init__(self, turn: Turn, target: Timed) -> None:
        self._turn: Turn = turn
        self._target: Timed = target
        self._timer: Timer | None = None
        self._at_ms: i64 = 0

    def set(self, earliest_ms: i64) -> None:
        """Fire then or earlier; `NEVER` asks for nothing."""
        if earliest_ms == NEVER:
            return
        timer = self._timer
        if timer is not None and timer.live:
            if self._at_ms <= earliest_ms:
                return
            self._turn.cancel_timer(timer)
        self._timer = self._turn.set_timer(earliest_ms, self._target)
        self._at_ms = earliest_ms

    def cancel(self) -> None:
        if self._timer is not None:
            self._turn.cancel_timer(self._timer)
