"""Messages that came on a channel which may end before they are settled.

A `Desk` is a channel on which messages are handed out, and knows how many of them are in somebody's hands. When the
channel has ended the broker gives its messages to somebody again, so settling them does nothing, and nobody waits for
it.

Not here: where they come from (`recovering.subscription`, `recovering.fetching`).

Messages that are asked for one by one, by `Transport.get`.

A queue that is missing ends the channel on which it is asked for, and with it what others have in hand there. So each
queue has a `Desk` of its own, and the channels of the queues that were asked for last are kept, no more than
`DESKS_MAX` of them: a program that looks into ever other queues does not use up the channels of its connection.

Without acks, too, the broker is asked for an ack, which it gets when the message is handed out. So a message that comes
for somebody who has gone meanwhile, because the call was cancelled or took too long, goes back to its queue. The price
is that a connection which ends at that moment may deliver it once more.

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
from warren.wire.field_tables import Table
from warren.wire.properties import Properties

# an event loop does not keep its tasks
_closing: set[asyncio.Task[None]] = set()

LOOK_AGAIN_S: Final = 0.1
"""How soon it is noticed that a channel has ended of which nobody is told."""


class DeliveryChannel:
    """A channel that hands out messages; with `no_ack` they need not be settled."""

    def __init__(
        self, channel: Channel, no_ack: bool = False, comes_again: bool = True, takes_back: bool = True
    ) -> None:
        self.channel = channel
        self._no_ack = no_ack
        # a stream does not, and knows how far its reader has come by what was acked
        self._takes_back = takes_back
        # whether the broker delivers again what was handed out and not settled
        self._comes_again = comes_again and not no_ack
        self._in_hand = 0
        # whose answers have not come
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
        """How many were handed out that the broker waits for."""
        return self._in_hand if self.channel.is_open else 0

    @property
    def gives_out(self) -> bool:
        """Whether what has come is still for this program: else the broker gives it to somebody again."""
        return self._no_ack or self.channel.is_open

    @property
    def has_lost(self) -> bool:
        """Whether the broker delivers again what was handed out."""
        return self._comes_again and not self.channel.is_open

    def hand_out(self, deliveries: Iterable[Delivery]) -> "list[AmqpIncoming]":
        messages = [AmqpIncoming(delivery, self) for delivery in deliveries]
        if not self._no_ack and messages:
            self._in_hand += len(messages)
            self._idle.clear()
        return messages

    async def fetch(self, queue: str) -> "AmqpIncoming | None":
        """The first ready message of a queue, if it has one; it goes back if the caller is cancelled meanwhile."""
        self._asked += 1
        asking = asyncio.create_task(self.channel.get(queue))
        try:
            delivery = await asyncio.shield(asking)
        except asyncio.CancelledError:
            asking.add_done_callback(self._nobody_takes)
            raise
        except Exception as error:
            self._answered(error)
            raise
        # nothing is awaited from here: nobody can go before the message is in their hands
        try:
            if delivery is None:
                return None
            if self._no_ack:
                self.channel.publisher.check_open()
                self.channel.ack(delivery)
            return self.hand_out([delivery])[0]
        finally:
            self._answered()

    def _nobody_takes(self, asking: asyncio.Task[Delivery | None]) -> None:
        error = None if asking.cancelled() else asking.exception()
        if error is None and not asking.cancelled() and (delivery := asking.result()) is not None:
            self.give_back([delivery])
        self._answered(error)

    def _answered(self, error: BaseException | None = None) -> None:
        self._asked -= 1
        # after a time-out the answer may come yet, and with the channel its message goes back
        self._retired = self._retired or isinstance(error, CallTimeout)
        self._close_if_through()

    def give_back(self, deliveries: Iterable[Delivery]) -> None:
        """Those that nobody was handed."""
        for delivery in deliveries:
            if self.channel.is_open and self._takes_back:
                self.channel.nack(delivery)

    def part_with(self, delivery: Delivery) -> None:
        """One that was handed out, to nobody who will settle it."""
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
        """Nothing more is asked for: the channel is closed when what is in hand is settled."""
        self._retired = True
        self._close_if_through()

    async def idle(self) -> None:
        """Returns when all that was handed out is settled, or need not be any more."""
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
    """A channel of its own; if the caller is cancelled meanwhile, it is closed when it is there."""
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
    """Close it, if it is not closed by then."""
    with contextlib.suppress(ClientError):
        await channel.close()


class AmqpIncoming:
    """An `Incoming` of AMQP."""

    __slots__ = ("_delivery", "_desk")

    def __init__(self, delivery: Delivery, delivery_channel: DeliveryChannel) -> None:
        self._delivery = delivery
        self._desk = delivery_channel

    @property
    def body(self) -> bytes:
        return self._delivery.body

    @property
    def properties(self) -> Properties:
        return self._delivery.properties

    @property
    def headers(self) -> Table:
        return self._delivery.headers

    @property
    def exchange(self) -> str:
        return self._delivery.exchange

    @property
    def routing_key(self) -> str:
        return self._delivery.routing_key

    @property
    def redelivered(self) -> bool:
        return self._delivery.redelivered

    @property
    def is_ours(self) -> bool:
        """Whether it is for this program to handle; else its connection has ended, and the broker delivers it again."""
        return not self._desk.has_lost

    def ack(self) -> None:
        """It is dealt with; nothing happens if its connection has ended."""
        self._desk.ack(self._delivery)

    def nack(self, *, requeue: bool = True) -> None:
        """It is refused; nothing happens if its connection has ended."""
        self._desk.nack(self._delivery, requeue)

    def give_back(self) -> None:
        """Nobody took it: back to where it came from, unless that keeps it anyway."""
        self._desk.part_with(self._delivery)

    def __repr__(self) -> str:
        return repr(self._delivery).replace("Delivery", "HeldMessage", 1)


FETCH_CHANNELS_MAX: Final = 32


class MessageFetcher:
    """The desks of a transport at which single messages are fetched."""

    def __init__(self) -> None:
        # by queue and whether acks are wanted; the one that was used last is the last
        self._delivery_channels: OrderedDict[tuple[str, bool], DeliveryChannel] = OrderedDict()
        # that hand out nothing more, and wait for acks
        self._leaving: list[DeliveryChannel] = []

    async def fetch(self, connection: Connection, queue: str, no_ack: bool) -> AmqpIncoming | None:
        """The first ready message of a queue, if it has one."""
        delivery_channel = self._usable(queue, no_ack) or await self._open(connection, queue, no_ack)
        return await delivery_channel.fetch(queue)

    async def idle(self) -> None:
        """Returns when all that was handed out is settled, or need not be any more."""
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
            # somebody else who asks for the same was faster
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
