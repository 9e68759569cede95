"""Over links that delay, stall and cut, no message is lost on-confirm, and one that comes twice was in doubt."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from tests.bridges.conftest import url_of
from tests.bridges.lone_host import LoneHost
from tests.bridges.queue_pair import Unique, fill
from tests.bridges.relay import Relay
from tests.support.deadlines import in_event_loop, run
from tests.support.node_process import NodeProcess
from tests.support.rabbitmq import RabbitMQ
from warren.bridges.supervisor import BridgeWorker
from warren.bridges.transfer_options import TransferOptions
from warren.client import Channel, Delivery, connect
from warren.client.testing import FaultProxy

COUNT = 6000
LOSSES = ("the connection is lost", "no answer", "cannot connect", "did not answer", "hung up")


async def collect(channel: Channel, queue: str, wanted: int) -> list[Delivery]:
    """Everything, until so many different messages have come and nothing more does."""
    consumer = await channel.consume(queue, no_ack=True)
    taken: list[Delivery] = []
    while len({delivery.body for delivery in taken}) < wanted:
        taken += await consumer.batch()
    return taken


async def carried_badly(source_url: str, destination_url: str, unique: Unique, faults: "Faults") -> None:
    host = LoneHost()
    names = unique("source"), unique("destination")
    async with (
        FaultProxy(source_url) as near,
        FaultProxy(destination_url) as far,
        await connect(source_url) as here,
        await connect(destination_url) as there,
    ):
        filling, taking = await here.channel(confirms=True), await there.channel()
        await filling.declare_queue(names[0], durable=True)
        await taking.declare_queue(names[1], durable=True)
        await fill(filling, names[0], COUNT)
        relay = Relay(
            "r", near.url + "?heartbeat=1", names[0], far.url + "?heartbeat=1", names[1], TransferOptions(prefetch=200)
        )
        keeper = BridgeWorker(host, relay, lambda keeper: None)
        keeper.start()
        breaking = asyncio.ensure_future(faults(near, far, keeper))
        taken = await collect(taking, names[1], COUNT)
        await breaking
        near.restore()
        far.restore()
        while (await filling.declare_queue(names[0], durable=True)).messages or keeper.stats.confirmed < COUNT:
            await asyncio.sleep(0.02)
        await keeper.stop()
        await filling.delete_queue(names[0])
        left = await taking.declare_queue(names[1], durable=True)
        assert left.messages == 0
        await taking.delete_queue(names[1])

    times = Counter(delivery.properties.message_id for delivery in taken)
    doubled = {each for each, count in times.items() if count > 1}
    assert set(times) == {f"m{at}" for at in range(COUNT)}
    assert len(host.log.of("bridge.started")) >= 2, "the faults broke nothing"
    assert doubled <= host.log.doubted_ids()
    reasons = {str(fields["reason"]) for fields in host.log.of("bridge.broke")}
    assert all(any(word in reason for word in LOSSES) for reason in reasons), reasons


Faults = Callable[[FaultProxy, FaultProxy, BridgeWorker], "asyncio.Future[None]"]


async def cuts_of_the_destination(near: FaultProxy, far: FaultProxy, keeper: BridgeWorker) -> None:
    for goal in (200, 1500, 3000, 4500):
        while keeper.stats.published < goal:
            await asyncio.sleep(0.001)
        far.cut()


async def cuts_of_the_source(near: FaultProxy, far: FaultProxy, keeper: BridgeWorker) -> None:
    for goal in (200, 1500, 3000, 4500):
        while keeper.stats.published < goal:
            await asyncio.sleep(0.001)
        near.cut()


async def a_source_that_hears_nothing(near: FaultProxy, far: FaultProxy, keeper: BridgeWorker) -> None:
    """Its acks are lost, and all it has delivered is carried again."""
    while keeper.stats.confirmed < 1000:
        await asyncio.sleep(0.001)
    near.stall("to_broker")
    seen = keeper.stats.confirmed
    while keeper.stats.confirmed == seen and keeper.state == "running":
        await asyncio.sleep(0.001)
    near.cut()
    near.restore()


async def a_destination_whose_confirms_are_lost(near: FaultProxy, far: FaultProxy, keeper: BridgeWorker) -> None:
    while keeper.stats.published < 1000:
        await asyncio.sleep(0.001)
    far.stall("to_client")
    # missing heartbeats show that the broker does not answer
    while keeper.state == "running":
        await asyncio.sleep(0.01)
    far.restore()


async def delays_and_cuts(near: FaultProxy, far: FaultProxy, keeper: BridgeWorker) -> None:
    near.delay(0.02)
    far.delay(0.03)
    for at, goal in enumerate((500, 2000, 3500)):
        while keeper.stats.published < goal:
            await asyncio.sleep(0.001)
        (near if at % 2 else far).cut()


ALL = [
    cuts_of_the_destination,
    cuts_of_the_source,
    a_source_that_hears_nothing,
    a_destination_whose_confirms_are_lost,
    delays_and_cuts,
]


@pytest.mark.parametrize("faults", ALL, ids=lambda faults: faults.__name__)
def test_nothing_is_lost_and_what_is_doubled_was_named(
    near: NodeProcess, far: NodeProcess, unique: Unique, faults: Faults
) -> None:
    run(carried_badly(url_of(near), url_of(far), unique, faults))


@pytest.mark.parametrize("faults", [cuts_of_the_source, cuts_of_the_destination], ids=lambda faults: faults.__name__)
def test_the_same_holds_from_rabbitmq(near: NodeProcess, rabbitmq: RabbitMQ, unique: Unique, faults: Faults) -> None:
    run(carried_badly(rabbitmq.url, url_of(near), unique, faults))


@pytest.mark.parametrize("faults", [cuts_of_the_source, cuts_of_the_destination], ids=lambda faults: faults.__name__)
def test_the_same_holds_to_rabbitmq(near: NodeProcess, rabbitmq: RabbitMQ, unique: Unique, faults: Faults) -> None:
    run(carried_badly(url_of(near), rabbitmq.url, unique, faults))


@in_event_loop
async def test_an_end_that_cannot_be_reached_is_logged_and_tried_again(near: NodeProcess, unique: Unique) -> None:
    host = LoneHost()
    source = unique("source")
    async with await connect(url_of(near)) as here, FaultProxy(url_of(near)) as far:
        filling = await here.channel(confirms=True)
        await filling.declare_queue(source)
        far.cut(refuse=True)
        relay = Relay("r", url_of(near), source, far.url, source + "-2", TransferOptions(limit=1))
        keeper = BridgeWorker(host, relay, lambda keeper: None)
        keeper.start()
        while keeper.lives < 3:
            await asyncio.sleep(0.01)
        assert "cannot connect to 127.0.0.1" in str(host.log.of("bridge.broke")[0]["reason"])
        far.restore()
        await filling.declare_queue(source + "-2")
        await filling.publish(b"x", routing_key=source)
        while not keeper.is_done:
            await asyncio.sleep(0.01)
        await keeper.stop()
