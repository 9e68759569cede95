"""Streams as RabbitMQ has them: declarations, readers, and their offsets."""

from typing import Any

import pytest

from tests.support.amqp_client import Channel, Connection, Received
from tests.support.amqp_values import Typed
from tests.wire.conftest import Connect, Unique
from tests.wire.faults import expect_fault

STREAM = {"x-queue-type": "stream"}
FAR_AWAY = Typed("T", 4_102_444_800)


def declare(channel: Channel, name: str, **arguments: Any) -> str:
    table = {**STREAM, **{key.replace("_", "-"): value for key, value in arguments.items()}}
    channel.call("queue.declare", queue=name, durable=True, arguments=table)
    return name


def fill(channel: Channel, stream: str, count: int, first: int = 0) -> None:
    """Messages that are confirmed, so readers may see them."""
    channel.confirm()
    for number in range(first, first + count):
        channel.publish("", stream, f"m{number}".encode(), {"headers": {"number": number}})
    channel.confirms(range(1, count + 1))


def reader(connection: Connection, stream: str, prefetch: int = 100, **arguments: Any) -> Channel:
    channel = connection.channel()
    channel.call("basic.qos", prefetch_count=prefetch)
    table = {key.replace("_", "-"): value for key, value in arguments.items()}
    channel.consume(stream, arguments=table)
    return channel


def offsets(deliveries: list[Received]) -> list[int]:
    return [delivery.headers["x-stream-offset"] for delivery in deliveries]


# -- declarations


@pytest.mark.parametrize(
    ("misfit", "properties"),
    [
        ("non-durable", {}),
        ("exclusive-owner", {"durable": True, "exclusive": True}),
        ("auto-delete", {"durable": True, "auto_delete": True}),
    ],
)
def test_a_stream_is_durable_and_shared(
    channel: Channel, unique: Unique, misfit: str, properties: dict[str, bool]
) -> None:
    name = unique("stream")
    channel.send("queue.declare", queue=name, arguments=STREAM, **properties)
    text = f"PRECONDITION_FAILED - invalid property '{misfit}' for queue '{name}' in vhost '/'"
    expect_fault(channel, 406, text, "queue.declare")


@pytest.mark.parametrize(
    ("argument", "value", "reason"),
    [
        ("x-max-age", "5", ": invalid_max_age"),
        ("x-max-age", "0s", ": invalid_max_age"),
        ("x-max-age", "1h30m", ": invalid_max_age"),
        ("x-max-age", 5, ": {unacceptable_type,signedint}"),
        ("x-max-length-bytes", -1, ": {value_negative,-1}"),
        ("x-max-length-bytes", "s", ': "expected integer, got longstr"'),
        ("x-stream-max-segment-size-bytes", -1, ": {value_negative,-1}"),
        ("x-stream-max-segment-size-bytes", "s", ': "expected integer, got longstr"'),
        ("x-initial-cluster-size", 0, ": {value_zero,0}"),
        ("x-initial-cluster-size", "s", ': "expected integer, got longstr"'),
        ("x-queue-leader-locator", "x", ": invalid_queue_locator_arg"),
        ("x-max-length", 5, " of queue type rabbit_stream_queue"),
        ("x-message-ttl", 5, " of queue type rabbit_stream_queue"),
        ("x-expires", 1000, " of queue type rabbit_stream_queue"),
        ("x-dead-letter-exchange", "a", " of queue type rabbit_stream_queue"),
        ("x-max-priority", 5, " of queue type rabbit_stream_queue"),
        ("x-overflow", "reject-publish", " of queue type rabbit_stream_queue"),
        ("x-single-active-consumer", True, " of queue type rabbit_stream_queue"),
        ("x-queue-mode", "lazy", " of queue type rabbit_stream_queue"),
        ("x-delivery-limit", 3, " of queue type rabbit_stream_queue"),
        ("x-queue-master-locator", "min-masters", " of queue type rabbit_stream_queue"),
        ("x-max-in-memory-length", 1, " of queue type rabbit_stream_queue"),
    ],
)
def test_arguments_that_a_stream_cannot_have(
    channel: Channel, unique: Unique, argument: str, value: object, reason: str
) -> None:
    name = unique("stream")
    channel.send("queue.declare", queue=name, durable=True, arguments={**STREAM, argument: value})
    text = f"PRECONDITION_FAILED - invalid arg '{argument}' for queue '{name}' in vhost '/'{reason}"
    expect_fault(channel, 406, text, "queue.declare")


def test_segments_may_not_be_larger_than_three_gigabytes(channel: Channel, unique: Unique) -> None:
    arguments = {**STREAM, "x-stream-max-segment-size-bytes": 4_000_000_000}
    channel.send("queue.declare", queue=unique("stream"), durable=True, arguments=arguments)
    text = "PRECONDITION_FAILED - Exceeded max value for x-stream-max-segment-size-bytes"
    expect_fault(channel, 406, text, "queue.declare")


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("x-max-age", "1h"),
        ("x-max-age", "1Y"),
        ("x-max-age", "10M"),
        ("x-max-length-bytes", 0),
        ("x-stream-max-segment-size-bytes", 0),
        ("x-initial-cluster-size", 1),
        ("x-queue-leader-locator", "client-local"),
        ("x-queue-leader-locator", "least-leaders"),
        ("x-foo", 1),
    ],
)
def test_arguments_that_a_stream_can_have(channel: Channel, unique: Unique, argument: str, value: object) -> None:
    name = unique("stream")
    answer = channel.call("queue.declare", queue=name, durable=True, arguments={**STREAM, argument: value})
    assert (answer.queue, answer.message_count, answer.consumer_count) == (name, 0, 0)


def test_a_stream_is_declared_again_with_what_it_was_declared_with(connection: Connection, unique: Unique) -> None:
    channel = connection.channel()
    name = declare(channel, unique("stream"))
    declare(channel, name)
    channel.send("queue.declare", queue=name, durable=True, arguments={**STREAM, "x-max-age": "1h"})
    text = f"inequivalent arg 'x-max-age' for queue '{name}' in vhost '/': received the value '1h' of type 'longstr'"
    expect_fault(channel, 406, f"PRECONDITION_FAILED - {text} but current is none", "queue.declare")
    other = connection.channel()
    other.send("queue.declare", queue=name, durable=True)
    text = f"inequivalent arg 'x-queue-type' for queue '{name}' in vhost '/': received none but current is the value"
    expect_fault(other, 406, f"PRECONDITION_FAILED - {text} 'stream' of type 'longstr'", "queue.declare")


# -- what a stream does not do


@pytest.mark.parametrize(
    ("method", "fields", "what"),
    [
        ("basic.get", {}, "basic.get"),
        ("basic.get", {"no_ack": True}, "basic.get"),
        ("queue.purge", {}, "queue.purge"),
        ("basic.consume", {"no_ack": True}, "automatic acknowledgement"),
    ],
)
def test_methods_that_remove_messages_of_a_stream_are_not_implemented(
    connect: Connect, unique: Unique, method: str, fields: dict[str, bool], what: str
) -> None:
    connection = connect()
    channel = connection.channel()
    channel.call("basic.qos", prefetch_count=10)
    name = declare(channel, unique("stream"))
    channel.send(method, queue=name, **fields)
    text = f"NOT_IMPLEMENTED - {what} not supported by stream queues queue '{name}' in vhost '/'"
    connection.expect_close(540, text, method)


@pytest.mark.parametrize("shared", [False, True])
def test_a_reader_needs_a_prefetch_of_its_own(channel: Channel, unique: Unique, shared: bool) -> None:
    name = declare(channel, unique("stream"))
    if shared:
        channel.call("basic.qos", **{"prefetch_count": 10, "global": True})
    channel.send("basic.consume", queue=name)
    text = f"PRECONDITION_FAILED - consumer prefetch count is not set for 'queue '{name}' in vhost '/''"
    expect_fault(channel, 406, text, "basic.consume")


@pytest.mark.parametrize("argument", ["x-priority", "x-cancel-on-ha-failover"])
def test_arguments_that_only_consumers_of_other_queues_have(channel: Channel, unique: Unique, argument: str) -> None:
    name = declare(channel, unique("stream"))
    channel.call("basic.qos", prefetch_count=10)
    channel.send("basic.consume", queue=name, arguments={argument: 1 if argument == "x-priority" else True})
    where = f"invalid arg '{argument}' for queue '{name}' in vhost '/'"
    expect_fault(channel, 406, f"PRECONDITION_FAILED - {where} of queue type rabbit_stream_queue", "basic.consume")


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("basic.nack", {"requeue": True}),
        ("basic.nack", {"requeue": False, "multiple": True}),
        ("basic.reject", {"requeue": True}),
        ("basic.reject", {"requeue": False}),
    ],
)
def test_nothing_is_given_back_to_a_stream(
    connect: Connect, unique: Unique, method: str, fields: dict[str, bool]
) -> None:
    connection = connect()
    name = declare(connection.channel(), unique("stream"))
    fill(connection.channel(), name, 1)
    channel = reader(connection, name, x_stream_offset="first")
    tag = channel.expect("basic.deliver").delivery_tag
    channel.send(method, delivery_tag=tag, **fields)
    text = f"basic.nack and basic.reject not supported by stream queues queue '{name}' in vhost '/'"
    connection.expect_close(540, f"NOT_IMPLEMENTED - {text}", method)


# -- reading


@pytest.mark.parametrize(
    ("offset", "first"),
    [
        ("first", 0),
        (0, 0),
        (3, 3),
        (9, 9),
        (-1, 0),
        ("1h", 0),
        ("1Y", 0),
        (Typed("x", b"first"), 0),
        (Typed("T", 1_577_836_800), 0),
    ],
)
def test_a_reader_begins_where_it_wants(connection: Connection, unique: Unique, offset: object, first: int) -> None:
    name = declare(connection.channel(), unique("stream"))
    fill(connection.channel(), name, 10)
    channel = reader(connection, name, x_stream_offset=offset)
    got = channel.deliveries(10 - first)
    assert offsets(got) == list(range(first, 10))
    assert [delivery.body for delivery in got] == [f"m{number}".encode() for number in range(first, 10)]
    assert [delivery.headers["number"] for delivery in got] == list(range(first, 10))
    assert not any(delivery.redelivered for delivery in got)


@pytest.mark.parametrize("offset", [None, "next", 10, FAR_AWAY])
def test_a_reader_at_the_end_gets_what_comes(connection: Connection, unique: Unique, offset: object) -> None:
    name = declare(connection.channel(), unique("stream"))
    fill(connection.channel(), name, 10)
    channel = reader(connection, name, **({} if offset is None else {"x_stream_offset": offset}))
    channel.expect_silence(name)
    if offset != FAR_AWAY:
        fill(connection.channel(), name, 2, first=10)
        assert offsets(channel.deliveries(2)) == [10, 11]


def test_a_reader_with_an_interval_of_nothing_is_refused(channel: Channel, unique: Unique) -> None:
    name = declare(channel, unique("stream"))
    channel.call("basic.qos", prefetch_count=10)
    channel.send("basic.consume", queue=name, arguments={"x-stream-offset": "0s"})
    reason = '{invalid_stream_offset_arg,{longstr,<<"0s">>}}'
    text = f"invalid arg 'x-stream-offset' for queue '{name}' in vhost '/': {reason}"
    expect_fault(channel, 406, f"PRECONDITION_FAILED - {text}", "basic.consume")


def test_an_offset_means_nothing_to_other_queues(channel: Channel, unique: Unique) -> None:
    name = unique("queue")
    channel.call("queue.declare", queue=name)
    channel.send("basic.consume", queue=name, arguments={"x-stream-offset": "first"})
    text = f"invalid arg 'x-stream-offset' for queue '{name}' in vhost '/' of queue type rabbit_classic_queue"
    expect_fault(channel, 406, f"PRECONDITION_FAILED - {text}", "basic.consume")


def test_many_read_the_same_and_nothing_goes(connection: Connection, unique: Unique) -> None:
    name = declare(connection.channel(), unique("stream"))
    fill(connection.channel(), name, 10)
    for _ in range(3):
        channel = reader(connection, name, x_stream_offset="first")
        got = channel.deliveries(10)
        assert offsets(got) == list(range(10))
        channel.ack(got[-1].delivery_tag, multiple=True)
    assert connection.channel().counts(name)[0] == 10


def test_a_reader_that_wants_to_be_alone_is_not(connection: Connection, unique: Unique) -> None:
    name = declare(connection.channel(), unique("stream"))
    fill(connection.channel(), name, 2)
    for _ in range(2):
        channel = connection.channel()
        channel.call("basic.qos", prefetch_count=10)
        channel.consume(name, exclusive=True, arguments={"x-stream-offset": "first"})
        assert offsets(channel.deliveries(2)) == [0, 1]


def test_unacked_messages_of_a_stream_are_not_requeued(connect: Connect, unique: Unique) -> None:
    first, second = connect(), connect()
    name = declare(second.channel(), unique("stream"))
    fill(second.channel(), name, 4)
    assert offsets(reader(first, name, x_stream_offset="first").deliveries(4)) == [0, 1, 2, 3]
    first.close()
    assert offsets(reader(second, name, x_stream_offset=2).deliveries(2)) == [2, 3]


def test_messages_routed_by_exchanges_come_into_a_stream(connection: Connection, unique: Unique) -> None:
    channel = connection.channel()
    exchange, name = unique("exchange"), declare(channel, unique("stream"))
    channel.call("exchange.declare", exchange=exchange, type="topic")
    channel.call("queue.bind", queue=name, exchange=exchange, routing_key="a.*")
    channel.confirm()
    channel.publish(exchange, "a.b", b"one")
    channel.publish(exchange, "b.a", b"two")
    channel.confirms([1, 2])
    [delivery] = reader(connection, name, x_stream_offset="first").deliveries(1)
    assert (delivery.exchange, delivery.routing_key, delivery.body) == (exchange, "a.b", b"one")


def test_committed_messages_come_into_a_stream(connection: Connection, unique: Unique) -> None:
    channel = connection.channel()
    name = declare(channel, unique("stream"))
    channel.call("tx.select")
    channel.publish("", name, b"rolled back")
    channel.call("tx.rollback")
    channel.publish("", name, b"committed")
    channel.call("tx.commit")
    [delivery] = reader(connection, name, x_stream_offset="first").deliveries(1)
    assert (delivery.body, delivery.headers["x-stream-offset"]) == (b"committed", 0)


def test_deleting_a_stream_cancels_its_readers(connection: Connection, unique: Unique) -> None:
    name = declare(connection.channel(), unique("stream"))
    fill(connection.channel(), name, 3)
    channel = reader(connection, name, x_stream_offset="next")
    connection.channel().call("queue.delete", queue=name)
    channel.expect("basic.cancel")
    declare(connection.channel(), name)
    assert connection.channel().counts(name) == (0, 0)
