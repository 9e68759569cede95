"""Messages on demand, in groups that are settled as one.

    async with Puller(transport, "orders", group_size=500) as puller:
        while group := await puller.take(wait_s=5):
            store(group)
            group.ack()

A group has as many messages as come within the time, up to its size. The next group is on its way while one is
processed, so at most two groups are unsettled; a program that holds two gets no third.

Not here: a single message without a subscription (`Transport.get`), handlers (`listening.listener`).
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import overload

from warren.client.listening.subscriptions import StreamReading
from warren.client.transport import Incoming, Subscription, Transport
from warren.client.with_blocks import AsyncClosedAtEnd

GROUPS_IN_HAND = 2


class MessageGroup(Sequence[Incoming]):
    """Messages in order; empty if none came in time."""

    def __init__(self, messages: Sequence[Incoming]) -> None:
        self._messages = tuple(messages)
        self._settled = False

    def ack(self) -> None:
        """Acknowledge all messages."""
        self._settle(lambda message: message.ack())

    def nack(self, *, requeue: bool = True) -> None:
        """Refuse all messages: requeue or dead-letter them."""
        self._settle(lambda message: message.nack(requeue=requeue))

    def _settle(self, send: Callable[[Incoming], None]) -> None:
        if self._settled:
            return
        self._settled = True
        for message in self._messages:
            # raised for a message that was settled singly; go on with the others
            with contextlib.suppress(ValueError):
                send(message)

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Incoming]:
        return iter(self._messages)

    @overload
    def __getitem__(self, index: int) -> Incoming: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Incoming, ...]: ...
    def __getitem__(self, index: int | slice) -> Incoming | tuple[Incoming, ...]:
        return self._messages[index]


class Puller(AsyncClosedAtEnd):
    """Groups of a queue's messages."""

    def __init__(
        self, transport: Transport, queue: str, *, group_size: int = 100, stream: StreamReading | None = None
    ) -> None:
        if group_size < 1:
            raise ValueError(f"a group has room for one message at least, not for {group_size}")
        self._transport = transport
        self._queue = queue
        self._group_size = group_size
        self._stream = stream
        self._subscription: Subscription | None = None
        self._in_hand: list[Incoming] = []

    async def take(self, wait_s: float = 1.0) -> MessageGroup:
        """A full group as soon as there is one, or after `wait_s` the messages so far."""
        if self._subscription is None:
            self._subscription = await self._transport.subscribe(
                self._queue,
                prefetch=GROUPS_IN_HAND * self._group_size,
                arguments=self._stream.arguments if self._stream else None,
            )
        subscription = self._subscription
        clock = asyncio.get_running_loop().time
        until = clock() + wait_s
        while len(self._in_hand) < self._group_size:
            batch = await subscription.batch(max(0.0, until - clock()))
            if not batch:
                break
            if self._stream is None:
                # the broker redelivers messages of an ended connection
                self._in_hand = [message for message in self._in_hand if message.is_ours]
            self._in_hand += batch
        group = MessageGroup(self._in_hand[: self._group_size])
        del self._in_hand[: self._group_size]
        if self._subscription is not subscription:
            # the puller was closed meanwhile
            self._release()
        return group

    async def close(self) -> None:
        """Ask for no more; messages that were not handed out are requeued, or stay in the stream."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.cancel()
        self._release()

    def _release(self) -> None:
        if self._stream is None:
            MessageGroup(self._in_hand).nack()
        self._in_hand.clear()
