"""Groups: consumers that share the partitions of a stream, take over from one another, and go on where they were."""

from typing import Any

from tests.support.amqp_client import Channel, Connection
from tests.wire.conftest import Connect, Unique
from tests.wire.partitioned import KEYS, bound, by_key, consume, ordered, partition_of, publish


def member(connect: Connect, name: str, called: str, **arguments: Any) -> tuple[Connection, Channel]:
    connection = connect()
    channel = connection.channel()
    consume(channel, name, x_stream_group="g", x_stream_member=called, **arguments)
    return connection, channel


def test_a_group_shares_the_partitions_and_keeps_the_order_of_each_key(connect: Connect, unique: Unique) -> None:
    channel = connect().channel()
    channel.confirm()
    name, exchange = bound(channel, unique)
    members = [member(connect, name, called)[1] for called in "abc"]
    sent = publish(channel, exchange)
    for index, one in enumerate(members):
        expected = [(key, body) for key, body in sent if partition_of(key) == index]
        deliveries = one.deliveries(len(expected))
        assert {delivery.headers["x-stream-partition"] for delivery in deliveries} == {index}
        assert ordered(deliveries) == {
            key: bodies for key, bodies in by_key(sent).items() if partition_of(key) == index
        }


def test_members_that_are_left_take_over_what_was_not_acked(connect: Connect, unique: Unique) -> None:
    channel = connect().channel()
    channel.confirm()
    name, exchange = bound(channel, unique)
    staying = member(connect, name, "a")[1]
    going, there = member(connect, name, "b")
    sent = publish(channel, exchange)
    its = [body for key, body in sent if partition_of(key) == 1]
    rest = [body for key, body in sent if partition_of(key) != 1]
    taken = there.deliveries(len(its))
    there.ack(taken[1].delivery_tag, multiple=True)
    there.call("basic.qos", prefetch_count=1)
    kept = staying.deliveries(len(rest))
    staying.ack(kept[-1].delivery_tag, multiple=True)
    going.cut()
    assert [one.body for one in staying.deliveries(len(its) - 2)] == its[2:]


def test_a_member_that_joins_waits_for_what_others_hold(connect: Connect, unique: Unique) -> None:
    channel = connect().channel()
    channel.confirm()
    name, exchange = bound(channel, unique, 2)
    first = member(connect, name, "b")[1]
    sent = publish(channel, exchange, 1)
    held = first.deliveries(len(sent))
    second = member(connect, name, "a")[1]
    later = publish_more(channel, exchange, len(sent))
    # what is published later in partition 0 is for the one who joined, and comes when nothing earlier is held
    first.ack(held[-1].delivery_tag, multiple=True)
    got = second.deliveries(sum(1 for key, _ in later if partition_of(key, 2) == 0))
    assert {one.headers["x-stream-partition"] for one in got} == {0}
    others = first.deliveries(sum(1 for key, _ in later if partition_of(key, 2) == 1))
    assert {one.headers["x-stream-partition"] for one in others} == {1}


def publish_more(channel: Channel, exchange: str, before: int) -> list[tuple[str, bytes]]:
    sent = [(key, f"{key} later".encode()) for key in KEYS]
    for key, body in sent:
        channel.publish(exchange, key, body)
    channel.confirms(range(before + 1, before + len(sent) + 1))
    return sent


def test_a_group_goes_on_where_it_was(connect: Connect, unique: Unique) -> None:
    channel = connect().channel()
    channel.confirm()
    name, exchange = bound(channel, unique)
    sent = publish(channel, exchange)
    connection, first = member(connect, name, "a")
    taken = first.deliveries(len(sent))
    first.ack(taken[9].delivery_tag, multiple=True)
    assert first.counts(name) == (len(sent), 1)
    connection.close()
    acked = {(one.headers["x-stream-partition"], one.headers["x-stream-offset"]) for one in taken[:10]}
    second = member(connect, name, "b")[1]
    again = second.deliveries(len(sent) - 10)
    places = {(one.headers["x-stream-partition"], one.headers["x-stream-offset"]) for one in again}
    assert not places & acked


def test_members_without_names_share_all_the_same(connect: Connect, unique: Unique) -> None:
    channel = connect().channel()
    channel.confirm()
    name, exchange = bound(channel, unique, 2)
    members: list[Channel] = []
    for _ in range(2):
        members.append(connect().channel())
        consume(members[-1], name, x_stream_group="g")
    sent = publish(channel, exchange)
    counts = [sum(1 for key, _ in sent if partition_of(key, 2) == index) for index in range(2)]
    seen = [member.next().headers["x-stream-partition"] for member in members]
    assert sorted(seen) == [0, 1]
    for one, partition in zip(members, seen, strict=True):
        one.deliveries(counts[partition] - 1)


def test_a_stream_without_partitions_has_groups_with_one_active_member(connect: Connect, unique: Unique) -> None:
    channel = connect().channel()
    channel.confirm()
    name = unique("stream")
    channel.call("queue.declare", queue=name, durable=True, arguments={"x-queue-type": "stream"})
    for number in range(3):
        channel.publish("", name, str(number).encode())
    channel.confirms([1, 2, 3])
    active, there = member(connect, name, "a")
    waiting = member(connect, name, "b")[1]
    deliveries = there.deliveries(3)
    there.ack(deliveries[0].delivery_tag)
    assert there.counts(name) == (3, 2)
    active.cut()
    assert [one.body for one in waiting.deliveries(2)] == [b"1", b"2"]
