"""Client programs while a master of three real nodes is killed: they are notified and go on, without loss.

A policy mirrors queues with names that begin with `mirrored` to all nodes.
"""

import asyncio
import time

import pytest

from tests.cluster.mirrored import await_another_master, await_in_sync, mirror_everything
from tests.cluster.trio import Trio, url_of
from tests.support.deadlines import in_event_loop, until
from tests.support.node_process import NodeProcess
from warren.client import ConsumerCancelled, Message, Properties, recovering
from warren.client.listening import Arrival, Listener, Retries
from warren.client.recovering import ConnectionDown, Notice, SubscriptionDown, SubscriptionUp
from warren.client.transport import Layout, Outgoing, QueueLayout, Transport
from warren.wire.field_tables import Table

pytestmark = pytest.mark.timeout(240)

COUNT = 20
DEADLINE_S = 120.0
DELAY_S = 15.0
CANCEL: Table = {"x-cancel-on-ha-failover": True}


@pytest.fixture(scope="module")
def file_trio(file_trio: Trio) -> Trio:
    mirror_everything(file_trio)
    return file_trio


async def mirrored_queue(trio: Trio, master: NodeProcess, name: str) -> None:
    """Declare the queue on the node that is to be its master, and wait until all nodes are in sync."""
    async with await recovering.open(url_of(master)) as transport:
        await transport.declare(Layout(queues=(QueueLayout(name),)))
    await asyncio.to_thread(await_in_sync, trio, [name])


async def publish(transport: Transport, queue: str, numbers: range) -> None:
    properties = Properties(delivery_mode=2)
    messages = [Outgoing(Message(b"%d" % number, properties), "", queue) for number in numbers]
    assert await transport.publish(messages, DEADLINE_S) == [None] * len(messages)


@in_event_loop
async def test_a_consumer_that_asks_for_it_is_cancelled_at_a_failover_and_subscribed_again_on_the_same_connection(
    trio: Trio,
) -> None:
    n1, n2, n3 = trio.nodes
    queue = "mirrored for the curious"
    notices: list[Notice] = []
    await mirrored_queue(trio, n1, queue)
    async with await recovering.open(url_of(n2, n3), observer=notices.append) as transport:
        seen: list[bytes] = []

        async def handle(arrival: Arrival[bytes]) -> None:
            seen.append(arrival.body)

        async with Listener(transport, queue, handle, arguments=CANCEL):
            await publish(transport, queue, range(COUNT))
            await until(lambda: len(set(seen)) == COUNT)
            await asyncio.to_thread(n1.kill)
            await asyncio.to_thread(await_another_master, trio, [queue], n1)
            await publish(transport, queue, range(COUNT, 2 * COUNT))
            await until(lambda: len(set(seen)) == 2 * COUNT)
    told = [notice for notice in notices if isinstance(notice, SubscriptionDown | SubscriptionUp)]
    assert [type(notice) for notice in told] == [SubscriptionDown, SubscriptionUp]
    assert isinstance(told[0], SubscriptionDown)
    assert isinstance(told[0].error, ConsumerCancelled)
    assert not [notice for notice in notices if isinstance(notice, ConnectionDown)]


@in_event_loop
async def test_a_message_that_waits_for_its_next_try_on_a_node_that_is_killed_comes_when_that_is_back(
    trio: Trio,
) -> None:
    n1, n2, _ = trio.nodes
    queue = "mirrored for retries"
    await mirrored_queue(trio, n1, queue)
    seen: list[tuple[bytes, int]] = []

    async def handle(arrival: Arrival[bytes]) -> None:
        seen.append((arrival.body, arrival.retries))
        if arrival.body == b"0" and not arrival.retries:
            raise OSError

    # delayed messages wait on the node that the program is connected to
    retries = Retries(2, (DELAY_S,), "delayed_exchange")
    async with await recovering.open(url_of(n1)) as transport:
        failing = Listener(transport, queue, handle, retries=retries)
        async with failing:
            await publish(transport, queue, range(1))
            await until(lambda: seen)
            failed_s = time.monotonic()
            await until(lambda: _retried(failing) == 1)
    await asyncio.to_thread(n1.kill)
    assert time.monotonic() < failed_s + DELAY_S, "it was back in its queue before the node was killed"
    async with (
        await recovering.open(url_of(n2)) as transport,
        Listener(transport, queue, handle, retries=retries),
    ):
        await publish(transport, queue, range(1, COUNT))
        await until(lambda: len({body for body, _ in seen}) == COUNT)
        assert (b"0", 1) not in seen
        await asyncio.to_thread(n1.start)
        await until(lambda: (b"0", 1) in seen)


def _retried(listener: Listener[bytes]) -> int:
    """How many messages the exchange has confirmed."""
    [count] = [each for each in listener.measures() if each.name == "warren.client.retried.messages"]
    return int(sum(value for value, _ in count.read()))
