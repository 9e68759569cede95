"""A publisher whose messages are routed to very many queues: other clients are served meanwhile, and the memory alarm
holds back what was read before it was raised.

Not here: publishers to one queue (`test_greed`).
"""

import threading

from tests.hostile.bystanders import Bystanders
from tests.hostile.observing import DEADLINE_S, MEGABYTE, resident_bytes
from tests.hostile.pouring import WATERMARK_BYTES, pour
from tests.support.amqp_client import Connection
from tests.support.amqp_frames import HEADER, METHOD, frame
from tests.support.amqp_methods import write_method
from tests.support.node_process import NodeProcess

QUEUES = 1000
BURST = 4000
"""The empty messages of one read, about 250 kB; they are routed to four million places."""


def bound_queues(node: NodeProcess) -> None:
    connection = Connection.opened(node.amqp)
    channel = connection.channel()
    for number in range(QUEUES):
        channel.send("queue.declare", queue=f"fan{number}", nowait=True)
        channel.send("queue.bind", queue=f"fan{number}", exchange="amq.fanout", nowait=True)
    channel.counts("fan0")
    connection.close()


def burst() -> bytes:
    method = write_method("basic.publish", {"exchange": "amq.fanout"})
    header = b"\x00\x3c\x00\x00" + bytes(8) + b"\x00\x00"
    return (frame(METHOD, 1, method) + frame(HEADER, 1, header)) * BURST


def test_a_publisher_to_a_thousand_queues_does_not_delay_others(node: NodeProcess) -> None:
    bound_queues(node)
    with Bystanders(node) as pair:
        publishers = [Connection.opened(node.amqp) for _ in range(5)]
        for publisher in publishers:
            publisher.channel()
            publisher.send_bytes(burst())
        pair.wait_for_rounds(50)
        for publisher in publishers:
            publisher.cut()
    assert pair.most_work_s < 0.5, f"the node worked for {pair.most_work_s:.1f} s during a message of the pair"


def test_messages_read_before_the_memory_alarm_do_not_outgrow_it(small_node: NodeProcess) -> None:
    bound_queues(small_node)
    publishers = [Connection.opened(small_node.amqp) for _ in range(5)]
    for publisher in publishers:
        publisher.channel()
    pouring = [threading.Thread(target=pour, args=(small_node, one, burst(), 10)) for one in publishers]
    for thread in pouring:
        thread.start()
    for thread in pouring:
        thread.join(3 * DEADLINE_S)
    publishers[0].expect(0, "connection.blocked", DEADLINE_S, reason="low on memory")
    assert resident_bytes(small_node) < WATERMARK_BYTES + 150 * MEGABYTE
    for publisher in publishers:
        publisher.cut()
