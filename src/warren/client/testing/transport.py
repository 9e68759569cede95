"""The seam, on a broker in memory: a transport is a connection to it, with consumers of its own.

A connection that is lost is there again at once, as that of a transport has to be: what was declared is declared again,
subscriptions go on, and what their consumers had not settled comes again. Acks of what came before mean nothing.

Not here: what the broker does (`testing.broker`), which faults there are (`testing.faults`).

What a memory broker hands out: messages that came, and the subscriptions they come by.

Whoever waits is woken through its own event loop, whichever thread the reason comes from.

Not here: connections (`testing.memory`), who gets which message (`testing.queues`).
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from warren.client.errors import (
    CallTimeout,
    CannotConvert,
    ChannelClosed,
    ClientError,
    ConnectionClosed,
    ConnectionLost,
    PublishFailed,
)
from warren.client.machine.deliveries import ReturnedMessage
from warren.client.machine.publishes import ConfirmRange
from warren.client.recovering import layouts
from warren.client.recovering.publish_call import ENCODING_ERRORS
from warren.client.testing.queues import MemoryConsumer, MemoryQueueEntry, StoredMessage, stored_message
from warren.client.testing.topology import PRECONDITION_FAILED, refusal
from warren.client.transport import Layout, Outgoing
from warren.wire.field_tables import Table
from warren.wire.properties import Properties

if TYPE_CHECKING:
    from warren.client.testing.broker import MemoryBroker


_SHORTEST_WAIT_S = 0.005


class MemoryIncoming:
    """A message that came; it is settled once."""

    def __init__(
        self, broker: "MemoryBroker", consumer: MemoryConsumer, entry: MemoryQueueEntry, settled: Callable[[], None]
    ) -> None:
        """`settled` is called when it was."""
        self.redelivered = entry.redelivered
        self._broker = broker
        self._consumer = consumer
        self.entry = entry
        self._settled = settled
        self._is_settled = consumer.no_ack

    @property
    def body(self) -> bytes:
        return self.entry.message.body

    @property
    def properties(self) -> Properties:
        return self.entry.message.properties

    @property
    def headers(self) -> Table:
        return self.entry.message.headers

    @property
    def exchange(self) -> str:
        return self.entry.message.exchange

    @property
    def routing_key(self) -> str:
        return self.entry.message.routing_key

    @property
    def is_ours(self) -> bool:
        with self._broker.lock:
            return self._consumer.no_ack or self._is_unacked()

    def ack(self) -> None:
        with self._broker.lock:
            if self._settles():
                if self._broker.faults.loses_this_ack():
                    self._broker.nack(self._consumer, self.entry, requeue=True)
                else:
                    self._broker.ack(self._consumer, self.entry)
                self._settled()

    def nack(self, *, requeue: bool = True) -> None:
        with self._broker.lock:
            if self._settles():
                self._broker.nack(self._consumer, self.entry, requeue)
                self._settled()

    def _settles(self) -> bool:
        """Whether the broker waits for it: what a lost connection had is the broker's again."""
        if self._is_settled:
            raise ValueError("this message was settled before, or needs no ack")
        self._is_settled = True
        return self._is_unacked()

    def _is_unacked(self) -> bool:
        return self._consumer.unacked.get(self.entry.position) is self.entry

    def __repr__(self) -> str:
        return f"<MemoryIncoming of {len(self.body)} bytes from {self.exchange!r} with key {self.routing_key!r}>"


class MemoryWaiters:
    """Who waits for something to change, each in its event loop."""

    def __init__(self) -> None:
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def add(self) -> asyncio.Event:
        """Set with the next change; to be asked for with the broker's lock held, so that none is missed."""
        event = asyncio.Event()
        self._waiting.append((asyncio.get_running_loop(), event))
        return event

    def wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for loop, event in waiting:
            # a loop that was closed has nobody left who waits
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(event.set)


class MemorySubscription:
    """What a transport gets from one queue."""

    def __init__(
        self,
        broker: "MemoryBroker",
        consume: Callable[["MemorySubscription"], MemoryConsumer],
        settled: Callable[[], None],
    ) -> None:
        self._broker = broker
        self._settled = settled
        self._consume = consume
        self._waiters = MemoryWaiters()
        self._inbox: deque[MemoryIncoming] = deque()
        self.is_over = False
        self._error: ClientError | None = None
        self.consumer = consume(self)
        # told the queue when it was cancelled
        self.when_cancelled: Callable[[str], None] = lambda queue: None

    @property
    def is_through(self) -> bool:
        """Whether nothing comes by it, nor is anything of it to be handed out or settled."""
        return self.is_over and not self._inbox and not self.consumer.unacked

    async def batch(self, timeout_s: float | None = None) -> list[MemoryIncoming]:
        """All that are there, at least one; none if the time is over, or it was cancelled."""
        await self._until_something(timeout_s)
        with self._broker.lock:
            batch = list(self._inbox)
            self._inbox.clear()
            return batch

    def __aiter__(self) -> "MemorySubscription":
        return self

    async def __anext__(self) -> MemoryIncoming:
        await self._until_something(None)
        if not self._inbox:
            raise StopAsyncIteration
        return self._inbox.popleft()

    async def cancel(self) -> None:
        """Ask for no more. What was taken may still be settled; what was not goes back, unless it needs no ack."""
        with self._broker.lock:
            if not self.is_over:
                untaken = [] if self.consumer.no_ack else [incoming.entry for incoming in self._inbox]
                self.end()
                self.when_cancelled(self.consumer.queue.name)
                self._broker.cancel(self.consumer, untaken)

    # for its transport

    def hand(self, consumer: MemoryConsumer, entry: MemoryQueueEntry) -> None:
        self._inbox.append(MemoryIncoming(self._broker, consumer, entry, self._settled))
        self._waiters.wake()

    def end(self, error: ClientError | None = None) -> None:
        self.is_over, self._error = True, error
        if not self.consumer.no_ack:
            self._inbox.clear()
        self._waiters.wake()

    def resume(self) -> None:
        """Go on after a failure, without what was not taken."""
        self._inbox.clear()
        if self.is_over:
            return
        try:
            self.consumer = self._consume(self)
        except ClientError as error:
            self.end(error)

    async def _until_something(self, timeout_s: float | None) -> None:
        """Returns when there is a message, none will come, or the time is over."""
        loop = asyncio.get_running_loop()
        ends_at = None if timeout_s is None else loop.time() + timeout_s
        while True:
            with self._broker.lock:
                self._broker.tick()
                if self._inbox or (self.is_over and self._error is None):
                    return
                if self._error is not None:
                    raise self._error
                changed = self._waiters.add()
                due = self._broker.next_due()
                due_in_s = None if due is None else max(due - self._broker.now(), _SHORTEST_WAIT_S)
            left_s = None if ends_at is None else ends_at - loop.time()
            if left_s is not None and left_s <= 0:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_shorter(due_in_s, left_s)):
                    await changed.wait()


def _shorter(one: float | None, other: float | None) -> float | None:
    return min((each for each in (one, other) if each is not None), default=None)


NO_ROUTE = 312


class MemoryTransport:
    """A connection to a memory broker; `MemoryBroker.transport` makes it."""

    def __init__(self, broker: "MemoryBroker") -> None:
        self._broker = broker
        self._layout = Layout()
        self._unused_queues = layouts.UnusedQueues()
        self._subscriptions: list[MemorySubscription] = []
        # each has one message, or had
        self._getters: list[MemoryConsumer] = []
        self._waiters = MemoryWaiters()
        self._undecided = 0
        self._is_closing = False
        broker.transports.append(self)

    async def publish(self, messages: Sequence[Outgoing], timeout_s: float | None = None) -> list[ClientError | None]:
        """For each None if the broker has it, or what went wrong."""
        were_taken = False
        self._undecided += 1
        try:
            async with asyncio.timeout(timeout_s):
                await self._until_taken()
                were_taken = True
                with self._broker.lock:
                    decided = self._decide(messages)
                await asyncio.sleep(self._broker.faults.delay_s)
        except TimeoutError:
            return [_too_late(were_taken) for _ in messages]
        except ConnectionClosed as closed:
            return [closed for _ in messages]
        finally:
            self._undecided -= 1
            self.wake()
        return decided

    async def publish_together(self, messages: Sequence[Outgoing], timeout_s: float | None = None) -> None:
        """All of them, or an error; what no queue wants is told when the others are there."""
        were_taken = False
        self._undecided += 1
        try:
            async with asyncio.timeout(timeout_s):
                await self._until_taken()
                were_taken = True
                with self._broker.lock:
                    self._commit(messages)
                await asyncio.sleep(self._broker.faults.delay_s)
        except TimeoutError:
            raise _too_late(were_taken) from None
        finally:
            self._undecided -= 1
            self.wake()

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """One way: nobody learns what became of them."""
        await self._until_taken()
        with self._broker.lock:
            self._decide(messages)

    async def subscribe(
        self,
        queue: str,
        *,
        prefetch: int = 100,
        no_ack: bool = False,
        exclusive: bool = False,
        arguments: Table | None = None,
    ) -> MemorySubscription:
        """The queue's messages, in the order in which they come."""
        wanted = (arguments or {}).get("x-priority", 0)
        priority = wanted if isinstance(wanted, int) else 0

        def consume(subscription: MemorySubscription) -> MemoryConsumer:
            found = self._broker.find_queue(queue, self)
            consumer = MemoryConsumer(found, prefetch, no_ack, exclusive, priority)
            consumer.hand = lambda entry: subscription.hand(consumer, entry)
            consumer.gone = self._resume
            self._broker.consume(consumer)
            return consumer

        with self._broker.lock:
            self._check_open()
            self._broker.tick()
            subscription = MemorySubscription(self._broker, consume, self.wake)
            subscription.when_cancelled = self._look_what_goes
            self._layout = self._unused_queues.take(self._layout, queue)
            self._subscriptions = [each for each in self._subscriptions if not each.is_through]
            self._subscriptions.append(subscription)
            return subscription

    async def get(self, queue: str, *, no_ack: bool = False) -> MemoryIncoming | None:
        """The first ready message of a queue, if it has one."""
        with self._broker.lock:
            self._check_open()
            self._broker.tick()
            found = self._broker.find_queue(queue, self)
            getter = MemoryConsumer(found, no_ack=no_ack)
            entry = found.take(getter, self._broker.now())
            if entry is None:
                return None
            self._getters = [*(each for each in self._getters if each.unacked), getter]
            return MemoryIncoming(self._broker, getter, entry, self.wake)

    async def declare(self, layout: Layout) -> None:
        """Have all of it on the broker now, and again after each failure of the connection."""
        with self._broker.lock:
            self._check_open()
            self._broker.tick()
            for step in self._steps(layout):
                step()
            self._layout = layouts.merge_layouts(self._layout, layout)

    async def close(self, deadline_s: float = 10.0) -> None:
        """Take no more; when what is in hand is settled, or the time is over, end, and give back what is not."""
        with self._broker.lock:
            self._is_closing = True
            self.wake()
        for subscription in self._subscriptions:
            await subscription.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(deadline_s):
                await self._until(self._is_idle)
        with self._broker.lock:
            if self in self._broker.transports:
                self._broker.transports.remove(self)
                self._leave()
                self.wake()

    # for the broker's faults

    def lose(self) -> None:
        """Lose the connection, and have another."""
        self._leave()
        self._resume()

    def wake(self) -> None:
        """Whoever waits looks again."""
        self._waiters.wake()

    def _look_what_goes(self, queue: str) -> None:
        """A queue that goes by itself when nobody consumes it is not to be there again after a failure."""
        if not any(each.consumer.queue.name == queue and not each.is_over for each in self._subscriptions):
            self._layout = self._unused_queues.put(self._layout, queue)

    def _leave(self) -> None:
        consumers = [subscription.consumer for subscription in self._subscriptions]
        getters, self._getters = self._getters, []
        self._broker.leave(self, [*consumers, *getters])

    def _resume(self) -> None:
        """Have again what was declared, as far as that may be, and subscribe where nobody consumes any more."""
        for step in self._steps(self._layout):
            with contextlib.suppress(ClientError):
                step()
        for subscription in self._subscriptions:
            if not self._broker.has_consumer(subscription.consumer):
                subscription.resume()

    def _steps(self, layout: Layout) -> list[Callable[[], None]]:
        """What declares a layout, one by one."""
        return [
            *(partial(self._broker.declare_exchange, exchange) for exchange in layout.exchanges),
            *(partial(self._broker.declare_queue, queue, self) for queue in layout.queues),
            *(partial(self._broker.bind, binding) for binding in layout.bindings),
        ]

    def _check_open(self) -> None:
        if self._is_closing:
            raise _closed()

    async def _until_taken(self) -> None:
        """Returns when the broker takes publishes; those that wait have the time until the end of the connection."""
        with self._broker.lock:
            self._check_open()
        await self._until(lambda: not self._broker.faults.is_blocked or self not in self._broker.transports)
        if self not in self._broker.transports:
            raise _closed()

    def _is_idle(self) -> bool:
        consumers = [subscription.consumer for subscription in self._subscriptions]
        return not self._undecided and not any(consumer.unacked for consumer in [*consumers, *self._getters])

    async def _until(self, holds: Callable[[], bool]) -> None:
        while True:
            with self._broker.lock:
                if holds():
                    return
                changed = self._waiters.add()
            await changed.wait()

    def _decide(self, messages: Sequence[Outgoing]) -> list[ClientError | None]:
        """What becomes of each, all of them ended by a connection that is lost on one."""
        faults = self._broker.faults
        decided: list[ClientError | None] = []
        for at, outgoing in enumerate(messages):
            if faults.loses_this_publish():
                if faults.lost_arrives:
                    for each in messages[at:]:
                        self._fate(each)
                self.lose()
                return decided + [ConnectionLost("the connection was lost before the confirm") for _ in messages[at:]]
            decided.append(self._fate(outgoing))
        return decided

    def _commit(self, messages: Sequence[Outgoing]) -> None:
        for outgoing in messages:
            self._check(outgoing)
        faults = self._broker.faults
        if any(faults.loses_this_publish() for _ in messages):
            if faults.lost_arrives:
                for outgoing in messages:
                    self._fate(outgoing)
            self.lose()
            raise ConnectionLost("the connection was lost before the answer to the commit")
        failures = [self._fate(outgoing) for outgoing in messages]
        failed = [failure for failure in failures if isinstance(failure, PublishFailed)]
        if any(failure.refused for failure in failed):
            raise refusal(PRECONDITION_FAILED, "partial tx completion")
        if failed:
            raise PublishFailed([], [returned for failure in failed for returned in failure.returned])

    def _check(self, outgoing: Outgoing) -> None:
        """Whatever a broker refuses before it commits: then none is there."""
        try:
            self._broker.check(stored_message(outgoing))
        except ENCODING_ERRORS as mistake:
            raise CannotConvert(f"the message cannot be encoded: {mistake}") from None
        except ChannelClosed as refused:
            refused.outcome = "rejected"
            raise

    def _fate(self, outgoing: Outgoing) -> ClientError | None:
        try:
            message = stored_message(outgoing)
        except ENCODING_ERRORS as mistake:
            return CannotConvert(f"the message cannot be encoded: {mistake}")
        faults = self._broker.faults
        if faults.refuses_this_publish():
            return _refused()
        try:
            queues, all_have_it = self._broker.publish(message)
            if faults.repeats_this_publish():
                self._broker.publish(message)
        except ClientError as error:
            return error
        if not queues and outgoing.mandatory:
            return _returned(message)
        return None if all_have_it else _refused()


def _closed() -> ConnectionClosed:
    closed = ConnectionClosed("the transport was closed")
    closed.outcome = "not_sent"
    return closed


def _refused() -> PublishFailed:
    return PublishFailed([ConfirmRange(1, 1, False)], [])


def _returned(message: StoredMessage) -> PublishFailed:
    came_back = ReturnedMessage(
        NO_ROUTE, "NO_ROUTE", message.exchange, message.routing_key, message.header, message.body
    )
    return PublishFailed([], [came_back])


def _too_late(were_taken: bool) -> CallTimeout:
    if were_taken:
        return CallTimeout("the broker did not confirm in time")
    blocked = CallTimeout("the broker took no publishes in time")
    blocked.outcome = "not_sent"
    return blocked
