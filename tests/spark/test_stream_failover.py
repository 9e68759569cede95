"""The master of a mirrored stream or queue is killed during reads, without Spark: rows come once, and in order."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.mirrored import await_another_master, await_in_sync, standing
from tests.cluster.trio import Trio
from tests.spark.streams import number_in, publish
from tests.spark.test_queue_reader import START, bodies, latest
from tests.spark.test_stream_reading import each_number
from tests.support.node_process import NodeProcess
from warren.client import blocking
from warren.spark.options import BrokerOptions, QueueOptions, read_options
from warren.spark.queue_source import QueueStreamReader
from warren.spark.stream_client import ChunkRequest, OffsetBounds, StreamOffsetReader

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
    readers = [
        each_number(ChunkRequest(BrokerOptions(url_of(nodes)), STREAM, 0, ROWS))
        for nodes in ([master, *others], others)
    ]
    found = [[next(numbers) for _ in range(2000)] for numbers in readers]
    places = StreamOffsetReader(BrokerOptions(url_of([master, *others])), STREAM)
    assert places.bounds() == {0: OffsetBounds(0, ROWS)}
    master.kill()
    for numbers, so_far in zip(readers, found, strict=True):
        so_far.extend(numbers)
        assert so_far == list(range(ROWS))
    await_another_master(trio, [STREAM], master)
    assert places.bounds() == {0: OffsetBounds(0, ROWS)}
    places.close()


def test_a_staged_message_is_known_when_another_master_delivers_it_again(trio: Trio, tmp_path: Path) -> None:
    url = url_of(list(trio.nodes))
    with blocking.connect(url) as connection:
        channel = connection.channel(confirms=True)
        channel.declare_queue("orders", durable=True, arguments={"x-ha-mode": "all"})
        await_in_sync(trio, ["orders"])
        publish(channel, "orders", range(400))
    master = next(node for node in trio.nodes if node.name == standing(trio, "orders").master)
    others = url_of([node for node in trio.nodes if node is not master])
    options = read_options({"url": others, "queue": "orders", "stagingDir": str(tmp_path)})
    assert isinstance(options, QueueOptions)
    reader = QueueStreamReader(options, str(tmp_path))
    end = latest(reader, reader.initialOffset(), 400)
    found = bodies(reader, START, end)
    master.kill()
    await_another_master(trio, ["orders"], master)
    with blocking.connect(others) as connection:
        publish(connection.channel(confirms=True), "orders", range(400, 410))
    further = latest(reader, end, 410)
    assert further == {"next": 410}
    found += bodies(reader, end, further)
    assert [number_in(body.encode()) for body in found] == list(range(410))
    reader.commit(further)
    reader.stop()
    with blocking.connect(others) as connection:
        assert connection.channel().delete_queue("orders") == 0
