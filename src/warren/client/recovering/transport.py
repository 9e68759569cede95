"""The transport over AMQP: a connection for publishing and one for consuming, both recovering.

A broker with a memory or disk alarm stops reading from publishing connections. Acks on the same connection would stop
with the publishes, so consuming has its own.

Not here: connections (`recovering.connection`), publishes and transactions (`recovering.sender`), subscriptions
(`recovering.subscription`), single fetches (`recovering.delivery_channel`).
"""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from warren.client.connection import CALL_TIMEOUT_S, Connection, Dialer
from warren.client.errors import CallTimeout, CannotConnect, ChannelClosed, ClientError, ConnectionClosed
from warren.client.recovering import layouts
from warren.client.recovering.connection import (
    LayoutRefused,
    Notifier,
    Observer,
    RecoveringConnection,
    transport_closed,
)
from warren.client.recovering.delivery_channel import AmqpIncoming, MessageFetcher
from warren.client.recovering.sender import Sender, TransactionSender
from warren.client.recovering.subscription import RecoveringSubscription, SubscriptionRequest
from warren.client.transport import Layout, Outgoing
from warren.client.with_blocks import AsyncClosedAtEnd
from warren.wire.field_tables import Table

Result = TypeVar("Result")

WINDOW: Final = 16_384
"""The default limit of undecided publishes."""

CLOSE_S: Final = 10.0
CLOSE_GRACE_S: Final = 1.0
"""The time reserved for closing connections."""


async def open(
    url: str,
    *,
    name: str = "",
    window: int = WINDOW,
    call_timeout_s: float = CALL_TIMEOUT_S,
    ssl_context: ssl.SSLContext | None = None,
    observer: Observer | None = None,
) -> "RecoveringTransport":
    """Open a transport to the brokers of an AMQP URL, with as many attempts as the URL allows.

    `name` is shown to the broker's operators. `observer` is called with each `Notice` about connections and
    subscriptions.
    """
    if window < 1:
        raise ValueError("a window has room for one publish at least")

    def dialer(role: str) -> Dialer:
        named = f"{name} ({role})" if name else role
        return Dialer(url, name=named, call_timeout_s=call_timeout_s, ssl_context=ssl_context)

    transport = RecoveringTransport(dialer, window, call_timeout_s, Notifier(observer))
    await transport.start()
    return transport


class RecoveringTransport(AsyncClosedAtEnd):
    """A `Transport` over AMQP; `open` makes it."""

    def __init__(self, dialer: Callable[[str], Dialer], window: int, call_timeout_s: float, notifier: Notifier) -> None:
        self._notifier = notifier
        self._call_timeout_s = call_timeout_s
        self._layout = Layout()
        self._publishing = RecoveringConnection("publishing", dialer("publishing"), self._prepare_publishing, notifier)
        self._consuming = RecoveringConnection("consuming", dialer("consuming"), self._prepare_consuming, notifier)
        self._sender = Sender(self._publishing, window)
        self._transactions = TransactionSender(self._publishing)
        self._unused_queues = layouts.UnusedQueues()
        self._subscriptions: list[RecoveringSubscription] = []
        # queues of subscriptions that the broker has not granted yet
        self._beginning: list[str] = []
        self._fetching = MessageFetcher()
        self._closing = False

    async def start(self) -> None:
        await self._publishing.open()
        try:
            await self._consuming.open()
        except BaseException:
            await self._publishing.close(CLOSE_GRACE_S)
            raise
        self._sender.start()

    @property
    def blocked_reason(self) -> str | None:
        """Why the broker takes no publishes at present, in its words; publishes wait."""
        return self._publishing.blocked_reason

    @property
    def is_connected(self) -> bool:
        """Whether both connections are up."""
        return self._publishing.is_up and self._consuming.is_up

    @property
    def undecided(self) -> int:
        """The number of messages in undecided calls."""
        return self._sender.undecided

    # publishing

    async def publish(self, messages: Sequence[Outgoing], timeout_s: float | None = None) -> list[ClientError | None]:
        """Return when each message is decided or the time is over: for each None if the broker has it, or its error.

        Messages that are undecided when the connection ends are resent in order, so the broker may get them twice.
        """
        return await self._sender.publish(messages, timeout_s)

    async def publish_together(self, messages: Sequence[Outgoing], timeout_s: float | None = None) -> None:
        """Return when the broker has committed all messages; the `outcome` of an error says whether it has none.

        A commit is sent once: if the connection ends before the answer, the outcome is unknown.
        """
        await self._transactions.publish(messages, timeout_s)

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Return when there is room for the messages; their outcome is not reported.

        They are resent too if the connection ends before the broker has them.
        """
        await self._sender.send(messages)

    # consuming

    async def subscribe(
        self,
        queue: str,
        *,
        prefetch: int = 100,
        no_ack: bool = False,
        exclusive: bool = False,
        arguments: Table | None = None,
    ) -> RecoveringSubscription:
        """The messages of a queue from now on; `ChannelClosed` if the broker refuses at once."""
        request = SubscriptionRequest(queue, prefetch, no_ack, exclusive, arguments or {})
        subscription = RecoveringSubscription(request, self._consuming, self._declare_queue_again, self._notifier)
        subscription.when_cancelled = self._unsubscribed
        before, self._layout = self._layout, self._unused_queues.take(self._layout, queue)
        was_aside = self._layout is not before
        self._beginning.append(queue)
        try:
            await self._insist(subscription.begin)
        except BaseException:
            self._beginning.remove(queue)
            if was_aside:
                self._unsubscribed(queue)
            raise
        self._beginning.remove(queue)
        self._subscriptions = [each for each in self._subscriptions if not each.is_over]
        self._subscriptions.append(subscription)
        return subscription

    async def get(self, queue: str, *, no_ack: bool = False) -> AmqpIncoming | None:
        """The first ready message of a queue, if any; requeued if the caller is cancelled meanwhile."""
        return await self._insist(lambda connection: self._fetching.fetch(connection, queue, no_ack))

    # topology

    async def declare(self, layout: Layout) -> None:
        """Declare a layout now, and again after each failure of the connection.

        Exception: a self-deleting queue (`auto_delete`, `x-expires`) is not declared again while it has no
        subscription.
        """
        layouts.check_layout(layout)
        await self._insist(lambda connection: layouts.declare_layout(connection, layout))
        self._layout = layouts.merge_layouts(self._layout, layout)

    def _unsubscribed(self, queue: str) -> None:
        """A queue that deletes itself without consumers is not declared again after a failure."""
        is_wanted = any(each.queue == queue and not each.is_cancelled for each in self._subscriptions)
        if not is_wanted and queue not in self._beginning:
            self._layout = self._unused_queues.put(self._layout, queue)

    async def _prepare_publishing(self, connection: Connection) -> None:
        await self._declare_again(connection, layouts.without_exclusive(self._layout), self._publishing)

    async def _prepare_consuming(self, connection: Connection) -> None:
        await self._declare_again(connection, self._layout, self._consuming)

    async def _declare_queue_again(self, connection: Connection, queue: str) -> None:
        await self._declare_again(connection, layouts.layout_of_queue(self._layout, queue), self._consuming)

    async def _declare_again(
        self, connection: Connection, layout: Layout, recovering_connection: RecoveringConnection
    ) -> None:
        def refused(name: str, error: ChannelClosed) -> None:
            self._notifier.notify(LayoutRefused(recovering_connection.role, name, error))

        await layouts.redeclare_layout(connection, layout, refused)

    async def _insist(self, call: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Call on the consuming connection, and again if it ends meanwhile, until the call timeout."""
        if self._closing:
            raise transport_closed()
        try:
            async with asyncio.timeout(self._call_timeout_s):
                while True:
                    connection = await self._consuming.connection()
                    try:
                        return await call(connection)
                    except ConnectionClosed as error:
                        # the broker blames the call, and would again
                        if error.code and not error.retriable:
                            raise
        except TimeoutError:
            if not self._consuming.is_up and self._consuming.trouble is not None:
                raise CannotConnect(self._consuming.trouble.attempts) from None
            raise CallTimeout(f"the broker did not answer within {self._call_timeout_s:g} s") from None

    # end

    async def close(self, deadline_s: float = CLOSE_S) -> None:
        """Take no more, and end within the deadline.

        Waits for undecided publishes, cancels subscriptions, and lets the program settle its messages; the broker
        requeues the rest.
        """
        loop = asyncio.get_running_loop()
        end_at_s = loop.time() + deadline_s
        self._closing = True
        self._sender.refuse(transport_closed)
        self._transactions.refuse()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(end_at_s - min(CLOSE_GRACE_S, deadline_s / 4)):
                await asyncio.gather(self._sender.drained(), self._transactions.idle(), self._finish_consuming())
        await self._sender.close(transport_closed)
        left_s = max(end_at_s - loop.time(), 0.05)
        # a broker that blocks publishes does not read connection.close either
        goodbye_s = min(left_s, CLOSE_GRACE_S) if self.blocked_reason else left_s
        await asyncio.gather(self._publishing.close(goodbye_s), self._consuming.close(left_s))

    async def _finish_consuming(self) -> None:
        await asyncio.gather(*(subscription.cancel() for subscription in self._subscriptions))
        await asyncio.gather(*(subscription.idle() for subscription in self._subscriptions))
        await self._fetching.idle()
