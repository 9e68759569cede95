"""A node beyond its memory watermark: publishers are notified and blocked, other clients are served.

RabbitMQ 3.10.8 says and does the same when its watermark is lowered, but it holds back even the publish that finds
memory low, of which it has read no more than the method; here that one may be let in.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.amqp_client import CAPABILITIES, Channel, Connection, Received
from tests.support.node_process import NodeProcess

BODY = bytes(65536)
MESSAGES_MAX = 4000


@pytest.fixture
def small_node(tmp_path: Path) -> Iterator[NodeProcess]:
    config = tmp_path / "small.conf"
    # a backlog that may go to disk would never fill the memory
    config.write_text("vm_memory_high_watermark.absolute = 64MiB\nvm_memory_high_watermark_paging_ratio = 2\n")
    node = NodeProcess(tmp_path / "node", "--config", str(config))
    yield node
    node.stop()


@pytest.fixture
def connections(small_node: NodeProcess) -> Iterator[list[Connection]]:
    """A publisher, another client, and a publisher that does not understand `connection.blocked`."""
    opened = [
        Connection.opened(small_node.amqp),
        Connection.opened(small_node.amqp),
        Connection.opened(small_node.amqp, capabilities={**CAPABILITIES, "connection.blocked": False}),
    ]
    yield opened
    for connection in opened:
        connection.close()


def publish_until_blocked(channel: Channel, queue: str) -> Received:
    """One message at a time, each confirmed, until the confirm stays out and `connection.blocked` comes instead."""
    connection = channel.connection
    channel.confirm()
    for tag in range(1, MESSAGES_MAX):
        channel.publish("", queue, BODY)
        while not (connection.inbox.get(0) or connection.inbox.get(channel.number)):
            connection.take_frame()
        if connection.inbox.get(0):
            return connection.next_on(0)
        channel.expect("basic.ack", delivery_tag=tag)
    raise AssertionError("the node was never short of memory")


def test_publishers_are_held_until_the_backlog_is_gone(connections: list[Connection]) -> None:
    publishing, other, unaware = connections
    channel, reader, quiet = publishing.channel(), other.channel(), unaware.channel()
    queue = reader.call("queue.declare", queue="backlog").queue
    blocked = publish_until_blocked(channel, queue)
    assert (blocked.name, blocked.reason) == ("connection.blocked", "low on memory")

    quiet.confirm()
    quiet.publish("", queue, b"this one may be let in")
    reader.counts(queue)
    quiet.publish("", queue, b"held, untold")
    received = reader.get(queue)
    assert received is not None
    assert received.body == BODY
    assert not unaware.inbox.get(0)

    reader.call("queue.purge", queue=queue)
    publishing.expect(0, "connection.unblocked")
    assert channel.expect("basic.ack").delivery_tag > 0
    quiet.confirms([1, 2])
    channel.call("basic.qos")
    kept = []
    while (received := reader.get(queue)) is not None:
        kept.append(received.body)
    assert b"held, untold" in kept, "it was let in before the purge"


def test_a_connection_that_does_not_publish_is_not_blocked(connections: list[Connection]) -> None:
    publishing, other, _ = connections
    reader = other.channel()
    queue = reader.call("queue.declare", queue="backlog").queue
    publish_until_blocked(publishing.channel(), queue)
    reader.consume(queue, no_ack=True)
    reader.deliveries(50)
    assert not other.inbox.get(0)
