"""The audit of a real node: its Firehose into a lake, its own counters beside it.

Not here: the single counts (`test_audit_figures`).
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.node_process import NodeProcess
from tests.support.operator import Operator
from warren.cli.pipeline.audit import outcome_text
from warren.client import Message, Properties, blocking
from warren.pipeline import tables
from warren.pipeline.audit import counters
from warren.pipeline.audit.checks import CountersInterval
from warren.pipeline.audit.job import KIND, VERSION, AuditOutcome, Settings, run
from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import Folder
from warren.pipeline.trace import job as trace_job
from warren.pipeline.trace.sources import StreamSource

MESSAGES = 30
HELD = 4


@pytest.fixture(scope="module")
def traced(node: NodeProcess, url: str) -> Iterator[blocking.Channel]:
    """Traffic of every kind, all of it traced except the initial messages of queue `early`."""
    source = StreamSource(url, "trace", declare=True)
    source.prepare()
    operator = Operator(node.addresses["http"])
    with blocking.connect(url) as connection:
        channel = connection.channel(confirms=True)
        for queue in ("well", "purged", "waiting", "early", "graves"):
            channel.declare_queue(queue, durable=True)
        channel.declare_queue(
            "rejecting",
            durable=True,
            arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "graves"},
        )
        _publish(channel, "early", MESSAGES)
        operator.trace("/", True)
        _consume(channel, "early", MESSAGES)
        for queue in ("well", "waiting", "purged", "rejecting"):
            _publish(channel, queue, MESSAGES)
        _consume(channel, "well", MESSAGES)
        _consume(channel, "waiting", MESSAGES - HELD)
        _consume(channel, "purged", MESSAGES - HELD)
        channel.purge_queue("purged")
        for _ in range(HELD):
            delivery = channel.get("rejecting")
            assert delivery is not None
            channel.nack(delivery, requeue=False)
        _consume(channel, "rejecting", MESSAGES - HELD)
        _consume(channel, "graves", HELD)
        channel.publish(b"hello?", routing_key="nobody")
        yield channel


def _publish(channel: blocking.Channel, queue: str, count: int) -> None:
    for number in range(count):
        properties = Properties(message_id=f"{queue} {number}", delivery_mode=2)
        channel.publish(Message(b"goods", properties), routing_key=queue)


def _consume(channel: blocking.Channel, queue: str, count: int) -> None:
    for _ in range(count):
        delivery = channel.get(queue)
        assert delivery is not None
        channel.ack(delivery)


@pytest.fixture(scope="module")
def settings(
    traced: blocking.Channel,
    spark: SparkSession,
    node: NodeProcess,
    url: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Settings:
    """The counters are taken first, then the trace is read."""
    asked_at = datetime.now(UTC)
    host, port = node.addresses["http"]
    said = counters.from_broker(f"http://{host}:{port}", "guest", "guest")
    taken = CountersInterval(asked_at, datetime.now(UTC))
    lake = Folder(str(tmp_path_factory.mktemp("audit") / "lake"))
    trace_job.run(spark, trace_job.Settings(lake.uri, stream=StreamSource(url, "trace", declare=True)))
    return Settings(lake, said, lake.child("audit"), taken)


@pytest.fixture(scope="module")
def outcome(spark: SparkSession, settings: Settings) -> AuditOutcome:
    return run(spark, settings)


def _figures(outcome: AuditOutcome, *names: str) -> dict[str, tuple[object, ...]]:
    return {row["queue"]: tuple(row[name] for name in names) for row in outcome.queues}


def test_planted_losses_are_found_and_nothing_else(outcome: AuditOutcome) -> None:
    assert _figures(outcome, "lost", "duplicated", "out_of_order") == {
        "well": (0, 0, 0),
        "purged": (HELD, 0, 0),
        "waiting": (0, 0, 0),
        "early": (0, 0, 0),
        "rejecting": (0, 0, 0),
        "graves": (0, 0, 0),
    }
    assert not outcome.is_well


def test_the_lost_messages_are_named(outcome: AuditOutcome) -> None:
    [purged] = [row for row in outcome.queues if row["queue"] == "purged"]
    named = [each["message_key"] for each in purged["findings"]]
    assert named == [f"id:purged {number}" for number in range(MESSAGES - HELD, MESSAGES)]


def test_the_trace_agrees_with_the_counters_of_the_broker(outcome: AuditOutcome) -> None:
    seen = _figures(outcome, "published", "delivered", "acked", "in_queue")
    assert seen["well"] == (MESSAGES, MESSAGES, MESSAGES, 0)
    assert seen["waiting"] == (MESSAGES, MESSAGES - HELD, MESSAGES - HELD, HELD)
    assert seen["graves"] == (0, HELD, HELD, 0)
    counted = _figures(outcome, "broker_published", "broker_delivered", "broker_acked")
    assert counted["well"] == (MESSAGES, MESSAGES, MESSAGES)


def test_messages_published_before_the_trace_began_are_listed_apart(outcome: AuditOutcome) -> None:
    early = _figures(outcome, "published", "untraced", "note")["early"]
    assert early == (0, MESSAGES, f"the trace lacks {MESSAGES} publishes that the broker counted")


def test_the_outcome_is_printed_as_a_table(outcome: AuditOutcome) -> None:
    text = outcome_text(outcome).splitlines()
    titles = "vhost queue published confirmed delivered acked in queue lost duplicated out of order excused"
    assert " ".join(text[0].split()) == titles
    assert f"purged: lost: id:purged {MESSAGES - HELD}" in text
    assert "1 publishes came to no queue" in text
    assert text[-1] == f"6 queues: {HELD} lost, 0 duplicated, 0 out of order, 0 excused"


def test_the_table_has_the_reported_outcome(spark: SparkSession, settings: Settings, outcome: AuditOutcome) -> None:
    rows, facts = tables.read(spark, settings.out, KIND, VERSION)
    assert tuple(rows.collect()) == outcome.queues
    assert facts["unroutable"] == outcome.unroutable == 1


def test_an_audit_of_some_queues_says_of_them_what_the_whole_one_does(
    spark: SparkSession, settings: Settings, outcome: AuditOutcome, tmp_path: Path
) -> None:
    found = run(spark, replace(settings, queues=("well", "graves"), out=Folder(str(tmp_path / "audit"))))
    assert found.queues == tuple(row for row in outcome.queues if row["queue"] in ("graves", "well"))
    assert found.is_well


def test_an_unknown_queue_is_refused(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    out = Folder(str(tmp_path / "audit"))
    with pytest.raises(PipelineError, match="neither the broker nor the lake knows a queue 'wel'"):
        run(spark, replace(settings, queues=("wel",), out=out))
    assert not out.exists()
