"""Requests with replies: a request is a message, and its reply comes to the requester's own queue.

    requester ──▶ exchange ──▶ queue ──▶ listener, whose handler returns the reply
        ▲                                    │
        └──── QUEUE.replies.xxxx ◀───────────┘  found by its correlation_id

The reply queue is durable and expires when unused, so replies wait there while the connection is lost. A request has
its timeout as its time to live, so that no listener works on a request after its requester has given up.

Invariants: each request ends with its first reply or with an error: `PublishFailed` if it is unroutable, or
`CallTimeout` when the time is over, and then it is unknown whether it was handled. Late or repeated replies are
dropped.

Not here: replying, which is the result of a handler (`listening.handler`).
"""

import asyncio
import logging
import uuid
from typing import Self

from warren.client.errors import CallTimeout, ClientError
from warren.client.listening.retries import with_changes
from warren.client.machine.publishes import Message
from warren.client.transport import Incoming, Layout, Outgoing, QueueLayout, Subscription, Transport
from warren.client.with_blocks import AsyncClosedAtEnd
from warren.errors import ConnectionFault

REQUEST_TIMEOUT_S = 30.0
REPLY_QUEUE_EXPIRES_MS = 300_000

_log = logging.getLogger("warren.client.listening")


class Requester(AsyncClosedAtEnd):
    """Sends requests to an exchange and a routing key."""

    def __init__(self, transport: Transport, exchange: str = "", routing_key: str = "") -> None:
        self._transport = transport
        self._exchange = exchange
        self._routing_key = routing_key
        self._replies = f"{routing_key or exchange}.replies.{uuid.uuid4().hex}"
        self._waiting: dict[str, asyncio.Future[Incoming]] = {}
        self._subscription: Subscription | None = None
        self._reader: asyncio.Task[None] | None = None
        self._failure: Exception | None = None

    async def start(self) -> None:
        """Declare the reply queue and listen to it."""
        queue = QueueLayout(self._replies, arguments={"x-expires": REPLY_QUEUE_EXPIRES_MS})
        await self._transport.declare(Layout(queues=(queue,)))
        self._subscription = await self._transport.subscribe(self._replies)
        self._reader = asyncio.create_task(self._read(self._subscription))

    async def request(self, message: bytes | Message, timeout_s: float = REQUEST_TIMEOUT_S) -> Incoming:
        """The reply to a message; several requests may wait at once."""
        if self._reader is None:
            raise ValueError("a requester is started before it asks: use it in `async with`, or call start()")
        if self._failure is not None:
            raise self._failure
        correlation_id = uuid.uuid4().hex
        future: asyncio.Future[Incoming] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = future
        try:
            async with asyncio.timeout(timeout_s):
                outgoing = self._outgoing(message, correlation_id, timeout_s)
                [error] = await self._transport.publish([outgoing], timeout_s)
                if error is not None and not future.done():
                    raise error
                return await future
        except TimeoutError:
            place = self._routing_key or self._exchange
            raise CallTimeout(f"no answer came from {place!r} within {timeout_s:g} s") from None
        finally:
            del self._waiting[correlation_id]

    async def close(self) -> None:
        """Waiting requests end with `CallTimeout`."""
        self._end(CallTimeout("the requester was closed before an answer came"))
        if self._subscription is not None:
            await self._subscription.cancel()
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    def _outgoing(self, message: bytes | Message, correlation_id: str, timeout_s: float) -> Outgoing:
        given = Message(message) if isinstance(message, bytes) else message
        properties = with_changes(given.properties, reply_to=self._replies, correlation_id=correlation_id)
        if properties.expiration is None:
            properties.expiration = str(max(1, round(timeout_s * 1000)))
        key = self._routing_key if given.routing_key is None else given.routing_key
        return Outgoing(Message(given.body, properties), self._exchange, key)

    async def _read(self, subscription: Subscription) -> None:
        try:
            while batch := await subscription.batch():
                for reply in batch:
                    self._came(reply)
            self._end(ClientError(f"the subscription to {self._replies!r} ended"))
        except Exception as error:
            _log.error("no more replies come from %s: %s", self._replies, error)
            self._end(error)

    def _came(self, reply: Incoming) -> None:
        try:
            waiting = self._waiting.get(reply.properties.correlation_id or "")
        except ConnectionFault as fault:
            _log.warning("an answer is dropped that cannot be read: %s", fault)
            waiting = None
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)
        reply.ack()

    def _end(self, error: Exception) -> None:
        self._failure = self._failure or error
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)
