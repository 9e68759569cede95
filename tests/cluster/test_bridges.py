"""A shovel of a cluster: one node runs it; when that node is killed or stopped, another one does, without loss."""

import asyncio
from collections.abc import Callable

import pytest

from tests.cluster.mirrored import await_in_sync, mirror_everything
from tests.cluster.trio import Trio, declare, url_of
from tests.support.deadlines import eventually, run, until
from tests.support.node_process import NodeProcess
from tests.support.operator import Operator
from warren.client import ClientError, Message, Properties, connect

pytestmark = pytest.mark.timeout(240)

SOURCE, GOAL = "far work", "mirrored work"


def runners(trio: Trio) -> list[NodeProcess]:
    """The nodes on which the shovel runs, as they report it."""
    asked = next(node for node in trio.nodes if node.alive)
    rows = Operator(asked.addresses["http"]).read("shovels")
    names = [row["node"] for row in rows if row["state"] == "running"]
    return [node for node in trio.nodes if node.name in names and node.alive]


def consumers(far: NodeProcess) -> int:
    async def count() -> int:
        async with await connect(url_of(far)) as connection, await connection.channel() as channel:
            return (await channel.declare_queue(SOURCE, durable=True)).consumers

    return asyncio.run(count())


def begin(trio: Trio, far: NodeProcess) -> NodeProcess:
    """Define a shovel into a mirrored queue; the node that runs it."""
    mirror_everything(trio)
    declare(trio.channel(trio.nodes[0]), GOAL, durable=True)
    await_in_sync(trio, [GOAL])
    assert consumers(far) == 0
    value = {
        "src-protocol": "amqp091",
        "src-uri": url_of(far),
        "src-queue": SOURCE,
        "dest-protocol": "amqp091",
        "dest-uri": "amqp://",
        "dest-queue": GOAL,
        "reconnect-delay": 1,
    }
    Operator(trio.nodes[1].addresses["http"]).parameter("shovel", "in", value)
    eventually(lambda: len(runners(trio)) == 1, "one node runs it")
    return runners(trio)[0]


async def publish_until(far: NodeProcess, enough: asyncio.Event) -> int:
    """Publish, confirmed; how many."""
    count = 0
    async with await connect(url_of(far)) as connection:
        channel = await connection.channel(confirms=True)
        while not enough.is_set():
            messages = [
                Message(b"%d" % at, Properties(message_id=f"m{at}", delivery_mode=2)) for at in range(count, count + 50)
            ]
            await channel.send_many(messages, routing_key=SOURCE)
            await channel.wait_for_confirms()
            count += len(messages)
    return count


async def collect(trio: Trio, wanted: asyncio.Future[int]) -> set[bytes]:
    """Consume, from a node that runs, until all messages have arrived; their bodies."""
    found: set[bytes] = set()
    while not wanted.done() or len(found) < wanted.result():
        try:
            async with await connect(url_of(*trio.nodes)) as connection, await connection.channel() as channel:
                consumer = await channel.consume(GOAL)
                while not wanted.done() or len(found) < wanted.result():
                    for delivery in await consumer.batch(timeout_s=0.5):
                        found.add(delivery.body)
                        channel.ack(delivery)
        except ClientError:
            await asyncio.sleep(0.1)
    return found


async def carry_all_while(trio: Trio, far: NodeProcess, runner: NodeProcess, end: Callable[[], object]) -> None:
    """Publish while the node that runs the shovel ends and another one runs it: all confirmed messages arrive."""
    enough = asyncio.Event()
    publishing = asyncio.ensure_future(publish_until(far, enough))
    collecting = asyncio.ensure_future(collect(trio, publishing))
    await until(lambda: asyncio.to_thread(lambda: consumers(far) == 1))
    await asyncio.to_thread(trio.hang_up)
    await asyncio.to_thread(end)
    await until(lambda: asyncio.to_thread(lambda: runners(trio) not in ([], [runner])))
    enough.set()
    count = await publishing
    assert await collecting == {b"%d" % at for at in range(count)}


def test_a_shovel_goes_on_on_another_node_when_its_own_is_killed_and_nothing_is_lost(
    fresh_trio: Trio, far: NodeProcess
) -> None:
    runner = begin(fresh_trio, far)
    assert consumers(far) == 1
    run(carry_all_while(fresh_trio, far, runner, runner.kill))


def test_a_node_that_stops_hands_its_shovel_over_with_nothing_in_doubt(fresh_trio: Trio, far: NodeProcess) -> None:
    runner = begin(fresh_trio, far)
    run(carry_all_while(fresh_trio, far, runner, runner.stop))
    assert "bridge.doubted" not in runner.log()
