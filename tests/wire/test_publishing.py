"""Publishing: confirms, returns, bodies of every size, properties untouched, and messages that are refused."""

from typing import Any

import pytest

from tests.support.amqp_client import Channel, Connection, Received
from tests.support.amqp_frames import BODY, HEADER, METHOD, content_frames, frame
from tests.support.amqp_methods import write_method
from tests.support.amqp_values import Typed, write_properties
from tests.wire.conftest import Connect, Unique
from tests.wire.faults import Fault, expect_fault, provoke, say

EVERY_PROPERTY: dict[str, Any] = {
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "headers": {
        "text": "words",
        "octets": b"\xff\x00\xfe",
        "bool": True,
        "byte": Typed("b", -5),
        "unsigned byte": Typed("B", 250),
        "short": Typed("s", -300),
        "unsigned short": Typed("u", 65000),
        "int": -70000,
        "unsigned int": Typed("i", 2**32 - 1),
        "long": -(2**40),
        "float": Typed("f", 1.5),
        "double": 2.25,
        "decimal": Typed("D", (2, 314)),
        "moment": Typed("T", 1700000000),
        "nothing": None,
        "binary": Typed("x", b"\0\1\2"),
        "list": [1, "two", [3.0, None], {"four": 4}],
        "table": {"inner": {"innermost": 1}},
    },
    "delivery_mode": 1,
    "priority": 200,
    "correlation_id": "correlation",
    "reply_to": "somewhere",
    "expiration": "60000",
    "message_id": "message-1",
    "timestamp": 2**63 - 1,
    "type": "kind",
    "user_id": "guest",
    "app_id": "application",
    "cluster_id": "cluster",
}


def own_queue(channel: Channel, **arguments: Any) -> str:
    queue: str = channel.call("queue.declare", exclusive=True, arguments=arguments).queue
    return queue


def fetch(channel: Channel, queue: str) -> Received:
    received = channel.get(queue)
    assert received is not None, f"{queue} is empty"
    return received


UNROUTED = {"exchange": "", "routing_key": "nobody"}
REFUSED_MESSAGES = tuple(
    Fault(claim, 406, f"PRECONDITION_FAILED - {text}", say("basic.publish", **UNROUTED, properties=given))
    for claim, given, text in (
        ("expiration in words", {"expiration": "soon"}, "invalid expiration 'soon': no_integer"),
        ("empty expiration", {"expiration": ""}, "invalid expiration '': no_integer"),
        ("negative expiration", {"expiration": "-1"}, "invalid expiration '-1': {value_negative,-1}"),
        ("fractional expiration", {"expiration": "1.5"}, "invalid expiration '1.5': {leftover_string,\".5\"}"),
        ("expiration with a blank", {"expiration": "10 "}, "invalid expiration '10 ': {leftover_string,\" \"}"),
        (
            "expiration in an age to come",
            {"expiration": "99999999999999"},
            "invalid expiration '99999999999999': {value_too_large,99999999999999}",
        ),
        (
            "name of another user",
            {"user_id": "someone"},
            "user_id property set to 'someone' but authenticated user was 'guest'",
        ),
        ("CC of one word", {"headers": {"CC": "x"}}, 'invalid message: {unacceptable_type_in_header,"CC",longstr}'),
        ("BCC of a number", {"headers": {"BCC": 1}}, 'invalid message: {unacceptable_type_in_header,"BCC",signedint}'),
        ("unknown delivery mode", {"delivery_mode": 7}, "invalid message: {delivery_mode_unknown,7}"),
        ("reply-to without a consumer", {"reply_to": "amq.rabbitmq.reply-to"}, "fast reply consumer does not exist"),
    )
)  # fmt: skip


@pytest.mark.parametrize("fault", REFUSED_MESSAGES, ids=str)
def test_a_message_with_wrong_properties_closes_the_channel(connect: Connect, fault: Fault) -> None:
    provoke(connect, fault)


@pytest.mark.parametrize("expiration", ["0", "+5", "4294967296"])
def test_an_expiration_may_be_any_whole_number_of_milliseconds(channel: Channel, expiration: str) -> None:
    channel.confirm()
    channel.publish("", "nobody", b"", {"expiration": expiration})
    channel.confirms([1])


def test_every_publish_is_confirmed_once_and_numbering_starts_at_one(channel: Channel) -> None:
    queue = own_queue(channel)
    channel.confirm()
    for _ in range(100):
        channel.publish("", queue, b"x")
    channel.confirms(range(1, 101))
    channel.await_counts(queue, 100)


def test_publishes_before_confirm_select_are_not_numbered(channel: Channel) -> None:
    queue = own_queue(channel)
    channel.publish("", queue, b"unnumbered")
    channel.confirm()
    channel.publish("", queue, b"numbered")
    channel.confirms([1])


def test_selecting_confirms_again_keeps_counting(channel: Channel) -> None:
    queue = own_queue(channel)
    for tag in (1, 2):
        channel.confirm()
        channel.publish("", queue)
        channel.confirms([tag])


def test_an_unroutable_message_is_confirmed(channel: Channel) -> None:
    channel.confirm()
    channel.publish("amq.direct", "nobody")
    channel.expect("basic.ack", delivery_tag=1, multiple=False)


def test_a_mandatory_message_is_returned_before_it_is_confirmed(channel: Channel) -> None:
    channel.confirm()
    channel.publish("amq.direct", "nobody", b"come back", EVERY_PROPERTY, mandatory=True)
    returned = channel.expect(
        "basic.return", reply_code=312, reply_text="NO_ROUTE", exchange="amq.direct", routing_key="nobody"
    )
    assert returned.body == b"come back"
    assert returned.header[12:] == write_properties(EVERY_PROPERTY)
    channel.expect("basic.ack", delivery_tag=1)


def test_a_routed_mandatory_message_does_not_return(channel: Channel) -> None:
    queue = own_queue(channel)
    channel.confirm()
    channel.publish("", queue, b"x", mandatory=True)
    channel.expect("basic.ack", delivery_tag=1)
    channel.expect_silence(queue)


def test_without_confirms_a_mandatory_message_still_returns(channel: Channel) -> None:
    channel.publish("", "nobody", b"x", mandatory=True)
    assert channel.expect("basic.return").body == b"x"


def test_returns_and_confirms_keep_their_channels_apart(connection: Connection) -> None:
    first, second = connection.channel(), connection.channel()
    for channel in (first, second):
        channel.confirm()
        channel.publish("", "nobody", str(channel.number).encode(), mandatory=True)
    for channel in (second, first):
        assert channel.expect("basic.return").body == str(channel.number).encode()
        channel.expect("basic.ack", delivery_tag=1)


def test_properties_and_headers_survive_octet_for_octet(channel: Channel) -> None:
    queue = own_queue(channel)
    channel.publish("", queue, b"body", EVERY_PROPERTY)
    received = fetch(channel, queue)
    assert received.header[12:] == write_properties(EVERY_PROPERTY)
    assert received.body == b"body"


@pytest.mark.parametrize("properties", [{}, {"headers": {}}, {"content_type": ""}, {"timestamp": 0}, {"priority": 0}])
def test_an_empty_property_is_not_an_absent_one(channel: Channel, properties: dict[str, Any]) -> None:
    queue = own_queue(channel)
    channel.publish("", queue, b"", properties)
    assert fetch(channel, queue).properties == properties


@pytest.mark.parametrize("size", [0, 1, 131064, 131065, 262128, 1_000_000, 5_000_000])
def test_a_body_of_any_size_comes_out_as_it_went_in(channel: Channel, size: int) -> None:
    queue = own_queue(channel)
    body = (bytes(range(256)) * (size // 256 + 1))[:size]
    channel.publish("", queue, body)
    assert fetch(channel, queue).body == body


@pytest.mark.parametrize(("publisher", "reader"), [(4096, 131072), (131072, 4096), (4096, 4097)])
def test_a_body_is_cut_to_the_readers_frame_max(connect: Connect, unique: Unique, publisher: int, reader: int) -> None:
    queue = unique("frames")
    body = bytes(range(256)) * 400
    writing = connect(frame_max=publisher).channel()
    writing.call("queue.declare", queue=queue)
    writing.publish("", queue, body, {"headers": {"long": "h" * 3000}})
    received = fetch(connect(frame_max=reader).channel(), queue)
    assert (received.body, received.headers) == (body, {"long": "h" * 3000})


def test_a_body_may_come_in_frames_of_any_size(channel: Channel) -> None:
    queue = own_queue(channel)
    publish = frame(METHOD, 1, write_method("basic.publish", {"routing_key": queue}))
    head = frame(HEADER, 1, b"\0\x3c\0\0" + (6).to_bytes(8, "big") + b"\0\0")
    chunks = b"".join(frame(BODY, 1, chunk) for chunk in (b"a", b"", b"bcd", b"ef"))
    channel.connection.send_bytes(publish + head + chunks)
    assert fetch(channel, queue).body == b"abcdef"


def test_messages_of_one_channel_keep_their_order(channel: Channel) -> None:
    queue = own_queue(channel)
    bodies = [str(number).encode() for number in range(500)]
    burst = b"".join(
        frame(METHOD, 1, write_method("basic.publish", {"routing_key": queue})) + content_frames(1, body, {})
        for body in bodies
    )
    channel.connection.send_bytes(burst)
    channel.consume(queue, no_ack=True)
    assert channel.bodies(500) == bodies


def test_copies_go_to_the_keys_in_cc_and_bcc_and_bcc_is_removed(channel: Channel) -> None:
    to, copied, blind = (own_queue(channel) for _ in range(3))
    headers = {"CC": [copied], "BCC": [blind], "kept": 1}
    channel.publish("", to, b"letter", {"headers": headers})
    for queue in (to, copied, blind):
        received = fetch(channel, queue)
        assert (received.body, received.routing_key) == (b"letter", to)
        assert received.headers == {"CC": [copied], "kept": 1}


def test_a_queue_named_twice_gets_one_copy(channel: Channel) -> None:
    queue = own_queue(channel)
    channel.publish("", queue, b"once", {"headers": {"CC": [queue, queue], "BCC": [queue]}})
    assert channel.purged(queue) == 1


def test_a_mandatory_message_is_routed_when_only_a_copy_is(channel: Channel) -> None:
    queue = own_queue(channel)
    channel.confirm()
    channel.publish("", "nobody", b"x", {"headers": {"BCC": [queue]}}, mandatory=True)
    channel.expect("basic.ack", delivery_tag=1)


def test_copies_to_what_is_no_string_are_ignored(channel: Channel) -> None:
    queue = own_queue(channel)
    channel.publish("", queue, b"x", {"headers": {"CC": [1, None]}})
    assert fetch(channel, queue).headers == {"CC": [1, None]}


def test_the_last_declared_queue_is_no_shorthand_for_publishing(channel: Channel) -> None:
    own_queue(channel)
    channel.publish("", "", b"x", mandatory=True)
    channel.expect("basic.return", reply_code=312, routing_key="")


def test_a_failed_publish_leaves_no_confirm_behind(channel: Channel) -> None:
    channel.confirm()
    channel.publish("nothing", "k")
    expect_fault(channel, 404, "NOT_FOUND - no exchange 'nothing' in vhost '/'", "basic.publish")


def test_a_message_to_a_deleted_queue_is_confirmed_as_unroutable(channel: Channel) -> None:
    queue = own_queue(channel)
    channel.confirm()
    channel.publish("", queue)
    channel.confirms([1])
    channel.call("queue.delete", queue=queue)
    channel.publish("", queue, mandatory=True)
    channel.expect("basic.return", reply_text="NO_ROUTE")
    channel.expect("basic.ack", delivery_tag=2)


def test_a_message_beyond_the_largest_size_closes_the_channel(channel: Channel) -> None:
    channel.publish("", "nobody", bytes(134217728 + 1))
    text = "PRECONDITION_FAILED - message size 134217729 is larger than configured max size 134217728"
    expect_fault(channel, 406, text, "basic.publish")
