"""Streams where Warren and RabbitMQ differ, or RabbitMQ is not certain.

RabbitMQ begins a reader that wants the last message with all messages stored together with it, gives credit by other
steps than acks, and counts readers late; it deletes a stream that is not empty, or is read, against its condition; and
it ends the connection with an internal error for some arguments.
"""

import pytest

from tests.support.amqp_client import Channel, Connection
from tests.support.amqp_values import Typed
from tests.wire.conftest import Unique
from tests.wire.faults import expect_fault
from tests.wire.test_streams import STREAM, declare, fill, offsets, reader


def test_the_last_message_is_one(connection: Connection, unique: Unique) -> None:
    name = declare(connection.channel(), unique("stream"))
    fill(connection.channel(), name, 10)
    channel = reader(connection, name, x_stream_offset="last")
    assert offsets(channel.deliveries(1)) == [9]


def test_acks_give_credit_and_nothing_else(connection: Connection, unique: Unique) -> None:
    name = declare(connection.channel(), unique("stream"))
    fill(connection.channel(), name, 10)
    channel = reader(connection, name, prefetch=3, x_stream_offset="first")
    got = channel.deliveries(3)
    channel.expect_silence(name)
    channel.ack(got[1].delivery_tag, multiple=True)
    assert offsets(channel.deliveries(2)) == [3, 4]
    channel.expect_silence(name)


def test_a_reader_that_goes_leaves_the_stream(connection: Connection, unique: Unique) -> None:
    name = declare(connection.channel(), unique("stream"))
    channel = connection.channel()
    channel.call("basic.qos", prefetch_count=10)
    tag = channel.consume(name)
    assert connection.channel().counts(name) == (0, 1)
    channel.call("basic.cancel", consumer_tag=tag)
    assert connection.channel().counts(name) == (0, 0)


@pytest.mark.parametrize("age", ["x", "", "-1h", "h", "1234567890s"])
def test_an_age_that_is_none_is_refused(channel: Channel, unique: Unique, age: str) -> None:
    name = unique("stream")
    channel.send("queue.declare", queue=name, durable=True, arguments={**STREAM, "x-max-age": age})
    text = f"invalid arg 'x-max-age' for queue '{name}' in vhost '/': invalid_max_age"
    expect_fault(channel, 406, f"PRECONDITION_FAILED - {text}", "queue.declare")


@pytest.mark.parametrize(
    ("offset", "term"),
    [("x", '{longstr,<<"x">>}'), (True, "{bool,true}"), (Typed("d", 1.5), "{double,1.5}"), ({}, "{table,[]}")],
)
def test_an_offset_that_is_none_is_refused(channel: Channel, unique: Unique, offset: object, term: str) -> None:
    name = declare(channel, unique("stream"))
    channel.call("basic.qos", prefetch_count=10)
    channel.send("basic.consume", queue=name, arguments={"x-stream-offset": offset})
    text = f"invalid arg 'x-stream-offset' for queue '{name}' in vhost '/': {{invalid_stream_offset_arg,{term}}}"
    expect_fault(channel, 406, f"PRECONDITION_FAILED - {text}", "basic.consume")


def test_a_stream_that_is_not_empty_stays_if_it_is_to_go_only_empty(channel: Channel, unique: Unique) -> None:
    name = declare(channel, unique("stream"))
    fill(channel.connection.channel(), name, 1)
    channel.send("queue.delete", queue=name, if_empty=True)
    expect_fault(channel, 406, f"PRECONDITION_FAILED - queue '{name}' in vhost '/' not empty", "queue.delete")


def test_a_stream_that_is_read_stays_if_it_is_to_go_only_unused(connection: Connection, unique: Unique) -> None:
    name = declare(connection.channel(), unique("stream"))
    reader(connection, name)
    channel = connection.channel()
    channel.send("queue.delete", queue=name, if_unused=True)
    expect_fault(channel, 406, f"PRECONDITION_FAILED - queue '{name}' in vhost '/' in use", "queue.delete")


def test_a_body_of_many_frames_comes_back_from_the_files_as_it_was(connection: Connection, unique: Unique) -> None:
    name = declare(connection.channel(), unique("stream"))
    writer, body = connection.channel(), bytes(range(256)) * 2048
    writer.confirm()
    for _ in range(4):
        writer.publish("", name, body, {"headers": {"a": "b"}, "content_type": "x/y", "priority": 3})
    writer.confirms(range(1, 5))
    for delivery in reader(connection, name, x_stream_offset="first").deliveries(4):
        assert delivery.body == body
        assert delivery.headers["a"] == "b"
