"""Support for the tests of the transport interface: one of the brokers, and operations on it.

Not here: the claims (`test_transports*.py`), the fixture that goes through the brokers (`conftest`).
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from warren.client import Message, Properties
from warren.client.transport import Incoming, Layout, Outgoing, QueueLayout, Subscription, Transport
from warren.wire.field_tables import Table

PATIENCE_S = 20.0
QUIET_S = 0.2
CLOSE_S = 0.5


class Brokers:
    """One of the brokers: transports to it, and unique names."""

    def __init__(self, connect: Callable[[], Awaitable[Transport]]) -> None:
        self._connect = connect
        self._suffix = uuid.uuid4().hex[:10]
        self.named: list[str] = []

    def name(self, purpose: str) -> str:
        self.named.append(f"seam-{purpose}-{self._suffix}")
        return self.named[-1]

    async def connect(self) -> Transport:
        """A transport that the caller closes."""
        return await self._connect()

    @asynccontextmanager
    async def transport(self) -> AsyncIterator[Transport]:
        transport = await self._connect()
        try:
            yield transport
        finally:
            # do not wait for messages that a test left unacked
            await transport.close(CLOSE_S)


def to(queue: str, *bodies: bytes, **properties: object) -> list[Outgoing]:
    """Messages for a queue, by the default exchange."""
    made = Properties(**properties) if properties else None  # type: ignore[arg-type]
    return [Outgoing(Message(body, made), routing_key=queue) for body in bodies]


def with_queue(name: str, **arguments: object) -> Layout:
    return Layout(queues=(QueueLayout(name, arguments={key.replace("_", "-"): arguments[key] for key in arguments}),))


def with_dead_letters(name: str, grave: str, **arguments: object) -> Layout:
    """A queue with a dead-letter queue."""
    dead: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": grave}
    given = {key.replace("_", "-"): arguments[key] for key in arguments}
    return Layout(queues=(QueueLayout(name, arguments=dead | given), QueueLayout(grave)))


async def taken(subscription: Subscription, count: int) -> list[Incoming]:
    """So many messages, in the order in which they come."""
    got: list[Incoming] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(got) < count:
        assert time.monotonic() < deadline, f"{len(got)} of {count} messages came"
        got += await subscription.batch(1.0)
    return got


async def fetched(transport: Transport, queue: str) -> Incoming:
    """Wait for the next message of a queue."""
    deadline = time.monotonic() + PATIENCE_S
    while (incoming := await transport.get(queue)) is None:
        assert time.monotonic() < deadline, f"nothing came to {queue}"
        await asyncio.sleep(0.01)
    return incoming


async def fetched_with_flag(transport: Transport, queue: str) -> tuple[bytes, bool]:
    """The next message, which is acked, and whether it was delivered before."""
    incoming = await fetched(transport, queue)
    incoming.ack()
    return incoming.body, incoming.redelivered


async def bodies_in(transport: Transport, queue: str) -> list[bytes]:
    """Get all ready messages."""
    found = []
    while (incoming := await transport.get(queue, no_ack=True)) is not None:
        found.append(incoming.body)
    return found


def bodies(messages: Sequence[Incoming]) -> list[bytes]:
    return [message.body for message in messages]
