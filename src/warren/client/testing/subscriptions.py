"""What a memory broker hands out: messages that came, and the subscriptions they come by.

Whoever waits is woken through its own event loop, whichever thread the reason comes from.

Not here: connections (`testing.memory`), who gets which message (`testing.queues`).
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from warren.client.errors import ClientError
from warren.client.testing.queues import Consumer, Entry
from warren.wire.properties import Properties
from warren.wire.values import Table

if TYPE_CHECKING:
    from warren.client.testing.broker import MemoryBroker

_SHORTEST_WAIT_S = 0.005


class MemoryIncoming:
    """A message that came; it is settled once."""

    def __init__(self, broker: "MemoryBroker", consumer: Consumer, entry: Entry, settled: Callable[[], None]) -> None:
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


class Waiters:
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
        consume: Callable[["MemorySubscription"], Consumer],
        settled: Callable[[], None],
    ) -> None:
        self._broker = broker
        self._settled = settled
        self._consume = consume
        self._waiters = Waiters()
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

    def hand(self, consumer: Consumer, entry: Entry) -> None:
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
