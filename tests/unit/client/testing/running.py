"""Coroutines run to their end, within a deadline; and a clock that stands still."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from warren.client import Message, Properties
from warren.client.testing import MemoryBroker
from warren.client.transport import Layout, Outgoing, QueueLayout
from warren.wire.field_tables import Table

Result = TypeVar("Result")
DEADLINE_S = 60.0
MIDNIGHT = 1_700_006_400.0


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    async def within() -> Result:
        async with asyncio.timeout(DEADLINE_S):
            return await coroutine

    return asyncio.run(within())


def standing_broker() -> MemoryBroker:
    """A broker with a clock that only `advance` moves."""
    return MemoryBroker(clock=lambda: MIDNIGHT)


def with_queue(name: str, arguments: Table | None = None) -> Layout:
    return Layout(queues=(QueueLayout(name, arguments=arguments or {}),))


def to(queue: str, *bodies: bytes, expiration: str | None = None) -> list[Outgoing]:
    properties = Properties(expiration=expiration)
    return [Outgoing(Message(body, properties), routing_key=queue) for body in bodies]
