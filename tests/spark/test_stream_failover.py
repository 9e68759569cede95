"""A mirrored stream whose master is killed while a task reads it, without Spark: rows come once, and in order."""

from collections.abc import Iterator

import pytest

from tests.cluster.mirrored import await_another_master, await_in_sync, standing
from tests.cluster.trio import Trio
from tests.spark.streams import publish
from tests.spark.test_stream_reading import each_number
from tests.support.node_process import NodeProcess
from warren.client import blocking
from warren.spark.options import Broker
from warren.spark.streams.feed import Wanted
from warren.spark.streams.link import Bounds
from warren.spark.streams.places import StreamPlaces

pytestmark = pytest.mark.timeout(240)

STREAM = "ledger"
ROWS = 30_000


@pytest.fixture
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    made = Trio(tmp_path_factory.mktemp("failover"))
    yield made
    made.destroy()


def url_of(nodes: list[NodeProcess]) -> str:
    hosts = ",".join(f"{node.amqp[0]}:{node.amqp[1]}" for node in nodes)
    return f"amqp://guest:guest@{hosts}/%2F"


def test_a_read_goes_on_at_another_master(trio: Trio) -> None:
    url = url_of(list(trio.nodes))
    with blocking.connect(url) as connection:
        channel = connection.channel(confirms=True)
        arguments = {"x-queue-type": "stream", "x-ha-mode": "all"}
        channel.declare_queue(STREAM, durable=True, arguments=dict(arguments))
        await_in_sync(trio, [STREAM])
        publish(channel, STREAM, range(ROWS), 1000)
    master = next(node for node in trio.nodes if node.name == standing(trio, STREAM).master)
    others = [node for node in trio.nodes if node is not master]
    # one reads at the master, and one at a node that will stay
    readers = [each_number(Wanted(Broker(url_of(nodes)), STREAM, 0, ROWS)) for nodes in ([master, *others], others)]
    found = [[next(numbers) for _ in range(2000)] for numbers in readers]
    places = StreamPlaces(Broker(url_of([master, *others])), STREAM)
    assert places.bounds() == {0: Bounds(0, ROWS)}
    master.kill()
    for numbers, so_far in zip(readers, found, strict=True):
        so_far.extend(numbers)
        assert so_far == list(range(ROWS))
    await_another_master(trio, [STREAM], master)
    assert places.bounds() == {0: Bounds(0, ROWS)}
    places.close()
