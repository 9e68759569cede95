"""The turn: the work that one call of `Broker.handle` collects and completes before it returns.

Objects with work left at the end of a turn put themselves on its lists; the broker empties the lists in a fixed order
(dead letters, drains, confirms, output). All batching comes from this order, and none from waiting.

A turn has a budget of *work*: messages put into queues, deliveries, and methods, which cost as much as several
messages. A message that is routed to a thousand queues costs a thousand times as much as one that is routed to one, so
bytes that were read say little about the time that they take. When the budget is used, connections that cause work are
held until the next turn. They share that turn's budget, so that none of them delays the others. Connections that cause
none are not held. Queues that have not been drained are drained in the next turn; until then publishers get a quarter
of the budget, because what is delivered leaves memory. Timers have a quarter of the budget for themselves: many queues
and messages may expire at the same time.

Entries that left a queue by the thousand are freed in slices (`discard`): freeing a million takes longer than a turn
may.

The turn is also the core's clock and has its timers: `now_ms` is wall time in milliseconds, set once a turn, and never
runs backwards.

Not here: the order in which the lists are emptied (`broker.broker`).
"""

import heapq
from abc import abstractmethod
from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64, trait

from warren.broker.model.effects import Effect, Note
from warren.broker.model.message import Entry
from warren.broker.model.ports import DeadLetter, OutputPort, QueuePort
from warren.broker.model.settings import WORK_A_TURN
from warren.broker.model.stats import NodeStats

CANCELLED_TIMERS_MIN: Final = 1024
METHOD_WORK: Final[i64] = 16
"""The work of a method that declares, binds, deletes, consumes or gets. An entry of a queue is the unit."""
SETTLE_WORK: Final[i64] = 2
"""The work of a nack or a reject, besides that of its deliveries."""
FREED_A_TURN: Final[i64] = 20_000
ROUTING_STEPS_A_TURN: Final[i64] = 100_000
"""A few milliseconds of routing (`broker.routing.exchanges.RoutedMessage`). The rest waits for the next turn."""

SPARE_BUFFERS_MAX: Final = 16
SPARE_BUFFER_BYTES_MAX: Final[i64] = 1024 * 1024


@trait
class TimerTarget:
    """The owner of a timer."""

    @abstractmethod
    def timer_fired(self) -> None: ...


@trait
class FlushWaiter:
    """Waits for the flush of a turn's batch."""

    @abstractmethod
    def flushed(self) -> None: ...


@trait
class TurnCounter:
    """Counters of one turn."""

    @abstractmethod
    def fold(self) -> None:
        """Add this turn's counts to the stats of queue, channel, virtual host and node."""


@final
class Timer:
    """One timer. A cancelled timer has no target and stays on the heap until it is swept."""

    def __init__(self, target: TimerTarget) -> None:
        self.target: TimerTarget | None = target

    @property
    def live(self) -> bool:
        return self.target is not None


@final
class SpareBuffers:
    """Buffers that grew in one turn serve the next ones: growing a large buffer costs more than filling it."""

    def __init__(self) -> None:
        self._spare: list[BytesWriter] = []

    def take(self) -> BytesWriter:
        """An empty buffer."""
        return self._spare.pop() if self._spare else BytesWriter()

    def give_back(self, buffer: BytesWriter) -> None:
        """The bytes of this buffer are not needed any more."""
        if len(buffer) <= SPARE_BUFFER_BYTES_MAX and len(self._spare) < SPARE_BUFFERS_MAX:
            buffer.truncate(0)
            self._spare.append(buffer)


@final
class Turn:
    """The worklists and the clock that all objects of a node share."""

    def __init__(self, work_a_turn: i64 = WORK_A_TURN) -> None:
        self.now_ms: i64 = 0
        self.work_a_turn: i64 = work_a_turn
        self.effects: list[Effect] = []
        # messages put into queues by the input of this turn; how many are too many; the share of one connection
        self.work: i64 = 0
        self.work_max: i64 = work_a_turn
        self.work_share: i64 = work_a_turn
        self.drains: list[QueuePort] = []
        self.dead_letters: list[DeadLetter] = []
        self.outputs: list[OutputPort] = []
        # connections and waiters that can resume
        self.inputs: list[OutputPort] = []
        # steps of matchers in this turn (`broker.routing`)
        self.routing_steps: i64 = 0
        # bytes of messages in memory
        self.held_bytes: i64 = 0
        # memory is low: new messages are kept on disk only
        self.memory_low: bool = False
        # this node may lack recent metadata of the cluster: queues that it does not know may exist
        self.may_be_behind: bool = False
        # wait for the flush of this turn's batch
        self.flush_waiters: list[FlushWaiter] = []
        # the counters of this turn, and the node's stats since its start
        self.counters: list[TurnCounter] = []
        self.stats: NodeStats = NodeStats()
        self.buffers: SpareBuffers = SpareBuffers()
        # entries that are only to be freed
        self.discards: list[list[Entry | None]] = []
        self._timers: list[tuple[int, int, Timer]] = []
        self._timer_serial: int = 0
        self._cancelled_count: int = 0

    def begin(self, now_ms: i64) -> None:
        """Set the clock and the budget. Held connections are on `inputs`, undrained queues on `drains`."""
        self.now_ms = max(self.now_ms, now_ms)
        self.work = 0
        self.routing_steps = 0
        self.work_max = self.work_a_turn // 4 if self.drains else self.work_a_turn
        self.work_share = max(self.work_max // max(len(self.inputs), 1), 1)

    def work_limit(self) -> i64:
        """The `work` at which one connection is held: it used its share, or did some of it beyond the budget."""
        return min(self.work + self.work_share, max(self.work_max, self.work + 1))

    def drain_before_reply(self) -> None:
        """Deliver earlier messages ahead of a reply, unless deliveries are left over from the last turn."""
        if self.drains and self.work_max == self.work_a_turn:
            self.drain_queues()

    def drain_queues(self) -> None:
        """Deliver what consumers can take. The queues beyond this turn's budget are the first of the next turn."""
        drains = self.drains
        self.drains = []
        for drained, queue in enumerate(drains):
            if self.work >= self.work_a_turn:
                self.drains = drains[drained:] + self.drains
                return
            queue.drain()

    def note(self, level: str, name: str, fields: dict[str, object]) -> None:
        self.effects.append(Note(level, name, fields))

    def await_flush(self, waiter: FlushWaiter) -> None:
        """Call the waiter when everything written up to the end of this turn is flushed."""
        self.flush_waiters.append(waiter)

    def fold_counters(self) -> None:
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
        """Cancel a timer. The heap is swept when most of its timers are cancelled."""
        if timer.target is None:
            return
        timer.target = None
        self._cancelled_count += 1
        if self._cancelled_count > CANCELLED_TIMERS_MIN and self._cancelled_count * 2 > len(self._timers):
            self._timers = [one for one in self._timers if one[2].live]
            heapq.heapify(self._timers)
            self._cancelled_count = 0

    def discard(self, entries: list[Entry | None]) -> None:
        """Free these entries, if they are many not all in this turn. The list must not be used any more."""
        if len(entries) > FREED_A_TURN:
            self.discards.append(entries)

    def free_discards(self) -> None:
        if self.discards:
            entries = self.discards[-1]
            del entries[-FREED_A_TURN:]
            if not entries:
                self.discards.pop()

    def fire_timers(self) -> None:
        """Fire the timers that are due, earliest first, until they have used their share of the budget."""
        work_max = self.work + max(self.work_a_turn // 4, 1)
        while self._timers and self._timers[0][0] <= self.now_ms and self.work < work_max:
            timer = heapq.heappop(self._timers)[2]
            target = timer.target
            if target is None:
                self._cancelled_count -= 1
            else:
                timer.target = None
                target.timer_fired()

    def next_timer_ms(self) -> int:
        """When the next timer is due; 0 if there is none."""
        while self._timers and not self._timers[0][2].live:
            heapq.heappop(self._timers)
            self._cancelled_count -= 1
        return self._timers[0][0] if self._timers else 0
