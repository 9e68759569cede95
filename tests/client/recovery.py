"""Distinguishable messages, and checks of their outcomes."""

from collections.abc import Sequence

from warren.client import ClientError, Message, Properties, connect
from warren.client.transport import Incoming, Layout, Outgoing, QueueLayout, Subscription, Transport

PERSISTENT = Properties(delivery_mode=2)


def to(queue: str, *bodies: bytes, properties: Properties | None = PERSISTENT) -> list[Outgoing]:
    return [Outgoing(Message(body, properties), "", queue) for body in bodies]


def numbered(queue: str, count: int, first: int = 0) -> list[Outgoing]:
    return to(queue, *(b"%06d" % number for number in range(first, first + count)))


def only(queue: str) -> Layout:
    return Layout(queues=(QueueLayout(queue),))


async def taken(subscription: Subscription, count: int) -> list[Incoming]:
    found: list[Incoming] = []
    while len(found) < count:
        found += await subscription.batch()
    return found


async def contents(transport: Transport, queue: str) -> list[bytes]:
    """All that is in a queue, in order."""
    found: list[bytes] = []
    while message := await transport.get(queue, no_ack=True):
        found.append(message.body)
    return found


async def drained(url: str, queue: str) -> list[bytes]:
    """The same for many messages, with a plain client."""
    async with await connect(url) as connection, await connection.channel() as channel:
        count = (await channel.declare_queue(queue, passive=True)).messages
        consumer = await channel.consume(queue, no_ack=True)
        found: list[bytes] = []
        while len(found) < count:
            found += [delivery.body for delivery in await consumer.batch()]
        return found


def first_seen(bodies: Sequence[bytes]) -> list[bytes]:
    return list(dict.fromkeys(bodies))


def kinds(outcomes: Sequence[ClientError | None]) -> list[tuple[str, str] | None]:
    return [None if error is None else (type(error).__name__, error.outcome) for error in outcomes]
