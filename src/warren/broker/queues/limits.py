"""Messages that leave a queue without an ack: expired, over a length limit, or over the delivery limit.

Such a message becomes a dead letter if the queue has a dead-letter exchange, and is dropped otherwise. A dropped
message is removed from the log at once; a dead letter only after it was published, so that a crash in between does not
lose it.

Only heads in memory can expire or be dropped. A head on disk is read first; its arrival wakes the queue, which then
expires or drops it. Until then the queue is over its limit.

A message with a TTL of 0 ms can still be delivered in the turn in which it arrives: a message is overdue if its
deadline was before this turn.

Many messages may expire at once, and a policy may set a limit far below the length of a queue. So each call expires or
drops a slice of `AT_ONCE` messages, counts it as work of the turn, and leaves the rest to the timer, which then fires
in the next turn. No message that is due is delivered meanwhile.

`DeadlineTimer` fires at the earliest deadline of the queue's heads. It is only ever moved to an earlier time, so it may
fire early, and never late.

Not here: when limits are enforced (`broker.queues.queue`), publishing dead letters (`broker.dead_letters`), which
deadlines exist (`broker.queues.contents`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.message import NEVER, Entry, Message
from warren.broker.model.ports import DeadLetter, QueuePort
from warren.broker.model.turn import Timer, TimerTarget, Turn
from warren.broker.queues.contents import QueueContents
from warren.broker.queues.paging import FETCH_FEW, Paging
from warren.broker.queues.settings import REJECT_PUBLISH_DLX, QueueSettings

AT_ONCE: Final[i64] = 8_000


@final
class DeadlineTimer:
    """The expiry timer of one queue."""

    def __init__(self, turn: Turn, target: TimerTarget) -> None:
        self._turn: Turn = turn
        self._target: TimerTarget = target
        self._timer: Timer | None = None
        self._at_ms: i64 = 0

    def set(self, earliest_ms: i64) -> None:
        """Fire at this time or earlier; `NEVER` changes nothing."""
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
    """Expires, drops and dead-letters the messages of one queue."""

    def __init__(
        self, queue: QueuePort, settings: QueueSettings, contents: QueueContents, paging: Paging | None, turn: Turn
    ) -> None:
        self.settings: QueueSettings = settings
        self.timer: DeadlineTimer = DeadlineTimer(turn, self)
        # messages that a limit refused
        self.refused_count: i64 = 0
        # messages that are reserved, and have not arrived yet
        self.reserved_count: i64 = 0
        self.reserved_bytes: i64 = 0
        self._queue: QueuePort = queue
        self._contents: QueueContents = contents
        self._paging: Paging | None = paging
        self._turn: Turn = turn

    def dead_letter(self, entry: Entry, reason: str) -> None:
        """Dead-letter or drop an entry that has left the queue."""
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
        """Drop heads until the queue is within its limit, or a slice of them."""
        paging = self._paging
        dropped: i64 = 0
        while dropped < AT_ONCE and self.overflows():
            if paging is not None and not paging.head_in_memory():
                break
            self.dead_letter(self._contents.take(True), "maxlen")
            dropped += 1
        self._turn.work += dropped
        if dropped == AT_ONCE:
            self.timer.set(self._turn.now_ms)

    def refuse(self, message: Message) -> None:
        """Count a refused message, and dead-letter it with `reject-publish-dlx`."""
        self.refused_count += 1
        if self.settings.overflow == REJECT_PUBLISH_DLX:
            self.dead_letter(Entry(message, 0, NEVER), "maxlen")

    # -- deadlines

    def timer_fired(self) -> None:
        if self.settings.limited and not self.settings.rejects:
            self.drop_heads()
        self.expire_due()
        # deliveries may have waited for messages that are due
        self._queue.wake()

    def expire_due(self) -> None:
        """Expire heads that are due, and set the timer for the next one. A stopped queue keeps them."""
        if self._paging is not None and self._paging.stopped:
            return
        self._expire(self._turn.now_ms)
        self.timer.set(self._contents.earliest_deadline_ms())

    def expire_returned(self) -> None:
        """Expire heads that are due and were delivered before; others may still be delivered in this turn."""
        for entry in self._contents.take_expired(self._turn.now_ms, AT_ONCE, returned_only=True):
            self.dead_letter(entry, "expired")

    def expired_overdue(self) -> bool:
        """Expire a slice of overdue heads; whether the next entry was one of them."""
        before_ms: i64 = self._turn.now_ms - 1
        if not self._contents.next_expires_by(before_ms):
            return False
        self._expire(before_ms)
        return True

    def deliver_later(self) -> None:
        """Expired messages have used the budget of this turn: deliver the messages behind them in the next one."""
        self._queue.wake()

    def _expire(self, until_ms: i64) -> None:
        contents = self._contents
        paging = self._paging
        left = AT_ONCE
        more = True
        while more and left > 0:
            expired = contents.take_expired(until_ms, left)
            for entry in expired:
                self.dead_letter(entry, "expired")
            left -= len(expired)
            more = paging is not None and paging.fetch(contents.range_to_expire(), FETCH_FEW)
        self._turn.work += AT_ONCE - left
