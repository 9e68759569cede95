"""A broker to listen to, of any kind, and a test's view of it: its queues, filled and inspected."""

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from warren.client import Message, Properties, blocking, recovering
from warren.client.testing import MemoryBroker
from warren.client.transport import Incoming, Layout, Outgoing, QueueLayout, Transport
from warren.wire.field_tables import Table

POLL_S = 0.005
DEADLINE_S = 60.0


@dataclass
class World:
    """One broker; `url` is empty for the one in memory."""

    url: str = ""
    memory: MemoryBroker = field(default_factory=MemoryBroker)
    names: list[str] = field(default_factory=list)

    async def open(self) -> Transport:
        return await recovering.open(self.url) if self.url else self.memory.transport()

    def name(self, purpose: str) -> str:
        self.names.append(f"listening-{purpose}-{uuid.uuid4().hex[:8]}")
        return self.names[-1]

    def tidy(self) -> None:
        """Delete everything with one of these names, or with a name made from one."""
        if not self.url:
            return
        endings = ["", ".parked", ".dead", *(f".retry.{step}" for step in range(1, 5))]
        with blocking.connect(self.url) as connection, connection.channel() as channel:
            for name in self.names:
                for ending in endings:
                    channel.delete_queue(name + ending)
                for ending in ("", ".delayed", ".undelivered"):
                    channel.delete_exchange(name + ending)


async def queue_of(
    world: World, transport: Transport, bodies: Sequence[bytes | Message] = (), arguments: Table | None = None
) -> str:
    """A queue of its own, with messages in it."""
    name = world.name("queue")
    await transport.declare(Layout(queues=(QueueLayout(name, arguments=arguments or {}),)))
    await fill(transport, name, bodies)
    return name


async def fill(transport: Transport, queue: str, bodies: Sequence[bytes | Message]) -> None:
    messages = [Message(each) if isinstance(each, bytes) else each for each in bodies]
    failed = await transport.publish([Outgoing(message, "", queue) for message in messages], DEADLINE_S)
    assert failed == [None] * len(messages)


def keyed(body: bytes) -> Message:
    """The first character is its key."""
    return Message(body, Properties(headers={"x-key": body[:1].decode()}))


async def taken(transport: Transport, queue: str, count: int) -> list[Incoming]:
    """Wait for exactly so many messages of a queue."""
    found: list[Incoming] = []
    async with asyncio.timeout(DEADLINE_S):
        while len(found) < count:
            if (message := await transport.get(queue)) is None:
                await asyncio.sleep(POLL_S)
            else:
                message.ack()
                found.append(message)
    assert await transport.get(queue) is None
    return found


async def is_empty(transport: Transport, queue: str) -> bool:
    return await transport.get(queue) is None
