"""The transport over AMQP: two connections that keep themselves alive, and what runs on them.

Publishing and consuming have a connection each: a broker that is short of memory or disk stops reading from those who
publish, and acks on the same connection would stop with the publishes.

Not here: connections (`recovering.line`), publishes (`recovering.sending`), transactions (`recovering.together`),
subscriptions (`recovering.subscription`), single messages (`recovering.fetching`).
"""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

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
from warren.client.recovering.incoming import AmqpIncoming, MessageFetcher
from warren.client.recovering.sender import Sender, TransactionSender
from warren.client.recovering.subscription import RecoveringSubscription, SubscriptionRequest
from warren.client.transport import Layout, Outgoing
from warren.wire.field_tables import Table

Result = TypeVar("Result")

WINDOW: Final = 16_384
"""How many publishes may be undecided at once, unless the program says otherwise."""

CLOSE_S: Final = 10.0
CLOSE_GRACE_S: Final = 1.0
"""What is left for closing connections in any case."""


async def open(
    url: str,
    *,
    name: str = "",
    window: int = WINDOW,
    call_timeout_s: float = CALL_TIMEOUT_S,
    ssl_context: ssl.SSLContext | None = None,
    observer: Observer | None = None,
) -> "RecoveringTransport":
    """A transport to the brokers of an AMQP URL; raises if none lets it in after as many attempts as the URL says.

    `name` is shown to the broker's operators, `observer` is called with each `Notice` of what becomes of connections
    and subscriptions.
    """
    if window < 1:
        raise ValueError("a window has room for one publish at least")

    def dialer(role: str) -> Dialer:
        named = f"{name} ({role})" if name else role
        return Dialer(url, name=named, call_timeout_s=call_timeout_s, ssl_context=ssl_context)

    transport = RecoveringTransport(dialer, window, call_timeout_s, Notifier(observer))
    await transport.start()
    return transport


class RecoveringTransport:
    """A `Transport` over AMQP; made by `open`."""

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
        """Why the broker takes no publishes at the moment, in its words; publishes wait meanwhile."""
        return self._publishing.blocked_reason

    @property
    def is_connected(self) -> bool:
        """Whether both connections are up."""
        return self._publishing.is_up and self._consuming.is_up

    @property
    def undecided(self) -> int:
        """How many messages were handed over whose calls the broker has not decided."""
        return self._sender.undecided

    # publishing

    async def publish(self, messages: Sequence[Outgoing], timeout_s: float | None = None) -> list[ClientError | None]:
        """Returns when each is decided or the time is over: for each None if the broker has it, or what went wrong.

        What is not decided when the connection ends is sent again, in order, so the broker may get it twice.
        """
        return await self._sender.publish(messages, timeout_s)

    async def publish_together(self, messages: Sequence[Outgoing], timeout_s: float | None = None) -> None:
        """Returns when the broker has committed all of them; else an error, whose `outcome` says whether it has none.

        A commit is sent once: if the connection ends before its answer, nobody knows.
        """
        await self._transactions.publish(messages, timeout_s)

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """One way: returns when there is room for them, and nobody learns what became of them.

        They are sent again, too, if the connection ends before the broker has them.
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
        """A queue's messages from now on; a `ChannelClosed` if the broker refuses it now."""
        request = SubscriptionRequest(queue, prefetch, no_ack, exclusive, arguments or {})
        subscription = RecoveringSubscription(request, self._consuming, self._declare_queue_again, self._notifier)
        subscription.when_cancelled = self._look_what_goes
        before, self._layout = self._layout, self._unused_queues.take(self._layout, queue)
        was_aside = self._layout is not before
        self._beginning.append(queue)
        try:
            await self._insist(subscription.begin)
        except BaseException:
            self._beginning.remove(queue)
            if was_aside:
                self._look_what_goes(queue)
            raise
        self._beginning.remove(queue)
        self._subscriptions = [each for each in self._subscriptions if not each.is_over]
        self._subscriptions.append(subscription)
        return subscription

    async def get(self, queue: str, *, no_ack: bool = False) -> AmqpIncoming | None:
        """The first ready message of a queue, if it has one; it goes back if the caller is cancelled meanwhile."""
        return await self._insist(lambda connection: self._fetching.fetch(connection, queue, no_ack))

    # topology

    async def declare(self, layout: Layout) -> None:
        """Have all of it on the broker now, and again after each failure of the connection.

        But for queues that go by themselves (`auto_delete`, `x-expires`) from when a subscription to them is cancelled
        until there is another.
        """
        layouts.check_layout(layout)
        await self._insist(lambda connection: layouts.declare_layout(connection, layout))
        self._layout = layouts.merge_layouts(self._layout, layout)

    def _look_what_goes(self, queue: str) -> None:
        """A queue that goes by itself when nobody consumes it is not to be there again after a failure."""
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
            self._notifier.tell(LayoutRefused(recovering_connection.role, name, error))

        await layouts.redeclare_layout(connection, layout, refused)

    async def _insist(self, call: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Make a call on the consuming connection; again if that ends meanwhile, until the time for a call is over."""
        if self._closing:
            raise transport_closed()
        try:
            async with asyncio.timeout(self._call_timeout_s):
                while True:
                    connection = await self._consuming.connection()
                    try:
                        return await call(connection)
                    except ConnectionClosed as error:
                        # what the broker blames on the call it would blame on it again
                        if error.code and not error.retriable:
                            raise
        except TimeoutError:
            if not self._consuming.is_up and self._consuming.trouble is not None:
                raise CannotConnect(self._consuming.trouble.attempts) from None
            raise CallTimeout(f"the broker did not answer within {self._call_timeout_s:g} s") from None

    # its end

    async def close(self, deadline_s: float = CLOSE_S) -> None:
        """Take no more, finish what is in hand, and end within the deadline.

        Publishes that are undecided are waited for, subscriptions are cancelled, and what was handed out may be
        settled; what is not settled by then goes back to its queue.
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
        # a broker that takes no publishes does not read a goodbye either
        goodbye_s = min(left_s, CLOSE_GRACE_S) if self.blocked_reason else left_s
        await asyncio.gather(self._publishing.close(goodbye_s), self._consuming.close(left_s))

    async def _finish_consuming(self) -> None:
        await asyncio.gather(*(subscription.cancel() for subscription in self._subscriptions))
        await asyncio.gather(*(subscription.idle() for subscription in self._subscriptions))
        await self._fetching.idle()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
