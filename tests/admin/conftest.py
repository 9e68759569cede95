"""One node for each module of tests, and its API; or three, with clients."""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pika
import pytest

from tests.admin.calling import Api
from tests.admin.three_nodes import MESSAGES, Trio, eventually
from tests.support.node_process import NodeProcess


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    running = NodeProcess(tmp_path_factory.mktemp("node"), "--name", "hare@here")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def api(node: NodeProcess) -> Api:
    return Api(node)


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    made = Trio(tmp_path_factory.mktemp("trio") / "cluster")
    yield made
    made.run("down")


@pytest.fixture(scope="module")
def clients(trio: Trio) -> Iterator[list[pika.BlockingConnection]]:
    """One of each node."""
    connections = [node.connect(f"client{number}") for number, node in enumerate(trio.nodes)]
    channels = [connection.channel() for connection in connections]
    for number, channel in enumerate(channels):
        channel.queue_declare(f"of{number}", durable=True)
        channel.confirm_delivery()
        channel.basic_qos(prefetch_count=1)
    for number, channel in enumerate(channels):
        target = f"of{(number + 1) % 3}"
        for _ in range(MESSAGES[target]):
            channel.basic_publish("", target, b"x")
    for number, channel in enumerate(channels):
        channel.basic_consume(f"of{(number + 1) % 3}", lambda *delivery: None, consumer_tag=f"tag{number}")
    yield connections
    for connection in connections:
        # connections to a killed node have not noticed that they are lost
        with suppress(pika.exceptions.AMQPError):
            connection.close()


@pytest.fixture(scope="module")
def told(trio: Trio, clients: list[pika.BlockingConnection]) -> None:
    """Every consumer has its first message, and that is known everywhere: at the queue's home, and where it came."""
    for node in trio.nodes:
        eventually(partial(node.api.read, "queues"), lambda rows: all(map(handed_out, rows)))


def handed_out(queue: dict[str, Any]) -> bool:
    counted = queue.get("message_stats", {}).get("deliver_get")
    return (queue["messages_unacknowledged"], counted) == (1, 1)
