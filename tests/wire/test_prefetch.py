"""Prefetch: how many unacked deliveries a consumer or a channel may hold, and when a change counts."""

from typing import Any

import pytest

from tests.support.amqp_client import Channel, Connection


def filled_queue(channel: Channel, count: int) -> str:
    queue: str = channel.call("queue.declare", exclusive=True).queue
    for number in range(count):
        channel.publish("", queue, str(number).encode())
    return queue


def limit(channel: Channel, count: int, of_channel: bool = False) -> None:
    fields: dict[str, Any] = {"prefetch_count": count, "global": of_channel}
    channel.call("basic.qos", **fields)


def test_a_consumer_holds_no_more_than_its_prefetch(channel: Channel) -> None:
    queue = filled_queue(channel, 5)
    limit(channel, 2)
    channel.consume(queue)
    assert channel.bodies(2) == [b"0", b"1"]
    channel.expect_silence(queue)
    channel.ack(1)
    assert channel.bodies(1) == [b"2"]
    channel.expect_silence(queue)
    channel.ack(3, multiple=True)
    assert channel.bodies(2) == [b"3", b"4"]


@pytest.mark.parametrize("method", ["basic.nack", "basic.reject"])
def test_a_rejection_makes_room_as_an_ack_does(channel: Channel, method: str) -> None:
    queue = filled_queue(channel, 3)
    limit(channel, 1)
    channel.consume(queue)
    channel.deliveries(1)
    channel.send(method, delivery_tag=1, requeue=False)
    assert channel.bodies(1) == [b"1"]


def test_each_consumer_has_the_prefetch_of_its_birth(channel: Channel) -> None:
    for count, delivered in ((1, 1), (3, 3), (0, 5)):
        queue = filled_queue(channel, 5)
        limit(channel, count)
        tag = channel.consume(queue)
        assert [delivery.consumer_tag for delivery in channel.deliveries(delivered)] == [tag] * delivered
        channel.expect_silence(queue)


def test_a_prefetch_of_the_channel_is_shared_by_its_consumers(channel: Channel) -> None:
    first, second = filled_queue(channel, 3), filled_queue(channel, 3)
    limit(channel, 4, of_channel=True)
    channel.consume(first, "first")
    channel.deliveries(3)
    channel.consume(second, "second")
    assert channel.expect("basic.deliver").consumer_tag == "second"
    channel.expect_silence(second)
    channel.ack(1)
    assert channel.expect("basic.deliver").consumer_tag == "second"
    channel.expect_silence(second)


def test_both_limits_hold_together(channel: Channel) -> None:
    queue = filled_queue(channel, 9)
    limit(channel, 2)
    limit(channel, 3, of_channel=True)
    channel.consume(queue, "a")
    channel.deliveries(2)
    channel.expect_silence(queue)
    channel.consume(queue, "b")
    assert channel.expect("basic.deliver").consumer_tag == "b"
    channel.expect_silence(queue)


def test_a_limit_for_consumers_lifts_the_limit_of_the_channel(channel: Channel) -> None:
    queue = filled_queue(channel, 9)
    limit(channel, 3, of_channel=True)
    limit(channel, 2)
    channel.consume(queue, "a")
    channel.deliveries(2)
    channel.consume(queue, "b")
    channel.deliveries(2)
    channel.expect_silence(queue)


def test_raising_the_limit_of_the_channel_counts_at_once(channel: Channel) -> None:
    queue = filled_queue(channel, 5)
    limit(channel, 1, of_channel=True)
    channel.consume(queue)
    channel.deliveries(1)
    channel.expect_silence(queue)
    channel.send("basic.qos", **{"prefetch_count": 3, "global": True})
    replies = [channel.next().name for _ in range(3)]
    assert sorted(replies) == ["basic.deliver", "basic.deliver", "basic.qos-ok"]
    channel.expect_silence(queue)


def test_lifting_the_limit_of_the_channel_counts_at_once(channel: Channel) -> None:
    queue = filled_queue(channel, 5)
    limit(channel, 1, of_channel=True)
    channel.consume(queue)
    channel.deliveries(1)
    channel.send("basic.qos", **{"prefetch_count": 0, "global": True})
    replies = [channel.next().name for _ in range(5)]
    assert sorted(replies) == ["basic.deliver"] * 4 + ["basic.qos-ok"]


def test_a_get_is_not_held_back_by_the_limit_of_consumers(channel: Channel) -> None:
    queue = filled_queue(channel, 4)
    limit(channel, 1)
    channel.consume(queue)
    channel.deliveries(1)
    assert [received.body for received in (channel.get(queue, no_ack=False) for _ in range(2)) if received] == [
        b"1",
        b"2",
    ]
    channel.ack(1)
    assert channel.bodies(1) == [b"3"]


def test_a_consumer_without_acks_has_no_limit(channel: Channel) -> None:
    queue = filled_queue(channel, 20)
    limit(channel, 1)
    channel.consume(queue, no_ack=True)
    channel.deliveries(20)


def test_a_consumer_that_is_full_leaves_messages_to_others(connection: Connection) -> None:
    slow, fast = connection.channel(), connection.channel()
    queue = filled_queue(slow, 6)
    limit(slow, 1)
    slow.consume(queue)
    assert slow.bodies(1) == [b"0"]
    fast.consume(queue)
    assert fast.bodies(5) == [b"1", b"2", b"3", b"4", b"5"]
    slow.expect_silence(queue)
