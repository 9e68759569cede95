"""Readers of streams as only Warren has them: chunks, probes, names, filters."""

from typing import Any

import pytest

from tests.support.amqp_client import Channel, Connection
from tests.wire.conftest import Connect, Unique
from tests.wire.faults import expect_fault
from tests.wire.test_streams import declare, fill, offsets, reader
from warren.broker.streams.chunk import Chunk

LARGE = 3_000


def fill_with(channel: Channel, stream: str, bodies: list[bytes], **headers: Any) -> None:
    channel.confirm()
    for body in bodies:
        channel.publish("", stream, body, {"headers": headers})
    channel.confirms(range(1, len(bodies) + 1))


def large_bodies() -> list[bytes]:
    return [str(number).encode().ljust(1_000, b".") for number in range(LARGE)]


def bodies_in(channel: Channel, count: int) -> list[bytes]:
    """Of as many chunks as it takes; each is acked."""
    found: list[bytes] = []
    while len(found) < count:
        (delivery,) = channel.deliveries(1)
        chunk = Chunk(delivery.body)
        assert delivery.headers["x-stream-offset"] == chunk.head.first_offset()
        assert delivery.headers["x-stream-count"] == chunk.head.count
        found += [chunk.body(index) for index in range(int(chunk.head.count))]
        channel.ack(delivery.delivery_tag)
    return found


@pytest.mark.parametrize("frame_max", [131_072, 4_096])
def test_chunks_are_whole_with_any_frame_size(connect: Connect, unique: Unique, frame_max: int) -> None:
    connection = connect(frame_max=frame_max)
    # another channel than the first, so that its number must be written into every frame
    name = declare(connection.channel(), unique("stream"))
    fill_with(connection.channel(), name, large_bodies())
    channel = reader(connection, name, prefetch=2, x_stream_offset="first", x_stream_chunks=True)
    assert bodies_in(channel, LARGE) == large_bodies()
    fill(connection.channel(), name, 3)
    assert bodies_in(channel, 3) == [b"m0", b"m1", b"m2"]


def test_chunks_without_bodies_are_cut_before_them(connection: Connection, unique: Unique) -> None:
    name = declare(connection.channel(), unique("stream"))
    fill_with(connection.channel(), name, large_bodies())
    whole = reader(connection, name, x_stream_offset="first", x_stream_chunks=True).deliveries(1)[0]
    bare = reader(connection, name, x_stream_offset="first", x_stream_chunks=True, x_stream_bodies=False)
    cut = bare.deliveries(1)[0]
    assert cut.headers == whole.headers
    assert whole.body.startswith(cut.body)
    assert len(cut.body) == Chunk(whole.body).head.bodies_at() < len(whole.body) // 10


def test_a_probe_is_answered_once(connection: Connection, unique: Unique) -> None:
    name = declare(connection.channel(), unique("stream"))
    fill(connection.channel(), name, 10)
    channel = reader(connection, name, x_stream_probe=True, x_stream_offset="last")
    (told,) = channel.deliveries(1)
    assert told.body == b""
    assert told.headers == {"x-stream-first": 0, "x-stream-end": 10, "x-stream-offset": 9}
    channel.ack(told.delivery_tag)
    channel.expect_silence(name)


def test_a_name_goes_on_where_it_was_acked(connection: Connection, unique: Unique) -> None:
    name = declare(connection.channel(), unique("stream"))
    fill(connection.channel(), name, 10)
    wishes = {"x_stream_consumer_name": "n", "x_stream_offset": "stored"}
    channel = reader(connection, name, **wishes)
    got = channel.deliveries(10)
    channel.ack(got[3].delivery_tag, multiple=True)
    channel.ack(got[6].delivery_tag)
    channel.call("channel.close", reply_code=200, reply_text="", class_id=0, method_id=0)
    assert offsets(reader(connection, name, **wishes).deliveries(6)) == [4, 5, 6, 7, 8, 9]
    probe = reader(connection, name, x_stream_probe=True, **wishes)
    assert probe.deliveries(1)[0].headers["x-stream-offset"] == 4


def test_a_name_is_needed_to_go_on_where_it_was(channel: Channel, unique: Unique) -> None:
    name = declare(channel, unique("stream"))
    channel.call("basic.qos", prefetch_count=10)
    channel.send("basic.consume", queue=name, arguments={"x-stream-offset": "stored"})
    text = f"invalid arg 'x-stream-offset' for queue '{name}' in vhost '/': there is no x-stream-consumer-name"
    expect_fault(channel, 406, f"PRECONDITION_FAILED - {text}", "basic.consume")


def test_a_filter_lets_through_what_bears_its_value(connection: Connection, unique: Unique) -> None:
    name = declare(connection.channel(), unique("stream"))
    for value in ("red", "blue", "red"):
        fill_with(connection.channel(), name, [value.encode()], **{"x-stream-filter-value": value})
    fill_with(connection.channel(), name, [b"none"])
    assert reader(connection, name, x_stream_offset="first", x_stream_filter="red").bodies(2) == [b"red", b"red"]
    others = reader(connection, name, x_stream_offset="first", x_stream_filter=["blue"], x_stream_match_unfiltered=True)
    assert others.bodies(2) == [b"blue", b"none"]
