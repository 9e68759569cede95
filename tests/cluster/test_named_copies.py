"""A queue of real nodes that copies one of another node, is mirrored, and outlives the node that was its master."""

import pika

from tests.cluster.mirrored import await_another_master, await_in_sync
from tests.cluster.trio import Trio, declare
from tests.support.amqp_client import Channel
from tests.support.node_process import NodeProcess

COPY = "mirrored copy"


def publish(node: NodeProcess, bodies: list[bytes]) -> None:
    """Publish with pika; a publish without a confirm raises."""
    with pika.BlockingConnection(pika.ConnectionParameters(*node.amqp)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for body in bodies:
            channel.basic_publish("", "source", body, pika.BasicProperties(delivery_mode=2), mandatory=True)


def everything_in(channel: Channel, queue: str) -> list[bytes]:
    return [message.body for message in iter(lambda: channel.get(queue), None)]


def test_a_mirrored_copy_on_another_node_has_all_that_was_confirmed(fresh_trio: Trio) -> None:
    source_home, copy_home, third = fresh_trio.nodes
    declare(fresh_trio.channel(source_home), "source", durable=True)
    declare(fresh_trio.channel(copy_home), COPY, durable=True, arguments={"copy_from": "source", "mirrored": True})
    await_in_sync(fresh_trio, [COPY])
    bodies = [b"%d" % number for number in range(60)]
    for node, first in zip(fresh_trio.nodes, range(0, 45, 15), strict=True):
        publish(node, bodies[first : first + 15])
    fresh_trio.hang_up()
    copy_home.kill()
    await_another_master(fresh_trio, [COPY], copy_home)
    publish(third, bodies[45:])
    assert everything_in(fresh_trio.channel(third), COPY) == bodies
    assert everything_in(fresh_trio.channel(third), "source") == bodies
