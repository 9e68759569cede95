"""A stopping node ends its bridges first, without loss, and does not wait for a silent link."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bridges.conftest import url_of
from tests.bridges.queue_pair import fill
from tests.support.deadlines import run
from tests.support.node_process import NodeProcess
from tests.support.operator import Operator
from warren.client import connect
from warren.client.testing import FaultProxy

PATIENT = """
import sys
from warren.node import node
from warren.node import bridge_host

bridge_host.CONFIRMS_PATIENCE_S, bridge_host.STOP_PATIENCE_S, node.STOP_PATIENCE_S = 20.0, 25.0, 30.0
from warren.cli.main import main
sys.exit(main())
"""
"""A node with a long timeout, so that its bridges can close both ends on a busy machine."""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[NodeProcess]:
    yield from owned(NodeProcess(tmp_path, "--name", "own@localhost"))


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[NodeProcess]:
    yield from owned(NodeProcess(tmp_path, "--name", "own@localhost", command=[sys.executable, "-c", PATIENT]))


def owned(node: NodeProcess) -> Iterator[NodeProcess]:
    yield node
    if node.alive:
        node.kill()


def shovel(node: NodeProcess, source_url: str, source: str) -> None:
    value = {
        "src-protocol": "amqp091",
        "src-uri": source_url,
        "src-queue": source,
        "dest-protocol": "amqp091",
        "dest-uri": "amqp://",
        "dest-queue": "goal",
    }
    Operator(node.addresses["http"]).parameter("shovel", "in", value)


async def begin(own: NodeProcess, far: NodeProcess, source_url: str, count: int) -> None:
    """Returns when some of so many messages have arrived."""
    async with await connect(url_of(own)) as here, await connect(url_of(far)) as there:
        looking, filling = await here.channel(), await there.channel(confirms=True)
        await filling.declare_queue("stopping", durable=True)
        await looking.declare_queue("goal", durable=True)
        await fill(filling, "stopping", count)
        await asyncio.to_thread(shovel, own, source_url, "stopping")
        while (await looking.declare_queue("goal", durable=True)).messages < count // 20:
            await asyncio.sleep(0.001)


async def left_over(url: str, queue: str) -> int:
    async with await connect(url) as connection, await connection.channel() as channel:
        declared = await channel.declare_queue(queue, durable=True)
        assert declared.consumers == 0
        return declared.messages


def test_a_node_that_stops_carries_nothing_twice(patient: NodeProcess, far: NodeProcess) -> None:
    count = 30_000
    run(begin(patient, far, url_of(far), count))
    patient.stop()
    assert "bridge.doubted" not in patient.log()
    left = run(left_over(url_of(far), "stopping"))
    assert left < count
    patient.start()

    async def all_there() -> int:
        async with await connect(url_of(patient)) as connection, await connection.channel() as channel:
            while (await channel.declare_queue("goal", durable=True)).messages < count:
                await asyncio.sleep(0.01)
        async with await connect(url_of(far)) as connection, await connection.channel() as channel:
            while (await channel.declare_queue("stopping", durable=True)).messages:
                await asyncio.sleep(0.01)
            await channel.delete_queue("stopping")
        async with await connect(url_of(patient)) as connection, await connection.channel() as channel:
            return (await channel.declare_queue("goal", durable=True)).messages

    # the shovel began again with the node, and each message came once
    assert run(all_there()) == count


def test_operators_see_the_connection_of_a_shovel_to_its_own_broker_under_its_definer(
    own: NodeProcess, far: NodeProcess
) -> None:
    run(begin(own, far, url_of(far), 20))
    operator = Operator(own.addresses["http"])
    [row] = [each for each in operator.read("connections") if each["type"] == "direct"]
    assert (row["protocol"], row["user"], row["node"]) == ("Direct 0-9-1", "guest", "own@localhost")
    assert row["client_properties"]["connection_name"] == "Shovel in"
    assert operator.read("connections", row["name"])["name"] == row["name"]
    own.stop()
    run(tidy(far))


async def tidy(far: NodeProcess) -> None:
    async with await connect(url_of(far)) as connection, await connection.channel() as channel:
        await channel.delete_queue("stopping")


def test_a_silent_link_does_not_keep_a_node_from_stopping(own: NodeProcess, far: NodeProcess) -> None:
    with FaultProxy(url_of(far)) as proxy:
        run(begin(own, far, proxy.url, 20_000))
        proxy.stall()
        own.stop()
    assert "bridges.abandoned" in own.log()
    assert "loop.failed" not in own.log()
    assert "never retrieved" not in own.log()
    run(tidy(far))
