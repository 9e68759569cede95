"""A subscription that is cancelled while somebody reads: what still comes, until the broker says that no more does.

The way to the broker is stalled, so that the cancel is on its way as long as a test likes.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from tests.client.conftest import run
from tests.client.recovery import numbered, only, until
from warren.client import connect, recovering
from warren.client.listening import Puller
from warren.client.recovering.transport import RecoveringTransport
from warren.client.testing import FaultProxy


async def left(url: str, queue: str) -> int:
    async with await connect(url) as connection:
        return (await (await connection.channel()).declare_queue(queue, passive=True)).messages


async def begun_while_messages_come(
    ending: Coroutine[Any, Any, None], proxy: FaultProxy, url: str, queue: str, count: int
) -> asyncio.Task[None]:
    """What is to end the reading, begun and not heard of by the broker, which has delivered so many meanwhile."""
    proxy.stall("to_broker")
    begun = asyncio.create_task(ending)
    async with await recovering.open(url) as beside:
        await beside.publish(numbered(queue, count))
    async with asyncio.timeout(30):
        while await left(url, queue):
            await asyncio.sleep(0.01)
    return begun


def test_who_waits_while_it_is_cancelled_can_settle_what_still_comes(url: str, proxy: FaultProxy, queue: str) -> None:
    async def talk() -> None:
        async with await recovering.open(proxy.url) as transport:
            await transport.declare(only(queue))
            subscription = await transport.subscribe(queue)
            reading = asyncio.create_task(subscription.batch())
            await asyncio.sleep(0)
            cancelling = await begun_while_messages_come(subscription.cancel(), proxy, url, queue, 3)
            proxy.restore()
            await cancelling
            got = await reading
            assert [message.is_ours for message in got] == [True] * 3
            for message in got:
                message.ack()
            assert await subscription.batch() == []
        assert await left(url, queue) == 0

    run(talk())


def test_what_comes_for_a_reader_that_gives_up_goes_back(url: str, proxy: FaultProxy, queue: str) -> None:
    async def talk() -> None:
        async with await recovering.open(proxy.url) as transport:
            await transport.declare(only(queue))
            subscription = await transport.subscribe(queue)
            reading = asyncio.create_task(subscription.batch())
            await asyncio.sleep(0)
            cancelling = await begun_while_messages_come(subscription.cancel(), proxy, url, queue, 3)
            reading.cancel()
            await asyncio.wait([reading])
            proxy.restore()
            await cancelling
            await until_it_is_back(transport, queue, 3)

    run(talk())


async def until_it_is_back(transport: RecoveringTransport, queue: str, count: int) -> None:
    back = 0
    async with asyncio.timeout(30):
        while back < count:
            if (message := await transport.get(queue)) is not None:
                message.ack()
                back += 1


def test_a_puller_that_is_closed_while_it_takes_keeps_nothing(url: str, proxy: FaultProxy, queue: str) -> None:
    async def talk() -> None:
        async with await recovering.open(proxy.url) as transport:
            await transport.declare(only(queue))
            puller = Puller(transport, queue, group_size=2)
            taking = asyncio.create_task(puller.take(wait_s=30))
            await until(lambda: puller._subscription is not None)
            await asyncio.sleep(0)
            closing = await begun_while_messages_come(puller.close(), proxy, url, queue, 4)
            proxy.restore()
            await closing
            group = await taking
            group.ack()
            await until_it_is_back(transport, queue, 4 - len(group))

    run(talk())
