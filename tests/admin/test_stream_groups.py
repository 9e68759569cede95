"""Partitioned streams and their groups over HTTP: their rows, and their export and import."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.admin.calling import Api
from tests.support.amqp_client import Channel, Connection

STREAM = {"durable": True, "arguments": {"x-queue-type": "stream", "x-stream-partitions": 2}}


@pytest.fixture
def stream(api: Api) -> Iterator[str]:
    assert api.call("PUT", "queues/%2F/readings", STREAM).status == 201
    yield "readings"
    api.call("DELETE", "queues/%2F/readings")


@pytest.fixture
def channel(api: Api) -> Iterator[Channel]:
    connection = Connection.opened(api.node.amqp)
    channel = connection.channel()
    channel.call("basic.qos", prefetch_count=100)
    yield channel
    connection.close()


def publish(channel: Channel, queue: str, count: int) -> None:
    channel.confirm()
    for number in range(count):
        channel.publish("", queue, str(number).encode())
    channel.confirms(range(1, count + 1))


def rows_of(api: Api, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get(path).json
    return found


def test_a_partitioned_stream_is_shown_with_its_partitions(api: Api, stream: str) -> None:
    names = {row["name"]: row for row in rows_of(api, "queues/%2F")}
    assert {"readings", "readings-0", "readings-1"} <= set(names)
    assert names[stream]["state"] == "running"
    assert names["readings-0"]["arguments"] == {"x-queue-type": "stream", "x-stream-partition-of": stream}
    shown = api.get("queues/%2F/readings").json
    assert (shown["type"], shown["partitions"]) == ("stream", ["readings-0", "readings-1"])


def test_a_partition_is_not_deleted_alone(api: Api, stream: str) -> None:
    heard = api.call("DELETE", "queues/%2F/readings-0")
    assert (heard.status, "is a partition of 'readings'" in heard.reason) == (400, True)
    assert api.call("DELETE", f"queues/%2F/{stream}").status == 204
    assert api.call("GET", "queues/%2F/readings-0").status == 404


def test_a_group_shows_its_active_members_and_their_offsets(api: Api, stream: str, channel: Channel) -> None:
    other = channel.connection.channel()
    other.call("basic.qos", prefetch_count=100)
    for name, one in (("a", channel), ("b", other)):
        one.consume(stream, name, arguments={"x-stream-group": "meters", "x-stream-member": name})
    publish(channel.connection.channel(), "readings-1", 10)
    other.ack(other.deliveries(10)[3].delivery_tag, multiple=True)
    other.call("basic.cancel", consumer_tag="b")
    again = channel.deliveries(6)
    assert [one.headers["x-stream-offset"] for one in again] == [4, 5, 6, 7, 8, 9]
    shown = rows_of(api, "stream/groups/%2F/readings")
    member = {"name": "a", "consumer_tag": "a", "node": api.node.name, "state": "active"}
    same = {"vhost": "/", "stream": stream, "node": api.node.name, "name": "meters", "active": "a", "members": [member]}
    assert shown == [
        {**same, "partition": 0, "queue": "readings-0", "offset": None, "end": 0, "lag": 0},
        {**same, "partition": 1, "queue": "readings-1", "offset": 3, "end": 10, "lag": 6},
    ]
    assert rows_of(api, "stream/groups/%2F/readings-1") == shown[1:]
    assert rows_of(api, "stream/groups") == rows_of(api, "stream/groups/%2F") == shown
    assert api.call("GET", "stream/groups/%2F/nothing").status == 404


def test_a_member_that_waits_is_shown_to_wait(api: Api, stream: str, channel: Channel) -> None:
    for name in ("b", "a"):
        channel.consume(stream, name, arguments={"x-stream-group": "meters", "x-stream-member": name})
    states = {
        row["partition"]: {member["name"]: member["state"] for member in row["members"]}
        for row in rows_of(api, "stream/groups/%2F/readings")
    }
    assert states == {0: {"a": "active", "b": "waiting"}, 1: {"a": "waiting", "b": "active"}}


def test_a_consumer_with_a_name_is_shown_without_members(api: Api, channel: Channel) -> None:
    arguments = {"x-queue-type": "stream"}
    assert api.call("PUT", "queues/%2F/alone", {"durable": True, "arguments": arguments}).status == 201
    publish(channel.connection.channel(), "alone", 4)
    channel.consume("alone", "c", arguments={"x-stream-consumer-name": "reports", "x-stream-offset": "first"})
    channel.ack(channel.deliveries(4)[2].delivery_tag, multiple=True)
    channel.call("basic.cancel", consumer_tag="c")
    (row,) = rows_of(api, "stream/groups/%2F/alone")
    assert (row["name"], row["partition"], row["offset"], row["lag"], row["members"]) == ("reports", None, 2, 1, [])
    api.call("DELETE", "queues/%2F/alone")


def test_exported_definitions_come_back_unchanged(api: Api, stream: str) -> None:
    exported = api.get("definitions/%2F").json
    assert api.call("DELETE", f"queues/%2F/{stream}").status == 204
    assert api.call("POST", "definitions/%2F", exported).status in (201, 204)
    again = api.get("definitions/%2F").json
    assert sorted(again["queues"], key=str) == sorted(exported["queues"], key=str)
    assert api.call("DELETE", "queues/%2F/readings-0").status == 400


def test_a_name_alone_brings_its_partitions(api: Api) -> None:
    queue = {"name": "imported", "vhost": "/", **STREAM, "auto_delete": False}
    assert api.call("POST", "definitions", {"queues": [queue]}).status in (201, 204)
    assert api.get("queues/%2F/imported-1").json["type"] == "stream"
    assert api.call("DELETE", "queues/%2F/imported").status == 204
    assert api.call("GET", "queues/%2F/imported-1").status == 404


def test_definitions_with_a_name_that_is_taken_are_refused(api: Api) -> None:
    assert api.call("PUT", "queues/%2F/taken-1", {"durable": True}).status == 201
    queue = {"name": "taken", "vhost": "/", **STREAM, "auto_delete": False}
    heard = api.call("POST", "definitions", {"queues": [queue]})
    assert (heard.status, "there is a queue 'taken-1' already" in heard.reason) == (400, True)
    assert api.call("GET", "queues/%2F/taken").status == 404
    assert api.call("DELETE", "queues/%2F/taken-1").status == 204
