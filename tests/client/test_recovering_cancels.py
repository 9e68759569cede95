"""A subscription that is cancelled while somebody reads: what still comes, until the broker says that no more does.

The way to the broker is stalled, so that the cancel is on its way as long as a test likes.
"""

import asyncio

from tests.client.conftest import run
from tests.client.recovery import numbered, only, until
from warren.client import connect, recovering
from warren.client.listening import Puller
from warren.client.recovering.transport import RecoveringTransport
from warren.client.testing import FaultProxy


async def publish_beside(url: str, queue: str, count: int) -> None:
    async with await recovering.open(url) as transport:
        await transport.publish(numbered(queue, count))


async def left(url: str, queue: str) -> int:
    async with await connect(url) as connection:
        return (await (await connection.channel()).declare_queue(queue, passive=True)).messages


async def all_delivered(url: str, queue: str) -> None:
    async with asyncio.timeout(30):
        while await left(url, queue):
            await asyncio.sleep(0.01)


def test_who_waits_while_it_is_cancelled_can_settle_what_still_comes(url: str, proxy: FaultProxy, queue: str) -> None:
    async def talk() -> None:
        async with await recovering.open(proxy.url) as transport:
            await transport.declare(only(queue))
            subscription = await transport.subscribe(queue)
            reading = asyncio.create_task(subscription.batch())
            await asyncio.sleep(0)
            proxy.stall("to_broker")
            cancelling = asyncio.create_task(subscription.cancel())
            await publish_beside(url, queue, 3)
            await all_delivered(url, queue)
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
            proxy.stall("to_broker")
            cancelling = asyncio.create_task(subscription.cancel())
            await publish_beside(url, queue, 3)
            await all_delivered(url, queue)
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
            proxy.stall("to_broker")
            closing = asyncio.create_task(puller.close())
            await publish_beside(url, queue, 4)
            await all_delivered(url, queue)
            proxy.restore()
            await closing
            group = await taking
            group.ack()
            await until_it_is_back(transport, queue, 4 - len(group))

    run(talk())
