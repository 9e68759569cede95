"""A queue at one broker, which a bridge is to empty, and a queue at another, which it is to fill."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.support.deadlines import until
from warren.bridges.transfer_options import Rewrite, RewrittenMessage, raw_properties
from warren.client import Channel, Connection, Delivery, Message, Properties, connect
from warren.wire.field_tables import Table

Unique = Callable[[str], str]


@dataclass(frozen=True)
class QueuePair:
    """A connection to each broker, and a channel for each queue: `filling` has confirms."""

    here: Connection
    there: Connection
    filling: Channel
    taking: Channel
    source: str
    goal: str

    async def left(self) -> int:
        """The messages in the source."""
        return (await self.filling.declare_queue(self.source)).messages

    async def arrived(self) -> int:
        """The messages in the goal."""
        return (await self.taking.declare_queue(self.goal)).messages

    async def consumers(self) -> int:
        """The consumers of the source."""
        return (await self.filling.declare_queue(self.source)).consumers

    async def until_consumed(self) -> None:
        await until(self.consumers, pause_s=0.001)


@asynccontextmanager
async def queue_pair(
    source_url: str, goal_url: str, unique: Unique, goal_arguments: Table | None = None
) -> AsyncIterator[QueuePair]:
    source, goal = unique("source"), unique("destination")
    async with await connect(source_url) as here, await connect(goal_url) as there:
        filling, taking = await here.channel(confirms=True), await there.channel()
        await filling.declare_queue(source)
        await taking.declare_queue(goal, arguments=goal_arguments)
        yield QueuePair(here, there, filling, taking, source, goal)
        await filling.delete_queue(source)
        await taking.delete_queue(goal)


def to_queue(name: str) -> Rewrite:
    def rewrite(delivery: Delivery) -> RewrittenMessage:
        return RewrittenMessage("", name, raw_properties(delivery), delivery.body)

    return rewrite


async def fill(channel: Channel, queue: str, count: int, exchange: str = "") -> None:
    """Publish messages with ids, in order, and wait for their confirms."""
    messages = [Message(b"%d" % at, Properties(message_id=f"m{at}", delivery_mode=2)) for at in range(count)]
    await channel.send_many(messages, exchange, queue)
    await channel.wait_for_confirms()


async def take(channel: Channel, queue: str, count: int) -> list[Delivery]:
    """At least so many messages, without acks."""
    consumer = await channel.consume(queue, no_ack=True)
    taken: list[Delivery] = []
    while len(taken) < count:
        taken += await consumer.batch()
    await consumer.cancel()
    return taken
