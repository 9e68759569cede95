"""The messages of a queue, across lost connections.

    active ──the channel or connection ended, or basic.cancel──▶ down ──consumed again──▶ active
        └────────────────────────── refused for good ──▶ failed

The reader notices that the consumer has ended, and a task resumes the subscription as long as the error is transient.
Meanwhile the reader waits, or times out and comes back. A basic.cancel by the broker (the queue was deleted or moved to
another node) leaves the channel open, and its messages can be settled there; the queue is declared again if it is in
the layout, and consumed again.

Messages of an ended channel that were not handed out are dropped, because the broker redelivers them. With `no_ack` it
does not, so they are handed out.

A stream that was subscribed with an offset resumes after the last message that was handed out.

**Transient refusals.** After a failure the same calls are made that worked before. Some refusals pass: the queue's node
is not up yet, or the broker has not noticed the end of a connection with an exclusive consumer. Changes by a person do
not pass: a deleted queue, a revoked permission. The broker uses the same codes for both, so the text decides; it is
RabbitMQ's, and Warren's is the same.

Not here: settling (`recovering.delivery_channel`), errors of connections (`ConnectionClosed.retriable`).
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from warren.client.channel import Channel, Consumer
from warren.client.connection import Connection
from warren.client.errors import CallTimeout, ChannelClosed, ClientError, ConnectionClosed
from warren.client.machine.deliveries import Delivery
from warren.client.protocol import ErrorFactory
from warren.client.recovering.connection import (
    LOGGER,
    Backoff,
    Notifier,
    RecoveringConnection,
    SubscriptionDown,
    SubscriptionUp,
)
from warren.client.recovering.delivery_channel import AmqpIncoming, DeliveryChannel, open_channel
from warren.errors import ACCESS_REFUSED, NOT_FOUND, PRECONDITION_FAILED
from warren.wire.field_tables import Table

QUEUE_UNAVAILABLE: Final = ("inaccessible", "stopped", "unavailable")
IN_USE: Final = "in exclusive use"


def is_transient(error: ChannelClosed) -> bool:
    """Whether a retry may succeed."""
    if error.code == NOT_FOUND:
        return any(words in error.text for words in QUEUE_UNAVAILABLE)
    if error.code == ACCESS_REFUSED:
        return IN_USE in error.text
    if error.code == PRECONDITION_FAILED:
        # an ack timeout closes a channel too and passes; an invalid argument of these methods does not
        return error.method not in ("basic.consume", "basic.qos")
    return True


STREAM_OFFSET: Final = "x-stream-offset"
STREAM_GROUP: Final = "x-stream-group"
STREAM_WORDS: Final = "x-stream-"
KEPT_BY_BROKER: Final = "stored"

Redeclare = Callable[[Connection, str], Awaitable[None]]
"""Declares the part of the layout that concerns one queue."""


@dataclass(frozen=True)
class SubscriptionRequest:
    """The queue and options of a subscription."""

    queue: str
    prefetch: int
    no_ack: bool
    exclusive: bool
    arguments: Table

    @property
    def follows_offsets(self) -> bool:
        named = self.arguments.get(STREAM_OFFSET)
        return named is not None and named != KEPT_BY_BROKER and STREAM_GROUP not in self.arguments

    @property
    def is_of_a_stream(self) -> bool:
        """Whether the arguments name a stream, which closes the connection of a client that requeues."""
        return any(name.startswith(STREAM_WORDS) for name in self.arguments)


class RecoveringSubscription:
    """A `Subscription` over AMQP; one task reads it."""

    def __init__(
        self,
        request: SubscriptionRequest,
        recovering_connection: RecoveringConnection,
        redeclare: Redeclare,
        notifier: Notifier,
    ) -> None:
        # called with the queue after `cancel`
        self.when_cancelled: Callable[[str], None] = lambda queue: None
        self._request = request
        self._recovering_connection = recovering_connection
        self._redeclare = redeclare
        self._notifier = notifier
        self._active_channel: DeliveryChannel | None = None
        # earlier channels, with messages that can still be settled
        self._left: list[DeliveryChannel] = []
        self._consumer: Consumer | None = None
        # received and not handed out
        self._pending: deque[Delivery] = deque()
        self._last_offset: int | None = None
        self._cancelled = False
        self._failure: ErrorFactory | None = None
        self._taking_up: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        # whether a task waits for a batch
        self._is_awaited = False
        # the last batch for a waiting reader: handed out before its channel may close
        self._last_batch: list[AmqpIncoming] = []

    @property
    def queue(self) -> str:
        return self._request.queue

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled

    @property
    def is_over(self) -> bool:
        """Whether it was cancelled and all its messages are settled."""
        return self._cancelled and not self.in_hand

    @property
    def in_hand(self) -> int:
        return sum(delivery_channel.in_hand for delivery_channel in self._delivery_channels)

    @property
    def _delivery_channels(self) -> list[DeliveryChannel]:
        return self._left if self._active_channel is None else [*self._left, self._active_channel]

    async def begin(self, connection: Connection) -> None:
        """Consume for the first time; a refusal raises."""
        await self._consume(connection)

    async def batch(self, timeout_s: float | None = None) -> list[AmqpIncoming]:
        """All messages that are there, at least one; none after the timeout or `cancel`."""
        self._is_awaited = not self._cancelled
        try:
            await self._fill(timeout_s)
        except BaseException:
            self._is_awaited = False
            self._give_back_if_over()
            for message in self._take_last_batch():
                message.give_back()
            raise
        self._is_awaited = False
        return self._take_last_batch() or self._hand_out()

    async def __aiter__(self) -> AsyncIterator[AmqpIncoming]:
        while True:
            await self._fill(None)
            if self._active_channel is None or not self._pending:
                return
            delivery = self._pending.popleft()
            self._follow(delivery)
            [message] = self._active_channel.hand_out([delivery])
            yield message

    async def cancel(self) -> None:
        """Ask for no more. Messages that were handed out can still be settled; the others are requeued.

        A waiting reader gets the messages that still come: requeued ones might otherwise be delivered before messages
        that were handed out earlier.

        It completes even if the caller is cancelled meanwhile.
        """
        if self._ending is None:
            self._cancelled = True
            self.when_cancelled(self._request.queue)
            self._changed.set()
            self._ending = asyncio.create_task(self._end(), name=f"warren end of subscription {self._request.queue}")
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        if self._consumer is not None:
            with contextlib.suppress(ClientError):
                await self._consumer.cancel()
                self._pending.extend(await self._consumer.batch())
        self._give_back_if_over()
        if self._is_awaited and not self._request.no_ack:
            self._last_batch = self._hand_out()
        if self._active_channel is not None:
            self._active_channel.retire()

    async def idle(self) -> None:
        """Return when all its messages are settled."""
        await asyncio.gather(*(delivery_channel.idle() for delivery_channel in self._delivery_channels))

    # reading

    async def _fill(self, timeout_s: float | None) -> None:
        """Return when messages are pending, after the timeout, or after `cancel`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not self._has_pending() and not self._cancelled:
                    await self._read()
                # messages without acks cannot be requeued: hand them out until the broker confirms the cancel
                if self._ending is not None and (self._is_awaited or self._request.no_ack):
                    await asyncio.shield(self._ending)
        self._give_back_if_over()

    def _has_pending(self) -> bool:
        if self._pending and self._active_channel is not None and not self._active_channel.is_delivering:
            self._pending.clear()
        return bool(self._pending)

    async def _read(self) -> None:
        if self._failure is not None:
            raise self._failure()
        if self._consumer is None:
            self._changed.clear()
            await self._changed.wait()
            return
        try:
            # an interrupted read has taken nothing out of the consumer's inbox
            self._pending.extend(await self._consumer.batch())
        except ClientError as error:
            self._go_down(error)

    def _hand_out(self) -> list[AmqpIncoming]:
        if self._active_channel is None or not self._pending:
            return []
        pending, self._pending = self._pending, deque()
        self._follow(pending[-1])
        return self._active_channel.hand_out(pending)

    def _take_last_batch(self) -> list[AmqpIncoming]:
        parting, self._last_batch = self._last_batch, []
        return parting

    def _follow(self, last: Delivery) -> None:
        if self._request.follows_offsets:
            offset = last.headers.get(STREAM_OFFSET)
            if isinstance(offset, int):
                self._last_offset = offset

    def _give_back_if_over(self) -> None:
        if not self._cancelled or self._request.no_ack or self._is_awaited:
            return
        pending, self._pending = self._pending, deque()
        if self._active_channel is not None:
            self._active_channel.give_back(pending)

    # resuming

    def _go_down(self, error: ClientError) -> None:
        self._consumer = None
        self._notifier.notify(SubscriptionDown(self._recovering_connection.role, self._request.queue, error))
        self._taking_up = asyncio.create_task(self._take_up(error), name=f"warren subscription {self._request.queue}")

    async def _take_up(self, error: ClientError) -> None:
        try:
            await self._consume_again(error)
        except Exception as unforeseen:
            queue = self._request.queue
            LOGGER.exception("the subscription to %s is not resumed", queue)
            self._fail(ClientError(f"the subscription to {queue} is not resumed, subscribe again: {unforeseen!r}"))

    async def _consume_again(self, error: ClientError) -> None:
        backoff = Backoff()
        while not self._cancelled:
            if isinstance(error, ChannelClosed):
                if not is_transient(error):
                    self._fail(error)
                    return
                await asyncio.sleep(backoff.next_s())
            try:
                connection = await self._recovering_connection.connection()
            except ClientError as final:
                self._fail(final)
                return
            try:
                await self._redeclare(connection, self._request.queue)
                await self._consume(connection)
            except (ChannelClosed, ConnectionClosed, CallTimeout) as again:
                error = again
                continue
            self._notifier.notify(SubscriptionUp(self._recovering_connection.role, self._request.queue))
            self._changed.set()
            return

    def _fail(self, error: ClientError) -> None:
        self._failure = lambda: error
        self._changed.set()

    async def _consume(self, connection: Connection) -> None:
        delivery_channel = self._active_channel
        if delivery_channel is None or not delivery_channel.is_usable:
            delivery_channel = DeliveryChannel(
                await open_channel(connection),
                self._request.no_ack,
                comes_again=not self._request.follows_offsets,
                takes_back=not self._request.is_of_a_stream,
            )
        try:
            consumer = await self._ask_for_messages(delivery_channel.channel)
        except BaseException:
            # the answer may still come, with deliveries after it
            delivery_channel.retire()
            raise
        self._left = [each for each in self._delivery_channels if each is not delivery_channel and each.in_hand]
        self._active_channel, self._consumer = delivery_channel, consumer
        if self._cancelled:
            self._active_channel.retire()

    async def _ask_for_messages(self, channel: Channel) -> Consumer:
        request = self._request
        await channel.prefetch(request.prefetch)
        arguments = dict(request.arguments)
        if self._last_offset is not None:
            arguments[STREAM_OFFSET] = self._last_offset + 1
        return await channel.consume(
            request.queue, no_ack=request.no_ack, exclusive=request.exclusive, arguments=arguments or None
        )
