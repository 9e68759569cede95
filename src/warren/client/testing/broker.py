"""A broker in memory: what RabbitMQ does with messages, without a process, a port or a wait.

    transport.publish → Routes → MemoryQueue → Consumer.hand → subscription
                                     │ given up
                                     └→ dead_letter → Routes → ...

Everything happens within the call that causes it. Time is a clock that is handed in, plus what `advance` added: what is
due happens at the next call, or when a subscription that waits finds that it is.

Whoever calls holds `lock`, so that transports may be used by several threads, each with an event loop of its own.

Not here: waiting, connections (`testing.memory`), what goes wrong (`testing.faults`).
"""

import threading
import time
from collections.abc import Callable, Iterable

from warren.client.errors import ConnectionClosed
from warren.client.testing.dead_letters import Reason, dead_letter, goes_in_circles
from warren.client.testing.faults import Faults
from warren.client.testing.memory import MemoryTransport
from warren.client.testing.messages import StoredMessage
from warren.client.testing.queues import Consumer, Entry, Limits, MemoryQueue
from warren.client.testing.refusals import (
    ACCESS_REFUSED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    RESOURCE_LOCKED,
    Fact,
    check_same,
    refusal,
)
from warren.client.testing.routing import MATCHERS, Routes
from warren.client.transport import BindingLayout, ExchangeLayout, QueueLayout


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
        self._routes = Routes()
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
            check_same(f"exchange '{layout.name}'", facts, layout.arguments, there.arguments)
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
            Limits.of(layout.arguments)
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

    def consume(self, consumer: Consumer) -> None:
        queue = consumer.queue
        if any(each.exclusive for each in queue.consumers) or (consumer.exclusive and queue.consumers):
            raise refusal(ACCESS_REFUSED, f"queue '{queue.name}' in vhost '/' in exclusive use")
        queue.add_consumer(consumer)
        self._tidy(queue)

    def has_consumer(self, consumer: Consumer) -> bool:
        return consumer in consumer.queue.consumers and self._queues.get(consumer.queue.name) is consumer.queue

    def cancel(self, consumer: Consumer, untaken: Iterable[Entry]) -> None:
        """It gets no more, and what nobody took of what it got goes back."""
        for entry in untaken:
            consumer.queue.settle(consumer, entry)
            consumer.queue.requeue([entry])
        self._remove([consumer])

    def ack(self, consumer: Consumer, entry: Entry) -> None:
        consumer.queue.settle(consumer, entry)
        self._tidy(consumer.queue)

    def nack(self, consumer: Consumer, entry: Entry, requeue: bool) -> None:
        queue = consumer.queue
        queue.settle(consumer, entry)
        if requeue:
            queue.requeue([entry])
        else:
            self._bury(queue, entry.message, "rejected")
        self._tidy(queue)

    def leave(self, owner: object, consumers: list[Consumer]) -> None:
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

    def _bury_all(self, queue: MemoryQueue, entries: Iterable[Entry], reason: Reason) -> None:
        for entry in entries:
            self._bury(queue, entry.message, reason)

    def _bury(self, queue: MemoryQueue, message: StoredMessage, reason: Reason) -> None:
        exchange = queue.limits.dead_letter_exchange
        if exchange is None or exchange not in self._routes.exchanges:
            return
        dead = dead_letter(message, reason, queue.name, exchange, queue.limits.dead_letter_key, self.now())
        for target in self._targets(dead):
            if reason == "rejected" or not goes_in_circles(dead, target.name):
                self._put(target, dead)

    def _remove(self, consumers: list[Consumer]) -> None:
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
        check_same(f"queue '{layout.name}'", facts, layout.arguments, there.layout.arguments)
