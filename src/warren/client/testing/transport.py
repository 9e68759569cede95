"""The transport seam on a broker in memory. A `MemoryTransport` is a connection to the broker with its own consumers.

A transport that loses its connection connects again at once, as every transport does: it declares its layout again,
subscribes again, and the broker redelivers the unacked messages. An ack of a message from the lost connection has no
effect.

A subscription that waits is woken through its own event loop, because messages come from any thread.

Faults are consumed by the publishes and acks that they affect; `block` and `delay` last until they are ended.

Not here: the broker and its connections (`testing.core`), faults of real connections (`testing.proxy`).
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from librt.strings import BytesWriter

from warren.client.errors import (
    CallTimeout,
    CannotConvert,
    ChannelClosed,
    ClientError,
    ConnectionClosed,
    ConnectionLost,
    PublishFailed,
)
from warren.client.machine.deliveries import Delivery
from warren.client.machine.publishes import ConfirmRange, property_tail
from warren.client.recovering import layouts
from warren.client.recovering.publish_call import ENCODING_ERRORS
from warren.client.testing.core import (
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    BrokerCore,
    MemoryChannel,
    MemoryConnection,
    refusal,
)
from warren.client.transport import BindingLayout, ExchangeLayout, Layout, MessageView, Outgoing, QueueLayout
from warren.wire.field_tables import Table
from warren.wire.methods import (
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicQos,
    ConfirmSelect,
    ExchangeBind,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    TxCommit,
    TxSelect,
)
from warren.wire.scalars import write_shortstr

Result = TypeVar("Result")
_SHORTEST_WAIT_S = 0.005
_COUNTS = frozenset({"x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes"})
_TEXTS = frozenset({"x-dead-letter-exchange", "x-dead-letter-routing-key"})
_ANY_VALUE = frozenset({"x-queue-mode", "x-queue-version", "x-queue-master-locator", "x-single-active-consumer"})
_CHOICES = {"x-overflow": ("drop-head", "reject-publish", "reject-publish-dlx"), "x-queue-type": ("classic",)}


class Faults:
    """The faults of a broker, on demand."""

    def __init__(self, core: BrokerCore) -> None:
        self.transports: list[MemoryTransport] = []
        self.is_blocked = False
        self.delay_s = 0.0
        self._core = core
        self._refused = 0
        self._published_twice = 0
        self._lost_acks = 0
        # the publishes left before the connection is lost, and whether the lost publishes reach the broker
        self._until_lost: int | None = None
        self._arrives = True

    def refuse(self, publishes: int) -> None:
        """Refuse the next publishes: `PublishFailed`, and no queue has them."""
        self._refused = publishes

    def publish_twice(self, publishes: int) -> None:
        """Let the next publishes arrive twice, as if the publisher sent an unconfirmed message again."""
        self._published_twice = publishes

    def deliver_twice(self, messages: int) -> None:
        """Lose the next acks: the broker delivers these messages again, as redelivered."""
        self._lost_acks = messages

    def lose_connection(self, after: int = 0, *, arrives: bool = True) -> None:
        """Lose the connection with the next publish, or `after` more.

        That publish and the rest of its call end as `ConnectionLost` with outcome unknown; `arrives` says whether the
        broker has them. The broker redelivers the unacked messages of the connection.
        """
        self._until_lost, self._arrives = after, arrives

    def lose_connections(self) -> None:
        """Lose every connection: the broker redelivers all unacked messages, and their acks have no effect."""
        with self._core.lock:
            for transport in list(self.transports):
                transport.lose()

    def delay(self, seconds: float) -> None:
        """Delay each confirm from now on; 0 ends the delay."""
        self.delay_s = seconds

    def block(self) -> None:
        """Take no publishes, as a broker with a memory alarm; publishes wait."""
        self.is_blocked = True

    def unblock(self) -> None:
        with self._core.lock:
            self.is_blocked = False
            for transport in self.transports:
                transport.wake()

    # for transports

    def loses_this_publish(self) -> bool:
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


class MemoryIncoming(MessageView[Delivery]):
    """A delivered message; it is settled once."""

    def __init__(self, transport: "MemoryTransport", channel: MemoryChannel, delivery: Delivery, no_ack: bool) -> None:
        super().__init__(delivery)
        self._transport = transport
        self._channel = channel
        self._no_ack = no_ack
        self._is_settled = no_ack
        if not no_ack:
            channel.unsettled.add(delivery.delivery_tag)

    @property
    def is_ours(self) -> bool:
        with self._transport.core.lock:
            return self._no_ack or self._is_unacked()

    def ack(self) -> None:
        with self._transport.core.lock:
            if self._settles():
                is_lost = self._transport.faults.loses_this_ack()
                self._channel.settle(self._message.delivery_tag, ack=not is_lost, requeue=True)
                self._transport.wake()

    def nack(self, *, requeue: bool = True) -> None:
        with self._transport.core.lock:
            if self._settles():
                self._channel.settle(self._message.delivery_tag, ack=False, requeue=requeue)
                self._transport.wake()

    def give_back(self) -> None:
        """Requeue a message that the program has not taken."""
        if not self._no_ack and self._is_unacked():
            self._channel.settle(self._message.delivery_tag, ack=False, requeue=True)

    def _settles(self) -> bool:
        """Whether the broker waits for it: the messages of a lost connection are the broker's again."""
        if self._is_settled:
            raise ValueError("this message was settled before, or needs no ack")
        self._is_settled = True
        return self._is_unacked()

    def _is_unacked(self) -> bool:
        return self._message.delivery_tag in self._channel.unsettled

    def __repr__(self) -> str:
        return f"<MemoryIncoming of {len(self.body)} bytes from {self.exchange!r} with key {self.routing_key!r}>"


class MemoryWaiters:
    """Tasks that wait for a change, each in its event loop."""

    def __init__(self) -> None:
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def add(self) -> asyncio.Event:
        """An event that the next change sets. Callers hold the broker's lock, so that they miss no change."""
        event = asyncio.Event()
        self._waiting.append((asyncio.get_running_loop(), event))
        return event

    def wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for loop, event in waiting:
            # a closed loop has no tasks left that wait
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(event.set)


class MemorySubscription:
    """The messages that a transport gets from one queue, over a channel of its own."""

    def __init__(self, transport: "MemoryTransport", method: BasicConsume, prefetch: int) -> None:
        self.queue = method.queue
        self.is_over = False
        self.is_consuming = False
        self._transport = transport
        self._core = transport.core
        self._method = method
        self._prefetch = prefetch
        self._waiters = MemoryWaiters()
        self._inbox: deque[MemoryIncoming] = deque()
        self._error: ClientError | None = None
        self._tag = ""
        self._channel = self._consume()

    @property
    def has_unsettled(self) -> bool:
        return bool(self._channel.unsettled)

    @property
    def is_through(self) -> bool:
        """Whether no message comes and none is left to take or to settle."""
        return self.is_over and not self._inbox and not self.has_unsettled

    async def batch(self, timeout_s: float | None = None) -> list[MemoryIncoming]:
        """All messages that are there, at least one; none after the timeout or `cancel`."""
        await self._until_something(timeout_s)
        with self._core.lock:
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
        """Ask for no more. Messages that were taken can still be settled; the others are requeued, unless no_ack."""
        with self._core.lock:
            if not self.is_over:
                untaken = [] if self._method.no_ack else list(self._inbox)
                self.end()
                self._transport.unsubscribed(self.queue)
                if self.is_consuming:
                    self.is_consuming = False
                    self._channel.call(BasicCancel(self._tag))
                for incoming in untaken:
                    incoming.give_back()
                self._channel.finish()

    # for its transport

    def end(self, error: ClientError | None = None) -> None:
        self.is_over, self._error = True, error
        if not self._method.no_ack:
            self._inbox.clear()
        self._waiters.wake()

    def resume(self) -> None:
        """Subscribe again after a failure, without the messages that the program has not taken."""
        untaken = list(self._inbox)
        self._inbox.clear()
        if self.is_over:
            return
        for incoming in untaken:
            incoming.give_back()
        self._channel.finish()
        try:
            self._channel = self._consume()
        except ClientError as error:
            self.end(error)

    def _consume(self) -> MemoryChannel:
        channel = self._transport.open_channel()
        channel.when_delivered = partial(self._delivered, channel)
        channel.when_cancelled = partial(self._cancelled, channel)
        if self._prefetch:
            channel.call(BasicQos(prefetch_count=self._prefetch))
        self.is_consuming = True
        try:
            answer = channel.call(self._method).method
        except ClientError:
            self.is_consuming = False
            raise
        assert isinstance(answer, BasicConsumeOk)
        self._tag = answer.consumer_tag
        return channel

    def _delivered(self, channel: MemoryChannel, delivery: Delivery) -> None:
        self._inbox.append(MemoryIncoming(self._transport, channel, delivery, self._method.no_ack))
        self._waiters.wake()

    def _cancelled(self, channel: MemoryChannel) -> None:
        if channel is self._channel:
            self.is_consuming = False
            self._transport.resume()

    async def _until_something(self, timeout_s: float | None) -> None:
        """Returns when there is a message, none will come, or the time is over."""
        loop = asyncio.get_running_loop()
        ends_at = None if timeout_s is None else loop.time() + timeout_s
        while True:
            with self._core.lock:
                self._core.run()
                if self._inbox or (self.is_over and self._error is None):
                    return
                if self._error is not None:
                    raise self._error
                changed = self._waiters.add()
                due = self._core.next_due()
                due_in_s = None if due is None else max(due - self._core.now(), _SHORTEST_WAIT_S)
            left_s = None if ends_at is None else ends_at - loop.time()
            if left_s is not None and left_s <= 0:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_shorter(due_in_s, left_s)):
                    await changed.wait()


def _shorter(one: float | None, other: float | None) -> float | None:
    return min((each for each in (one, other) if each is not None), default=None)


class FaultyBroker(Protocol):
    """The parts of a `MemoryBroker` that its transports use."""

    core: BrokerCore
    faults: Faults


class MemoryTransport:
    """A connection to a memory broker; `MemoryBroker.transport` makes it."""

    def __init__(self, broker: FaultyBroker) -> None:
        self.core = broker.core
        self.faults = broker.faults
        with self.core.lock:
            self._connection: MemoryConnection = self.core.connect(self._reconnect)
        # for publishes with confirms; for declares and gets
        self._publish_channel: MemoryChannel | None = None
        self._spare_channel: MemoryChannel | None = None
        self._get_channels: list[MemoryChannel] = []
        self._layout = Layout()
        self._unused_queues = layouts.UnusedQueues()
        self._subscriptions: list[MemorySubscription] = []
        self._waiters = MemoryWaiters()
        self._undecided = 0
        self._is_closing = False
        self.faults.transports.append(self)

    async def publish(self, messages: Sequence[Outgoing], timeout_s: float | None = None) -> list[ClientError | None]:
        """For each message None if the broker has it, or its error."""
        try:
            return await self._confirmed(timeout_s, lambda: self._decide(messages))
        except (CallTimeout, ConnectionClosed) as error:
            return [error for _ in messages]

    async def publish_together(self, messages: Sequence[Outgoing], timeout_s: float | None = None) -> None:
        """Publish all messages in one transaction, or raise. A returned message is raised after the commit."""
        await self._confirmed(timeout_s, lambda: self._commit(messages))

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Publish without confirms: the outcome is not reported."""
        await self._until_taken()
        with self.core.lock:
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
        with self.core.lock:
            self._check_open()
            method = BasicConsume(queue, no_ack=no_ack, exclusive=exclusive, arguments=arguments or {})
            subscription = MemorySubscription(self, method, prefetch)
            self._layout = self._unused_queues.take(self._layout, queue)
            self._subscriptions = [each for each in self._subscriptions if not each.is_through]
            self._subscriptions.append(subscription)
            return subscription

    async def get(self, queue: str, *, no_ack: bool = False) -> MemoryIncoming | None:
        """The first ready message of a queue, if it has one."""
        with self.core.lock:
            self._check_open()
            channel = self._spare()
            delivery = channel.call(BasicGet(queue, no_ack)).delivery
            if delivery is None:
                return None
            incoming = MemoryIncoming(self, channel, delivery, no_ack)
            if not no_ack:
                self._spare_channel = None
                channel.finish()
                self._get_channels = [*(each for each in self._get_channels if each.unsettled), channel]
            return incoming

    async def declare(self, layout: Layout) -> None:
        """Declare a layout now, and again after each failure of the connection."""
        with self.core.lock:
            self._check_open()
            for step in self._steps(layout):
                step()
            self._layout = layouts.merge_layouts(self._layout, layout)

    async def close(self, deadline_s: float = 10.0) -> None:
        """Take no more messages, wait until the deadline for acks and confirms, and end the connection."""
        with self.core.lock:
            self._is_closing = True
            self.wake()
        for subscription in self._subscriptions:
            await subscription.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(deadline_s):
                await self._until(self._is_idle)
        with self.core.lock:
            if self in self.faults.transports:
                self.faults.transports.remove(self)
                self.core.drop(self._connection)
                self.wake()

    # for faults and subscriptions

    def lose(self) -> None:
        """Lose the connection, and connect again."""
        self.core.drop(self._connection)
        self._reconnect()

    def wake(self) -> None:
        """Let the tasks that wait look again."""
        self._waiters.wake()

    def open_channel(self) -> MemoryChannel:
        return self._connection.channel()

    def unsubscribed(self, queue: str) -> None:
        """A queue that deletes itself without consumers is not declared again after a failure."""
        if not any(each.queue == queue and not each.is_over for each in self._subscriptions):
            self._layout = self._unused_queues.put(self._layout, queue)

    def resume(self) -> None:
        """Declare the layout again, as far as the broker takes it, and subscribe where the consumer is gone."""
        for step in self._steps(self._layout):
            with contextlib.suppress(ClientError):
                step()
        for subscription in self._subscriptions:
            if not subscription.is_consuming:
                subscription.resume()

    def _reconnect(self) -> None:
        if self not in self.faults.transports:
            return
        self._connection = self.core.connect(self._reconnect)
        self._publish_channel = self._spare_channel = None
        self._get_channels = []
        for subscription in self._subscriptions:
            subscription.is_consuming = False
        self.resume()

    # channels and declares

    def _spare(self) -> MemoryChannel:
        """A channel for one call."""
        if self._spare_channel is None or not self._spare_channel.is_open:
            self._spare_channel = self.open_channel()
        return self._spare_channel

    def _confirming(self) -> MemoryChannel:
        if self._publish_channel is None or not self._publish_channel.is_open:
            self._publish_channel = self.open_channel()
            self._publish_channel.call(ConfirmSelect())
        return self._publish_channel

    def _steps(self, layout: Layout) -> list[Callable[[], None]]:
        """The calls that declare a layout."""
        return [
            *(partial(self._declare_exchange, exchange) for exchange in layout.exchanges),
            *(partial(self._declare_queue, queue) for queue in layout.queues),
            *(partial(self._bind, binding) for binding in layout.bindings),
        ]

    def _declare_exchange(self, layout: ExchangeLayout) -> None:
        method = ExchangeDeclare(layout.name, layout.kind, durable=layout.durable, arguments=layout.arguments)
        self._spare().call(method)

    def _declare_queue(self, layout: QueueLayout) -> None:
        self.core.run()
        wrong = None if self.core.has_queue(layout.name) else _unsupported_argument(layout.arguments)
        if wrong is not None:
            raise refusal(NOT_IMPLEMENTED, f"the memory broker cannot make queue '{layout.name}' with {wrong}")
        method = QueueDeclare(
            layout.name,
            durable=layout.durable,
            exclusive=layout.exclusive,
            auto_delete=layout.auto_delete,
            arguments=layout.arguments,
        )
        self._spare().call(method)

    def _bind(self, layout: BindingLayout) -> None:
        bind = ExchangeBind if layout.to_exchange else QueueBind
        self._spare().call(bind(layout.destination, layout.source, layout.routing_key, arguments=layout.arguments))

    # waiting

    def _check_open(self) -> None:
        if self._is_closing:
            raise _closed()

    async def _until_taken(self) -> None:
        """Returns when the broker takes publishes; an error if the transport ends before."""
        with self.core.lock:
            self._check_open()
        await self._until(lambda: not self.faults.is_blocked or self not in self.faults.transports)
        if self not in self.faults.transports:
            raise _closed()

    def _is_idle(self) -> bool:
        in_flight = any(each.has_unsettled for each in self._subscriptions) or any(
            each.unsettled for each in self._get_channels
        )
        return not self._undecided and not in_flight

    async def _until(self, holds: Callable[[], bool]) -> None:
        while True:
            with self.core.lock:
                if holds():
                    return
                changed = self._waiters.add()
            await changed.wait()

    # publishing

    async def _confirmed(self, timeout_s: float | None, publish: Callable[[], Result]) -> Result:
        """Publish when the broker takes publishes, and wait for the delay of the confirm."""
        were_taken = False
        self._undecided += 1
        try:
            async with asyncio.timeout(timeout_s):
                await self._until_taken()
                were_taken = True
                with self.core.lock:
                    result = publish()
                await asyncio.sleep(self.faults.delay_s)
                return result
        except TimeoutError:
            raise _too_late(were_taken) from None
        finally:
            self._undecided -= 1
            self.wake()

    def _decide(self, messages: Sequence[Outgoing]) -> list[ClientError | None]:
        """The outcome of each message. A lost connection ends the rest of them."""
        decided: list[ClientError | None] = []
        for at, outgoing in enumerate(messages):
            if self.faults.loses_this_publish():
                if self.faults.lost_arrives:
                    for each in messages[at:]:
                        self._outcome(each)
                self.lose()
                return decided + [ConnectionLost("the connection was lost before the confirm") for _ in messages[at:]]
            decided.append(self._outcome(outgoing))
        return decided

    def _outcome(self, outgoing: Outgoing) -> ClientError | None:
        try:
            _check_encodable(outgoing)
            if self.faults.refuses_this_publish():
                return _refused()
            channel = self._confirming()
            confirm = channel.publish(outgoing)
            returned = channel.take_returned()
            if self.faults.repeats_this_publish():
                channel.publish(outgoing)
        except ClientError as error:
            return error
        if returned:
            return PublishFailed([], returned)
        return None if confirm is not None and confirm.acked else _refused()

    def _commit(self, messages: Sequence[Outgoing]) -> None:
        for outgoing in messages:
            _check_encodable(outgoing)
        is_lost = any(self.faults.loses_this_publish() for _ in messages)
        try:
            if is_lost and not self.faults.lost_arrives:
                raise ConnectionLost("the connection was lost before the answer to the commit")
            self._commit_on(self.open_channel(), messages)
        finally:
            if is_lost:
                self.lose()
        if is_lost:
            raise ConnectionLost("the connection was lost before the answer to the commit")

    def _commit_on(self, channel: MemoryChannel, messages: Sequence[Outgoing]) -> None:
        commit = TxCommit()
        refused = False
        try:
            channel.call(TxSelect())
            for outgoing in messages:
                if self.faults.refuses_this_publish():
                    refused = True
                    continue
                channel.publish(outgoing)
                if self.faults.repeats_this_publish():
                    channel.publish(outgoing)
            channel.call(commit)
        except ChannelClosed as error:
            error.outcome = "unknown" if error.method == commit.name else "rejected"
            raise
        channel.finish()
        if refused:
            raise refusal(PRECONDITION_FAILED, "partial tx completion")
        if channel.returned:
            raise PublishFailed([], channel.returned)


def _unsupported_argument(arguments: Table) -> str | None:
    """The first argument that the documentation does not promise: no test should rely on it."""
    for name, value in arguments.items():
        if name in _COUNTS:
            fits = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        elif name in _TEXTS:
            fits = isinstance(value, str)
        elif name in _CHOICES:
            fits = value in _CHOICES[name]
        elif name in _ANY_VALUE:
            continue
        else:
            return f"{name}: it has classic queues and their arguments only"
        if not fits:
            return f"{name} {value!r}"
    return None


def _check_encodable(outgoing: Outgoing) -> None:
    """Raise `CannotConvert` before the first byte of a message is written."""
    try:
        message = outgoing.message
        for text in (outgoing.exchange, outgoing.routing_key if message.routing_key is None else message.routing_key):
            write_shortstr(BytesWriter(), text)
        property_tail(message.properties)
        if not isinstance(message.body, bytes | bytearray):
            raise TypeError(f"its body is of type {type(message.body).__name__}, not bytes")
    except ENCODING_ERRORS as mistake:
        raise CannotConvert(f"the message cannot be encoded: {mistake}") from None


def _closed() -> ConnectionClosed:
    closed = ConnectionClosed("the transport was closed")
    closed.outcome = "not_sent"
    return closed


def _refused() -> PublishFailed:
    return PublishFailed([ConfirmRange(1, 1, False)], [])


def _too_late(were_taken: bool) -> CallTimeout:
    if were_taken:
        return CallTimeout("the broker did not confirm in time")
    blocked = CallTimeout("the broker took no publishes in time")
    blocked.outcome = "not_sent"
    return blocked
