"""A queue's messages, whatever happens to the connection meanwhile.

    taken up ──the channel or connection ended, or basic.cancel──▶ down ──consumed again──▶ taken up
        └────────────────────────── refused for good ──▶ failed

Whoever reads notices that the consumer has ended, and a task takes the subscription up again, for as long as that may
pass: the reader waits, or gives up and comes back, without consequence. A cancel by the broker (its queue was deleted,
or got another home) leaves the channel as it is, and what is in hand can be settled on it; the queue is declared again
if it is in the layout, and consumed again.

What had come on a channel that has ended, and was not handed out, is dropped: the broker delivers it again. Without
acks it does not, so there it is handed out.

A stream for which an offset was named goes on behind the last message that was handed out.

Not here: settling (`recovering.incoming`), what may pass (`recovering.judging`).

Whether what the broker refuses may work a little later.

After a failure the same calls are made again that worked before. Some of what is refused then passes: a queue whose
home is not there yet, an exclusive consumer of a connection whose end the broker has not noticed. What a person has
done meanwhile does not: a queue that was deleted, a permission that was taken away.

The broker gives both the same code, so its words count; they are those of RabbitMQ, which Warren has too.

Not here: the end of connections, of which `ConnectionClosed.retriable` tells.
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
from warren.client.recovering.incoming import AmqpIncoming, DeliveryChannel, open_channel
from warren.errors import ACCESS_REFUSED, NOT_FOUND, PRECONDITION_FAILED
from warren.wire.field_tables import Table

QUEUE_UNAVAILABLE: Final = ("inaccessible", "stopped", "unavailable")
IN_USE: Final = "in exclusive use"


def is_transient(error: ChannelClosed) -> bool:
    """Whether it is worth asking again."""
    if error.code == NOT_FOUND:
        return any(words in error.text for words in QUEUE_UNAVAILABLE)
    if error.code == ACCESS_REFUSED:
        return IN_USE in error.text
    if error.code == PRECONDITION_FAILED:
        # a delivery that was not acked in time ends a channel, too; an argument that makes no sense never will
        return error.method not in ("basic.consume", "basic.qos")
    return True


STREAM_OFFSET: Final = "x-stream-offset"
STREAM_GROUP: Final = "x-stream-group"
STREAM_WORDS: Final = "x-stream-"
KEPT_BY_BROKER: Final = "stored"

Redeclare = Callable[[Connection, str], Awaitable[None]]
"""Has what the layout says of a queue on the broker again."""


@dataclass(frozen=True)
class SubscriptionRequest:
    """What is to be consumed, and how."""

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
        """Whether it says so: a stream takes nothing back, and ends the connection of whoever tries."""
        return any(name.startswith(STREAM_WORDS) for name in self.arguments)


class RecoveringSubscription:
    """A `Subscription` of AMQP; read by one task."""

    def __init__(
        self,
        request: SubscriptionRequest,
        recovering_connection: RecoveringConnection,
        redeclare: Redeclare,
        notifier: Notifier,
    ) -> None:
        # told the queue when it was cancelled
        self.when_cancelled: Callable[[str], None] = lambda queue: None
        self._request = request
        self._recovering_connection = recovering_connection
        self._redeclare = redeclare
        self._notifier = notifier
        self._desk: DeliveryChannel | None = None
        # of earlier channels, on which messages may still be settled
        self._left: list[DeliveryChannel] = []
        self._consumer: Consumer | None = None
        # came and not handed out yet
        self._pending: deque[Delivery] = deque()
        self._last_offset: int | None = None
        self._cancelled = False
        self._failure: ErrorFactory | None = None
        self._taking_up: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        # whether somebody waits for a batch
        self._is_awaited = False
        # the last one for who waits: in hand before its channel is told to close when nothing is
        self._parting: list[AmqpIncoming] = []

    @property
    def queue(self) -> str:
        return self._request.queue

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled

    @property
    def is_over(self) -> bool:
        """Whether it was cancelled, and nothing of it is in anybody's hands."""
        return self._cancelled and not self.in_hand

    @property
    def in_hand(self) -> int:
        return sum(delivery_channel.in_hand for delivery_channel in self._delivery_channels)

    @property
    def _delivery_channels(self) -> list[DeliveryChannel]:
        return self._left if self._desk is None else [*self._left, self._desk]

    async def begin(self, connection: Connection) -> None:
        """For the first time: what the broker refuses is raised."""
        await self._consume(connection)

    async def batch(self, timeout_s: float | None = None) -> list[AmqpIncoming]:
        """All that are there, at least one; none if the time is over, or it was cancelled."""
        self._is_awaited = not self._cancelled
        try:
            await self._fill(timeout_s)
        except BaseException:
            self._is_awaited = False
            self._give_back_if_over()
            for message in self._take_parting():
                message.give_back()
            raise
        self._is_awaited = False
        return self._take_parting() or self._hand_out()

    async def __aiter__(self) -> AsyncIterator[AmqpIncoming]:
        while True:
            await self._fill(None)
            if self._desk is None or not self._pending:
                return
            delivery = self._pending.popleft()
            self._follow(delivery)
            [message] = self._desk.hand_out([delivery])
            yield message

    async def cancel(self) -> None:
        """Ask for no more; what was not handed out goes back. What was may still be settled.

        Who waits for a batch gets what still comes: queues that hand out what came back in the order in which it did
        so would have it before what was handed out earlier.

        It comes to its end also if the caller is cancelled meanwhile.
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
            self._parting = self._hand_out()
        if self._desk is not None:
            self._desk.retire()

    async def idle(self) -> None:
        """Returns when nothing of it is in anybody's hands."""
        await asyncio.gather(*(delivery_channel.idle() for delivery_channel in self._delivery_channels))

    # reading

    async def _fill(self, timeout_s: float | None) -> None:
        """Returns when something is pending, when the time is over, or when it was cancelled."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not self._has_pending() and not self._cancelled:
                    await self._read()
                # what needs no ack goes back to nobody: it is this program's until the broker says that no more comes
                if self._ending is not None and (self._is_awaited or self._request.no_ack):
                    await asyncio.shield(self._ending)
        self._give_back_if_over()

    def _has_pending(self) -> bool:
        if self._pending and self._desk is not None and not self._desk.gives_out:
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
            # a read that is interrupted has taken nothing out of the consumer's inbox
            self._pending.extend(await self._consumer.batch())
        except ClientError as error:
            self._go_down(error)

    def _hand_out(self) -> list[AmqpIncoming]:
        if self._desk is None or not self._pending:
            return []
        pending, self._pending = self._pending, deque()
        self._follow(pending[-1])
        return self._desk.hand_out(pending)

    def _take_parting(self) -> list[AmqpIncoming]:
        parting, self._parting = self._parting, []
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
        if self._desk is not None:
            self._desk.give_back(pending)

    # taking up

    def _go_down(self, error: ClientError) -> None:
        self._consumer = None
        self._notifier.tell(SubscriptionDown(self._recovering_connection.role, self._request.queue, error))
        self._taking_up = asyncio.create_task(self._take_up(error), name=f"warren subscription {self._request.queue}")

    async def _take_up(self, error: ClientError) -> None:
        try:
            await self._consume_again(error)
        except Exception as unforeseen:
            queue = self._request.queue
            LOGGER.exception("the subscription to %s is not taken up again", queue)
            self._fail(
                ClientError(f"the subscription to {queue} is not taken up again, subscribe anew: {unforeseen!r}")
            )

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
            self._notifier.tell(SubscriptionUp(self._recovering_connection.role, self._request.queue))
            self._changed.set()
            return

    def _fail(self, error: ClientError) -> None:
        self._failure = lambda: error
        self._changed.set()

    async def _consume(self, connection: Connection) -> None:
        delivery_channel = self._desk
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
            # the answer may come yet, and deliveries behind it that nobody would take
            delivery_channel.retire()
            raise
        self._left = [each for each in self._delivery_channels if each is not delivery_channel and each.in_hand]
        self._desk, self._consumer = delivery_channel, consumer
        if self._cancelled:
            self._desk.retire()

    async def _ask_for_messages(self, channel: Channel) -> Consumer:
        request = self._request
        await channel.prefetch(request.prefetch)
        arguments = dict(request.arguments)
        if self._last_offset is not None:
            arguments[STREAM_OFFSET] = self._last_offset + 1
        return await channel.consume(
            request.queue, no_ack=request.no_ack, exclusive=request.exclusive, arguments=arguments or None
        )
