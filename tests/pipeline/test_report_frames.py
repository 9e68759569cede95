"""The sums of a report on small frames with known answers."""

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from warren.pipeline.report import flows, latencies
from warren.pipeline.report.findings import TrafficEntity, gather, step_for
from warren.pipeline.report.flows import DAY_S, HOUR_S
from warren.pipeline.report.latencies import passage_counts
from warren.pipeline.trace.passages import passages

BEGIN = datetime(2026, 11, 2, tzinfo=UTC)
BEGIN_S = int(BEGIN.timestamp())
EVENTS = (
    "at timestamp, type string, vhost string, exchange string, queue string, routed_queues array<string>, "
    "redelivered boolean, reason string, payload_bytes int"
)
PASSAGES = (
    "vhost string, message_key string, copy int, queue string, published_at timestamp, entries array<timestamp>, "
    "exits array<timestamp>, delivery_ms bigint, ack_ms bigint, confirm_ms bigint"
)

_numbers = itertools.count()


def after(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def published(seconds: float, queues: Sequence[str], exchange: str = "orders", size: int = 10) -> dict[str, Any]:
    return event(seconds, "published", exchange=exchange, routed_queues=list(queues), payload_bytes=size)


def event(seconds: float, type: str, **fields: Any) -> dict[str, Any]:
    nothing = {"exchange": "orders", "queue": None, "routed_queues": [], "redelivered": None, "reason": None}
    return {"at": after(seconds), "type": type, "vhost": "/", "payload_bytes": 10, **nothing, **fields}


def frame(spark: SparkSession, rows: Sequence[dict[str, Any]], schema: str = EVENTS) -> DataFrame:
    names = [column.split()[0] for column in schema.split(", ")]
    return spark.createDataFrame([tuple(row[name] for name in names) for row in rows], schema)


def told(rows: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in rows.collect())


def test_each_event_counts_where_it_belongs(spark: SparkSession) -> None:
    rows = [
        published(1, ["a", "b"], size=7),
        event(2, "received", queue="a", redelivered=False),
        event(3, "received", queue="a", redelivered=True),
        event(4, "acked", queue="a", redelivered=True),
        event(61, "dead_lettered", queue="b", routed_queues=["dead"], reason="expired"),
        event(62, "confirmed", queue="a"),
    ]
    found = flows.flows(frame(spark, rows), 60).select("side", "name", "kind", "moment", "messages", "bytes")
    assert told(found) == sorted(
        [
            ("exchange", "orders", "published", BEGIN_S, 1, 7),
            ("queue", "a", "arrived", BEGIN_S, 1, 7),
            ("queue", "b", "arrived", BEGIN_S, 1, 7),
            ("queue", "a", "delivered", BEGIN_S, 1, 10),
            ("queue", "a", "redelivered", BEGIN_S, 1, 10),
            ("queue", "a", "acked", BEGIN_S, 1, 10),
            ("queue", "b", "dead_lettered", BEGIN_S + 60, 1, 10),
            ("queue", "dead", "arrived", BEGIN_S + 60, 1, 10),
            ("queue", "a", "confirmed", BEGIN_S + 60, 1, 10),
        ]
    )


def test_the_busiest_have_lines_and_the_rest_share_one(spark: SparkSession) -> None:
    rows = [
        published(number, [], exchange=name)
        for name, count in (("a", 3), ("b", 2), ("c", 1), ("d", 1))
        for number in range(count)
    ]
    flow = flows.flows(frame(spark, rows), 60)
    found = flows.over_time(flow, "exchange", "published", 60, 2).select("name", "messages").collect()
    assert {row["name"]: row["messages"] for row in found} == {"a": 3, "b": 2, None: 2}


def test_the_busiest_hour_of_a_day_is_found(spark: SparkSession) -> None:
    times = [0, 10, HOUR_S, DAY_S - 1, DAY_S, DAY_S + 1, DAY_S + 2]
    daily = flows.daily(flows.flows(frame(spark, [published(time, ["a"]) for time in times]), 60))
    day = BEGIN_S // DAY_S
    assert told(daily) == [(day, 4, 40, 2), (day + 1, 3, 30, 3)]


def test_percentiles_are_exact_and_of_each_queue(spark: SparkSession) -> None:
    rows = [passage("a", number, delivery_ms=number + 1) for number in range(100)] + [passage("b", 1, ack_ms=5)]
    counts = latencies.latency_counts(passage_counts(frame(spark, rows, PASSAGES), DAY_S))
    found = {(row["name"], row["kind"]): row for row in latencies.by_queue(counts).collect()}
    assert set(found) == {("a", "delivery"), ("b", "ack")}
    slow = found["a", "delivery"]
    assert (slow["messages"], slow["p50"], slow["longest"]) == (100, 50.5, 100)
    assert (slow["p90"], slow["p99"]) == (pytest.approx(90.1), pytest.approx(99.01))


def test_percentiles_are_by_the_step_of_the_publish(spark: SparkSession) -> None:
    rows = [
        passage("a", 1, delivery_ms=10),
        passage("a", HOUR_S + 1, delivery_ms=30),
        passage("b", HOUR_S, delivery_ms=50),
    ]
    counts = latencies.latency_counts(passage_counts(frame(spark, rows, PASSAGES), HOUR_S))
    course = {row["moment"] - BEGIN_S: row["p50"] for row in latencies.by_moment(counts).collect()}
    assert course == {0: 10, HOUR_S: 40}
    of_queues = latencies.by_queue_and_moment(counts, "delivery", 1).collect()
    assert {(row["name"], row["moment"] - BEGIN_S): row["p99"] for row in of_queues} == {
        ("a", 0): 10,
        ("a", HOUR_S): 30,
    }


def test_a_delivery_before_its_publish_is_counted_and_left_out(spark: SparkSession) -> None:
    rows = [passage("a", 1, delivery_ms=-5), passage("a", 2, delivery_ms=7)]
    counts = latencies.latency_counts(passage_counts(frame(spark, rows, PASSAGES), 60))
    assert [tuple(row) for row in latencies.negative_latencies(counts).collect()] == [(1,)]
    [row] = latencies.by_queue(counts).collect()
    assert (row["messages"], row["p50"]) == (1, 7)


def test_a_message_neither_delivered_nor_dead_lettered_waits(spark: SparkSession) -> None:
    rows = [
        passage("a", 0, exits=[after(65)]),
        passage("a", 1),
        passage("a", 61),
        passage("b", 0, exits=[after(1)]),
        passage("b", 2, exits=[after(3)]),
        passage(None, 5),
    ]
    change = latencies.backlog_changes(passage_counts(frame(spark, rows, PASSAGES), 60))
    told_changes = {(row["name"], row["moment"] - BEGIN_S): row["change"] for row in change.collect()}
    assert told_changes == {("a", 0): 2, ("a", 60): 0, ("b", 0): 0}
    assert told(latencies.final_backlog(change)) == [("/", "a", 2)]


def test_a_message_that_comes_to_a_queue_again_waits_there_again(spark: SparkSession) -> None:
    def round_of_retries(seconds: float) -> list[dict[str, Any]]:
        return [
            event(seconds, "received", queue="work", redelivered=False),
            event(seconds + 1, "dead_lettered", queue="work", routed_queues=["retry"], reason="rejected"),
            event(seconds + 9, "dead_lettered", queue="retry", routed_queues=["work"], reason="expired"),
        ]

    looping = [published(0, ["work"]), *round_of_retries(1), *round_of_retries(11), *round_of_retries(21)[:2]]
    assert waiting_in(spark, [each | key(1) for each in looping]) == {"retry": 1}
    assert waiting_in(spark, [each | key(1) for each in [*looping, *round_of_retries(21)[2:]]]) == {"work": 1}


def test_messages_from_before_the_trace_do_not_count(spark: SparkSession) -> None:
    got = [event(number, "received", queue="a", redelivered=False) | key(number) for number in range(3)]
    come = [published(number, ["a"]) | key(number) for number in (2, 3)]
    assert waiting_in(spark, got + come) == {"a": 1}


def test_a_message_whose_first_delivery_was_lost_with_its_node_does_not_wait(spark: SparkSession) -> None:
    again = [event(number, "received", queue="a", redelivered=True) for number in (5, 6)]
    assert waiting_in(spark, [each | key(1) for each in [published(0, ["a"]), *again]]) == {}


def test_equal_messages_from_several_queues_wait_as_often_as_they_came(spark: SparkSession) -> None:
    died = [
        event(number, "dead_lettered", queue=name, routed_queues=["graves"], reason="rejected")
        for number, name in enumerate(("a", "b", "c"))
    ]
    got = [event(5 + number, "received", queue="graves", redelivered=False) for number in range(2)]
    equal = {"message_key": "digest:x", "message_id": None}
    assert waiting_in(spark, [each | key(1) | equal for each in died + got]) == {"graves": 1}


def test_a_repetition_that_the_broker_drops_does_not_wait(spark: SparkSession) -> None:
    sent = [published(number, ["a"]) | key(1) | {"publisher": "till", "publishing_id": "1"} for number in range(3)]
    assert waiting_in(spark, sent) == {"a": 1}


def test_the_step_suits_the_span() -> None:
    assert [step_for(length) for length in (0, 600, 601, 6 * HOUR_S, DAY_S, 61 * DAY_S)] == [
        1,
        1,
        60,
        60,
        HOUR_S,
        DAY_S,
    ]


def test_the_findings_are_of_all_events(spark: SparkSession) -> None:
    sent = [published(number, ["a"]) | key(number) for number in range(4)]
    got = [event(number + 2, "received", queue="a", redelivered=False) | key(number) for number in range(3)]
    events = frame(spark, sent + got, f"{EVENTS}, {IDENTITY}")
    found = gather(events, passages(events))
    assert found is not None
    assert (found.first_s, found.last_s, found.events, found.step_s) == (BEGIN_S, BEGIN_S + 4, 7, 1)
    queue = TrafficEntity("/", "a")
    assert found.totals["exchange", "published"] == (4, 40)
    assert found.published == {TrafficEntity("/", "orders"): {BEGIN_S + number: 1 for number in range(4)}}
    assert found.delivered == {queue: {BEGIN_S + 2 + number: 1 for number in range(3)}}
    assert found.latency["delivery"][queue].p50 == 2000
    assert found.waiting == ((queue, 1),)
    assert found.backlog == {queue: {BEGIN_S: 1, BEGIN_S + 1: 1, BEGIN_S + 2: 0, BEGIN_S + 3: 0, BEGIN_S + 4: -1}}
    assert [day.messages for day in found.days] == [4]


def test_without_events_there_are_no_findings(spark: SparkSession) -> None:
    events = frame(spark, [], f"{EVENTS}, {IDENTITY}")
    assert gather(events, passages(events)) is None


IDENTITY = (
    "event_id string, message_key string, message_id string, correlation_id string, app_id string, publisher string, "
    "publishing_id string, routing_keys array<string>, delivery_mode int, priority int, expiration string, "
    "node string, connection string, channel int, user string"
)


def key(number: int) -> dict[str, Any]:
    """Who a message is, for `passages`."""
    nothing = dict.fromkeys(column.split()[0] for column in IDENTITY.split(", "))
    return {**nothing, "event_id": f"stream:trace/0/{number}", "message_key": f"id:{number}", "message_id": str(number)}


def waiting_in(spark: SparkSession, rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    events = frame(spark, rows, f"{EVENTS}, {IDENTITY}")
    left = latencies.final_backlog(latencies.backlog_changes(passage_counts(passages(events), 60)))
    return {row["name"]: row["waiting"] for row in left.collect()}


def passage(queue: str | None, seconds: float, **fields: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(column.split()[0] for column in PASSAGES.split(", "))
    identity = {"vhost": "/", "message_key": f"id:{next(_numbers)}", "copy": 1}
    came = {"published_at": after(seconds), "entries": [after(seconds)], "exits": []}
    return {**nothing, **identity, "queue": queue, **came, **fields}
