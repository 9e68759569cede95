"""Links of federation over slow and cut connections: no message is lost, and one that comes twice was in doubt."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from tests.bridges.conftest import url_of
from tests.bridges.federation.attached_host import AttachedHost, running
from tests.bridges.federation.link_ends import HERE, exchange_link, queue_link
from tests.bridges.queue_pair import Unique, fill
from tests.support.deadlines import run, until
from tests.support.node_process import NodeProcess
from tests.support.rabbitmq import RabbitMQ
from warren.bridges.bridge import Bridge
from warren.bridges.federation.links import QueueLink
from warren.client import Channel, Delivery, connect
from warren.client.testing import FaultProxy

COUNT = 4000
CUTS = (100, 900, 1700, 2500, 3300)
PREFETCH = 200
"""Far fewer than there are between two cuts, so that most messages are still to come at each cut."""

Make = Callable[..., Bridge]


async def all_of(channel: Channel, queue: str) -> list[Delivery]:
    consumer = await channel.consume(queue, no_ack=True)
    taken: list[Delivery] = []
    while len({each.body for each in taken}) < COUNT:
        taken += await consumer.batch()
    await channel.cancel(consumer)
    return taken


async def federated_badly(near: str, upstream: str, name: str, make: Make) -> None:
    host = AttachedHost(near, HERE)
    host.bind("")
    async with FaultProxy(upstream) as line, await connect(near) as here, await connect(upstream) as there:
        own, far = await here.channel(), await there.channel(confirms=True)
        await own.declare_exchange(name, "topic", durable=True)
        await own.declare_queue(name, durable=True)
        await own.bind_queue(name, name, "")
        link = make(name, line.url + "?heartbeat=1", prefetch=PREFETCH)
        line.delay(0.01)
        async with running(host, link) as keeper:
            taking = asyncio.ensure_future(all_of(own, name))
            if isinstance(link, QueueLink):
                await fill(far, name, COUNT)
            else:
                await fill(far, "", COUNT, exchange=name)
            for cuts, goal in enumerate(CUTS, 1):
                while keeper.stats.confirmed < goal:
                    await asyncio.sleep(0.001)
                assert keeper.stats.confirmed < COUNT, "nothing is under way that could be cut"
                line.cut()
                while len(host.log.of("bridge.started")) <= cuts:
                    await asyncio.sleep(0.001)
            taken = await taking
            line.restore()
            await until(lambda: keeper.stats.confirmed >= COUNT)
        await link.retire(host, [])
        await own.delete_queue(name)
        await own.delete_exchange(name)
        await far.delete_queue(name)
        await far.delete_exchange(name)
    times = Counter(each.properties.message_id for each in taken)
    assert set(times) == {f"m{at}" for at in range(COUNT)}
    assert {each for each, count in times.items() if count > 1} <= host.log.doubted_ids()


@pytest.mark.parametrize("make", [exchange_link, queue_link], ids=["exchange", "queue"])
def test_a_line_that_is_cut_loses_nothing(near: NodeProcess, far: NodeProcess, unique: Unique, make: Make) -> None:
    run(federated_badly(url_of(near), url_of(far), unique("cut"), make))


@pytest.mark.parametrize("make", [exchange_link, queue_link], ids=["exchange", "queue"])
def test_a_line_to_rabbitmq_that_is_cut_loses_nothing(
    near: NodeProcess, rabbitmq: RabbitMQ, unique: Unique, make: Make
) -> None:
    run(federated_badly(url_of(near), rabbitmq.url, unique("cut"), make))
