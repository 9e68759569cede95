"""A consumer: deliveries in the order they came, one by one or as many as there are.

    async for delivery in consumer:             deliveries = await consumer.batch()

Both end when the consumer was cancelled by the program, and raise what ended it otherwise, after everything that had
come was handed out.

Not here: acks (`client.channel`), how much may be on the way (`Channel.prefetch`).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from warren.client.link import Error, Link, weight_of
from warren.client.machine.deliveries import Delivery
from warren.client.machine.events import Delivered


class Consumer:
    """What a channel gets from one queue."""

    def __init__(self, tag: str, link: Link, cancel: Callable[["Consumer"], Awaitable[None]]) -> None:
        self.tag = tag
        self._cancel = cancel
        self._link = link
        self._inbox: list[Delivery] = []
        self._weight = 0
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self._error: Error | None = None
        # those that are handed out one by one, last first
        self._in_hand: list[Delivery] = []

    async def batch(self, timeout_s: float | None = None) -> list[Delivery]:
        """All deliveries that are there, at least one; none if the time is over, or it was cancelled."""
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
        """Ask for no more; what has come is still handed out."""
        await self._cancel(self)

    # events

    def came(self, event: Delivered) -> None:
        self._inbox += event.deliveries
        weight = weight_of(event)
        self._weight += weight
        self._link.piled_up(weight)
        self._wake()

    def end(self, error: Error | None) -> None:
        """No more will come; without an error because the program wanted it so."""
        if not self._ended:
            self._ended = True
            self._error = error
            self._lighten()
            self._wake()

    def _take(self) -> list[Delivery]:
        batch, self._inbox = self._inbox, []
        self._lighten()
        return batch

    def _lighten(self) -> None:
        """What is in the inbox keeps nobody from reading on."""
        weight, self._weight = self._weight, 0
        self._link.taken(weight)

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
