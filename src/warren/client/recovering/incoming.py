"""Messages that came on a channel which may end before they are settled.

A `Desk` is a channel on which messages are handed out, and knows how many of them are in somebody's hands. When the
channel has ended the broker gives its messages to somebody again, so settling them does nothing, and nobody waits for
it.

Not here: where they come from (`recovering.subscription`, `RecoveringTransport.get`).
"""

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Final

from warren.client.channel import Channel
from warren.client.errors import CallTimeout, ClientError
from warren.client.machine.deliveries import Delivery
from warren.wire.properties import Properties
from warren.wire.values import Table

LOOK_AGAIN_S: Final = 0.1
"""How soon it is noticed that a channel has ended of which nobody is told."""


class Desk:
    """A channel that hands out messages; with `no_ack` they need not be settled."""

    def __init__(self, channel: Channel, no_ack: bool = False, comes_again: bool = True) -> None:
        self.channel = channel
        self._no_ack = no_ack
        # whether the broker delivers again what was handed out and not settled
        self._comes_again = comes_again and not no_ack
        self._in_hand = 0
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

    def hand_out(self, deliveries: Iterable[Delivery]) -> "list[HeldMessage]":
        messages = [HeldMessage(delivery, self) for delivery in deliveries]
        if not self._no_ack and messages:
            self._in_hand += len(messages)
            self._idle.clear()
        return messages

    async def fetch(self, queue: str) -> Delivery | None:
        """The first ready message of a queue, which is not handed out yet; it goes back if the caller is cancelled."""
        asking = asyncio.create_task(self.channel.get(queue, no_ack=self._no_ack))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            asking.add_done_callback(lambda _: self._nobody_takes(asking))
            raise
        except CallTimeout:
            # the answer may come yet, and with the channel its message goes back
            self.retire()
            raise

    def _nobody_takes(self, asking: asyncio.Task[Delivery | None]) -> None:
        if asking.cancelled():
            return
        if isinstance(asking.exception(), CallTimeout):
            self.retire()
        elif asking.exception() is None and not self._no_ack:
            delivery = asking.result()
            self.give_back([delivery] if delivery is not None else [])

    def give_back(self, deliveries: Iterable[Delivery]) -> None:
        """Those that nobody was handed."""
        for delivery in deliveries:
            if self.channel.is_open:
                self.channel.nack(delivery)

    def ack(self, delivery: Delivery) -> None:
        if self.channel.is_open:
            self.channel.ack(delivery)
            self._settled()

    def nack(self, delivery: Delivery, requeue: bool) -> None:
        if self.channel.is_open:
            self.channel.nack(delivery, requeue=requeue)
            self._settled()

    def retire(self) -> None:
        """Nothing more is handed out: the channel is closed when what is in hand is settled."""
        self._retired = True
        if not self.in_hand:
            self._close_channel()

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
            if self._retired:
                self._close_channel()

    def _close_channel(self) -> None:
        if self._closing is None:
            self._closing = asyncio.create_task(close_quietly(self.channel))


async def close_quietly(channel: Channel) -> None:
    """Close it, if it is not closed by then."""
    with contextlib.suppress(ClientError):
        await channel.close()


class HeldMessage:
    """An `Incoming` of AMQP."""

    __slots__ = ("_delivery", "_desk")

    def __init__(self, delivery: Delivery, desk: Desk) -> None:
        self._delivery = delivery
        self._desk = desk

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

    def __repr__(self) -> str:
        return repr(self._delivery).replace("Delivery", "HeldMessage", 1)
