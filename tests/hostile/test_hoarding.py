"""Data that the node keeps for a client: unread replies, unfinished content, uncommitted transactions. Each is bounded,
or held to the watermark.

Not here: backlogs in queues (`test_greed`).
"""

import contextlib

from tests.hostile.bystanders import Bystanders
from tests.hostile.observing import MEGABYTE, resident_bytes
from tests.hostile.pouring import BODY_BYTES, WATERMARK_BYTES, is_alarmed, pour, publish_frames
from tests.support.amqp_client import Connection
from tests.support.amqp_frames import BODY, HEADER, METHOD, frame
from tests.support.amqp_methods import write_method
from tests.support.deadlines import eventually
from tests.support.node_process import NodeProcess


def test_a_client_that_asks_and_never_reads_costs_a_bounded_amount(node: NodeProcess) -> None:
    with Bystanders(node) as pair:
        deaf = Connection.opened(node.amqp)
        channel = deaf.channel()
        channel.call("queue.declare", queue="one")
        channel.publish("", "one", bytes(BODY_BYTES))
        channel.await_counts("one", 1)
        before = resident_bytes(node)
        get = frame(METHOD, 1, write_method("basic.get", {"queue": "one"}))
        back = [write_method("basic.nack", {"delivery_tag": tag, "requeue": True}) for tag in range(1, 4001)]
        rounds = [get + frame(METHOD, 1, nack) for nack in back]
        deaf.socket.settimeout(2)
        with contextlib.suppress(TimeoutError):
            deaf.socket.sendall(b"".join(rounds))
        pair.wait_for_rounds(50)
        assert resident_bytes(node) - before < 60 * MEGABYTE
        deaf.cut()


def test_a_publisher_of_returns_that_never_reads_costs_a_bounded_amount(node: NodeProcess) -> None:
    with Bystanders(node) as pair:
        deaf = Connection.opened(node.amqp)
        deaf.channel()
        before = resident_bytes(node)
        message = publish_frames("nowhere", bytes(BODY_BYTES), mandatory=True)
        deaf.socket.settimeout(2)
        with contextlib.suppress(TimeoutError):
            for _ in range(3000):
                deaf.socket.sendall(message)
        pair.wait_for_rounds(50)
        assert resident_bytes(node) - before < 60 * MEGABYTE
        deaf.cut()


def test_content_announced_beyond_the_largest_message_is_refused_before_it_comes(node: NodeProcess) -> None:
    client = Connection.opened(node.amqp)
    channel = client.channel()
    header = b"\x00\x3c\x00\x00" + (10**12).to_bytes(8, "big") + b"\x00\x00"
    client.send_bytes(frame(METHOD, 1, write_method("basic.publish", {"routing_key": "q"})) + frame(HEADER, 1, header))
    assert channel.expect("channel.close").reply_code == 406
    client.close()


def test_empty_body_frames_are_not_kept(node: NodeProcess) -> None:
    client = Connection.opened(node.amqp)
    channel = client.channel()
    channel.call("queue.declare", queue="hollow")
    whole = publish_frames("hollow", b"x")
    hollow = frame(BODY, 1, b"")
    before = resident_bytes(node)
    client.send_bytes(whole[:-9])
    for _ in range(200):
        client.send_bytes(hollow * 10_000)
    # an answer on another channel means that all of it was read
    client.channel()
    assert resident_bytes(node) - before < 20 * MEGABYTE
    client.send_bytes(whole[-9:])
    channel.await_counts("hollow", 1)
    client.close()


def test_a_transaction_that_is_never_committed_is_held_to_the_watermark(small_node: NodeProcess) -> None:
    greedy = Connection.opened(small_node.amqp)
    channel = greedy.channel()
    channel.call("queue.declare", queue="never")
    channel.call("tx.select")
    pour(small_node, greedy, publish_frames("never", bytes(BODY_BYTES)), 5000)
    assert resident_bytes(small_node) < WATERMARK_BYTES + 100 * MEGABYTE
    eventually(lambda: is_alarmed(small_node), "the alarm is logged")
    greedy.cut()
