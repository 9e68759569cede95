"""Unacked messages of a closed connection go to other connections; RabbitMQ may deliver them to its other channels."""

from collections.abc import Callable

from tests.support.amqp_client import Channel, Connection

Unique = Callable[[str], str]


def test_a_lost_connection_does_not_hand_its_messages_to_itself(
    connect: Callable[[], Connection], channel: Channel, unique: Unique
) -> None:
    queue = unique("queue")
    channel.call("queue.declare", queue=queue)
    channel.publish("", queue, b"kept")
    lost = connect()
    holder, taker = lost.channel(), lost.channel()
    holder.consume(queue)
    assert holder.bodies(1) == [b"kept"]
    taker.consume(queue, no_ack=True)
    lost.cut()
    channel.await_counts(queue, 1, 0)
