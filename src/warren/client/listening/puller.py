"""Messages when the program asks for them, in groups that are settled as one.

    async with Puller(transport, "orders", group_size=500) as puller:
        while group := await puller.take(wait_s=5):
            store(group)
            group.ack()

A group is as large as it gets within the time, up to its size. While a group is worked on the next one is on its way,
so a program has at most two groups that are not settled; who holds two gets no third.

Not here: one message when a queue has one, without a subscription (`Transport.get`); handlers (`listening.listener`).
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Self, overload

from warren.client.listening.subscriptions import StreamReading
from warren.client.transport import Incoming, Subscription, Transport

GROUPS_IN_HAND = 2


class MessageGroup(Sequence[Incoming]):
    """Messages in the order in which they came; empty if none came in time."""

    def __init__(self, messages: Sequence[Incoming]) -> None:
        self._messages = tuple(messages)
        self._settled = False

    def ack(self) -> None:
        """All of them are dealt with."""
        self._settle(lambda message: message.ack())

    def nack(self, *, requeue: bool = True) -> None:
        """All of them are refused: back to the queue, or to where its dead letters go."""
        self._settle(lambda message: message.nack(requeue=requeue))

    def _settle(self, tell: Callable[[Incoming], None]) -> None:
        if self._settled:
            return
        self._settled = True
        for message in self._messages:
            # raised for one that was settled singly: the others are not to suffer for it
            with contextlib.suppress(ValueError):
                tell(message)

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


class Puller:
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
        """A full group as soon as there is one, or when the time is over what has come."""
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
                # those whose connection has ended come again
                self._in_hand = [message for message in self._in_hand if message.is_ours]
            self._in_hand += batch
        group = MessageGroup(self._in_hand[: self._group_size])
        del self._in_hand[: self._group_size]
        if self._subscription is not subscription:
            # it was closed meanwhile
            self._let_go()
        return group

    async def close(self) -> None:
        """Ask for no more; what was not handed out goes back, or is still in the stream."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.cancel()
        self._let_go()

    def _let_go(self) -> None:
        if self._stream is None:
            MessageGroup(self._in_hand).nack()
        self._in_hand.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
