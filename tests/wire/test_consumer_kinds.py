"""Consumers that are not all alike: priorities, exclusive ones, a single active one; and arguments they may carry."""

from typing import Any

import pytest

from tests.support.amqp_client import Channel, Connection
from tests.support.amqp_values import Typed
from tests.wire.faults import expect_fault


def queue_of(channel: Channel, **arguments: Any) -> str:
    queue: str = channel.call("queue.declare", exclusive=True, arguments=arguments).queue
    return queue


def channels(connection: Connection, count: int) -> list[Channel]:
    return [connection.channel() for _ in range(count)]


def test_the_consumer_of_higher_priority_is_served_first(connection: Connection) -> None:
    publisher, low, high = channels(connection, 3)
    queue = queue_of(publisher)
    for channel, priority in ((low, -1), (high, 10)):
        channel.call("basic.qos", prefetch_count=2)
        channel.consume(queue, arguments={"x-priority": priority})
    for number in range(4):
        publisher.publish("", queue, str(number).encode())
    assert high.bodies(2) == [b"0", b"1"]
    assert low.bodies(2) == [b"2", b"3"]


def test_a_consumer_without_priority_has_priority_zero(connection: Connection) -> None:
    publisher, plain, below, above = channels(connection, 4)
    queue = queue_of(publisher)
    for channel, arguments in ((plain, {}), (below, {"x-priority": -5}), (above, {"x-priority": Typed("b", 1)})):
        channel.call("basic.qos", prefetch_count=1)
        channel.consume(queue, arguments=arguments)
    for number in range(3):
        publisher.publish("", queue, str(number).encode())
    assert [channel.bodies(1) for channel in (above, plain, below)] == [[b"0"], [b"1"], [b"2"]]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"x-priority": "high"}, "'x-priority'{}\"expected integer, got longstr\""),
        ({"x-priority": True}, "'x-priority'{}\"expected integer, got bool\""),
        ({"x-priority": 1.5}, "'x-priority'{}\"expected integer, got double\""),
        ({"x-cancel-on-ha-failover": 1}, "'x-cancel-on-ha-failover'{}{{unacceptable_type,signedint}}"),
    ],
)
def test_a_consumer_argument_of_the_wrong_type_is_refused(
    channel: Channel, arguments: dict[str, Any], complaint: str
) -> None:
    queue = queue_of(channel)
    channel.send("basic.consume", queue=queue, arguments=arguments)
    where = f" for queue '{queue}' in vhost '/': "
    expect_fault(channel, 406, f"PRECONDITION_FAILED - invalid arg {complaint.format(where)}", "basic.consume")


def test_a_consumer_argument_of_another_queue_type_is_refused(channel: Channel) -> None:
    queue = queue_of(channel)
    channel.send("basic.consume", queue=queue, arguments={"x-stream-offset": "first"})
    text = f"invalid arg 'x-stream-offset' for queue '{queue}' in vhost '/' of queue type rabbit_classic_queue"
    expect_fault(channel, 406, f"PRECONDITION_FAILED - {text}", "basic.consume")


@pytest.mark.parametrize("arguments", [{"x-cancel-on-ha-failover": True}, {"x-anything-else": 1}])
def test_a_good_or_unknown_consumer_argument_is_accepted(channel: Channel, arguments: dict[str, Any]) -> None:
    channel.consume(queue_of(channel), arguments=arguments)


def test_an_exclusive_consumer_leaves_room_when_it_goes(connection: Connection) -> None:
    first, second = channels(connection, 2)
    queue = queue_of(first)
    first.consume(queue, "alone", exclusive=True)
    first.call("basic.cancel", consumer_tag="alone")
    second.consume(queue, exclusive=True)
    second.close()
    first.consume(queue)


def test_an_exclusive_consumer_does_not_keep_others_from_getting(connection: Connection) -> None:
    reader, other = channels(connection, 2)
    queue = queue_of(reader)
    reader.call("basic.qos", prefetch_count=1)
    reader.consume(queue, exclusive=True)
    for body in (b"delivered", b"got"):
        other.publish("", queue, body)
    reader.deliveries(1)
    received = other.get(queue)
    assert received is not None
    assert received.body == b"got"


def test_only_the_first_consumer_is_active_until_it_goes(connection: Connection) -> None:
    publisher, first, second = channels(connection, 3)
    queue = queue_of(publisher, **{"x-single-active-consumer": True})
    first.consume(queue, "first")
    second.consume(queue, "second", arguments={"x-priority": 10})
    for number in range(4):
        publisher.publish("", queue, str(number).encode())
    assert first.bodies(4) == [b"0", b"1", b"2", b"3"]
    second.expect_silence(queue)
    first.ack(2, multiple=True)
    first.call("basic.cancel", consumer_tag="first")
    publisher.publish("", queue, b"4")
    assert second.bodies(1) == [b"4"]
    first.close()
    assert [(delivery.body, delivery.redelivered) for delivery in second.deliveries(2)] == [(b"2", True), (b"3", True)]


def test_a_full_active_consumer_does_not_pass_messages_on(connection: Connection) -> None:
    publisher, first, second = channels(connection, 3)
    queue = queue_of(publisher, **{"x-single-active-consumer": True})
    first.call("basic.qos", prefetch_count=1)
    first.consume(queue)
    second.consume(queue)
    publisher.publish("", queue, b"0")
    publisher.publish("", queue, b"1")
    assert first.bodies(1) == [b"0"]
    second.expect_silence(queue)
    first.ack(1)
    assert first.bodies(1) == [b"1"]


def test_both_consumers_count_though_one_is_active(connection: Connection) -> None:
    first, second = channels(connection, 2)
    queue = queue_of(first, **{"x-single-active-consumer": True})
    first.consume(queue)
    second.consume(queue)
    first.await_counts(queue, 0, consumers=2)
