"""One queue: messages in, in order; entries out to whoever is able to take them.

Theory. Nothing is handed out when a message arrives: the queue puts itself on the turn's list of drains, once, and
gives everything out in one go at the end of the turn. Whoever must decide earlier (a full queue, a get, a purge)
hands out first, so that the decision is the same as if each message had been delivered on arrival.

A message that lives 0 ms may still go to a consumer that is able in the turn it came in; so a drain first drops
what is overdue, then hands out, then drops what is due. One timer stands for the earliest deadline; it may fire
early, never late.

A queue whose `close` was called is over: it ignores everything, and what was lent out may come back without effect.

Not here: what is held (`queue.contents`), whose turn it is (`queue.consumers`), where dead letters go (`broker`),
deletion (`queue.keeper`).
"""

from typing import final

from mypy_extensions import i64

from warren.errors import ACCESS_REFUSED, ChannelFault
from warren.model.message import NEVER, Entry, Message
from warren.model.ports import REJECTED, SETTLED, Consumer, DeadLetter, QueuePort
from warren.model.turn import Timed, Timer, Turn
from warren.queue.consumers import Consumers
from warren.queue.contents import Contents
from warren.queue.idle import IdleClock
from warren.queue.keeper import QueueKeeper
from warren.queue.settings import REJECT_PUBLISH_DLX, QueueSettings
from warren.wire.values import Table


@final
class Queue(QueuePort, Timed):
    """A queue held in this node's memory."""

    def __init__(
        self,
        vhost: str,
        name: str,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        arguments: Table,
        owner_id: int,
        settings: QueueSettings,
        turn: Turn,
        keeper: QueueKeeper,
    ) -> None:
        super().__init__(vhost, name, durable, exclusive, auto_delete, arguments, owner_id)
        self.settings: QueueSettings = settings
        self._turn: Turn = turn
        self._keeper: QueueKeeper = keeper
        self._contents: Contents = Contents(turn, settings.max_priority)
        self._consumers: Consumers = Consumers(settings.single_active_consumer)
        # on the turn's list of drains
        self._woken: bool = False
        # a delivery may end its consumer, which must not start handing out within handing out
        self._handing_out: bool = False
        self._deadline_timer: Timer | None = None
        self._deadline_timer_ms: i64 = 0
        self._idle: IdleClock | None = None
        self._start_idle_clock()

    # -- contents

    def publish(self, message: Message) -> i64:
        if self.deleted:
            return SETTLED
        settings = self.settings
        if settings.limited and settings.rejects and self._refuses(message):
            return REJECTED
        self._contents.admit(message, settings.deadline_ms(message.expiration_ms, self._turn.now_ms))
        if settings.limited and not settings.rejects:
            self._drop_over_limit()
        if not self._woken:
            self.wake()
        return SETTLED

    def get(self, no_ack: bool) -> Entry | None:
        if self.deleted:
            return None
        self.touch()
        self._hand_out()
        if self._contents.ready_count == 0:
            return None
        entry = self._contents.take(no_ack)
        if self._contents.deadlines:
            self._expire(self._turn.now_ms)
            self._set_deadline_timer()
        return entry

    def ack(self, entry: Entry) -> None:
        if self.deleted:
            return
        self._contents.gone(entry)
        if not self._woken:
            self.wake()

    def reject(self, entry: Entry) -> None:
        if self.deleted:
            return
        self._contents.gone(entry)
        self._dead_letter(entry, "rejected")
        self.wake()

    def requeue(self, entries: list[Entry]) -> None:
        if self.deleted:
            return
        limit = self.settings.delivery_limit
        for entry in entries:
            entry.redelivered = True
            entry.delivery_count += 1
            if limit >= 0 and entry.delivery_count > limit:
                self._contents.gone(entry)
                self._dead_letter(entry, "delivery_limit")
            else:
                self._contents.give_back(entry)
        # what comes back meets the limit before any consumer, unlike what is published
        if self.settings.limited and not self.settings.rejects:
            self._drop_heads_over_limit()
        # what is due and was out once has had its chance; what came in this turn still has it
        for entry in self._contents.take_expired(self._turn.now_ms, returned_only=True):
            self._dead_letter(entry, "expired")
        self.wake()

    def purge(self) -> int:
        self._hand_out()
        purged = self._contents.ready_count
        self._contents.drop_ready()
        return purged

    # -- consumers

    def add_consumer(self, consumer: Consumer) -> None:
        if not self._consumers.accepts(consumer.exclusive):
            raise ChannelFault(ACCESS_REFUSED, f"queue '{self.name}' in vhost '{self.vhost}' in exclusive use")
        # what came before this consumer goes to those who were there
        self._hand_out()
        self._consumers.add(consumer)
        self.wake()

    def remove_consumer(self, consumer: Consumer) -> None:
        self._hand_out()
        if not self._consumers.remove(consumer):
            return
        if self._consumers.members:
            # with a single active consumer, another may be the active one from here on
            self.wake()
            return
        self.touch()
        if self.auto_delete:
            self._keeper.queue_unused(self)

    # -- the turn

    def wake(self) -> None:
        contents = self._contents
        if contents.ready_count != 0 and not self._woken and (self._consumers.members or contents.deadlines):
            self._woken = True
            self._turn.drains.append(self)

    def drain(self) -> None:
        self._woken = False
        self._hand_out()

    def touch(self) -> None:
        if self._idle is not None:
            self._idle.touch()

    def timer_fired(self) -> None:
        self._expire(self._turn.now_ms)
        self._set_deadline_timer()

    # -- life

    def apply(self, settings: QueueSettings) -> None:
        """Work by other settings from here on. Priorities and the single active consumer are for life."""
        if self.deleted:
            return
        self.settings = settings
        if self._idle is not None:
            self._idle.stop()
        self._start_idle_clock()
        if settings.limited and not settings.rejects:
            self._drop_over_limit()

    def close(self) -> None:
        """The queue was deleted: consumers are told, contents dropped without dead-lettering."""
        if self.deleted:
            return
        self.deleted = True
        if self._idle is not None:
            self._idle.stop()
            self._idle = None
        if self._deadline_timer is not None:
            self._turn.cancel_timer(self._deadline_timer)
        self._contents.drop_all()
        # RabbitMQ tells a channel of its consumers in the order of their tags
        for consumer in sorted(self._consumers.clear(), key=lambda consumer: consumer.tag):
            consumer.cancelled()

    # -- figures

    def ready_count(self) -> int:
        return self._contents.ready_count

    def unacked_count(self) -> int:
        return self._contents.unacked_count

    def consumer_count(self) -> int:
        return len(self._consumers.members)

    def ready_bytes(self) -> int:
        return self._contents.ready_bytes

    def unacked_bytes(self) -> int:
        return self._contents.unacked_bytes

    def has_exclusive_consumer(self) -> bool:
        return self._consumers.held_exclusively()

    def consumers(self) -> list[tuple[Consumer, bool]]:
        """Each consumer in the order they came, and whether messages may go to it."""
        return [(consumer, self._consumers.is_active(consumer)) for consumer in self._consumers.members]

    def check(self) -> None:
        """Raise `InvariantBroken` if this queue contradicts itself."""
        self._contents.check()
        self._consumers.check()

    # -- handing out

    def _hand_out(self) -> None:
        contents = self._contents
        if contents.ready_count == 0 or self._handing_out:
            return
        self._handing_out = True
        sole = self._consumers.sole
        if sole is not None:
            self._hand_to(sole)
        elif self._consumers.members:
            self._hand_in_turns()
        self._handing_out = False
        if contents.deadlines:
            self._expire(self._turn.now_ms)
            self._set_deadline_timer()

    def _hand_to(self, consumer: Consumer) -> None:
        contents = self._contents
        consumers = self._consumers
        # a delivery may end the consumer, or the queue
        while contents.ready_count != 0 and consumers.sole is consumer and consumer.able():
            if contents.deadlines and self._dropped_overdue():
                continue
            consumer.deliver(contents.take(consumer.no_ack))

    def _hand_in_turns(self) -> None:
        contents = self._contents
        while contents.ready_count != 0:
            if contents.deadlines and self._dropped_overdue():
                continue
            consumer = self._consumers.pick()
            if consumer is None:
                return
            consumer.deliver(contents.take(consumer.no_ack))

    # -- limits

    def _drop_over_limit(self) -> None:
        contents = self._contents
        settings = self.settings
        if settings.exceeded_by(contents.ready_count, contents.ready_bytes):
            self._hand_out()
            self._drop_heads_over_limit()

    def _drop_heads_over_limit(self) -> None:
        contents = self._contents
        while self.settings.exceeded_by(contents.ready_count, contents.ready_bytes):
            self._dead_letter(contents.take(True), "maxlen")

    def _refuses(self, message: Message) -> bool:
        if not self._overflows_with(message):
            return False
        self._hand_out()
        if not self._overflows_with(message):
            return False
        if self.settings.overflow == REJECT_PUBLISH_DLX:
            self._dead_letter(Entry(message, 0, NEVER), "maxlen")
        return True

    def _overflows_with(self, message: Message) -> bool:
        contents = self._contents
        return self.settings.exceeded_by(contents.ready_count + 1, contents.ready_bytes + message.body_bytes)

    def _dead_letter(self, entry: Entry, reason: str) -> None:
        exchange = self.settings.dead_letter_exchange
        if exchange is not None:
            key = self.settings.dead_letter_routing_key
            self._turn.dead_letters.append(DeadLetter(self, entry, reason, exchange, key))

    # -- deadlines

    def _expire(self, until_ms: i64) -> None:
        for entry in self._contents.take_expired(until_ms):
            self._dead_letter(entry, "expired")

    def _dropped_overdue(self) -> bool:
        """Whether the next entry was overdue when this turn began, and so went instead of being handed out."""
        before_ms: i64 = self._turn.now_ms - 1
        if not self._contents.next_expires_by(before_ms):
            return False
        self._expire(before_ms)
        return True

    def _set_deadline_timer(self) -> None:
        earliest_ms = self._contents.earliest_deadline_ms()
        if earliest_ms == NEVER:
            return
        timer = self._deadline_timer
        if timer is not None and timer.live:
            if self._deadline_timer_ms <= earliest_ms:
                return
            self._turn.cancel_timer(timer)
        self._deadline_timer = self._turn.set_timer(earliest_ms, self)
        self._deadline_timer_ms = earliest_ms

    def _start_idle_clock(self) -> None:
        self._idle = None
        if self.settings.expires_ms >= 0:
            self._idle = IdleClock(self, self.settings.expires_ms, self._turn, self._keeper)
            self._idle.touch()
