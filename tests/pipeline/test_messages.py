"""Events of a trace become rows of messages."""

from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tests.pipeline.stories import Story, after
from warren.pipeline.trace.passages import message_lives


def _told() -> Story:
    story = Story()
    story.published("m1", "orders", "audit", correlation_id="c1")  # 0
    story.confirmed("m1", "orders")  # 1
    story.delivered("m1", "orders")  # 2
    story.rejected("m1", "orders", "requeued")  # 3
    story.delivered("m1", "orders", redelivered=True)  # 4
    story.acked("m1", "orders")  # 5
    story.published("m2")  # 6
    story.published("m3", "orders")  # 7
    story.delivered("m3", "orders")  # 8
    story.rejected("m3", "orders")  # 9
    story.dead_lettered("m3", "orders", "rejected", "graves")  # 10
    story.consumed("m3", "graves")  # 11, 12
    story.delivered("m4", "orders", redelivered=True)  # 13
    for _ in range(3):
        story.published("digest:a", "ticks")  # 14, 15, 16
    for _ in range(2):
        story.delivered("digest:a", "ticks")  # 17, 18
    story.delivered("digest:a", "ticks", redelivered=True)  # 19
    story.acked("digest:a", "ticks")  # 20
    story.published("m5", "orders", publisher="till", publishing_id="5")  # 21
    story.published("m5", "orders", publisher="till", publishing_id="5")  # 22
    story.published("m6", "orders")  # 23
    story.published("m6", "orders")  # 24
    return story


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> list[Row]:
    return message_lives(_told().frame(spark)).orderBy("message_key", "copy").collect()


def _life(rows: list[Row], key: str, copy: int = 1) -> Row:
    [found] = [row for row in rows if (row["message_key"], row["copy"]) == (key, copy)]
    return found


def _queue(life: Row, name: str) -> dict[str, Any]:
    [found] = [queue.asDict() for queue in life["queues"] if queue["queue"] == name]
    return found


def test_every_message_has_one_row(rows: list[Row]) -> None:
    keys = [(row["message_key"], row["copy"]) for row in rows]
    assert keys == [("digest:a", 1), ("digest:a", 2), ("digest:a", 3), *((f"id:m{n}", 1) for n in range(1, 7))]


def test_a_life_says_where_the_message_was_sent_and_where_it_went(rows: list[Row]) -> None:
    life = _life(rows, "id:m1")
    assert (life["message_id"], life["correlation_id"], life["exchange"], life["routing_keys"]) == (
        "m1",
        "c1",
        "market",
        ["new"],
    )
    assert (life["connection"], life["channel"], life["user"]) == ("publisher", 1, "guest")
    assert life["routed_queues"] == ["audit", "orders"]
    assert [queue["queue"] for queue in life["queues"]] == ["audit", "orders"]
    assert not life["unroutable"]


def test_a_queue_says_what_happened_to_the_message_in_it(rows: list[Row], spark: SparkSession) -> None:
    queue = _queue(_life(rows, "id:m1"), "orders")
    assert {name: queue[name] for name in ("publishes", "deliveries", "first_deliveries", "redelivered", "acked")} == {
        "publishes": 1,
        "deliveries": 2,
        "first_deliveries": 1,
        "redelivered": 1,
        "acked": 1,
    }
    assert (queue["rejected"], queue["requeued"], queue["confirmed"]) == (1, 1, 1)
    delivered_ms = (queue["last_delivered_at"] - queue["first_delivered_at"]).total_seconds() * 1000
    assert delivered_ms == 20
    untouched = _queue(_life(rows, "id:m1"), "audit")
    assert (untouched["publishes"], untouched["deliveries"], untouched["first_delivered_at"]) == (1, 0, None)


def test_latencies_count_from_the_publish(rows: list[Row]) -> None:
    life = _life(rows, "id:m1")
    assert (life["confirm_ms"], life["delivery_ms"], life["ack_ms"]) == (10, 20, 50)
    assert [_queue(life, "orders")[name] for name in ("confirm_ms", "delivery_ms", "ack_ms")] == [10, 20, 50]


def test_a_queue_that_never_acked_is_left_out_of_the_latency(rows: list[Row]) -> None:
    life = _life(rows, "id:m1")
    assert [(queue["queue"], queue["ack_ms"]) for queue in life["queues"]] == [("audit", None), ("orders", 50)]
    assert life["ack_ms"] == 50
    assert _life(rows, "id:m6")["ack_ms"] is None


def test_a_message_that_no_queue_took_is_unroutable(rows: list[Row]) -> None:
    life = _life(rows, "id:m2")
    assert (life["unroutable"], life["queues"], life["routed_queues"]) == (True, [], [])
    assert life["publishes"] == 1


def test_a_dead_letter_goes_on_in_the_queue_it_was_sent_to(rows: list[Row]) -> None:
    life = _life(rows, "id:m3")
    died, buried = _queue(life, "orders"), _queue(life, "graves")
    assert (died["dead_lettered"], died["reasons"], died["rejected"], died["requeued"]) == (1, ["rejected"], 1, 0)
    assert (buried["publishes"], buried["arrivals"], buried["acked"]) == (0, 1, 1)
    assert life["routed_queues"] == ["orders"]


def test_a_message_from_before_the_trace_has_no_latencies(rows: list[Row]) -> None:
    life = _life(rows, "id:m4")
    assert (life["published_at"], life["delivery_ms"], life["publishes"]) == (None, None, 0)
    assert not life["unroutable"]


def test_equal_messages_without_an_id_are_distinguished_by_count(rows: list[Row]) -> None:
    copies = [_queue(_life(rows, "digest:a", n), "ticks") for n in (1, 2, 3)]
    assert [queue["publishes"] for queue in copies] == [1, 1, 1]
    assert [queue["first_deliveries"] for queue in copies] == [1, 1, 0]
    assert sum(queue["redelivered"] for queue in copies) == 1
    assert [queue["delivery_ms"] for queue in copies] == [30, 30, None]


def test_a_publish_that_the_broker_drops_as_a_repetition_counts_once(rows: list[Row]) -> None:
    assert _life(rows, "id:m5")["publishes"] == 1
    assert _life(rows, "id:m6")["publishes"] == 2


def test_the_order_of_a_file_is_that_of_its_numbers(spark: SparkSession) -> None:
    story = Story()
    for name in ("digest:x", "digest:x"):
        story.published(name, "orders", payload_bytes=len(story.rows))
    # one instant, and bytes that would sort otherwise as text
    for row, place in zip(story.rows, ("file:one/all/9/20", "file:one/all/10/3"), strict=True):
        row |= {"event_id": place, "at": after(0)}
    first, second = message_lives(story.frame(spark)).orderBy("copy").collect()
    assert (first["payload_bytes"], second["payload_bytes"]) == (0, 1)
