"""A subscription that is cancelled while a task reads: messages that still come, until the broker's cancel-ok.

The connection to the broker is stalled, so that the cancel is in flight as long as a test likes.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.client.recovery import numbered, only, taken
from tests.support.deadlines import in_event_loop, until
from warren.client import connect, recovering
from warren.client.listening import Puller
from warren.client.recovering import Notice
from warren.client.recovering.subscription import RecoveringSubscription
from warren.client.recovering.transport import RecoveringTransport
from warren.client.testing import FaultProxy
from warren.client.transport import Layout, QueueLayout


async def left(url: str, queue: str) -> int:
    async with await connect(url) as connection:
        return (await (await connection.channel()).declare_queue(queue, passive=True)).messages


async def begun_while_messages_come(
    ending: Coroutine[Any, Any, None], proxy: FaultProxy, url: str, queue: str, count: int
) -> asyncio.Task[None]:
    """Start to end the reading; the broker does not receive the cancel, and delivers so many messages meanwhile."""
    proxy.stall("to_broker")
    begun = asyncio.create_task(ending)
    async with await recovering.open(url) as beside:
        await beside.publish(numbered(queue, count))
    async with asyncio.timeout(30):
        while await left(url, queue):
            await asyncio.sleep(0.01)
    return begun


@in_event_loop
async def test_a_reader_that_waits_during_a_cancel_can_settle_messages_that_still_come(
    url: str, proxy: FaultProxy, queue: str
) -> None:
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


@in_event_loop
async def test_messages_for_a_reader_that_gives_up_go_back(url: str, proxy: FaultProxy, queue: str) -> None:
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


def has_come(subscription: RecoveringSubscription) -> bool:
    consumer = subscription._consumer
    return bool(subscription._pending) or (consumer is not None and bool(consumer._inbox))


@pytest.mark.parametrize("waits", [False, True])
@in_event_loop
async def test_messages_of_a_stream_whose_reader_leaves_stay_there_and_the_connection_holds(
    url: str, proxy: FaultProxy, queue: str, waits: bool
) -> None:
    notices: list[Notice] = []
    async with await recovering.open(proxy.url, observer=notices.append) as transport:
        stream = QueueLayout(queue, arguments={"x-queue-type": "stream"})
        await transport.declare(Layout(queues=(stream,)))
        subscription = await transport.subscribe(queue, arguments={"x-stream-offset": "first"})
        assert isinstance(subscription, RecoveringSubscription)
        reading = asyncio.create_task(subscription.batch(None if waits else 0.0))
        await asyncio.sleep(0)
        proxy.stall("to_broker")
        cancelling = asyncio.create_task(subscription.cancel())
        async with await recovering.open(url) as beside:
            await beside.publish(numbered(queue, 3))
        await until(lambda: has_come(subscription))
        reading.cancel()
        await asyncio.wait([reading])
        proxy.restore()
        await cancelling
        again = await transport.subscribe(queue, arguments={"x-stream-offset": "first"})
        assert [message.body for message in await taken(again, 3)] == [b"%06d" % number for number in range(3)]
    assert notices == []


async def until_it_is_back(transport: RecoveringTransport, queue: str, count: int) -> None:
    back = 0
    async with asyncio.timeout(30):
        while back < count:
            if (message := await transport.get(queue)) is not None:
                message.ack()
                back += 1


@in_event_loop
async def test_a_puller_that_is_closed_while_it_takes_keeps_nothing(url: str, proxy: FaultProxy, queue: str) -> None:
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
