"""x-delivery-limit on an ordinary queue: it counts as RabbitMQ's quorum queues count."""

from typing import Any

import pytest

from tests.support.amqp_client import Channel, Connection
from tests.wire.conftest import Unique
from tests.wire.faults import expect_fault


def limited_queue(channel: Channel, limit: int, dead: str = "") -> str:
    arguments: dict[str, Any] = {"x-delivery-limit": limit}
    if dead:
        arguments |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    queue: str = channel.call("queue.declare", exclusive=True, arguments=arguments).queue
    channel.publish("", queue, b"poison")
    return queue


@pytest.mark.parametrize("method", ["basic.nack", "basic.reject"])
@pytest.mark.parametrize("limit", [0, 1, 3])
def test_a_message_comes_back_as_often_as_the_limit_allows(channel: Channel, method: str, limit: int) -> None:
    dead = channel.call("queue.declare", exclusive=True).queue
    queue = limited_queue(channel, limit, dead)
    for round_no in range(limit + 1):
        received = channel.get(queue, no_ack=False)
        assert received is not None
        assert received.redelivered == (round_no > 0)
        channel.send(method, delivery_tag=received.delivery_tag, requeue=True)
    assert channel.get(queue) is None
    letter = channel.get(dead)
    assert letter is not None
    (death,) = letter.headers["x-death"]
    assert (death["reason"], death["count"], death["queue"]) == ("delivery_limit", 1, queue)
    assert letter.headers["x-first-death-reason"] == "delivery_limit"


def test_without_a_dead_letter_exchange_it_is_dropped(channel: Channel) -> None:
    queue = limited_queue(channel, 0)
    channel.publish("", queue, b"healthy")
    channel.get(queue, no_ack=False)
    channel.send("basic.nack", delivery_tag=1, requeue=True)
    received = channel.get(queue)
    assert received is not None
    assert (received.body, received.message_count) == (b"healthy", 0)


def test_a_channel_that_closes_counts_as_a_return(connection: Connection) -> None:
    first = connection.channel()
    queue = limited_queue(first, 1)
    for _ in range(2):
        reader = connection.channel()
        assert reader.get(queue, no_ack=False) is not None
        reader.close()
    assert first.get(queue) is None


def test_other_limits_make_another_queue(channel: Channel, unique: Unique) -> None:
    queue = unique("limited")
    channel.call("queue.declare", queue=queue, exclusive=True, arguments={"x-delivery-limit": 1})
    channel.send("queue.declare", queue=queue, exclusive=True, arguments={"x-delivery-limit": 2})
    where = f"inequivalent arg 'x-delivery-limit' for queue '{queue}' in vhost '/'"
    expect_fault(channel, 406, f"PRECONDITION_FAILED - {where}: received '2' but current is '1'", "queue.declare")


def test_a_limit_must_be_a_number(channel: Channel, unique: Unique) -> None:
    queue = unique("limited")
    channel.send("queue.declare", queue=queue, exclusive=True, arguments={"x-delivery-limit": "few"})
    where = f"invalid arg 'x-delivery-limit' for queue '{queue}' in vhost '/'"
    expect_fault(channel, 406, f'PRECONDITION_FAILED - {where}: "expected integer, got longstr"', "queue.declare")
