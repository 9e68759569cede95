"""Every field that RabbitMQ's answers have is in ours, and of the same type.

`fields.json` has recorded answers of RabbitMQ 3.10.8: for each kind of object the fields that all of them had, and
the types of their values. A node with objects of every kind is read and compared.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.admin.calling import Api, connected, in_path
from tests.support.node_process import NodeProcess

FIELDS: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "fields.json").read_text())
TYPES = {bool: "bool", int: "int", float: "float", str: "str", type(None): "null", list: "list", dict: "dict"}


@pytest.fixture(scope="module")
def busy(node: NodeProcess) -> Iterator[dict[str, str]]:
    """A node with traffic of every kind; the names of the connections that make it."""
    publisher, consumer = connected(node, "publisher"), connected(node, "consumer")
    channel = publisher.channel()
    channel.exchange_declare("news", "topic", durable=True)
    channel.queue_declare("orders", durable=True)
    channel.queue_declare("members", durable=True, arguments={"x-queue-type": "quorum"})
    channel.queue_declare("idle")
    for queue in ("orders", "members"):
        channel.queue_bind(queue, "news", "#", {"x": 1, "y": "z"})
    channel.confirm_delivery()
    for _ in range(10):
        channel.basic_publish("news", "a.b", b"hello", pika.BasicProperties(delivery_mode=2))
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("", "nowhere", b"lost", mandatory=True)
    taking = consumer.channel()
    taking.basic_qos(prefetch_count=2)
    taking.basic_get("members")
    taking.basic_get("idle", auto_ack=True)
    deliveries = []
    taking.basic_consume("orders", lambda *delivery: deliveries.append(delivery))
    while len(deliveries) < 2:
        consumer.process_data_events(1)
    taking.basic_ack(deliveries[0][1].delivery_tag)
    consumer.process_data_events(0)
    yield {"publisher": local_name(publisher, node), "consumer": local_name(consumer, node)}
    publisher.close()
    consumer.close()


def local_name(connection: pika.BlockingConnection, node: NodeProcess) -> str:
    host, port = connection._impl._transport._sock.getsockname()[:2]
    return f"{host}:{port} -> {node.amqp[0]}:{node.amqp[1]}"


def at(row: Any, path: str) -> Iterator[Any]:
    """The values a path leads to: `a.b`, or of every member of a list, `a[].b`."""
    name, _, rest = path.partition(".")
    name, is_list = name.removesuffix("[]"), name.endswith("[]")
    if not isinstance(row, dict) or name not in row:
        yield KeyError(path)
        return
    for value in row[name] if is_list else [row[name]]:
        yield from at(value, rest) if rest else [value]


def differences(kind: str, rows: list[Any]) -> list[str]:
    found = []
    for row in rows:
        for path, types in FIELDS[kind].items():
            for value in at(row, path):
                if isinstance(value, KeyError):
                    found.append(f"{path} is missing")
                elif not fits(value, types.split("|")):
                    found.append(f"{path} is {value!r}, not {types}")
    return sorted(set(found))


def fits(value: Any, types: list[str]) -> bool:
    name = TYPES[type(value)]
    return name in types or (name == "int" and "float" in types)


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("overview", "overview"),
        ("cluster-name", "cluster-name"),
        ("whoami", "whoami"),
        ("auth", "auth"),
        ("auth attempts", "auth/attempts/hare@here"),
        ("nodes", "nodes"),
        ("nodes", "nodes/hare@here"),
        ("memory", "nodes/hare@here/memory"),
        ("relative memory", "nodes/hare@here/memory/relative"),
        ("extensions", "extensions"),
        ("feature-flags", "feature-flags"),
        ("queues", "queues/%2F/orders"),
        ("queues", "queues/%2F/idle"),
        ("queues with traffic", "queues/%2F/orders"),
        ("one quorum queue", "queues/%2F/members"),
        ("exchanges", "exchanges"),
        ("one exchange with traffic", "exchanges/%2F/news"),
        ("bindings", "bindings"),
        ("connections", "connections"),
        ("channels", "channels"),
        ("consumers", "consumers"),
        ("vhosts", "vhosts"),
        ("one vhost with traffic", "vhosts/%2F"),
        ("users", "users"),
        ("permissions", "permissions"),
        ("global-parameters", "global-parameters"),
        ("definitions", "definitions"),
        ("definitions of a vhost", "definitions/%2F"),
    ],
)
def test_no_field_of_rabbitmqs_is_missing(api: Api, busy: dict[str, str], kind: str, path: str) -> None:
    answer = api.read(path)
    rows = answer if isinstance(answer, list) else [answer]
    assert rows
    assert differences(kind, rows) == []


@pytest.mark.parametrize(
    ("kind", "who", "below"),
    [
        ("one connection", "publisher", "connections/{}"),
        ("a channel that publishes", "publisher", "channels/{} (1)"),
        ("a channel that consumes", "consumer", "channels/{} (1)"),
    ],
)
def test_no_field_of_one_connection_or_channel_is_missing(
    api: Api, busy: dict[str, str], kind: str, who: str, below: str
) -> None:
    collection, _, name = below.format(busy[who]).partition("/")
    assert differences(kind, [api.read(f"{collection}/{in_path(name)}")]) == []


def test_a_channel_is_shown_with_its_exchanges_and_queues(api: Api, busy: dict[str, str]) -> None:
    publishing = api.read(f"channels/{in_path(busy['publisher'] + ' (1)')}")
    told = {way["exchange"]["name"]: way["stats"]["publish"] for way in publishing["publishes"]}
    assert told == {"news": 10, "": 1}
    taking = api.read(f"channels/{in_path(busy['consumer'] + ' (1)')}")
    stats = {way["queue"]["name"]: way["stats"] for way in taking["deliveries"]}
    assert (stats["members"]["get"], stats["idle"]["get_empty"]) == (1, 1)
    assert stats["orders"]["deliver_get"] >= 2


def test_a_queue_of_one_connection_names_its_owner(api: Api, node: NodeProcess) -> None:
    connection = connected(node)
    connection.channel().queue_declare("mine", exclusive=True)
    owner = api.read("queues/%2F/mine")["owner_pid_details"]
    assert owner["name"] == local_name(connection, node)
    assert api.read("queues?columns=owner_pid_details.name&page=1&name=mine")["items"] == [
        {"owner_pid_details": {"name": owner["name"]}}
    ]
    connection.close()


def test_logins_are_counted_by_protocol(api: Api, node: NodeProcess) -> None:
    connected(node).close()
    api.get("whoami", user=("guest", "wrong"))
    counted = {row["protocol"]: row for row in api.read("auth/attempts/hare@here")}
    for protocol, least_failed in (("http", 1), ("amqp091", 0)):
        row = counted[protocol]
        assert row["auth_attempts"] == row["auth_attempts_failed"] + row["auth_attempts_succeeded"] > 0
        assert row["auth_attempts_failed"] >= least_failed
