"""Partitioned streams: declaring one, publishing to its name, and going through all of it."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.amqp_client import Channel, Connection
from tests.support.operator import Operator
from tests.wire.conftest import Connect, Unique
from tests.wire.partitioned import (
    KEYS,
    bound,
    by_key,
    consume,
    declare,
    key_of,
    ordered,
    partition_of,
    publish,
    refused,
)

# -- declaring and deleting


def test_a_partitioned_stream_has_its_partitions_and_can_be_declared_again(channel: Channel, unique: Unique) -> None:
    name = unique("parts")
    declare(channel, name)
    declare(channel, name)
    for index in range(3):
        assert channel.counts(f"{name}-{index}") == (0, 0)
    channel.call("queue.declare", queue=f"{name}-0", durable=True, arguments={"x-queue-type": "stream"})


@pytest.mark.parametrize("count", [0, -1, 1001, "3", True])
def test_a_count_of_partitions_that_makes_no_sense_is_refused(connect: Connect, unique: Unique, count: Any) -> None:
    channel = connect().channel()
    name = unique("parts")
    channel.send(
        "queue.declare",
        queue=name,
        durable=True,
        arguments={"x-queue-type": "stream", "x-stream-partitions": count},
    )
    refused(channel, 406, f"PRECONDITION_FAILED - invalid arg 'x-stream-partitions' for queue '{name}' in vhost '/': ")


def test_another_count_of_partitions_is_another_stream(channel: Channel, unique: Unique) -> None:
    name = unique("parts")
    declare(channel, name)
    channel.send(
        "queue.declare", queue=name, durable=True, arguments={"x-queue-type": "stream", "x-stream-partitions": 4}
    )
    refused(channel, 406, f"PRECONDITION_FAILED - inequivalent arg 'x-stream-partitions' for queue '{name}'")


def test_a_name_that_is_taken_refuses_all_of_it(connect: Connect, unique: Unique) -> None:
    channel = connect().channel()
    name = unique("parts")
    channel.call("queue.declare", queue=f"{name}-2")
    channel.send(
        "queue.declare", queue=name, durable=True, arguments={"x-queue-type": "stream", "x-stream-partitions": 3}
    )
    refused(channel, 406, f"PRECONDITION_FAILED - cannot make the partitions of queue '{name}' in vhost '/'")
    other = channel.connection.channel()
    for gone in (name, f"{name}-0"):
        other.send("queue.declare", queue=gone, passive=True)
        refused(other, 404, f"NOT_FOUND - no queue '{gone}'")
        other = channel.connection.channel()
    other.call("queue.delete", queue=f"{name}-2")


def test_a_partition_is_not_deleted_alone(channel: Channel, unique: Unique) -> None:
    name = unique("parts")
    declare(channel, name)
    channel.send("queue.delete", queue=f"{name}-1")
    refused(channel, 406, f"PRECONDITION_FAILED - queue '{name}-1' in vhost '/' is a partition of '{name}'")


def test_all_of_it_is_deleted_together(connection: Connection, unique: Unique) -> None:
    channel = connection.channel()
    channel.confirm()
    name, exchange = bound(channel, unique)
    sent = publish(channel, exchange)
    assert channel.call("queue.delete", queue=name).message_count == len(sent)
    for gone in (name, f"{name}-0", f"{name}-2"):
        channel.send("queue.declare", queue=gone, passive=True)
        refused(channel, 404, f"NOT_FOUND - no queue '{gone}'")
        channel = connection.channel()


def test_the_conditions_of_a_deletion_are_about_all_partitions(connect: Connect, unique: Unique) -> None:
    channel = connect().channel()
    channel.confirm()
    name, exchange = bound(channel, unique)
    publish(channel, exchange, 1)
    channel.send("queue.delete", queue=name, if_empty=True)
    refused(channel, 406, f"PRECONDITION_FAILED - queue '{name}' in vhost '/' not empty")
    channel = connect().channel()
    consume(channel, f"{name}-1")
    channel.send("queue.delete", queue=name, if_unused=True)
    refused(channel, 406, f"PRECONDITION_FAILED - queue '{name}' in vhost '/' in use")
    channel = connect().channel()
    assert channel.call("queue.delete", queue=name, if_unused=True).message_count == len(KEYS)


def test_the_mark_of_a_partition_is_not_for_clients(channel: Channel, unique: Unique) -> None:
    name = unique("parts")
    channel.send(
        "queue.declare", queue=name, durable=True, arguments={"x-queue-type": "stream", "x-stream-partition-of": "a"}
    )
    refused(channel, 406, "PRECONDITION_FAILED - invalid arg 'x-stream-partition-of'")


# -- publishing


def test_messages_are_where_their_keys_belong(channel: Channel, unique: Unique) -> None:
    channel.confirm()
    name, exchange = bound(channel, unique)
    sent = publish(channel, exchange)
    expected = [sum(1 for key, _ in sent if partition_of(key) == index) for index in range(3)]
    assert [channel.counts(f"{name}-{index}")[0] for index in range(3)] == expected
    assert channel.counts(name)[0] == len(sent)


def test_a_mandatory_message_to_its_name_is_not_returned(channel: Channel, unique: Unique) -> None:
    channel.confirm()
    name, exchange = bound(channel, unique)
    channel.publish(exchange, "k", b"m", mandatory=True)
    channel.publish("", name, b"m", mandatory=True)
    channel.confirms([1, 2])
    assert channel.counts(name)[0] == 2


def test_a_transaction_reaches_several_partitions(channel: Channel, unique: Unique) -> None:
    name, exchange = bound(channel, unique)
    channel.call("tx.select")
    for key in KEYS:
        channel.publish(exchange, key, b"m")
    channel.call("tx.commit")
    channel.await_counts(name, len(KEYS))


# -- consuming


def test_a_consumer_of_the_name_gets_everything_with_its_partition_and_offset(channel: Channel, unique: Unique) -> None:
    channel.confirm()
    name, exchange = bound(channel, unique)
    sent = publish(channel, exchange)
    consume(channel, name, x_stream_offset="first")
    deliveries = channel.deliveries(len(sent))
    assert ordered(deliveries) == by_key(sent)
    places = [(one.headers["x-stream-partition"], one.headers["x-stream-offset"]) for one in deliveries]
    assert [partition for partition, _ in places] == [partition_of(key_of(one)) for one in deliveries]
    assert len(set(places)) == len(sent)


def test_prefetch_is_for_each_partition(channel: Channel, unique: Unique) -> None:
    channel.confirm()
    name, exchange = bound(channel, unique)
    publish(channel, exchange)
    consume(channel, name, 2, x_stream_offset="first")
    deliveries = channel.deliveries(6)
    assert sorted(one.headers["x-stream-partition"] for one in deliveries) == [0, 0, 1, 1, 2, 2]
    first = next(one for one in deliveries if one.headers["x-stream-partition"] == 1)
    channel.ack(first.delivery_tag)
    (more,) = channel.deliveries(1)
    assert more.headers["x-stream-partition"] == 1


def test_a_consumer_of_the_name_can_be_cancelled(channel: Channel, unique: Unique) -> None:
    channel.confirm()
    name, exchange = bound(channel, unique)
    tag = consume(channel, name, x_stream_offset="first")
    assert channel.counts(name) == (0, 1)
    channel.call("basic.cancel", consumer_tag=tag)
    assert channel.counts(name) == (0, 0)
    channel.publish(exchange, "k", b"m")
    channel.confirms([1])
    assert channel.counts(name) == (1, 0)


def test_consumers_of_the_name_are_cancelled_when_it_is_deleted(connect: Connect, unique: Unique) -> None:
    channel = connect(capabilities={"consumer_cancel_notify": True}).channel()
    name, _ = bound(channel, unique)
    tag = consume(channel, name)
    connect().channel().call("queue.delete", queue=name)
    assert channel.expect("basic.cancel").consumer_tag == tag
    assert channel.call("queue.declare").queue


def test_a_wrong_argument_is_refused_by_the_partitions(channel: Channel, unique: Unique) -> None:
    name, _ = bound(channel, unique)
    channel.call("basic.qos", prefetch_count=10)
    channel.send("basic.consume", queue=name, arguments={"x-stream-offset": "0s"})
    refused(channel, 406, "PRECONDITION_FAILED - invalid arg 'x-stream-offset'")


@pytest.mark.parametrize(
    ("method", "fields", "text"),
    [
        ("basic.get", {}, "basic.get not supported by stream queues"),
        ("queue.purge", {}, "queue.purge not supported by stream queues"),
        ("basic.consume", {"no_ack": True}, "automatic acknowledgement not supported by stream queues"),
    ],
)
def test_methods_that_no_stream_has_are_refused_for_its_name(
    connect: Connect, unique: Unique, method: str, fields: dict[str, Any], text: str
) -> None:
    connection = connect()
    channel = connection.channel()
    name, _ = bound(channel, unique)
    channel.call("basic.qos", prefetch_count=10)
    channel.send(method, queue=name, **fields)
    close = connection.expect(0, "connection.close")
    assert (close.reply_code, close.reply_text) == (540, f"NOT_IMPLEMENTED - {text} queue '{name}' in vhost '/'")
    connection.send(0, "connection.close-ok")
    connection.cut()


def test_a_probe_of_the_name_returns_the_number_of_partitions(channel: Channel, unique: Unique) -> None:
    name, _ = bound(channel, unique)
    consume(channel, name, x_stream_probe=True)
    (answer,) = channel.deliveries(1)
    assert (answer.body, answer.headers) == (b"", {"x-stream-partitions": 3})
    channel.ack(answer.delivery_tag)


# -- permissions


@pytest.fixture
def reader(operator: Operator) -> Iterator[str]:
    """A user who may do anything with what tests name, and so nothing with a partition alone."""
    name = f"wire-reader-{uuid.uuid4().hex[:10]}"
    operator.user(name)
    allowed = "^wire-(parts|x)-[0-9a-f]{10}$"
    operator.permit(name, allowed, allowed, allowed)
    yield name
    operator.delete_user(name)


def test_permissions_for_the_name_cover_its_partitions(connect: Connect, unique: Unique, reader: str) -> None:
    connection = connect(user=reader, password=reader)
    channel = connection.channel()
    channel.confirm()
    name, exchange = bound(channel, unique)
    sent = publish(channel, exchange, 1)
    consume(channel, name, x_stream_offset="first")
    assert len(channel.deliveries(len(sent))) == len(sent)
    other = connection.channel()
    other.call("basic.qos", prefetch_count=1)
    other.send("basic.consume", queue=f"{name}-0")
    refused(other, 403, f"ACCESS_REFUSED - access to queue '{name}-0'")
