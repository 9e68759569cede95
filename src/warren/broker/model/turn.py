"""The turn: what one call of `Broker.handle` has gathered to do before it returns.

Objects that have something left to do at the end of a turn put themselves on its lists; the broker empties them in a
fixed order (dead letters, drains, confirms, output). That is where all batching comes from: nobody sleeps to batch.

Also the clock of the core: `now_ms` is wall time in milliseconds, set once a turn and never running backwards; and
the timers.

Not here: the order in which the lists are emptied (`broker.broker`).
"""

import heapq
from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64, trait

from warren.broker.model.effects import Effect, Note
from warren.broker.model.ports import DeadLetter, OutputPort, QueuePort
from warren.broker.model.stats import NodeStats

CANCELLED_TIMERS_MIN: Final = 1024


@trait
class TimerTarget:
    """Something that wants to be woken."""

    @abstractmethod
    def timer_fired(self) -> None: ...


@trait
class FlushWaiter:
    """Something that waits until what it wrote is on disk."""

    @abstractmethod
    def flushed(self) -> None: ...


@trait
class TurnCounter:
    """Something that counted in this turn."""

    @abstractmethod
    def fold(self) -> None:
        """Add what was counted to the figures of everybody concerned."""


@final
class Timer:
    """One wish to be woken. A cancelled one forgets whom to wake and stays on the heap as a husk for a while."""

    def __init__(self, target: TimerTarget) -> None:
        self.target: TimerTarget | None = target

    @property
    def live(self) -> bool:
        return self.target is not None


@final
class Turn:
    """The worklists and the clock that every object of one node shares."""

    def __init__(self) -> None:
        self.now_ms: i64 = 0
        self.effects: list[Effect] = []
        self.drains: list[QueuePort] = []
        self.dead_letters: list[DeadLetter] = []
        self.outputs: list[OutputPort] = []
        # connections whose input was held back until their output was gone
        self.inputs: list[OutputPort] = []
        self.held_bytes: i64 = 0
        # memory runs short: what arrives goes to disk alone
        self.tight: bool = False
        # others may have agreed on what this node has not heard of: there may be queues where it knows none
        self.may_be_behind: bool = False
        # who waits for this turn's batch to be on disk
        self.flush_waiters: list[FlushWaiter] = []
        # what was counted in this turn, and what the node counted since it started
        self.counters: list[TurnCounter] = []
        self.stats: NodeStats = NodeStats()
        self._timers: list[tuple[int, int, Timer]] = []
        self._timer_serial: int = 0
        self._cancelled_count: int = 0

    def note(self, level: str, name: str, fields: dict[str, object]) -> None:
        self.effects.append(Note(level, name, fields))

    def await_flush(self, waiter: FlushWaiter) -> None:
        """Tell the waiter when everything written up to the end of this turn is on disk."""
        self.flush_waiters.append(waiter)

    def fold_counters(self) -> None:
        """What was counted in this turn goes into the figures."""
        if self.counters:
            counters = self.counters
            self.counters = []
            for counter in counters:
                counter.fold()

    def set_timer(self, at_ms: i64, target: TimerTarget) -> Timer:
        timer = Timer(target)
        self._timer_serial += 1
        heapq.heappush(self._timers, (at_ms, self._timer_serial, timer))
        return timer

    def cancel_timer(self, timer: Timer) -> None:
        """Wake nobody. The heap is swept when most of it is husks."""
        if timer.target is None:
            return
        timer.target = None
        self._cancelled_count += 1
        if self._cancelled_count > CANCELLED_TIMERS_MIN and self._cancelled_count * 2 > len(self._timers):
            self._timers = [one for one in self._timers if one[2].live]
            heapq.heapify(self._timers)
            self._cancelled_count = 0

    def fire_timers(self) -> None:
        """Wake everyone whose time has come, earliest first."""
        while self._timers and self._timers[0][0] <= self.now_ms:
            timer = heapq.heappop(self._timers)[2]
            target = timer.target
            if target is None:
                self._cancelled_count -= 1
            else:
                timer.target = None
                target.timer_fired()

    def next_timer_ms(self) -> int:
        """When the earliest living timer is due; 0 if there is none."""
        while self._timers and not self._timers[0][2].live:
            heapq.heappop(self._timers)
            self._cancelled_count -= 1
        return self._timers[0][0] if self._timers else 0
