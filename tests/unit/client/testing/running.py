"""A broker in memory whose clock stands still, and layouts and messages for it."""

from warren.client import Message, Properties
from warren.client.testing import MemoryBroker
from warren.client.transport import Layout, Outgoing, QueueLayout
from warren.wire.field_tables import Table

DEADLINE_S = 60.0
MIDNIGHT = 1_700_006_400.0


def standing_broker() -> MemoryBroker:
    """A broker with a clock that only `advance` moves."""
    return MemoryBroker(clock=lambda: MIDNIGHT)


def with_queue(name: str, arguments: Table | None = None) -> Layout:
    return Layout(queues=(QueueLayout(name, arguments=arguments or {}),))


def to(queue: str, *bodies: bytes, expiration: str | None = None) -> list[Outgoing]:
    properties = Properties(expiration=expiration)
    return [Outgoing(Message(body, properties), routing_key=queue) for body in bodies]
