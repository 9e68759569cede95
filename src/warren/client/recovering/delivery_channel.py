"""Messages of a channel that may end before they are settled.

A `DeliveryChannel` hands out messages and counts the unsettled ones. When the channel has ended, the broker redelivers
them; settling them then has no effect, and `idle` does not wait for them.

`MessageFetcher` serves `Transport.get`. A basic.get of a missing queue closes its channel, and with it the unsettled
messages of that channel. So each queue has its own `DeliveryChannel`. The channels of the queues used last are kept, at
most `FETCH_CHANNELS_MAX`, so that a program that reads from ever new queues does not use up the channels of its
connection.

A fetch with `no_ack` asks the broker for acks too, and acks when the message is handed out. So a message for a caller
that was cancelled or timed out is requeued. The price: if the connection ends at that moment, the message may be
delivered twice.

Not here: subscriptions (`recovering.subscription`).
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from warren.client.channel import Channel
from warren.client.connection import Connection
from warren.client.errors import CallTimeout, ClientError
from warren.client.machine.deliveries import Delivery
from warren.client.transport import MessageView

# an event loop holds only weak references to its tasks
_closing: set[asyncio.Task[None]] = set()

LOOK_AGAIN_S: Final = 0.1
"""How soon the end of a channel is noticed that gives no notice."""


class DeliveryChannel:
    """A channel that hands out messages; with `no_ack` they need not be settled."""

    def __init__(
        self, channel: Channel, no_ack: bool = False, comes_again: bool = True, takes_back: bool = True
    ) -> None:
        self.channel = channel
        self._no_ack = no_ack
        # False for a stream, which keeps its messages and tracks its reader by acks
        self._takes_back = takes_back
        # whether the broker redelivers unsettled messages
        self._comes_again = comes_again and not no_ack
        self._in_hand = 0
        # unanswered fetches
        self._asked = 0
        self._retired = False
        self._closing: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_usable(self) -> bool:
        return self.channel.is_open and not self._retired

    @property
    def in_hand(self) -> int:
        """The number of messages that the broker waits for."""
        return self._in_hand if self.channel.is_open else 0

    @property
    def is_delivering(self) -> bool:
        """Whether messages that have come are still for this program; if not, the broker redelivers them."""
        return self._no_ack or self.channel.is_open

    @property
    def has_lost(self) -> bool:
        """Whether the broker redelivers the messages that were handed out."""
        return self._comes_again and not self.channel.is_open

    def hand_out(self, deliveries: Iterable[Delivery]) -> "list[AmqpIncoming]":
        messages = [AmqpIncoming(delivery, self) for delivery in deliveries]
        if not self._no_ack and messages:
            self._in_hand += len(messages)
            self._idle.clear()
        return messages

    async def fetch(self, queue: str) -> "AmqpIncoming | None":
        """The first ready message of a queue, if any; requeued if the caller is cancelled meanwhile."""
        self._asked += 1
        asking = asyncio.create_task(self.channel.get(queue))
        try:
            delivery = await asyncio.shield(asking)
        except asyncio.CancelledError:
            asking.add_done_callback(self._requeue_untaken)
            raise
        except Exception as error:
            self._answered(error)
            raise
        # no await from here on: the caller cannot be cancelled before it has the message
        try:
            if delivery is None:
                return None
            if self._no_ack:
                self.channel.publisher.check_open()
                self.channel.ack(delivery)
            return self.hand_out([delivery])[0]
        finally:
            self._answered()

    def _requeue_untaken(self, asking: asyncio.Task[Delivery | None]) -> None:
        error = None if asking.cancelled() else asking.exception()
        if error is None and not asking.cancelled() and (delivery := asking.result()) is not None:
            self.give_back([delivery])
        self._answered(error)

    def _answered(self, error: BaseException | None = None) -> None:
        self._asked -= 1
        # after a timeout the answer may still come; closing the channel requeues its message
        self._retired = self._retired or isinstance(error, CallTimeout)
        self._close_if_through()

    def give_back(self, deliveries: Iterable[Delivery]) -> None:
        """Requeue messages that were not handed out."""
        for delivery in deliveries:
            if self.channel.is_open and self._takes_back:
                self.channel.nack(delivery)

    def abandon(self, delivery: Delivery) -> None:
        """Stop counting a message that was handed out and will not be settled."""
        if self.channel.is_open:
            self.give_back([delivery])
            self._settled()

    def ack(self, delivery: Delivery) -> None:
        if self.channel.is_open:
            self.channel.ack(delivery)
            self._settled()

    def nack(self, delivery: Delivery, requeue: bool) -> None:
        if self.channel.is_open:
            self.channel.nack(delivery, requeue=requeue)
            self._settled()

    def retire(self) -> None:
        """Fetch no more, and close the channel when all messages are settled."""
        self._retired = True
        self._close_if_through()

    async def idle(self) -> None:
        """Return when all messages are settled or cannot be settled any more."""
        while self.in_hand:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN_S):
                    await self._idle.wait()

    def _settled(self) -> None:
        self._in_hand -= 1
        if self._in_hand == 0:
            self._idle.set()
            self._close_if_through()

    def _close_if_through(self) -> None:
        if self._retired and not self.in_hand and not self._asked and self._closing is None:
            self._closing = asyncio.create_task(close_quietly(self.channel))


async def open_channel(connection: Connection) -> Channel:
    """Open a channel; if the caller is cancelled meanwhile, the channel is closed once it is open."""
    opening = asyncio.create_task(connection.channel())
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        _closing.add(unwanted := asyncio.create_task(_close_when_open(opening)))
        unwanted.add_done_callback(_closing.discard)
        raise


async def _close_when_open(opening: asyncio.Task[Channel]) -> None:
    with contextlib.suppress(ClientError):
        await (await opening).close()


async def close_quietly(channel: Channel) -> None:
    """Close a channel, ignoring errors."""
    with contextlib.suppress(ClientError):
        await channel.close()


class AmqpIncoming(MessageView[Delivery]):
    """An `Incoming` over AMQP."""

    __slots__ = ("_delivery_channel",)

    def __init__(self, delivery: Delivery, delivery_channel: DeliveryChannel) -> None:
        super().__init__(delivery)
        self._delivery_channel = delivery_channel

    @property
    def is_ours(self) -> bool:
        """Whether the program still has to settle it. If not, its connection has ended and the broker redelivers it."""
        return not self._delivery_channel.has_lost

    def ack(self) -> None:
        """Acknowledge the message; no effect after its connection has ended."""
        self._delivery_channel.ack(self._message)

    def nack(self, *, requeue: bool = True) -> None:
        """Refuse the message; no effect after its connection has ended."""
        self._delivery_channel.nack(self._message, requeue)

    def give_back(self) -> None:
        """Requeue a message that the program has not taken, unless its queue keeps it anyway."""
        self._delivery_channel.abandon(self._message)

    def __repr__(self) -> str:
        return repr(self._message).replace("Delivery", "AmqpIncoming", 1)


FETCH_CHANNELS_MAX: Final = 32


class MessageFetcher:
    """The channels of a transport for single fetches."""

    def __init__(self) -> None:
        # by queue and no_ack, the most recently used last
        self._delivery_channels: OrderedDict[tuple[str, bool], DeliveryChannel] = OrderedDict()
        # channels that fetch no more and wait for acks
        self._leaving: list[DeliveryChannel] = []

    async def fetch(self, connection: Connection, queue: str, no_ack: bool) -> AmqpIncoming | None:
        delivery_channel = self._usable(queue, no_ack) or await self._open(connection, queue, no_ack)
        return await delivery_channel.fetch(queue)

    async def idle(self) -> None:
        """Return when all messages are settled or cannot be settled any more."""
        await asyncio.gather(
            *(delivery_channel.idle() for delivery_channel in [*self._leaving, *self._delivery_channels.values()])
        )

    def _usable(self, queue: str, no_ack: bool) -> DeliveryChannel | None:
        delivery_channel = self._delivery_channels.get((queue, no_ack))
        if delivery_channel is None or not delivery_channel.is_usable:
            return None
        self._delivery_channels.move_to_end((queue, no_ack))
        return delivery_channel

    async def _open(self, connection: Connection, queue: str, no_ack: bool) -> DeliveryChannel:
        delivery_channel = DeliveryChannel(await open_channel(connection), no_ack)
        if (others := self._usable(queue, no_ack)) is not None:
            # another task opened a channel for the same queue first
            delivery_channel.retire()
            return others
        replaced = self._delivery_channels.pop((queue, no_ack), None)
        self._delivery_channels[queue, no_ack] = delivery_channel
        self._leaving = [each for each in [*self._leaving, replaced] if each is not None and each.in_hand]
        while len(self._delivery_channels) > FETCH_CHANNELS_MAX:
            _, oldest = self._delivery_channels.popitem(last=False)
            oldest.retire()
            self._leaving.append(oldest)
        return delivery_channel
