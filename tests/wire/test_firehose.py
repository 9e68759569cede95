"""What the Firehose says of messages, octet for octet: the headers' names, types and order are RabbitMQ's."""

import struct
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.support.amqp_client import Channel, Connection
from tests.support.amqp_values import Typed, write_table
from tests.support.operator import Operator
from tests.wire.conftest import Connect, Unique

HEADERS_ONLY = 0x2000
EVERYTHING: Mapping[str, Any] = {
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "headers": {
        "text": "str",
        "octet": Typed("B", 200),
        "small": Typed("s", -5),
        "long": Typed("l", 2**40),
        "unsigned": Typed("i", 7),
        "decimal": Typed("D", (1, 15)),
        "truth": True,
        "nothing": None,
        "table": {"k": "v"},
        "list": [1, "a"],
        "bytes": Typed("x", b"\xff\x00"),
        "when": Typed("T", 1_700_000_000),
    },
    "delivery_mode": 2,
    "priority": 3,
    "correlation_id": "corr",
    "reply_to": "rep",
    "expiration": "60000",
    "message_id": "mid",
    "timestamp": 1_700_000_000,
    "type": "typ",
    "user_id": "guest",
    "app_id": "app",
    "cluster_id": "clu",
}


@pytest.fixture
def vhost(operator: Operator, unique: Unique) -> Iterator[str]:
    """A traced virtual host."""
    name = unique("traced")
    operator.vhost(name)
    operator.permit("guest", vhost=name)
    operator.trace(name, True)
    yield name
    operator.delete_vhost(name)


@pytest.fixture
def connection(connect: Connect, vhost: str) -> Connection:
    return connect(virtual_host=vhost)


@pytest.fixture
def traces(connect: Connect, vhost: str) -> Channel:
    """Consumes all copies of the kinds that RabbitMQ has."""
    channel = connect(virtual_host=vhost).channel()
    channel.call("queue.declare", queue="traces", exclusive=True)
    for pattern in ("publish.#", "deliver.#"):
        channel.call("queue.bind", queue="traces", exchange="amq.rabbitmq.trace", routing_key=pattern)
    channel.consume("traces", no_ack=True)
    return channel


@pytest.fixture
def whereabouts(connection: Connection, vhost: str) -> dict[str, Any]:
    """What every copy says of channel 1 of the connection."""
    host, port = connection.socket.getsockname()[:2]
    peer_host, peer_port = connection.socket.getpeername()[:2]
    name = f"{host}:{port} -> {peer_host}:{peer_port}"
    return {"vhost": vhost, "connection": name, "channel": 1, "user": "guest"}


@pytest.fixture
def node(operator: Operator) -> str:
    name: str = operator.read("overview")["node"]
    return name


def expect_copy(traces: Channel, key: str, body: bytes, headers: Mapping[str, Any]) -> None:
    copy = traces.expect("basic.deliver")
    assert (copy.exchange, copy.routing_key, copy.redelivered, copy.body) == ("amq.rabbitmq.trace", key, False, body)
    assert copy.header == struct.pack(">HHQH", 60, 0, len(body), HEADERS_ONLY) + write_table(headers)


def story(exchange: str, keys: list[str], properties: Mapping[str, Any], node: str) -> dict[str, Any]:
    """The headers every copy begins with; RabbitMQ lists properties from the last to the first."""
    reversed_properties = dict(reversed(properties.items()))
    return {"exchange_name": exchange, "routing_keys": keys, "properties": reversed_properties, "node": node}


def test_a_publish_with_every_property(
    channel: Channel, traces: Channel, node: str, whereabouts: dict[str, Any]
) -> None:
    channel.call("exchange.declare", exchange="x", type="direct")
    channel.call("queue.declare", queue="q")
    channel.call("queue.bind", queue="q", exchange="x", routing_key="rk")
    channel.publish("x", "rk", b"body \xff", EVERYTHING)
    headers = story("x", ["rk"], EVERYTHING, node) | whereabouts | {"routed_queues": ["q"]}
    expect_copy(traces, "publish.x", b"body \xff", headers)


def test_an_unroutable_publish_without_properties(
    channel: Channel, traces: Channel, node: str, whereabouts: dict[str, Any]
) -> None:
    channel.publish("amq.direct", "nowhere", b"")
    headers = story("amq.direct", ["nowhere"], {}, node) | whereabouts | {"routed_queues": []}
    expect_copy(traces, "publish.amq.direct", b"", headers)


def test_queues_are_sorted_and_to_the_default_exchange_every_key_is_one(
    channel: Channel, traces: Channel, node: str, whereabouts: dict[str, Any]
) -> None:
    for queue in ("b", "a"):
        channel.call("queue.declare", queue=queue)
        channel.call("queue.bind", queue=queue, exchange="amq.fanout")
    channel.publish("amq.fanout", "", b"")
    headers = story("amq.fanout", [""], {}, node) | whereabouts | {"routed_queues": ["a", "b"]}
    expect_copy(traces, "publish.amq.fanout", b"", headers)
    channel.publish("", "nowhere", b"")
    headers = story("", ["nowhere"], {}, node) | whereabouts | {"routed_queues": ["nowhere"]}
    expect_copy(traces, "publish.", b"", headers)


def test_further_keys_are_named_and_a_blind_one_is_not_hidden(
    channel: Channel, traces: Channel, node: str, whereabouts: dict[str, Any]
) -> None:
    channel.publish("amq.direct", "k", b"m", {"headers": {"CC": ["also"], "BCC": ["blind"]}})
    begin = story("amq.direct", ["k", "also", "blind"], {"headers": {"CC": ["also"]}}, node)
    expect_copy(traces, "publish.amq.direct", b"m", begin | whereabouts | {"routed_queues": []})


def test_gets_and_deliveries_with_whether_they_come_again(
    channel: Channel, traces: Channel, node: str, whereabouts: dict[str, Any]
) -> None:
    channel.call("queue.declare", queue="q")
    channel.publish("", "q", b"m")
    traces.expect("basic.deliver")
    got = channel.get("q", no_ack=False)
    assert got is not None
    begin = story("", ["q"], {}, node)
    expect_copy(traces, "deliver.q", b"m", begin | {"redelivered": 0} | whereabouts)
    channel.send("basic.reject", delivery_tag=got.delivery_tag, requeue=True)
    channel.consume("q", no_ack=True)
    assert channel.expect("basic.deliver").redelivered
    expect_copy(traces, "deliver.q", b"m", begin | {"redelivered": 1} | whereabouts)


def test_a_publish_is_copied_before_its_transaction_is_committed(channel: Channel, traces: Channel) -> None:
    channel.call("queue.declare", queue="q")
    channel.call("tx.select")
    channel.publish("", "q", b"m")
    assert traces.expect("basic.deliver").body == b"m"
    channel.call("tx.rollback")
    traces.expect_silence("traces")


def test_channels_that_are_open_notice_that_tracing_is_switched(
    channel: Channel, traces: Channel, operator: Operator, vhost: str
) -> None:
    channel.call("queue.declare", queue="q")
    channel.consume("q", no_ack=True)
    for on in (True, False, True):
        operator.trace(vhost, on)
        channel.publish("", "q", b"m")
        channel.expect("basic.deliver")
        if on:
            assert {copy.routing_key for copy in traces.deliveries(2)} == {"publish.", "deliver.q"}
        else:
            traces.expect_silence("traces")
