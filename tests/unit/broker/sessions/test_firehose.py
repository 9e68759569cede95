"""Copies of publishes and deliveries of a traced virtual host; the wire tests compare them with RabbitMQ."""

import pytest

from tests.support.core_driver import Client, Core, content, published, spoken
from tests.unit.broker.sessions.traced import TRACE, Traced, headers_of, key_of
from warren.wire.field_tables import Table, encode_table
from warren.wire.methods import (
    BasicGet,
    BasicNack,
    BasicPublish,
    ExchangeBind,
    QueueBind,
    TxCommit,
    TxRollback,
    TxSelect,
    encode_method,
)
from warren.wire.properties import Properties, decode_properties


@pytest.fixture
def traced() -> Traced:
    return Traced()


def test_a_publish_and_a_get_are_copied(traced: Traced) -> None:
    traced.client.publish("q", b"m")
    traced.client.say(BasicGet(queue="q", no_ack=True))
    published_copy, delivered_copy = traced.listener.heard()
    assert (key_of(published_copy), published_copy.body) == ("publish.", b"m")
    assert (key_of(delivered_copy), delivered_copy.body) == ("deliver.q", b"m")
    assert headers_of(published_copy) == {
        "exchange_name": "",
        "routing_keys": ["q"],
        "properties": {},
        "node": "warren@localhost",
        "vhost": "/",
        "connection": "127.0.0.1:40001 -> 127.0.0.1:5672",
        "channel": 1,
        "user": "guest",
        "routed_queues": ["q"],
    }
    assert headers_of(delivered_copy) == {
        "exchange_name": "",
        "routing_keys": ["q"],
        "properties": {},
        "node": "warren@localhost",
        "redelivered": 0,
        "vhost": "/",
        "connection": "127.0.0.1:40001 -> 127.0.0.1:5672",
        "channel": 1,
        "user": "guest",
    }


def test_a_trace_has_the_body_of_the_message_and_headers_of_its_own(traced: Traced) -> None:
    properties = Properties(content_type="text/plain", delivery_mode=2, priority=4, expiration="5", headers={"h": 1})
    traced.client.read(published("q", b"m", properties=properties))
    (copy,) = traced.listener.heard()
    own = decode_properties(copy.header, 0, len(copy.header))
    assert [name for name, value in own.fields() if value is not None] == ["headers"]
    inner = headers_of(copy)["properties"]
    assert inner == {
        "expiration": "5",
        "priority": 4,
        "delivery_mode": 2,
        "headers": {"h": 1},
        "content_type": "text/plain",
    }
    assert isinstance(inner, dict)
    assert list(inner) == ["expiration", "priority", "delivery_mode", "headers", "content_type"]


def test_headers_keep_the_types_they_came_with(traced: Traced) -> None:
    # an octet, which Warren would not write for 7
    table = b"\x01nB\x07"
    header = b"\x00\x3c\x00\x00" + bytes(8) + b"\x20\x00" + len(table).to_bytes(4, "big") + table
    frame = b"\x02\x00\x01" + len(header).to_bytes(4, "big") + header + b"\xce"
    traced.client.read(encode_method(1, BasicPublish(exchange="", routing_key="q")) + frame)
    (copy,) = traced.listener.heard()
    assert b"\x07headersF" + len(table).to_bytes(4, "big") + table in copy.header


def test_a_timestamp_has_thirty_two_signed_bits(traced: Traced) -> None:
    traced.client.read(published("q", b"m", properties=Properties(timestamp=2**33 + 2**31)))
    assert traced.headers()[0]["properties"] == {"timestamp": -(2**31)}


def test_headers_too_deep_for_a_copy_are_left_out(traced: Traced) -> None:
    deep: Table = {}
    for _ in range(127):
        deep = {"t": deep}
    assert encode_table(deep)
    traced.client.read(published("q", b"m", properties=Properties(type="t", headers=deep)))
    assert traced.headers()[0]["properties"] == {"type": "t"}


def test_deliveries_are_copied_again_when_they_come_again(traced: Traced) -> None:
    traced.client.consume("q")
    traced.client.publish("q", b"m")
    traced.client.say(BasicNack(delivery_tag=1, requeue=True))
    keys_and_flags = [(key_of(one), headers_of(one).get("redelivered")) for one in traced.listener.heard()]
    assert keys_and_flags == [("publish.", None), ("deliver.q", 0), ("reject.q", 0), ("deliver.q", 1)]


def test_a_consumer_that_was_there_before_is_traced_and_later_no_more() -> None:
    traced = Traced()
    traced.vhost.set_tracing(False)
    traced.client.consume("q", no_ack=True)
    traced.client.publish("q", b"1")
    assert traced.traces() == []
    traced.vhost.set_tracing(True)
    traced.client.publish("q", b"2")
    assert traced.traces() == [("publish.", b"2"), ("deliver.q", b"2")]
    traced.vhost.set_tracing(False)
    traced.client.publish("q", b"3")
    assert traced.traces() == []


def test_every_key_is_named_and_every_queue(traced: Traced) -> None:
    traced.client.declare("also")
    traced.client.declare_exchange("x", "direct")
    traced.client.bind("q", "x", "one")
    traced.client.bind("also", "x", "two")
    copies: list[object] = ["two"]
    traced.client.read(published("one", b"m", exchange="x", properties=Properties(headers={"CC": copies})))
    (headers,) = traced.headers()
    assert (headers["exchange_name"], headers["routing_keys"]) == ("x", ["one", "two"])
    assert headers["routed_queues"] == ["also", "q"]


def test_unroutable_messages_are_traced_too(traced: Traced) -> None:
    traced.client.publish("nowhere", b"m", exchange="amq.direct")
    assert traced.headers()[0]["routed_queues"] == []


def test_to_the_default_exchange_every_key_is_a_queue(traced: Traced) -> None:
    traced.client.publish("nowhere", b"m")
    assert traced.headers()[0]["routed_queues"] == ["nowhere"]


def test_a_publish_in_a_transaction_is_copied_when_it_comes(traced: Traced) -> None:
    traced.client.say(TxSelect())
    traced.client.publish("q", b"m")
    assert traced.traces() == [("publish.", b"m")]
    traced.client.say(TxRollback(), TxCommit())
    assert traced.traces() == []


def test_a_body_of_many_frames_is_copied_whole(traced: Traced) -> None:
    body = bytes(300_000)
    traced.client.read(published("q", body))
    assert traced.traces() == [("publish.", body)]


def test_a_key_too_long_is_cut(traced: Traced) -> None:
    exchange = "x" * 250
    traced.client.declare_exchange(exchange)
    traced.client.publish("k", b"m", exchange=exchange)
    assert traced.traces() == [("publish." + "x" * 247, b"m")]


def test_an_exchange_that_looks_at_headers_may_sort_the_copies(traced: Traced) -> None:
    client = traced.client
    client.declare_exchange("by user", "headers")
    client.declare("guests")
    client.say(ExchangeBind(destination="by user", source=TRACE, routing_key="publish.#"))
    client.say(QueueBind(queue="guests", exchange="by user", arguments={"user": "guest"}))
    client.publish("q", b"m")
    assert traced.vhost.topology.queues["guests"].ready_count() == 1


def test_copies_count_nowhere(traced: Traced) -> None:
    traced.client.publish("q", b"m")
    assert traced.core.broker.stats.published == traced.core.broker.stats.routed == 1
    assert traced.vhost.topology.queues["traces"].stats.published == 0
    assert traced.vhost.topology.exchanges[TRACE].published_in == 0


def test_a_copy_that_no_queue_is_bound_for_is_not_made(traced: Traced) -> None:
    core = Core()
    core.broker.vhosts["/"].set_tracing(True)
    client = core.client()
    client.declare("q")
    client.consume("q", no_ack=True)
    client.heard()
    client.publish("q", b"m")
    assert client.bodies() == [b"m"]
    assert core.held_bytes() == 0


def test_a_copy_goes_into_a_full_queue_as_any_message_does() -> None:
    traced = Traced()
    traced.client.declare("last", {"x-max-length": 1})
    traced.client.bind("last", TRACE, "publish.#")
    traced.client.publish("q", b"1", b"2")
    traced.client.heard()
    traced.client.say(BasicGet(queue="last", no_ack=True))
    assert traced.client.bodies() == [b"2"]


def test_a_link_within_the_process_has_a_name_of_its_own(traced: Traced) -> None:
    link = traced.core.link()
    link.publish("q", b"m")
    name = traced.headers()[0]["connection"]
    assert isinstance(name, str)
    assert name.startswith("<warren@localhost.")


def test_a_queue_may_take_its_own_traces(traced: Traced) -> None:
    client: Client = traced.client
    client.bind("q", TRACE, "#")
    client.consume("q", no_ack=True)
    client.heard()
    client.read(encode_method(1, BasicPublish(exchange="", routing_key="q")) + content(b"m") + spoken(TxSelect()))
    bodies = [(key_of(one), one.body) for one in client.heard() if one.header]
    assert sorted(bodies) == [("deliver.q", b"m"), ("publish.", b"m"), ("q", b"m")]
