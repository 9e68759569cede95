"""Bytes that are not frames, frames in the wrong order, methods and tables that cannot be read."""

import struct
from typing import Any

import pytest

from tests.support.amqp_client import Channel, Connection
from tests.support.amqp_frames import BODY, HEADER, HEARTBEAT, METHOD, PROTOCOL_HEADER, content_frames, frame
from tests.support.amqp_methods import write_method
from tests.wire.conftest import Connect, Unique
from tests.wire.faults import expect_fault


def method(name: str, **fields: Any) -> bytes:
    return frame(METHOD, 1, write_method(name, fields))


def header(size: int, class_id: int = 60, weight: int = 0, flags: int = 0) -> bytes:
    return frame(HEADER, 1, struct.pack(">HHQH", class_id, weight, size, flags))


PUBLISH = method("basic.publish", routing_key="nobody")
QOS = method("basic.qos")
WANTED_METHOD = "UNEXPECTED_FRAME - expected method frame, got non method frame instead"
WANTED_HEADER = "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"
WANTED_BODY = "UNEXPECTED_FRAME - expected content body, got non content body frame instead"
OTHER_CLASS = "UNEXPECTED_FRAME - expected content header for class 60, got one for class {} instead"

OUT_OF_ORDER = {
    "header first": (header(0), WANTED_METHOD, ""),
    "body first": (frame(BODY, 1, b"x"), WANTED_METHOD, ""),
    "body instead of header": (PUBLISH + frame(BODY, 1, b"x"), WANTED_HEADER, "basic.publish"),
    "method instead of header": (PUBLISH + QOS, WANTED_HEADER, "basic.publish"),
    "publish instead of header": (PUBLISH + PUBLISH, WANTED_HEADER, "basic.publish"),
    "method instead of body": (PUBLISH + header(5) + QOS, WANTED_BODY, "basic.publish"),
    "close instead of body": (PUBLISH + header(5) + method("channel.close"), WANTED_BODY, "basic.publish"),
    "second header": (PUBLISH + header(5) + header(5), WANTED_BODY, "basic.publish"),
    "header of a known class": (PUBLISH + header(0, class_id=50), OTHER_CLASS.format(50), "basic.publish"),
    "header of an unknown class": (PUBLISH + header(0, class_id=99), OTHER_CLASS.format(99), "basic.publish"),
    "header with a weight": (PUBLISH + header(0, weight=1), WANTED_HEADER, "basic.publish"),
    "body after an empty content": (PUBLISH + header(0) + frame(BODY, 1, b"x"), WANTED_METHOD, ""),
    "header on an unopened channel": (frame(HEADER, 5, bytes(14)), WANTED_METHOD, ""),
    "body on an unopened channel": (frame(BODY, 5, b"x"), WANTED_METHOD, ""),
    "heartbeat on a channel": (frame(HEARTBEAT, 1, b""), "UNEXPECTED_FRAME - type 8, all octets = <<>>", ""),
    "body on channel zero": (frame(BODY, 0, b"xx"), 'UNEXPECTED_FRAME - type 3, all octets = <<"xx">>', ""),
    "header on channel zero": (
        frame(HEADER, 0, b"\0\x3c" + bytes(12)),
        "UNEXPECTED_FRAME - type 2, all octets = <<0,60,0,0,0,0,0,0,0,0,0,0,0,0>>",
        "",
    ),
}
NOT_FRAMES = {
    "unknown kind": (frame(4, 1, b"abc"), 'type 4, all octets = <<"abc">>: unknown_frame'),
    "kind zero": (frame(0, 0, b"abc"), 'type 0, all octets = <<"abc">>: unknown_frame'),
    "heartbeat with a payload": (frame(HEARTBEAT, 0, b"xx"), 'type 8, all octets = <<"xx">>: unknown_frame'),
    "header cut short": (PUBLISH + frame(HEADER, 1, b"\0\x3c\0"), "type 2, all octets = <<0,60,0>>: unknown_frame"),
    "method cut short": (frame(METHOD, 1, b"\0"), "type 1, all octets = <<0>>: unknown_frame"),
    "wrong end": (
        QOS[:-1] + b"\0",
        "type 1, all octets = <<0,60,0,10,0,0,0,0,0,0,0>>: {invalid_frame_end_marker,0}",
    ),
    "immense": (struct.pack(">BHI", 1, 1, 2**31), "type 1, all octets = <<>>: {frame_too_large,2147483648,131064}"),
    "protocol header": (PROTOCOL_HEADER, "type 65, all octets = <<>>: {frame_too_large,1342177289,131064}"),
}
UNREADABLE_METHODS = {
    "cut short": (method("queue.declare", queue="abc")[7:-7], "<<0,0,3,97,98>>", "queue.declare"),
    "octets to spare": (QOS[7:-1] + b"zz", "<<0,0,0,0,0,0,0,122,122>>", "basic.qos"),
}
UNREADABLE_TABLES = {
    "unknown type": b"\x01az",
    "string past the end": b"\x01aS\0\0\0\x10ab",
    "key past the end": b"\x20a",
    "key without a value": b"\x01a",
    "array past the end": b"\x01aA\0\0\0\x10I",
    "integer past the end": b"\x01aI\0",
    "inner table past the end": b"\x01aF\0\0\0\x10",
}


@pytest.mark.parametrize("case", OUT_OF_ORDER)
def test_a_frame_out_of_order_closes_the_connection(connection: Connection, case: str) -> None:
    octets, text, cause = OUT_OF_ORDER[case]
    connection.channel()
    connection.send_bytes(octets)
    connection.expect_close(505, text, cause)


@pytest.mark.parametrize("case", NOT_FRAMES)
def test_octets_that_are_no_frame_close_the_connection(connection: Connection, case: str) -> None:
    octets, text = NOT_FRAMES[case]
    connection.channel()
    connection.send_bytes(octets)
    connection.expect_close(501, f"FRAME_ERROR - {text}")


@pytest.mark.parametrize("case", UNREADABLE_METHODS)
def test_a_method_that_cannot_be_decoded_closes_the_connection(connection: Connection, case: str) -> None:
    payload, shown, cause = UNREADABLE_METHODS[case]
    connection.channel()
    connection.send_bytes(frame(METHOD, 1, payload))
    connection.expect_close(501, f"FRAME_ERROR - cannot decode {shown}", cause)


@pytest.mark.parametrize("payload", [b"\0\x63\0\x01", b"\0\x3c\0\x63", b"\xff\xff\xff\xff"])
@pytest.mark.parametrize("channel", [0, 1])
def test_an_unknown_method_ends_the_connection(connection: Connection, payload: bytes, channel: int) -> None:
    connection.channel()
    connection.send_frame(METHOD, channel, payload)
    connection.expect_end(501, 502, 503, 540)


@pytest.mark.parametrize("case", UNREADABLE_TABLES)
def test_a_table_that_cannot_be_decoded_ends_the_connection(connection: Connection, case: str) -> None:
    channel = connection.channel()
    channel.send("queue.declare", exclusive=True, arguments=UNREADABLE_TABLES[case])
    connection.expect_end(501, 502)


@pytest.mark.parametrize(
    "octets",
    [
        frame(HEADER, 1, struct.pack(">HHQHH", 60, 0, 0, 1, 0)),
        header(0, flags=0x8000),
        header(0)[:-1].replace(b"\0\0\0\x0e", b"\0\0\0\x10") + b"zz\xce",
    ],
    ids=["continued flags", "missing property", "octets to spare"],
)
def test_a_content_header_that_cannot_be_decoded_ends_the_connection(connection: Connection, octets: bytes) -> None:
    connection.channel()
    connection.send_bytes(PUBLISH + octets)
    connection.expect_end(541, 501, 502)


@pytest.mark.parametrize("excess", [0, 8])
def test_a_frame_as_large_as_frame_max_is_accepted(connect: Connect, excess: int) -> None:
    channel = connect(frame_max=4096).channel()
    queue = channel.call("queue.declare", exclusive=True).queue
    size = 4096 - 8 + excess
    publish = method("basic.publish", routing_key=queue)
    channel.connection.send_bytes(publish + header(size) + frame(BODY, 1, b"x" * size))
    received = channel.get(queue)
    assert received is not None
    assert received.body == b"x" * size


@pytest.mark.parametrize("kind", [METHOD, HEADER, BODY])
def test_a_frame_larger_than_frame_max_closes_the_connection(connect: Connect, kind: int) -> None:
    connection = connect(frame_max=4096)
    connection.channel()
    connection.send_bytes(struct.pack(">BHI", kind, 1, 4097) + bytes(4098))
    connection.expect_close(501, f"FRAME_ERROR - type {kind}, all octets = <<>>: {{frame_too_large,4097,4088}}")


@pytest.mark.parametrize("letter", ["F", "A"])
@pytest.mark.parametrize("depth", [100, 10_000])
def test_a_deeply_nested_table_does_not_disturb_other_clients(connect: Connect, letter: str, depth: int) -> None:
    inside = b""
    for _ in range(depth):
        inside = (b"\x01a" if letter == "F" else b"") + letter.encode() + struct.pack(">I", len(inside)) + inside
    table = inside if letter == "F" else b"\x01a" + inside
    witness = connect().channel()
    connection = connect()
    connection.channel().send("queue.declare", exclusive=True, arguments=table)
    if depth == 100:
        connection.expect(1, "queue.declare-ok")
    else:
        received = connection.next_frame()
        assert received.channel in (0, 1)
        assert received.payload[:4] in (b"\0\x32\0\x0b", b"\0\x0a\0\x32"), "neither declare-ok nor connection.close"
    witness.call("basic.qos")


NAMES_IN_UTF8 = (
    ("queue.declare", {"queue": b"\xff\xfe", "exclusive": True}),
    ("queue.declare", {"queue": b"a\xff", "passive": True}),
    ("exchange.declare", {"exchange": b"\xff", "passive": True}),
    ("exchange.declare", {"exchange": "x", "type": b"\xff"}),
    ("basic.consume", {"consumer_tag": b"\xff"}),
    ("queue.bind", {"exchange": "amq.direct", "routing_key": b"\xff"}),
)


@pytest.mark.parametrize(("name", "fields"), NAMES_IN_UTF8)
def test_a_name_must_be_utf8(connection: Connection, name: str, fields: dict[str, Any]) -> None:
    channel = connection.channel()
    channel.call("queue.declare", exclusive=True)
    channel.send(name, **fields)
    connection.expect_close(501, "FRAME_ERROR - Malformed UTF-8 in shortstr")


def test_the_routing_key_of_a_message_may_be_any_octets(channel: Channel, unique: Unique) -> None:
    exchange = unique("fanout")
    queue = channel.call("queue.declare", exclusive=True).queue
    channel.call("exchange.declare", exchange=exchange, type="fanout")
    channel.call("queue.bind", queue=queue, exchange=exchange)
    key = b"\xff\xfe\x00"
    channel.connection.send_bytes(method("basic.publish", exchange=exchange, routing_key=key) + header(0))
    received = channel.get(queue)
    assert received is not None
    assert received.routing_key.encode(errors="surrogateescape") == key


@pytest.mark.parametrize("name", ["q" * 255, "nul\0inside", " blanks ", "ünïcödé ✓"])
def test_a_queue_may_have_an_odd_name(channel: Channel, name: str) -> None:
    reply = channel.call("queue.declare", queue=name[:255], exclusive=True)
    assert reply.queue == name


def test_line_ends_are_dropped_from_names(channel: Channel, unique: Unique) -> None:
    name = unique("lines")
    assert channel.call("queue.declare", queue=f"{name}\r\n", exclusive=True).queue == name
    assert channel.counts(name) == (0, 0)


def test_a_long_reply_text_is_cut(channel: Channel) -> None:
    channel.send("queue.declare", queue="q" * 255, passive=True)
    expect_fault(channel, 404, ("NOT_FOUND - no queue '" + "q" * 255)[:252] + "...", "queue.declare")


def test_content_may_arrive_octet_by_octet_between_other_channels(connection: Connection) -> None:
    first, second = connection.channel(), connection.channel()
    queue = first.call("queue.declare", exclusive=True).queue
    first.connection.send_bytes(method("basic.publish", routing_key=queue))
    second.call("basic.qos")
    for octet in content_frames(1, b"slow", {"app_id": "snail"}):
        connection.send_bytes(bytes((octet,)))
    second.call("basic.qos")
    received = first.get(queue)
    assert received is not None
    assert (received.body, received.properties) == (b"slow", {"app_id": "snail"})


def test_a_body_longer_than_announced_does_not_disturb_other_clients(connect: Connect) -> None:
    witness, connection = connect().channel(), connect()
    connection.channel()
    connection.send_bytes(PUBLISH + header(3) + frame(BODY, 1, b"too long"))
    connection.send_bytes(QOS)
    reply = connection.next_frame()
    assert reply.payload[:4] in (b"\0\x3c\0\x0b", b"\0\x0a\0\x32"), "neither qos-ok nor connection.close"
    witness.call("basic.qos")
