"""Faults of every kind, planted in queues of their own, and cases that only look like faults.

Not here: the audit of a real node (`test_audit`).
"""

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tests.pipeline.stories import Story, after
from warren.pipeline.audit import counters
from warren.pipeline.audit.checks import CountersInterval, check_passages, findings, queue_stats, unroutable
from warren.pipeline.trace.passages import passages

FAULTS = ("lost", "duplicated", "out_of_order")


def _losses(story: Story) -> dict[str, Mapping[str, Any]]:
    for name in ("a1", "a2", "a3"):
        story.passed(name, "well")
        story.published(f"lossy {name}", "lossy")
        story.published(f"waiting {name}", "waiting")
        story.published(f"short {name}", "short")
        story.published("digest:equal", "equal")
    for name in ("a1", "a3"):
        story.consumed(f"lossy {name}", "lossy")
        story.delivered("digest:equal", "equal")
    story.consumed("waiting a1", "waiting")
    story.published("market square", "torn down")
    story.published("nobody", "never was", exchange="")
    story.published("no binding")
    story.published("ack is enough", "acked only")
    story.acked("ack is enough", "acked only")
    return {
        "well": {"lost": 0, "published": 3, "delivered": 3, "acked": 3, "note": ""},
        "lossy": {"lost": 1, "published": 3, "delivered": 2, "acked": 2, "findings": [("lost", "id:lossy a2")]},
        "waiting": {"lost": 0, "in_queue": 2, "note": ""},
        "short": {"lost": 1, "in_queue": 2, "findings": [("lost", "id:short a1")]},
        "equal": {"lost": 1, "published": 3, "delivered": 2},
        "torn down": {"lost": 1, "note": "the queue does not exist any more"},
        "acked only": {"lost": 0},
    }


def _excuses(story: Story) -> dict[str, Mapping[str, Any]]:
    for name in ("b1", "b2", "b3"):
        story.published(f"mirrored {name}", "mirrored")
    for name in ("b1", "b2"):
        story.confirmed(f"mirrored {name}", "mirrored")
    story.consumed("mirrored b1", "mirrored")
    story.published("short-lived", "brief", expiration="5")
    story.published("long-lived", "brief", expiration="3600000")
    story.published("dropped", "limited")
    return {
        "mirrored": {"lost": 1, "excused": 1, "confirmed": 2, "findings": [("lost", "id:mirrored b2")]},
        "brief": {"lost": 1, "excused": 1, "findings": [("lost", "id:long-lived")]},
        "limited": {"lost": 0, "excused": 1, "note": "its limits may have dropped messages without a dead letter"},
    }


def _dead_letters(story: Story) -> dict[str, Mapping[str, Any]]:
    story.published("late", "timed")
    story.dead_lettered("late", "timed", "expired", "graves", "robbed graves")
    story.consumed("late", "graves")
    story.dead_lettered("late", "timed", "expired", "haunted graves")
    for _ in range(2):
        story.delivered("late", "haunted graves")
    for name, queue, pause in (("again", "tried", "pause"), ("digest:again", "tried equal", "pause equal")):
        story.published(name, queue)
        story.delivered(name, queue)
        story.rejected(name, queue)
        story.dead_lettered(name, queue, "rejected", pause)
        story.dead_lettered(name, pause, "expired", queue)
        story.consumed(name, queue)
    return {
        "timed": {"lost": 0, "dead_lettered": 2},
        "graves": {"lost": 0, "published": 0, "delivered": 1},
        "haunted graves": {"lost": 0, "duplicated": 1, "findings": [("duplicated", "id:late")]},
        "robbed graves": {"lost": 1, "findings": [("lost", "id:late")]},
        "tried": {"lost": 0, "duplicated": 0, "delivered": 2},
        "pause": {"lost": 0, "duplicated": 0},
        "tried equal": {"lost": 0, "duplicated": 0, "delivered": 2},
        "pause equal": {"lost": 0, "duplicated": 0},
    }


def _repetitions(story: Story) -> dict[str, Mapping[str, Any]]:
    story.passed("c1", "doubled")
    story.consumed("c1", "doubled")
    story.published("c2", "returned")
    story.delivered("c2", "returned")
    story.consumed("c2", "returned", redelivered=True)
    story.published("c3", "sent twice")
    story.passed("c3", "sent twice")
    for _ in range(2):
        story.published("c4", "repeated", publisher="till", publishing_id="1")
    story.consumed("c4", "repeated")
    for queue in ("equal twice", "untraced equal"):
        story.passed(f"digest:{queue}", queue)
        story.consumed(f"digest:{queue}", queue)
    story.consumed("c5", "begun before")
    return {
        "doubled": {"duplicated": 1, "delivered": 2, "findings": [("duplicated", "id:c1")]},
        "returned": {"duplicated": 0, "delivered": 1, "redelivered": 1},
        "sent twice": {"duplicated": 1, "lost": 0, "findings": [("duplicated", "id:c3")]},
        "repeated": {"duplicated": 0, "published": 1},
        "equal twice": {"duplicated": 1},
        "untraced equal": {"duplicated": 0, "note": "the trace lacks 1 publishes that the broker counted"},
        "begun before": {"duplicated": 0, "lost": 0, "untraced": 1},
    }


def _orders(story: Story) -> dict[str, Mapping[str, Any]]:
    queues = ("swapped", "two readers", "redelivered late", "two publishers", "two keys")
    for queue in queues:
        story.published(f"{queue} 1", queue)
        if queue == "two publishers":
            story.published(f"{queue} 2", queue, connection="another")
        else:
            story.published(f"{queue} 2", queue, key="other" if queue == "two keys" else "new")
        story.published(f"{queue} 3", queue)
    for queue in queues:
        story.consumed(f"{queue} 2", queue, connection="second" if queue == "two readers" else "consumer")
        story.consumed(f"{queue} 1", queue, redelivered=queue == "redelivered late")
        story.consumed(f"{queue} 3", queue)
    for number, priority in enumerate((1, 9)):
        story.published(f"urgent {number}", "by priority", priority=priority)
    for number in (1, 0):
        story.consumed(f"urgent {number}", "by priority")
    for name in ("sent again 1", "sent again 2", "sent again 1"):
        story.published(name, "sent again", publisher="till", publishing_id=name)
    for name in ("sent again 2", "sent again 1"):
        story.consumed(name, "sent again")
    fine = {queue: {"out_of_order": 0} for queue in (*queues[1:], "by priority", "sent again")}
    return {"swapped": {"out_of_order": 1, "findings": [("out of order", "id:swapped 2")]}, **fine}


STORIES = (_losses, _excuses, _dead_letters, _repetitions, _orders)
WAITING = {"waiting": 2, "short": 2}


def _counters(queues: list[str]) -> list[dict[str, Any]]:
    """What /api/queues would answer."""
    rows: list[dict[str, Any]] = [
        {"vhost": "/", "name": name, "messages": 99, "messages_ready": WAITING.get(name, 0)}
        for name in queues
        if name != "torn down"
    ]
    for row in rows:
        if row["name"] == "limited":
            row["arguments"] = {"x-max-length": 10}
        if row["name"] == "untraced equal":
            row["message_stats"] = {"publish": 2, "deliver_get": 2, "ack": 2}
    return [*rows, {"vhost": "/", "name": "kept", "type": "stream", "messages": 5}]


@pytest.fixture(scope="module")
def expected() -> dict[str, Mapping[str, Any]]:
    return {queue: figure for tell in STORIES for queue, figure in tell(Story()).items()}


@pytest.fixture(scope="module")
def audited(spark: SparkSession, expected: dict[str, Mapping[str, Any]]) -> tuple[dict[str, Row], int]:
    story = Story()
    for tell in STORIES:
        tell(story)
    story.published("kept for ever", "kept")
    ways = check_passages(passages(story.frame(spark)), taken(len(story.rows))).persist()
    counted = counters.frame(spark, counters.parsed(_counters(list(expected)), "the test").queues)
    rows = findings(ways, queue_stats(ways, counted), 10).collect()
    nowhere = unroutable(ways, counted).collect()[0]["publishes"]
    ways.unpersist()
    return {row["queue"]: row for row in rows}, nowhere


def test_every_queue_that_was_one_is_audited(
    audited: tuple[dict[str, Row], int], expected: dict[str, Mapping[str, Any]]
) -> None:
    assert sorted(audited[0]) == sorted(expected)


@pytest.mark.parametrize("queue", [queue for tell in STORIES for queue in tell(Story())])
def test_a_queue_has_the_faults_that_were_planted_and_no_others(
    queue: str, audited: tuple[dict[str, Row], int], expected: dict[str, Mapping[str, Any]]
) -> None:
    row = audited[0][queue].asDict()
    row["findings"] = [(each["finding"], each["message_key"]) for each in row["findings"]]
    wanted = dict.fromkeys(FAULTS, 0) | expected[queue]
    if not any(wanted[fault] for fault in FAULTS):
        wanted["findings"] = []
    assert {name: row[name] for name in wanted} == wanted


def test_publishes_that_came_to_no_queue_are_counted_apart(audited: tuple[dict[str, Row], int]) -> None:
    assert audited[1] == 2


def test_messages_published_after_the_counters_were_taken_are_not_missed(spark: SparkSession) -> None:
    story = Story()
    story.published("in time", "orders")
    story.published("too late", "orders")
    counted = counters.frame(spark, counters.parsed([{"vhost": "/", "name": "orders", "messages": 0}], "").queues)
    ways = passages(story.frame(spark))
    assert queue_stats(check_passages(ways, taken(0)), counted).collect()[0]["lost"] == 1
    assert queue_stats(check_passages(ways, None), counted).collect()[0]["lost"] == 2


def test_messages_that_waited_then_and_were_delivered_since_hide_no_loss(spark: SparkSession) -> None:
    story = Story()
    story.published("lost", "orders")
    story.published("waiting", "orders")
    story.published("on its way", "orders")
    story.delivered("on its way", "orders")
    story.delivered("waiting", "orders")
    waiting = [{"vhost": "/", "name": "orders", "messages": 1}]
    counted = counters.frame(spark, counters.parsed(waiting, "").queues)
    ways = passages(story.frame(spark))
    (row,) = queue_stats(check_passages(ways, CountersInterval(after(2), after(3))), counted).collect()
    assert (row["lost"], row["in_queue"], row["note"]) == (1, 1, "")


def test_waiting_messages_are_taken_for_unconfirmed_ones(spark: SparkSession) -> None:
    story = Story()
    for name in ("a", "b"):
        story.published(name, "orders")
    story.confirmed("a", "orders")
    waiting = [{"vhost": "/", "name": "orders", "messages": 1}]
    counted = counters.frame(spark, counters.parsed(waiting, "").queues)
    (row,) = queue_stats(check_passages(passages(story.frame(spark)), taken(5)), counted).collect()
    assert (row["lost"], row["excused"]) == (1, 0)


def taken(number: int) -> CountersInterval:
    return CountersInterval(after(number), after(number))
