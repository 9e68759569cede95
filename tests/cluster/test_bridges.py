"""A shovel of a cluster: one node runs it, another one when that is killed or stopped, and nothing is lost by it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.mirrored import await_in_sync, mirror_everything
from tests.cluster.test_client_failover import run, url_of
from tests.cluster.trio import Trio, declare, eventually
from tests.support.node_process import NodeProcess
from tests.support.operator import Operator
from warren.client import ClientError, Message, Properties, connect

pytestmark = pytest.mark.timeout(240)

SOURCE, GOAL = "far work", "mirrored work"


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[Trio]:
    made = Trio(tmp_path)
    mirror_everything(made)
    yield made
    made.destroy()


@pytest.fixture
def far(tmp_path: Path) -> Iterator[NodeProcess]:
    node = NodeProcess(tmp_path / "far", "--name", "far@localhost")
    yield node
    node.stop()


def runners(trio: Trio) -> list[NodeProcess]:
    """The nodes on which the shovel runs, by what they say of themselves."""
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
    """The node that runs it."""
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
    """What arrives, from whichever node is there, until everything has."""
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


def test_a_shovel_goes_on_on_another_node_when_its_own_is_killed_and_nothing_is_lost(
    trio: Trio, far: NodeProcess
) -> None:
    runner = begin(trio, far)
    assert consumers(far) == 1

    async def scenario() -> None:
        enough = asyncio.Event()
        publishing = asyncio.ensure_future(publish_until(far, enough))
        collecting = asyncio.ensure_future(collect(trio, publishing))
        await asyncio.to_thread(eventually, lambda: consumers(far) == 1, "it carries")
        runner.kill()
        await asyncio.to_thread(
            eventually, lambda: [node.name for node in runners(trio)] not in ([], [runner.name]), "another node runs it"
        )
        enough.set()
        count = await publishing
        assert await collecting == {b"%d" % at for at in range(count)}

    run(scenario())


def test_a_node_that_stops_hands_its_shovel_over_with_nothing_in_doubt(trio: Trio, far: NodeProcess) -> None:
    runner = begin(trio, far)

    async def scenario() -> None:
        enough = asyncio.Event()
        publishing = asyncio.ensure_future(publish_until(far, enough))
        collecting = asyncio.ensure_future(collect(trio, publishing))
        await asyncio.to_thread(eventually, lambda: consumers(far) == 1, "it carries")
        await asyncio.to_thread(trio.hang_up)
        await asyncio.to_thread(runner.stop)
        await asyncio.to_thread(eventually, lambda: len(runners(trio)) == 1, "another node runs it")
        enough.set()
        count = await publishing
        assert await collecting == {b"%d" % at for at in range(count)}

    run(scenario())
    assert "bridge.doubted" not in runner.log()
