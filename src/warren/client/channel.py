"""A channel: topology, publishing, consuming, transactions.

The broker closes the channel on every error. All calls that wait on the channel, and all later calls, then raise
`ChannelClosed` with the broker's code and text. The connection and its other channels go on.

A consumer yields deliveries in order, one by one or all that are there:

    async for delivery in consumer:             deliveries = await consumer.batch()

Both end after the program cancels the consumer. If the consumer ends otherwise, they raise its error after the last
delivery.

Not here: how publishes wait (`client.publisher`), the protocol of a channel (`client.machine.channel`).
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from warren.client import errors
from warren.client.machine.channel import CHANNEL_CLOSING, ChannelMachine
from warren.client.machine.deliveries import Delivery
from warren.client.machine.events import (
    CallAnswered,
    Cancelled,
    ChannelClosedByBroker,
    Confirmed,
    Delivered,
    FlowChanged,
    Returned,
)
from warren.client.machine.publishes import Message
from warren.client.protocol import ChannelEvent, ChannelListener, ClientProtocol, ErrorFactory, delivered_bytes
from warren.client.publisher import ChannelPublisher
from warren.client.with_blocks import AsyncClosedAtEnd
from warren.wire.field_tables import Table
from warren.wire.methods import (
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicQos,
    BasicRecover,
    ConfirmSelect,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    TxCommit,
    TxRollback,
    TxSelect,
)
from warren.wire.properties import Properties


@dataclass(frozen=True)
class DeclaredQueue:
    """A queue as the broker reports it."""

    name: str
    messages: int
    consumers: int


class TopologyCalls(ABC):
    """Calls that create, bind and delete queues and exchanges; a refused call raises `ChannelClosed`."""

    @abstractmethod
    async def _call(self, method: Method) -> CallAnswered:
        """Send a method and wait for its answer."""

    async def declare_queue(
        self,
        name: str = "",
        *,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        passive: bool = False,
        arguments: Table | None = None,
    ) -> DeclaredQueue:
        """Declare a queue. The broker names a queue without a name; `passive` only checks that the queue exists."""
        method = QueueDeclare(
            name,
            passive=passive,
            durable=durable,
            exclusive=exclusive,
            auto_delete=auto_delete,
            arguments=arguments,
        )
        answer = (await self._call(method)).method
        assert isinstance(answer, QueueDeclareOk)
        return DeclaredQueue(answer.queue, answer.message_count, answer.consumer_count)

    async def bind_queue(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        await self._call(QueueBind(queue, exchange, routing_key, arguments=arguments))

    async def unbind_queue(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        await self._call(QueueUnbind(queue, exchange, routing_key, arguments))

    async def purge_queue(self, queue: str) -> int:
        """Delete the ready messages, and return their number."""
        answer = (await self._call(QueuePurge(queue))).method
        assert isinstance(answer, QueuePurgeOk)
        return answer.message_count

    async def delete_queue(self, queue: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue, and return how many messages it had."""
        answer = (await self._call(QueueDelete(queue, if_unused, if_empty))).method
        assert isinstance(answer, QueueDeleteOk)
        return answer.message_count

    async def declare_exchange(
        self,
        name: str,
        type: str = "direct",
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        passive: bool = False,
        arguments: Table | None = None,
    ) -> None:
        method = ExchangeDeclare(
            name,
            type,
            passive=passive,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=arguments,
        )
        await self._call(method)

    async def bind_exchange(
        self, destination: str, source: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        await self._call(ExchangeBind(destination, source, routing_key, arguments=arguments))

    async def unbind_exchange(
        self, destination: str, source: str, routing_key: str = "", arguments: Table | None = None
    ) -> None:
        await self._call(ExchangeUnbind(destination, source, routing_key, arguments=arguments))

    async def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        await self._call(ExchangeDelete(name, if_unused))


class Consumer:
    """The deliveries of one queue to a channel."""

    def __init__(self, tag: str, protocol: ClientProtocol, cancel: Callable[["Consumer"], Awaitable[None]]) -> None:
        self.tag = tag
        self._cancel = cancel
        self._protocol = protocol
        self._inbox: list[Delivery] = []
        self._weight = 0
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self._error: ErrorFactory | None = None
        # for iteration, in reverse order
        self._in_hand: list[Delivery] = []

    async def batch(self, timeout_s: float | None = None) -> list[Delivery]:
        """All deliveries that are there, at least one; none after the timeout or `cancel`."""
        if self._in_hand:
            batch = self._in_hand[::-1]
            self._in_hand = []
            return batch
        if not self._inbox and not self._ended:
            await self._until_something(timeout_s)
        if self._inbox:
            return self._take()
        if self._error is not None:
            raise self._error()
        return []

    def __aiter__(self) -> AsyncIterator[Delivery]:
        return self

    async def __anext__(self) -> Delivery:
        if not self._in_hand:
            batch = await self.batch()
            if not batch:
                raise StopAsyncIteration
            self._in_hand = batch[::-1]
        return self._in_hand.pop()

    async def cancel(self) -> None:
        """Ask for no more; deliveries that have come can still be taken."""
        await self._cancel(self)

    # events

    def received(self, event: Delivered) -> None:
        self._inbox += event.deliveries
        weight = delivered_bytes(event)
        self._weight += weight
        self._protocol.inbox_grew(weight)
        self._wake()

    def end(self, error: ErrorFactory | None) -> None:
        """No more will come. Without an error the program has cancelled the consumer."""
        if not self._ended:
            self._ended = True
            self._error = error
            self._empty_inbox()
            self._wake()

    def _take(self) -> list[Delivery]:
        batch, self._inbox = self._inbox, []
        self._empty_inbox()
        return batch

    def _empty_inbox(self) -> None:
        """Deliveries in the inbox no longer count against the read limit."""
        weight, self._weight = self._weight, 0
        self._protocol.inbox_emptied(weight)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _until_something(self, timeout_s: float | None) -> None:
        if self._waiter is not None:
            raise ValueError("a consumer is read by one task")
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_s):
                await self._waiter
        except TimeoutError:
            return
        finally:
            self._waiter = None


class Channel(TopologyCalls, ChannelListener, AsyncClosedAtEnd):
    """A channel of a connection."""

    def __init__(self, protocol: ClientProtocol, machine: ChannelMachine) -> None:
        self._protocol = protocol
        self._machine = machine
        self.publisher = ChannelPublisher(protocol, machine)
        self._consumers: dict[str, Consumer] = {}
        # the tickets of unanswered calls
        self._calls: list[int] = []
        self._error: ErrorFactory = protocol.error
        protocol.listeners[machine.number] = self

    @property
    def number(self) -> int:
        return self._machine.number

    @property
    def is_open(self) -> bool:
        return self._machine.state < CHANNEL_CLOSING

    @property
    def unconfirmed(self) -> int:
        """The number of publishes that the broker has not decided."""
        return int(self._machine.confirms.unconfirmed()) if self._machine.confirming else 0

    # publishing

    async def confirm(self, window: int | None = None) -> None:
        """Number and confirm publishes from here on; at most `window` of them are undecided at once."""
        if window is not None:
            if window < 1:
                raise ValueError("a window has room for one publish at least")
            self._machine.window = window
        await self._call(ConfirmSelect())

    async def publish(
        self,
        message: bytes | Message,
        exchange: str = "",
        routing_key: str = "",
        *,
        mandatory: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        """Send a message; with confirms return when the broker has it, or raise `PublishFailed`."""
        whole = Message(message) if isinstance(message, bytes) else message
        number = self.publisher.send_at_once(whole, exchange, routing_key, mandatory)
        if number is None:
            number = await self.publisher.send(whole, exchange, routing_key, mandatory)
        if number:
            await self.publisher.decided(number, timeout_s)

    async def send(
        self, message: bytes | Message, exchange: str = "", routing_key: str = "", *, mandatory: bool = False
    ) -> int:
        """Send a message without waiting for its confirm; returns its number, 0 without confirms."""
        whole = Message(message) if isinstance(message, bytes) else message
        number = self.publisher.send_at_once(whole, exchange, routing_key, mandatory)
        return await self.publisher.send(whole, exchange, routing_key, mandatory) if number is None else number

    async def send_many(
        self,
        messages: Sequence[bytes | Message],
        exchange: str = "",
        routing_key: str = "",
        *,
        properties: Properties | None = None,
        mandatory: bool = False,
    ) -> range:
        """Send messages in order, and return their numbers. Messages may have their own key and properties."""
        return await self.publisher.send_many(messages, exchange, routing_key, properties, mandatory)

    async def send_encoded(self, frames: bytes, count: int, timeout_s: float | None = None) -> int:
        """Send messages that are encoded for this channel's number; returns the number of the last.

        For programs that encode in bulk. The frames are not checked, and a returned message has no number.
        """
        return await self.publisher.send_encoded(frames, count, timeout_s)

    async def wait_for_confirms(self, timeout_s: float | None = None, *, up_to: int | None = None) -> None:
        """Return when all publishes, or those up to number `up_to`, are decided.

        A `PublishFailed` has all failures since the last call.
        """
        await self.publisher.wait_for_confirms(timeout_s, up_to)

    # consuming

    async def prefetch(self, count: int, *, shared: bool = False) -> None:
        """Limit the unacked deliveries of each new consumer, or with `shared` of the whole channel."""
        await self._call(BasicQos(prefetch_count=count, global_=shared))

    async def consume(
        self,
        queue: str,
        *,
        tag: str = "",
        no_ack: bool = False,
        exclusive: bool = False,
        arguments: Table | None = None,
    ) -> Consumer:
        method = BasicConsume(queue, tag, no_ack=no_ack, exclusive=exclusive, arguments=arguments)
        answer = (await self._call(method)).method
        assert isinstance(answer, BasicConsumeOk)
        return self._consumers[answer.consumer_tag]

    async def cancel(self, consumer: Consumer) -> None:
        if self._consumers.get(consumer.tag) is consumer:
            await self._call(BasicCancel(consumer.tag))
            self._consumers.pop(consumer.tag, None)
            consumer.end(None)

    async def get(self, queue: str, *, no_ack: bool = False) -> Delivery | None:
        """The first ready message of a queue, if it has one."""
        return (await self._call(BasicGet(queue, no_ack))).delivery

    def ack(self, delivery: Delivery | int, *, multiple: bool = False) -> None:
        """Acknowledge a delivery, with `multiple` also all before it; sent with the next output.

        A delivery tag may stand for the delivery.
        """
        self._machine.ack(self._own_tag(delivery), multiple)
        self._protocol.flush_soon()

    def nack(self, delivery: Delivery, *, multiple: bool = False, requeue: bool = True) -> None:
        """Refuse a delivery: requeue it, or dead-letter it."""
        self._machine.nack(self._own_tag(delivery), multiple, requeue)
        self._protocol.flush_soon()

    async def recover(self) -> None:
        """Requeue all unacked deliveries."""
        await self._call(BasicRecover(requeue=True))

    # transactions

    async def select_transactions(self) -> None:
        """Apply publishes and acks with `commit` from here on."""
        await self._call(TxSelect())

    async def commit(self) -> None:
        await self._call(TxCommit())

    async def rollback(self) -> None:
        await self._call(TxRollback())

    # end

    async def close(self) -> None:
        """Close the channel; the broker requeues unacked deliveries."""
        if not self.is_open:
            return
        ticket = self._machine.close()
        self._end(lambda: errors.ChannelClosed(f"channel {self.number} was closed"))
        await self._protocol.answer(ticket)
        self._stop_listening()

    def leave(self) -> None:
        """Close the channel without waiting for the answer."""
        if self.is_open and not self._protocol.ended:
            self._machine.close()
            self._end(lambda: errors.ChannelClosed(f"channel {self.number} was closed"))
            self._stop_listening()
            self._protocol.flush_soon()

    async def _call(self, method: Method) -> CallAnswered:
        self._check_open()
        ticket = self._machine.call(method)
        self._calls.append(ticket)
        try:
            return await self._protocol.answer(ticket)
        finally:
            self._calls.remove(ticket)

    def _check_open(self) -> None:
        if not self.is_open:
            raise self._error()

    def _own_tag(self, delivery: Delivery | int) -> int:
        machine = self._machine
        if machine.state >= CHANNEL_CLOSING:
            raise self._error()
        if isinstance(delivery, int):
            return delivery
        if delivery.channel != machine.number:
            raise ValueError(f"the delivery came on channel {delivery.channel}, and is settled there")
        return delivery.delivery_tag

    # events

    def happened(self, event: ChannelEvent) -> None:
        if isinstance(event, Delivered):
            self._consumers[event.consumer_tag].received(event)
        elif isinstance(event, Confirmed):
            self.publisher.confirmed(event.ranges)
        elif isinstance(event, CallAnswered):
            if isinstance(event.method, BasicConsumeOk):
                tag = event.method.consumer_tag
                self._consumers[tag] = Consumer(tag, self._protocol, self.cancel)
        elif isinstance(event, Returned):
            self.publisher.came_back(event.message)
        elif isinstance(event, Cancelled):
            self._cancelled(event)
        elif isinstance(event, FlowChanged):
            self.publisher.flows = event.active
        elif isinstance(event, ChannelClosedByBroker):
            self._closed(event)

    def ended(self, error: ErrorFactory) -> None:
        self._end(error)

    def _cancelled(self, event: Cancelled) -> None:
        consumer = self._consumers.pop(event.consumer_tag, None)
        if consumer is not None:
            consumer.end(lambda: errors.ConsumerCancelled(f"the broker cancelled consumer {event.consumer_tag!r}"))

    def _closed(self, event: ChannelClosedByBroker) -> None:
        def error() -> errors.ChannelClosed:
            sentence = f"the broker closed channel {event.channel}: {event.code} {event.text}"
            return errors.ChannelClosed(sentence, event.code, event.text, event.method_name)

        self._stop_listening()
        self._end(error)
        self._protocol.fail_calls(list(self._calls), error)

    def _stop_listening(self) -> None:
        # the number is free after the broker's answer: another channel may have it
        if self._protocol.listeners.get(self.number) is self:
            del self._protocol.listeners[self.number]

    def _end(self, error: ErrorFactory) -> None:
        self._error = error
        self.publisher.end(error)
        consumers, self._consumers = self._consumers, {}
        for consumer in consumers.values():
            consumer.end(error)
