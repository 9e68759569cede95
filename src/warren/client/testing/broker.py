"""A broker in memory: what RabbitMQ does with messages, without a process, a port or a wait.

    transport.publish → Routes → MemoryQueue → Consumer.hand → subscription
                                     │ given up
                                     └→ dead_letter → Routes → ...

Everything happens within the call that causes it. Time is a clock that is handed in, plus what `advance` added: what is
due happens at the next call, or when a subscription that waits finds that it is.

Whoever calls holds `lock`, so that transports may be used by several threads, each with an event loop of its own.

Not here: waiting, connections (`testing.memory`), what goes wrong (`testing.faults`).

What a memory broker does wrong, and when: each fault that may happen between a program and its broker, on demand.

A fault that counts is used up by the messages it happens to; `block` and `delay` last until they are ended.

Not here: faults of real connections (`testing.proxy`).
"""

import threading
import time
from collections.abc import Callable, Iterable

from warren.client.errors import ConnectionClosed
from warren.client.testing.queues import (
    MemoryConsumer,
    MemoryQueue,
    MemoryQueueEntry,
    MemoryQueueLimits,
    Reason,
    StoredMessage,
    dead_letter,
    is_cycle,
)
from warren.client.testing.topology import (
    ACCESS_REFUSED,
    MATCHERS,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    RESOURCE_LOCKED,
    Fact,
    MemoryExchanges,
    check_equivalent,
    refusal,
)
from warren.client.testing.transport import MemoryTransport
from warren.client.transport import BindingLayout, ExchangeLayout, QueueLayout


class Faults:
    """A broker's `faults`."""

    def __init__(self, broker: "MemoryBroker") -> None:
        self.is_blocked = False
        self.delay_s = 0.0
        self._broker = broker
        self._refused = 0
        self._published_twice = 0
        self._lost_acks = 0
        # how many publishes until the connection is lost, and whether the broker has those that it is lost on
        self._until_lost: int | None = None
        self._arrives = True

    def refuse(self, publishes: int) -> None:
        """The next publishes are refused: `PublishFailed`, and no queue has them."""
        self._refused = publishes

    def publish_twice(self, publishes: int) -> None:
        """The next publishes arrive twice, as those of a publisher do that sends again what was not confirmed."""
        self._published_twice = publishes

    def deliver_twice(self, messages: int) -> None:
        """The next acks are lost on the way: what they settle is delivered again, as redelivered."""
        self._lost_acks = messages

    def lose_connection(self, after: int = 0, *, arrives: bool = True) -> None:
        """Lose a connection with the next publish, or after some more.

        That publish and what comes with it end as `ConnectionLost`, outcome unknown: whether it `arrives` only the test
        knows. What the connection's consumers had not settled comes again.
        """
        self._until_lost, self._arrives = after, arrives

    def lose_connections(self) -> None:
        """Lose every connection at once: what is in consumers' hands comes again, and acks of it mean nothing."""
        with self._broker.lock:
            for transport in list(self._broker.transports):
                transport.lose()

    def delay(self, seconds: float) -> None:
        """Each confirm takes so long from now on; 0 for none."""
        self.delay_s = seconds

    def block(self) -> None:
        """Take no publishes, as a broker does that is short of memory; they wait."""
        self.is_blocked = True

    def unblock(self) -> None:
        with self._broker.lock:
            self.is_blocked = False
            for transport in self._broker.transports:
                transport.wake()

    # for transports

    def loses_this_publish(self) -> bool:
        """The publish on which the connection is lost, if it is this one."""
        if self._until_lost is None:
            return False
        self._until_lost -= 1
        if self._until_lost >= 0:
            return False
        self._until_lost = None
        return True

    @property
    def lost_arrives(self) -> bool:
        return self._arrives

    def refuses_this_publish(self) -> bool:
        self._refused, happens = _used(self._refused)
        return happens

    def repeats_this_publish(self) -> bool:
        self._published_twice, happens = _used(self._published_twice)
        return happens

    def loses_this_ack(self) -> bool:
        self._lost_acks, happens = _used(self._lost_acks)
        return happens


def _used(left: int) -> tuple[int, bool]:
    return max(left - 1, 0), left > 0


class MemoryBroker:
    """Give each part of a program a `transport()` of its own; `clock` tells seconds since 1970."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.lock = threading.RLock()
        self.faults = Faults(self)
        self.transports: list[MemoryTransport] = []
        self._clock = clock
        self._ahead_s = 0.0
        # while time is advanced from one thing that is due to the next
        self._stands_at: float | None = None
        self._routes = MemoryExchanges()
        self._queues: dict[str, MemoryQueue] = {}

    # for tests

    def transport(self) -> MemoryTransport:
        """A connection to this broker."""
        return MemoryTransport(self)

    def now(self) -> float:
        return self._clock() + self._ahead_s if self._stands_at is None else self._stands_at

    def advance(self, seconds: float) -> None:
        """Let time pass at once: what is due meanwhile has happened when this returns, in its order."""
        with self.lock:
            end = self.now() + seconds
            while (due := self.next_due()) is not None and due <= end:
                self._stands_at = due
                self.tick()
            self._stands_at = None
            self._ahead_s += seconds
            self.tick()

    def ready(self, queue: str) -> list[StoredMessage]:
        """What is in a queue and in nobody's hands, in its order."""
        with self.lock:
            self.tick()
            return [entry.message for entry in self.find_queue(queue).ready]

    def unacked(self, queue: str) -> list[StoredMessage]:
        """What is in the hands of consumers."""
        with self.lock:
            self.tick()
            return [entry.message for _, entry in sorted(self.find_queue(queue).unacked.items())]

    def has_queue(self, name: str) -> bool:
        with self.lock:
            self.tick()
            return name in self._queues

    def delete_queue(self, name: str) -> None:
        """As an operator does; whoever consumes it is told."""
        with self.lock:
            self._delete(self.find_queue(name))

    # for transports

    def declare_exchange(self, layout: ExchangeLayout) -> None:
        there = self._routes.exchanges.get(layout.name)
        if layout.kind not in MATCHERS:
            text = f"COMMAND_INVALID - unknown exchange type '{layout.kind}'"
            raise ConnectionClosed(f"the broker closed the connection: 503 {text}", 503, text)
        if there is not None:
            facts = [("type", layout.kind, there.kind), ("durable", layout.durable, there.durable)]
            check_equivalent(f"exchange '{layout.name}'", facts, layout.arguments, there.arguments)
        elif layout.name.startswith("amq."):
            raise refusal(ACCESS_REFUSED, f"exchange name '{layout.name}' contains reserved prefix 'amq.*'")
        else:
            self._routes.exchanges[layout.name] = layout

    def declare_queue(self, layout: QueueLayout, owner: object) -> None:
        there = self._queues.get(layout.name)
        if there is not None:
            self._compare_queue(there, layout, owner)
            there.use(self.now())
            return
        if layout.name.startswith("amq."):
            raise refusal(ACCESS_REFUSED, f"queue name '{layout.name}' contains reserved prefix 'amq.*'")
        try:
            MemoryQueueLimits.of(layout.arguments)
        except ValueError as wrong:
            raise refusal(
                NOT_IMPLEMENTED, f"the memory broker cannot make queue '{layout.name}' with {wrong}"
            ) from None
        self._queues[layout.name] = MemoryQueue(layout, owner, self.now())

    def bind(self, binding: BindingLayout) -> None:
        if not binding.source or (binding.to_exchange and not binding.destination):
            raise refusal(ACCESS_REFUSED, "operation not permitted on the default exchange")
        self._find_exchange(binding.source)
        if binding.to_exchange:
            self._find_exchange(binding.destination)
        else:
            self.find_queue(binding.destination)
        self._routes.bind(binding)

    def publish(self, message: StoredMessage) -> tuple[int, bool]:
        """How many queues it was for, and whether all of them have it."""
        self.tick()
        self.check(message)
        queues = self._targets(message)
        held = [self._put(queue, message) for queue in queues]
        return len(queues), all(held)

    def check(self, message: StoredMessage) -> None:
        """The error that ends a channel, if it is one on which this is published."""
        self._find_exchange(message.exchange)
        expiration = message.properties.expiration
        if expiration is not None and not expiration.isdecimal():
            raise refusal(PRECONDITION_FAILED, f"invalid expiration '{expiration}'")

    def find_queue(self, name: str, user: object = None) -> MemoryQueue:
        queue = self._queues.get(name)
        if queue is None:
            raise refusal(NOT_FOUND, f"no queue '{name}' in vhost '/'")
        if user is not None and queue.owner not in (None, user):
            text = f"cannot obtain exclusive access to locked queue '{name}' in vhost '/'"
            raise refusal(RESOURCE_LOCKED, text)
        return queue

    def consume(self, consumer: MemoryConsumer) -> None:
        queue = consumer.queue
        if any(each.exclusive for each in queue.consumers) or (consumer.exclusive and queue.consumers):
            raise refusal(ACCESS_REFUSED, f"queue '{queue.name}' in vhost '/' in exclusive use")
        queue.add_consumer(consumer)
        self._tidy(queue)

    def has_consumer(self, consumer: MemoryConsumer) -> bool:
        return consumer in consumer.queue.consumers and self._queues.get(consumer.queue.name) is consumer.queue

    def cancel(self, consumer: MemoryConsumer, untaken: Iterable[MemoryQueueEntry]) -> None:
        """It gets no more, and what nobody took of what it got goes back."""
        for entry in untaken:
            consumer.queue.settle(consumer, entry)
            consumer.queue.requeue([entry])
        self._remove([consumer])

    def ack(self, consumer: MemoryConsumer, entry: MemoryQueueEntry) -> None:
        consumer.queue.settle(consumer, entry)
        self._tidy(consumer.queue)

    def nack(self, consumer: MemoryConsumer, entry: MemoryQueueEntry, requeue: bool) -> None:
        queue = consumer.queue
        queue.settle(consumer, entry)
        if requeue:
            queue.requeue([entry])
        else:
            self._bury(queue, entry.message, "rejected")
        self._tidy(queue)

    def leave(self, owner: object, consumers: list[MemoryConsumer]) -> None:
        """A connection ends: what its consumers had not settled is their queues' again, and its own queues go."""
        for consumer in consumers:
            entries = list(consumer.unacked.values())
            for entry in entries:
                consumer.queue.settle(consumer, entry)
            consumer.queue.requeue(entries)
        self._remove(consumers)
        for queue in [queue for queue in self._queues.values() if queue.owner is owner]:
            self._delete(queue)

    def tick(self) -> None:
        """Let happen what is due."""
        now = self.now()
        for queue in list(self._queues.values()):
            if queue.expires_at is not None and queue.expires_at <= now:
                self._delete(queue)
            elif queue.next_due is not None and queue.next_due <= now:
                self._tidy(queue)

    def next_due(self) -> float | None:
        """When time changes something, if nothing else does."""
        return min((due for queue in self._queues.values() if (due := queue.next_due) is not None), default=None)

    # the road of a message

    def _targets(self, message: StoredMessage) -> list[MemoryQueue]:
        names = self._routes.queues_for(message.exchange, message.routing_keys, message.headers)
        return [self._queues[name] for name in names if name in self._queues]

    def _put(self, queue: MemoryQueue, message: StoredMessage) -> bool:
        if queue.is_full_for(message):
            if queue.limits.overflow == "reject-publish-dlx":
                self._bury(queue, message, "maxlen")
            return False
        finds_nobody_waiting = not queue.ready
        queue.append(message, self.now())
        if finds_nobody_waiting:
            # a consumer that is there gets also what expires at once
            queue.deliver()
        self._tidy(queue)
        return True

    def _tidy(self, queue: MemoryQueue) -> None:
        """Bring a queue to rest: nothing in it that should not be, and nothing that somebody would take."""
        if self._queues.get(queue.name) is queue:
            self._bury_all(queue, queue.too_many(), "maxlen")
            self._bury_all(queue, queue.expired(self.now()), "expired")
            queue.deliver()

    def _bury_all(self, queue: MemoryQueue, entries: Iterable[MemoryQueueEntry], reason: Reason) -> None:
        for entry in entries:
            self._bury(queue, entry.message, reason)

    def _bury(self, queue: MemoryQueue, message: StoredMessage, reason: Reason) -> None:
        exchange = queue.limits.dead_letter_exchange
        if exchange is None or exchange not in self._routes.exchanges:
            return
        dead = dead_letter(message, reason, queue.name, exchange, queue.limits.dead_letter_key, self.now())
        for target in self._targets(dead):
            if reason == "rejected" or not is_cycle(dead, target.name):
                self._put(target, dead)

    def _remove(self, consumers: list[MemoryConsumer]) -> None:
        """All of them, before anybody else gets what they had."""
        lonely = [each.queue for each in consumers if each in each.queue.consumers and each.queue.layout.auto_delete]
        for consumer in consumers:
            consumer.queue.remove_consumer(consumer, self.now())
        for queue in dict.fromkeys(consumer.queue for consumer in consumers):
            if queue in lonely and not queue.consumers and self._queues.get(queue.name) is queue:
                self._delete(queue)
            else:
                self._tidy(queue)

    def _delete(self, queue: MemoryQueue) -> None:
        del self._queues[queue.name]
        self._routes.forget_queue(queue.name)
        for consumer in list(queue.consumers):
            consumer.gone()

    def _find_exchange(self, name: str) -> ExchangeLayout:
        found = self._routes.exchanges.get(name)
        if found is None:
            raise refusal(NOT_FOUND, f"no exchange '{name}' in vhost '/'")
        return found

    def _compare_queue(self, there: MemoryQueue, layout: QueueLayout, owner: object) -> None:
        self.find_queue(layout.name, owner)
        facts: list[Fact] = [
            ("durable", layout.durable, there.layout.durable),
            ("exclusive", layout.exclusive, there.layout.exclusive),
            ("auto_delete", layout.auto_delete, there.layout.auto_delete),
        ]
        check_equivalent(f"queue '{layout.name}'", facts, layout.arguments, there.layout.arguments)
