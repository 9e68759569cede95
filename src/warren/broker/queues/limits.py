"""What leaves a queue without being delivered: expired, beyond a limit, refused too often.

It becomes a dead letter if the queue has an exchange for those, and is dropped otherwise. On disk what is dropped is
forgotten at once; a dead letter only when it was published, because a crash must not lose it in between.

Heads must be in memory to be judged. One that is on disk only is read first, and judged when the queue, woken by its
arrival, comes here again; the limit is exceeded for so long.

A message that lives 0 ms may still go to a consumer that is able in the turn it came in: overdue is what was due
before this turn began.

Not here: when to look (`broker.queues.queue`), the way of a dead letter (`broker.dead_letters`).

The timer that stands for the earliest deadline among a queue's heads.

It is set anew only for an earlier one; a deadline that went away leaves it to fire for nothing. So it may fire early,
never late.

Not here: which deadlines there are (`broker.queues.contents`), what happens at one (`broker.queues.queue`).
"""

from typing import final

from mypy_extensions import i64

from warren.broker.model.message import NEVER, Entry, Message
from warren.broker.model.ports import DeadLetter, QueuePort
from warren.broker.model.turn import Timer, TimerTarget, Turn
from warren.broker.queues.contents import QueueContents
from warren.broker.queues.paging import FETCH_FEW, Paging
from warren.broker.queues.settings import REJECT_PUBLISH_DLX, QueueSettings


@final
class DeadlineTimer:
    """One queue's timer."""

    def __init__(self, turn: Turn, target: TimerTarget) -> None:
        self._turn: Turn = turn
        self._target: TimerTarget = target
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


@final
class LimitEnforcer(TimerTarget):
    """Takes from one queue's contents what dies there."""

    def __init__(
        self, queue: QueuePort, settings: QueueSettings, contents: QueueContents, paging: Paging | None, turn: Turn
    ) -> None:
        self.settings: QueueSettings = settings
        self.timer: DeadlineTimer = DeadlineTimer(turn, self)
        # messages that got no further than the door
        self.refused_count: i64 = 0
        # messages that are taken, and have not come in yet
        self.reserved_count: i64 = 0
        self.reserved_bytes: i64 = 0
        self._queue: QueuePort = queue
        self._contents: QueueContents = contents
        self._paging: Paging | None = paging
        self._turn: Turn = turn

    def dead_letter(self, entry: Entry, reason: str) -> None:
        """An entry that is in the queue no more becomes a dead letter, or nothing."""
        exchange = self.settings.dead_letter_exchange
        if exchange is not None:
            self._turn.stats.dead_lettered.count(reason)
            key = self.settings.dead_letter_routing_key
            self._turn.dead_letters.append(DeadLetter(self._queue, entry, reason, exchange, key))
            return
        self._turn.stats.dead_dropped.count(reason)
        if self._paging is not None:
            self._paging.forget(entry)

    # -- limits

    def overflows(self) -> bool:
        contents = self._contents
        return self.settings.exceeded_by(contents.ready_count, contents.ready_bytes)

    def overflows_with(self, message: Message) -> bool:
        count: i64 = self._contents.ready_count + self.reserved_count + 1
        body_bytes: i64 = self._contents.ready_bytes + self.reserved_bytes + message.body_bytes
        return self.settings.exceeded_by(count, body_bytes)

    def drop_heads(self) -> None:
        """Heads go until the queue is within its limit."""
        paging = self._paging
        while self.overflows():
            if paging is not None and not paging.at_hand():
                return
            self.dead_letter(self._contents.take(True), "maxlen")

    def refuse(self, message: Message) -> None:
        """A message goes no further than the door."""
        self.refused_count += 1
        if self.settings.overflow == REJECT_PUBLISH_DLX:
            self.dead_letter(Entry(message, 0, NEVER), "maxlen")

    # -- deadlines

    def timer_fired(self) -> None:
        self.expire_due()

    def expire_due(self) -> None:
        """Heads whose time has come go, and the timer is set for the next one; in a stopped queue they stay."""
        if self._paging is not None and self._paging.stopped:
            return
        self._expire(self._turn.now_ms)
        self.timer.set(self._contents.earliest_deadline_ms())

    def expire_returned(self) -> None:
        """Heads that are due and were out once go; what came in this turn still has its chance."""
        for entry in self._contents.take_expired(self._turn.now_ms, returned_only=True):
            self.dead_letter(entry, "expired")

    def expired_overdue(self) -> bool:
        """Whether the next entry was overdue when this turn began, and so went instead of being handed out."""
        before_ms: i64 = self._turn.now_ms - 1
        if not self._contents.next_expires_by(before_ms):
            return False
        self._expire(before_ms)
        return True

    def _expire(self, until_ms: i64) -> None:
        contents = self._contents
        paging = self._paging
        more = True
        while more:
            for entry in contents.take_expired(until_ms):
                self.dead_letter(entry, "expired")
            more = paging is not None and paging.fetch(contents.run_to_expire(), FETCH_FEW)
