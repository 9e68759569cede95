"""The consumers of a queue, and the delivery of ready entries to them.

Of the consumers that are able to take a message, those with the highest `x-priority` go first; consumers of one
priority take turns. With a single active consumer only the oldest one receives messages, regardless of priorities, and
the next oldest follows it. `sole` is a short cut: the only consumer that may receive messages, if there is just one.

In a queue with a log, an entry is delivered only when it is in memory and the log allows it. Until then no entry is
delivered, because the order of the queue must be kept.

`ConsumerCapacity` is RabbitMQ's consumer capacity. After every drain the queue knows whether entries are left that no
consumer could take. The share of time in either state is averaged with more weight on recent times, so a change shows
after a second or two. It costs one comparison in each drain; times are those of turns, in milliseconds.

Invariants: `members` is in the order of subscription; an exclusive member is the only one; no priority level is empty,
and levels are sorted by descending priority.

Not here: when to drain (`broker.queues.queue`), whether a consumer is able (`broker.model.ports.ConsumerPort`), reading
from disk (`broker.queues.paging`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.ports import ConsumerPort
from warren.broker.model.turn import Turn
from warren.broker.queues.contents import QueueContents
from warren.broker.queues.limits import LimitEnforcer
from warren.broker.queues.paging import Paging
from warren.errors import InvariantBroken


@final
class PriorityLevel:
    """The consumers of one priority, taking turns."""

    def __init__(self, priority: i64) -> None:
        self.priority: i64 = priority
        self.members: list[ConsumerPort] = []
        self._next: i64 = 0
        # the place of the consumer that left last
        self._left: i64 = 0

    def pick(self) -> ConsumerPort | None:
        """The first able consumer, starting with the one that waited longest."""
        members = self.members
        size: i64 = len(members)
        index = self._next
        tried: i64 = 0
        while tried < size:
            if index >= size:
                index = 0
            consumer = members[index]
            index += 1
            if consumer.able():
                self._next = index
                return consumer
            tried += 1
        return None

    def add(self, consumer: ConsumerPort) -> None:
        """Add a consumer at the end of the round: right after the one that was served last."""
        self.members.insert(self._next, consumer)
        self._next += 1

    def remove(self, consumer: ConsumerPort) -> None:
        """Consumers of a lost connection leave in the order in which they came, so the next one is where this was."""
        members = self.members
        index = self._left
        if index >= len(members):
            index = 0
        while members[index] is not consumer:
            index += 1
            if index == len(members):
                index = 0
        del members[index]
        self._left = index
        if index < self._next:
            self._next -= 1


@final
class QueueConsumers:
    """All consumers of one queue."""

    def __init__(self, single_active: bool) -> None:
        self.members: dict[ConsumerPort, None] = {}
        self.sole: ConsumerPort | None = None
        self._single_active: bool = single_active
        # created with the second consumer
        self._levels: list[PriorityLevel] | None = None

    def accepts(self, exclusive: bool) -> bool:
        """Whether another consumer may subscribe."""
        if exclusive:
            return not self.members and not self._single_active
        return not self.held_exclusively()

    def held_exclusively(self) -> bool:
        return len(self.members) == 1 and self._oldest().exclusive

    def add(self, consumer: ConsumerPort) -> None:
        self.members[consumer] = None
        self._settle(consumer, True)

    def remove(self, consumer: ConsumerPort) -> bool:
        """Remove a consumer; False if it is not subscribed."""
        if consumer not in self.members:
            return False
        del self.members[consumer]
        self._settle(consumer, False)
        return True

    def clear(self) -> list[ConsumerPort]:
        """Remove all consumers, and return them."""
        gone = list(self.members)
        self.members = {}
        self.sole = None
        self._levels = None
        return gone

    def pick(self) -> ConsumerPort | None:
        """The consumer that receives the next message; None if none is able."""
        if self.sole is not None:
            return self.sole if self.sole.able() else None
        if self._levels is not None:
            for level in self._levels:
                consumer = level.pick()
                if consumer is not None:
                    return consumer
        return None

    def any_able(self) -> bool:
        """Whether any consumer is able; does not change the order."""
        if self.sole is not None:
            return self.sole.able()
        return any(member.able() for member in self.members)

    def is_active(self, consumer: ConsumerPort) -> bool:
        """Whether the consumer may receive messages: with a single active consumer, only one may."""
        return not self._single_active or consumer is self.sole

    def check(self) -> None:
        if self.sole is not None and self.sole is not self._oldest():
            raise InvariantBroken("the sole consumer is not the oldest")
        if self.sole is None and len(self.members) == 1:
            raise InvariantBroken("a consumer that is alone is not the sole one")
        if len(self.members) > 1 and any(member.exclusive for member in self.members):
            raise InvariantBroken("an exclusive consumer is not alone")
        if self._levels is not None and sum([len(level.members) for level in self._levels]) != len(self.members):
            raise InvariantBroken("the levels of consumers do not add up")

    def _oldest(self) -> ConsumerPort:
        return next(iter(self.members))

    def _settle(self, consumer: ConsumerPort, came: bool) -> None:
        if self._single_active or len(self.members) <= 1:
            self.sole = self._oldest() if self.members else None
            self._levels = None
            return
        self.sole = None
        if self._levels is None:
            self._levels = []
            for member in self.members:
                self._join(self._levels, member)
        elif came:
            self._join(self._levels, consumer)
        else:
            self._part(self._levels, consumer)

    def _join(self, levels: list[PriorityLevel], consumer: ConsumerPort) -> None:
        place = 0
        while place < len(levels) and levels[place].priority > consumer.priority:
            place += 1
        if place == len(levels) or levels[place].priority != consumer.priority:
            levels.insert(place, PriorityLevel(consumer.priority))
        levels[place].add(consumer)

    def _part(self, levels: list[PriorityLevel], consumer: ConsumerPort) -> None:
        for level in levels:
            if level.priority == consumer.priority:
                level.remove(consumer)
                if not level.members:
                    levels.remove(level)
                return


MEMORY_MS: Final = 1000.0


@final
class ConsumerCapacity:
    """The share of time, between 0 and 1, in which new messages could be delivered at once."""

    def __init__(self, turn: Turn) -> None:
        # a message is ready that no consumer can take
        self.behind: bool = False
        self._turn: Turn = turn
        self._since_ms: i64 = turn.now_ms
        self._share: float = 1.0

    def changed(self, behind: bool) -> None:
        """`behind` changed."""
        self._share = self.share()
        self._since_ms = self._turn.now_ms
        self.behind = behind

    def share(self) -> float:
        passed_ms = float(int(self._turn.now_ms - self._since_ms))
        weight = MEMORY_MS / (MEMORY_MS + passed_ms)
        return self._share * weight + (0.0 if self.behind else 1.0 - weight)


@final
class QueueDrain:
    """Delivers the entries of one queue to its consumers."""

    def __init__(
        self,
        contents: QueueContents,
        consumers: QueueConsumers,
        limits: LimitEnforcer,
        paging: Paging | None,
        turn: Turn,
    ) -> None:
        self._capacity: ConsumerCapacity = ConsumerCapacity(turn)
        self._contents: QueueContents = contents
        self._consumers: QueueConsumers = consumers
        self._limits: LimitEnforcer = limits
        self._paging: Paging | None = paging
        self._turn: Turn = turn
        # a delivery may cancel its consumer, which must not start a drain within the drain
        self._draining: bool = False

    def deliver_ready(self) -> None:
        """Deliver all entries that consumers can take, then expire those that are due."""
        contents = self._contents
        if contents.ready_count == 0 or self._draining:
            return
        self._draining = True
        before = contents.ready_count
        if self._paging is not None:
            self._paging.remove_acked_heads()
        sole = self._consumers.sole
        behind = False
        if sole is not None:
            behind = self._deliver_to_sole(sole)
        elif self._consumers.members:
            behind = self._deliver_in_turns()
        if behind != self._capacity.behind:
            self._capacity.changed(behind)
        self._turn.work += max(before - contents.ready_count, 0)
        self._draining = False
        if contents.deadlines:
            self._limits.expire_due()

    def capacity_share(self) -> float:
        """The consumer capacity, between 0 and 1; 0 without consumers."""
        return self._capacity.share() if self._consumers.members else 0.0

    def _deliver_to_sole(self, consumer: ConsumerPort) -> bool:
        """Deliver to the sole consumer; whether entries are left that it cannot take."""
        contents = self._contents
        consumers = self._consumers
        paging = self._paging
        # a delivery may cancel the consumer, or delete the queue
        while contents.ready_count != 0 and consumers.sole is consumer and consumer.able():
            if contents.deadlines and self._limits.expired_overdue():
                if self._turn.work >= self._turn.work_a_turn:
                    self._limits.deliver_later()
                    return False
                continue
            if paging is None or (paging.needs_no_permission and contents.paged_count == 0):
                consumer.deliver(contents.take(consumer.no_ack))
            elif paging.may_deliver():
                consumer.deliver(paging.take(consumer.no_ack))
            else:
                return False
        return contents.ready_count != 0

    def _deliver_in_turns(self) -> bool:
        """Deliver to the consumers in turn; whether entries are left that none of them can take."""
        contents = self._contents
        paging = self._paging
        # read nothing, and mark nothing as delivered, for consumers that cannot take it
        if paging is not None and not self._consumers.any_able():
            return True
        while contents.ready_count != 0:
            if contents.deadlines and self._limits.expired_overdue():
                if self._turn.work >= self._turn.work_a_turn:
                    self._limits.deliver_later()
                    return False
                continue
            if paging is not None and not paging.may_deliver():
                return False
            consumer = self._consumers.pick()
            if consumer is None:
                return True
            consumer.deliver(contents.take(consumer.no_ack) if paging is None else paging.take(consumer.no_ack))
        return False
