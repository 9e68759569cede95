"""A channel: topology, publishing, consuming, transactions.

Whatever the broker refuses closes the channel; everyone who waits on it, and everyone who uses it from then on, gets a
`ChannelClosed` with the broker's code and text. The connection and its other channels go on.

Not here: declaring and binding (`client.topology`), how publishes wait (`client.publishing`).
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from warren.client import errors
from warren.client.consumer import Consumer
from warren.client.link import ChannelEvent, ChannelListener, Error, Link
from warren.client.machine.channel import CHANNEL_CLOSING, ChannelMachine
from warren.client.machine.deliveries import Delivery
from warren.client.machine.events import (
    Answered,
    Cancelled,
    ChannelClosed,
    Confirmed,
    Delivered,
    FlowChanged,
    Returned,
)
from warren.client.machine.publishing import Message
from warren.client.publishing import Publisher
from warren.client.topology import TopologyCalls
from warren.wire.methods import (
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicQos,
    BasicRecover,
    ConfirmSelect,
    Method,
    TxCommit,
    TxRollback,
    TxSelect,
)
from warren.wire.properties import Properties
from warren.wire.values import Table


class Channel(TopologyCalls, ChannelListener):
    """One of a connection's conversations."""

    def __init__(self, link: Link, machine: ChannelMachine) -> None:
        self._link = link
        self._machine = machine
        self.publisher = Publisher(link, machine)
        self._consumers: dict[str, Consumer] = {}
        # tickets of calls that wait
        self._calls: list[int] = []
        self._error: Error = link.error
        link.listeners[machine.number] = self

    @property
    def number(self) -> int:
        return self._machine.number

    @property
    def is_open(self) -> bool:
        return self._machine.state < CHANNEL_CLOSING

    @property
    def unconfirmed(self) -> int:
        """How many publishes the broker has not decided."""
        return int(self._machine.confirms.unconfirmed()) if self._machine.confirming else 0

    # publishing

    async def confirm(self, window: int | None = None) -> None:
        """From here on publishes are numbered and confirmed; at most `window` of them are undecided at once."""
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
        """Send a message, and with confirms return when the broker has it; a `PublishFailed` if it will not."""
        whole = Message(message) if isinstance(message, bytes) else message
        number = self.publisher.send_at_once(whole, exchange, routing_key, mandatory)
        if number is None:
            number = await self.publisher.send(whole, exchange, routing_key, mandatory)
        if number:
            await self.publisher.decided(number, timeout_s)

    async def send(
        self, message: bytes | Message, exchange: str = "", routing_key: str = "", *, mandatory: bool = False
    ) -> int:
        """Send a message without waiting for its confirm; its number, 0 without confirms."""
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
        """Send messages in a row; their numbers. Those without properties or key of their own get these."""
        return await self.publisher.send_many(messages, exchange, routing_key, properties, mandatory)

    async def send_encoded(self, frames: bytes, count: int, timeout_s: float | None = None) -> int:
        """Send messages whose frames are made already, for this channel's number; the number of the last.

        For programs that make them in bulk. Nothing of them is looked at, and one that comes back has no number.
        """
        return await self.publisher.send_encoded(frames, count, timeout_s)

    async def wait_for_confirms(self, timeout_s: float | None = None, *, up_to: int | None = None) -> None:
        """Return when all that was sent, or what has a number of at most `up_to`, is decided.

        A `PublishFailed` has all that failed since the last time.
        """
        await self.publisher.wait_for_confirms(timeout_s, up_to)

    # consuming

    async def prefetch(self, count: int, *, shared: bool = False) -> None:
        """How many deliveries each further consumer, or with `shared` all of the channel, may have unacked."""
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
        """It is dealt with, and with `multiple` all that came before it; sent with what else there is to send.

        For whoever keeps no deliveries the delivery's tag will do.
        """
        self._machine.ack(self._own_tag(delivery), multiple)
        self._link.flush_soon()

    def nack(self, delivery: Delivery, *, multiple: bool = False, requeue: bool = True) -> None:
        """It is refused: back to the queue, or to where the queue's dead letters go."""
        self._machine.nack(self._own_tag(delivery), multiple, requeue)
        self._link.flush_soon()

    async def recover(self) -> None:
        """Give back all that was not acked, to be delivered again."""
        await self._call(BasicRecover(requeue=True))

    # transactions

    async def select_transactions(self) -> None:
        """From here on publishes and acks count when they are committed."""
        await self._call(TxSelect())

    async def commit(self) -> None:
        await self._call(TxCommit())

    async def rollback(self) -> None:
        await self._call(TxRollback())

    # its end

    async def close(self) -> None:
        """Close it in good order; what was not acked goes back to its queue."""
        if not self.is_open:
            return
        ticket = self._machine.close()
        self._end(lambda: errors.ChannelClosed(f"channel {self.number} was closed"))
        await self._link.answer(ticket)
        self._hear_no_more()

    def leave(self) -> None:
        """Close it without waiting for the answer: whoever was to have it will not."""
        if self.is_open and not self._link.ended:
            self._machine.close()
            self._end(lambda: errors.ChannelClosed(f"channel {self.number} was closed"))
            self._hear_no_more()
            self._link.flush_soon()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _call(self, method: Method) -> Answered:
        self._check_open()
        ticket = self._machine.call(method)
        self._calls.append(ticket)
        try:
            return await self._link.answer(ticket)
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
            self._consumers[event.consumer_tag].came(event)
        elif isinstance(event, Confirmed):
            self.publisher.confirmed(event.ranges)
        elif isinstance(event, Answered):
            if isinstance(event.method, BasicConsumeOk):
                tag = event.method.consumer_tag
                self._consumers[tag] = Consumer(tag, self._link, self.cancel)
        elif isinstance(event, Returned):
            self.publisher.came_back(event.message)
        elif isinstance(event, Cancelled):
            self._cancelled(event)
        elif isinstance(event, FlowChanged):
            self.publisher.flows = event.active
        elif isinstance(event, ChannelClosed):
            self._closed(event)

    def ended(self, error: Error) -> None:
        self._end(error)

    def _cancelled(self, event: Cancelled) -> None:
        consumer = self._consumers.pop(event.consumer_tag, None)
        if consumer is not None:
            consumer.end(lambda: errors.ConsumerCancelled(f"the broker cancelled consumer {event.consumer_tag!r}"))

    def _closed(self, event: ChannelClosed) -> None:
        def error() -> errors.ChannelClosed:
            sentence = f"the broker closed channel {event.channel}: {event.code} {event.text}"
            return errors.ChannelClosed(sentence, event.code, event.text, event.method_name)

        self._hear_no_more()
        self._end(error)
        self._link.fail_calls(list(self._calls), error)

    def _hear_no_more(self) -> None:
        # its number is free as soon as the broker has answered: another one may have it by now
        if self._link.listeners.get(self.number) is self:
            del self._link.listeners[self.number]

    def _end(self, error: Error) -> None:
        self._error = error
        self.publisher.end(error)
        consumers, self._consumers = self._consumers, {}
        for consumer in consumers.values():
            consumer.end(error)
