"""Lines and copies as events, on small frames with planted faults of every kind."""

import base64
import json
from datetime import UTC, date, datetime
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from warren.pipeline.trace import events, files, sources

LINE: dict[str, Any] = {
    "schema_version": 1,
    "timestamp": "2026-11-15T23:59:59.014+00:00",
    "type": "published",
    "node": "warren@one",
    "connection": "127.0.0.1:5 -> 127.0.0.1:6",
    "vhost": "/",
    "user": "guest",
    "channel": 1,
    "exchange": "orders",
    "queue": "none",
    "routed_queues": ["q1", "q2"],
    "routing_keys": ["eu.new"],
    "properties": {"message_id": "m1", "delivery_mode": 2, "headers": {"n": 5, "deep": {"a": [1, "x"]}}},
    "redelivered": False,
    "reason": "",
    "epoch": 0,
    "nodes": [],
    "payload": base64.b64encode(b"two hares").decode(),
}
COPIES = (
    "partition int, offset bigint, timestamp timestamp, exchange string, routing_key string, "
    "headers map<string, string>, body binary"
)
HEADERS = {
    "exchange_name": "orders",
    "routing_keys": '["eu.new"]',
    "properties": '{"message_id": "m1", "delivery_mode": 2, "headers": {"n": 5, "deep": {"a": [1, "x"]}}}',
    "node": "warren@one",
    "vhost": "/",
    "connection": "127.0.0.1:5 -> 127.0.0.1:6",
    "channel": "1",
    "user": "guest",
}
AT = datetime(2026, 11, 15, 23, 59, 59, 14000, tzinfo=UTC)


def line(**changed: Any) -> bytes:
    return json.dumps(LINE | changed).encode()


def of_lines(spark: SparkSession, *octets: bytes, payloads: bool = False) -> list[Row]:
    rows = [("t", 3, place, each) for place, each in enumerate(octets)]
    frame = sources.line_records(spark.createDataFrame(rows, files.SCHEMA), "n1")
    made = events.rows(frame, payloads)
    assert made.schema.simpleString() == spark.createDataFrame([], events.ROWS_SCHEMA).schema.simpleString()
    return sorted(made.collect(), key=lambda row: int(row.event_id.rpartition("/")[2]))


def of_copies(spark: SparkSession, *copies: tuple[str, dict[str, str | None] | None]) -> list[Row]:
    rows = [
        (0, place, AT, sources.FIREHOSE_EXCHANGE, key, headers, b"two hares")
        for place, (key, headers) in enumerate(copies)
    ]
    frame = sources.firehose_records(spark.createDataFrame(rows, COPIES), "trace")
    return sorted(events.rows(frame).collect(), key=lambda row: int(row.event_id.rpartition("/")[2]))


def test_a_line_is_an_event_with_all_that_it_says(spark: SparkSession) -> None:
    [event] = of_lines(spark, line())
    assert event.asDict() | {"headers": json.loads(event.headers)} == {
        "event_id": "file:n1/t/3/0",
        "day": date(2026, 11, 15),
        "vhost": "/",
        "at": event.at,
        "type": "published",
        "node": "warren@one",
        "connection": "127.0.0.1:5 -> 127.0.0.1:6",
        "channel": 1,
        "user": "guest",
        "exchange": "orders",
        "queue": None,
        "routed_queues": ["q1", "q2"],
        "routing_keys": ["eu.new"],
        "message_id": "m1",
        "correlation_id": None,
        "app_id": None,
        "content_type": None,
        "delivery_mode": 2,
        "priority": None,
        "expiration": None,
        "headers": {"n": 5, "deep": {"a": [1, "x"]}},
        "redelivered": None,
        "reason": None,
        "epoch": None,
        "nodes": [],
        "payload_bytes": 9,
        "digest": event.digest,
        "publisher": None,
        "publishing_id": None,
        "message_key": "id:m1",
        "payload": None,
        "fault": None,
        "line": None,
    }
    assert event.at.astimezone(UTC) == AT
    assert len(event.digest) == events.DIGEST_DIGITS


def test_a_copy_is_the_same_event_as_the_line_of_it(spark: SparkSession) -> None:
    [from_line] = of_lines(spark, line())
    [from_copy] = of_copies(spark, ("publish.orders", HEADERS | {"routed_queues": '["q1", "q2"]'}))
    assert from_copy.event_id == "stream:trace/0/0"
    other = {"event_id": "", "headers": "", "at": None}
    assert from_copy.asDict() | other == from_line.asDict() | other
    assert json.loads(from_copy.headers) == json.loads(from_line.headers)


def test_each_type_has_what_belongs_to_it(spark: SparkSession) -> None:
    of_file = of_lines(
        spark,
        line(type="received", queue="q1", redelivered=True),
        line(type="acked", queue="q1"),
        line(type="rejected", queue="none", reason="requeued"),
        line(type="dead_lettered", queue="q1", reason="expired", connection="", user="", channel=0),
        line(type="confirmed", queue="q1", epoch=3, nodes=["a", "b"], connection="", user="", channel=0),
    )
    bare = {name: HEADERS[name] for name in ("exchange_name", "routing_keys", "properties", "node", "vhost")}
    routed = {"routed_queues": '["q1", "q2"]'}
    of_stream = of_copies(
        spark,
        ("deliver.q1", HEADERS | routed | {"redelivered": "1"}),
        ("ack.q1", HEADERS | routed | {"redelivered": "0"}),
        ("reject.none", HEADERS | routed | {"redelivered": "0", "requeue": "1", "reason": "requeued"}),
        ("dead.q1", bare | routed | {"reason": "expired"}),
        ("confirm.q1", bare | routed | {"epoch": "3", "nodes": '["a", "b"]'}),
    )
    shown = ("type", "queue", "redelivered", "reason", "epoch", "nodes", "connection", "user", "channel")
    told = [[row[name] for name in shown] for row in of_file]
    client = ["127.0.0.1:5 -> 127.0.0.1:6", "guest", 1]
    assert told == [
        ["received", "q1", True, None, None, [], *client],
        ["acked", "q1", False, None, None, [], *client],
        ["rejected", "none", False, "requeued", None, [], *client],
        ["dead_lettered", "q1", None, "expired", None, [], None, None, None],
        ["confirmed", "q1", None, None, 3, ["a", "b"], None, None, None],
    ]
    assert [[row[name] for name in shown] for row in of_stream] == told


@pytest.mark.parametrize("name", ["redelivered", "reason"])
def test_lines_of_a_node_that_did_not_write_a_field_yet_are_events(spark: SparkSession, name: str) -> None:
    older = {key: value for key, value in (LINE | {"type": "received", "queue": "q"}).items() if key != name}
    [event] = of_lines(spark, json.dumps(older).encode())
    assert (event.fault, event.redelivered, event.reason) == (None, False, None)


def test_lines_that_cannot_be_understood_are_kept_with_the_reason(spark: SparkSession) -> None:
    planted = [
        (b"", "it is not one JSON object"),
        (b"\x00\x00\x00", "it is not one JSON object"),
        (line()[:40], "it is not one JSON object"),
        (b'{"n":1,"' + line(), "it is not one JSON object"),
        (line() + line(), "it is not one JSON object"),
        (line() + b"," + line(), "it is not one JSON object"),
        (b"[" + line() + b"]", "it is not one JSON object"),
        (b"3", "it is not one JSON object"),
        (line().replace(b"guest", b"\xff\xfe"), "it is no UTF-8"),
        (line(schema_version=2), "its schema version is 2, and this is for version 1"),
        (line(schema_version=2, routed_queues="none"), "its schema version is 2, and this is for version 1"),
        (b"{}", "it has no schema version"),
        (line(routed_queues="none"), "a field has another type than it should"),
        (line(channel="one"), "a field has another type than it should"),
        (line(type="lost"), "its type is not known"),
        (line(timestamp="yesterday"), "its time cannot be read"),
        (line(vhost=""), "it has no virtual host"),
        (line(payload="%%%"), "its payload is no base64"),
    ]
    found = of_lines(spark, *(octets for octets, _ in planted), line())
    assert [(row.line, row.fault) for row in found[:-1]] == planted
    assert all(row.day is None and row.vhost is None and row.message_key is None for row in found[:-1])
    assert found[-1].fault is None
    assert found[-1].line is None


def test_lines_that_are_no_copies_are_kept_with_the_reason(spark: SparkSession) -> None:
    found = of_copies(
        spark,
        ("order.new", HEADERS),
        ("publish.orders", None),
        ("publish.orders", HEADERS | {"exchange_name": None}),
        ("publish.orders", HEADERS | {"routing_keys": "{"}),
        ("publish.orders", HEADERS | {"properties": "["}),
        ("publish.orders", HEADERS),
    )
    assert [row.fault for row in found] == [
        "it is no copy of the Firehose",
        "it has no virtual host",
        "it does not say where it was published",
        "it has no routing keys",
        "its properties cannot be read",
        None,
    ]
    kept = json.loads(found[0].line)
    assert kept["routing_key"] == "order.new"
    assert base64.b64decode(kept["body"]) == b"two hares"
    assert kept["headers"] == HEADERS


def test_payloads_are_kept_only_if_they_are_asked_for(spark: SparkSession) -> None:
    [event] = of_lines(spark, line(), payloads=True)
    assert bytes(event.payload) == b"two hares"


def keys_of(spark: SparkSession, *changes: dict[str, Any]) -> list[str]:
    return [row.message_key for row in of_lines(spark, *(line(**each) for each in changes))]


def test_a_message_is_known_by_its_id_then_by_its_publisher_then_by_what_it_says(spark: SparkSession) -> None:
    once = {"x-warren-publisher": "job/0", "x-warren-publishing-id": 7}
    found = keys_of(
        spark,
        {"properties": {"message_id": "m1", "headers": once}},
        {"properties": {"headers": once}},
        {"properties": {}},
        {"properties": {"type": "order"}},
        {"properties": {}, "payload": ""},
        {"properties": {}, "exchange": "other"},
        {"properties": {}, "routing_keys": []},
        {"properties": {"headers": {"n": 5}}},
    )
    assert found[:2] == ["id:m1", "pub:job/0/7"]
    assert all(key.startswith("digest:") for key in found[2:])
    assert len(set(found)) == len(found)


def test_headers_that_a_broker_changes_do_not_change_the_key(spark: SparkSession) -> None:
    died = {
        "x-death": [
            {"count": 1, "exchange": "dlx", "queue": "q2", "reason": "expired", "routing-keys": ["dead"]},
            {"count": 1, "exchange": "orders", "queue": "q1", "reason": "rejected", "routing-keys": ["eu.new"]},
        ],
        "x-first-death-exchange": "orders",
        "x-first-death-queue": "q1",
        "x-first-death-reason": "rejected",
    }
    found = keys_of(
        spark,
        {"properties": {"headers": {"n": 5, "a": "b", "BCC": ["x"], "x-delay": 5}, "expiration": "60"}},
        {"properties": {"headers": {"a": "b", "n": 5}}, "type": "received", "queue": "q1", "redelivered": True},
        {
            "properties": {"headers": {"n": 5, "a": "b"} | died},
            "exchange": "dlx",
            "routing_keys": ["dead"],
            "type": "received",
        },
        {
            # it was rejected once more: that death is the first in the list now
            "properties": {"headers": {"n": 5, "a": "b"} | died | {"x-death": died["x-death"][::-1]}},
            "exchange": "dlx",
            "routing_keys": ["dead"],
            "type": "received",
        },
    )
    assert len(set(found)) == 1
