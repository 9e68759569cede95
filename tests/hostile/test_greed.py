"""Clients with valid AMQP that send or take excessive amounts: the node's memory stays bounded, and other clients are
served meanwhile.

Not here: clients that do not speak it (`test_bad_streams`), data that the node keeps for a client (`test_hoarding`).
"""

import socket
import threading
import time

from tests.hostile.bystanders import Bystanders
from tests.hostile.observing import DEADLINE_S, MEGABYTE, resident_bytes
from tests.hostile.pouring import BODY_BYTES, WATERMARK_BYTES, pour, publish_frames
from tests.support.amqp_client import Channel, Connection
from tests.support.node_process import NodeProcess


def test_a_consumer_that_never_reads_costs_a_bounded_amount(node: NodeProcess) -> None:
    backlog = 2000
    filler = Connection.opened(node.amqp)
    channel = filler.channel()
    channel.call("queue.declare", queue="backlog")
    message = publish_frames("backlog", bytes(BODY_BYTES))
    for _ in range(backlog):
        filler.send_bytes(message)
    channel.await_counts("backlog", backlog)
    before = resident_bytes(node)
    with Bystanders(node) as pair:
        deaf = Connection.opened(node.amqp)
        deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf_channel = deaf.channel()
        deaf_channel.send("basic.consume", queue="backlog", no_ack=False)
        pair.wait_for_rounds(200)
        assert resident_bytes(node) - before < 40 * MEGABYTE
        deaf.cut()
        pair.wait_for_rounds(20)
    channel.await_counts("backlog", backlog)
    filler.close()


def test_only_a_publisher_faster_than_its_consumers_is_blocked(small_node: NodeProcess) -> None:
    reader = Connection.opened(small_node.amqp)
    consumer = reader.channel()
    consumer.call("queue.declare", queue="flood")
    consumer.call("basic.qos", prefetch_count=10)
    stock = Connection.opened(small_node.amqp)
    bystander = stock.channel()
    flood = Connection.opened(small_node.amqp)
    flood.channel()
    message = publish_frames("flood", bytes(BODY_BYTES))
    pouring = threading.Thread(target=pour, args=(small_node, flood, message, 5000))
    pouring.start()
    flood.expect(0, "connection.blocked", DEADLINE_S, reason="low on memory")
    pouring.join(DEADLINE_S)
    assert resident_bytes(small_node) < WATERMARK_BYTES + 100 * MEGABYTE
    # clients that do not publish are served as before
    started_s = time.monotonic()
    for _ in range(50):
        bystander.counts("flood")
    assert time.monotonic() - started_s < DEADLINE_S
    held = drain(consumer, "flood")
    assert held > 100
    flood.expect(0, "connection.unblocked", DEADLINE_S)
    for connection in (reader, stock):
        connection.close()
    flood.cut()


def drain(consumer: Channel, queue: str) -> int:
    """Take messages until the queue is empty; how many there were."""
    taken = 0
    while (message := consumer.get(queue)) is not None:
        assert len(message.body) == BODY_BYTES
        taken += 1
    return taken
