"""A compensation: shown first, then approved, published, and confirmed; it can be killed at any point and run again.

    result ──▶ wanted ──▶ planned ──▶ [shown] ──▶ intent written ──▶ published ──▶ confirmed

A run that finds another one open finishes it from its intent, unless it is told to abandon it: then its messages count
as an attempt. If the open run was of the same result, nothing else is to do. If it was of another result, the current
result is older than the messages just sent, and acting on it would send some of them twice: it is refused until the
ledgers are reconciled again.

A result is identified by its rows and its day, not by when it was written. So a rewritten result with the same rows is
compensated once, unless another attempt is requested.

Not here: the messages and the table (`compensate.attempts`), the outbox (`compensate.outbox`).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from warren.pipeline import tables
from warren.pipeline.compensate import attempts as kept
from warren.pipeline.compensate import outbox
from warren.pipeline.compensate.attempts import (
    HEADERS,
    RUNS,
    Attempts,
    compensation_id,
    exhausted_keys,
    plan_messages,
    wanted_actions,
)
from warren.pipeline.compensate.outbox import OutboxPreview
from warren.pipeline.compensate.settings import CompensateSettings, chosen_actions
from warren.pipeline.errors import PipelineError
from warren.pipeline.progress import JobProgress, watch
from warren.pipeline.publication import PublishDestination, PublishPart, check_destination, parts_done, publish
from warren.pipeline.reconcile.job import KIND, VERSION

SHOWN: Final = "dry-run.json"
SAMPLE_ROWS: Final = 10


@dataclass(frozen=True)
class Compensated:
    """The messages that were sent, or in a dry run would be, by status and action."""

    counts: dict[tuple[str, str], int]
    exhausted: int
    sample: tuple[dict[str, Any], ...] = ()
    already: bool = False
    steps: Mapping[str, int] = field(default_factory=dict)
    """Through an outbox: the number of messages by step."""

    @property
    def messages(self) -> int:
        return sum(self.counts.values())


def run(spark: SparkSession, settings: CompensateSettings) -> Compensated:
    """Send the messages; a `PipelineError` if they were not shown before, or if the result is out of date."""
    with settings.state.alone():
        return _run(spark, settings)


def _run(spark: SparkSession, settings: CompensateSettings) -> Compensated:
    result, facts = tables.read(spark, settings.result, KIND, VERSION)
    day = settings.day or facts["day"]
    if day is None:
        raise PipelineError(f"{settings.result} has no day: --day says for which one it is compensated")
    with watch(spark, "compensate: planning"):
        identity = _identity(result, day)
        attempts = kept.read(spark, settings.state)
        if settings.abandon and attempts.open is not None:
            attempts = kept.abandoned(attempts)
            if not settings.dry_run:
                kept.write(attempts, settings.state)
                attempts = kept.read(spark, settings.state)
        if attempts.open is not None:
            return _resume(attempts, identity, settings)
        if identity in attempts.results and not settings.again:
            return Compensated({}, 0, already=True)
        actions = chosen_actions(settings.actions)
        found = wanted_actions(result, facts["ledgers"], facts["authority"], actions)
        messages = plan_messages(found, attempts.rows, settings.max_attempts, day, settings.routing_key)
        previewed = _previewed(messages, settings)
        messages = previewed.messages
        counts = _counts(messages)
        left_out = exhausted_keys(found, attempts.rows, settings.max_attempts).count()
    shown = settings.shown(identity)
    if settings.dry_run:
        settings.state.put_json(SHOWN, shown)
        return Compensated(counts, left_out, _sample(messages), steps=previewed.steps)
    if not settings.yes and settings.state.read_json(SHOWN) != shown:
        raise PipelineError("these messages were not shown before: run it with --dry-run first, or with --yes")
    steps = previewed.idle
    if counts:
        _check_destination(messages, attempts, settings)
        kept.opened(attempts, messages, identity, settings.exchange, settings.state, settings.through)
        steps = Counter(steps) + Counter(_finish(kept.read(spark, settings.state), settings))
    return Compensated(counts, left_out, steps=steps)


def _check_destination(messages: DataFrame, attempts: Attempts, settings: CompensateSettings) -> None:
    """Check before the intent is written, because an intent has to be carried out."""
    if settings.outbox:
        outbox.check_outbox(settings.outbox)
        return
    destination = PublishDestination(settings.url, attempts.publisher, settings.exchange, settings.timeout_s)
    keys = sorted(row["routing_key"] for row in messages.select("routing_key").distinct().collect())
    check_destination(destination, keys)


def _resume(attempts: Attempts, identity: str, settings: CompensateSettings) -> Compensated:
    """Finish the open run."""
    run = attempts.open
    assert run is not None
    messages = attempts.rows.where(sql.col("run") == run.number)
    counts = _counts(messages)
    if run.through != settings.through:
        raise PipelineError(
            f"a run that has not ended goes through the {run.through}: end it there, or give it up with --abandon"
        )
    if settings.dry_run:
        return Compensated(counts, 0, _sample(messages), steps=_previewed(messages, settings).steps)
    steps = _finish(attempts, settings)
    if run.result != identity:
        raise PipelineError(
            f"{run.messages} messages of an earlier run that had not ended are sent; reconcile again, because this "
            "result may not know of them"
        )
    return Compensated(counts, 0, steps=steps)


def _previewed(messages: DataFrame, settings: CompensateSettings) -> OutboxPreview:
    """A broker takes all messages; an outbox some."""
    if not settings.outbox:
        return OutboxPreview({}, messages)
    return outbox.preview_in_outbox(messages, settings.exchange, settings.outbox, settings.keep)


def _finish(attempts: Attempts, settings: CompensateSettings) -> Mapping[str, int]:
    """Publish the rest of the open run and close it; through an outbox, the steps."""
    run = attempts.open
    assert run is not None
    folder = settings.state.child(RUNS).child(str(run.number))
    done = parts_done(folder)
    kept.begun(attempts, settings.state)
    with JobProgress("compensate: messages", run.messages) as progress:

        def report_part(part: PublishPart) -> None:
            progress.advance(part.messages)

        progress.advance(sum(part.messages for part in run.parts if part.number in done))
        steps: Mapping[str, int] = {}
        if settings.outbox:
            rows = attempts.rows.where(sql.col("run") == run.number)
            steps = outbox.settle_in_outbox(rows, run, folder, settings.outbox, settings.keep, report_part)
        else:
            name = f"{attempts.publisher}-{run.number}"
            destination = PublishDestination(settings.url, name, run.exchange, settings.timeout_s)
            publish(as_messages(attempts.rows, run.number), run.parts, folder, destination, report_part)
    kept.closed(attempts, settings.state)
    return steps


def as_messages(attempts: DataFrame, run: int) -> DataFrame:
    """The messages of a run, as the sink takes them."""
    entries = [column for name in HEADERS for column in (sql.lit(name), sql.col(name).cast("string"))]
    entries += [sql.lit("compensation_id"), compensation_id()]
    return attempts.where(sql.col("run") == run).select(
        "part",
        "routing_key",
        "message_id",
        sql.struct(sql.lit("application/json").alias("content_type")).alias("properties"),
        sql.create_map(*entries).alias("headers"),
        "body",
    )


def _identity(result: DataFrame, day: str) -> str:
    """The same for the same rows in any order."""
    digests = result.select(sql.xxhash64(sql.to_json(sql.struct(*result.columns))).cast("decimal(38, 0)").alias("row"))
    row = digests.agg(sql.count("*").alias("rows"), sql.sum("row").alias("sum")).first()
    assert row is not None
    return sha256(f"{day} {row['rows']} {row['sum']}".encode()).hexdigest()[:32]


def _counts(messages: DataFrame) -> dict[tuple[str, str], int]:
    rows = messages.groupBy("status", "action").count().orderBy("status", "action").collect()
    return {(row["status"], row["action"]): row["count"] for row in rows}


def _sample(messages: DataFrame) -> tuple[dict[str, Any], ...]:
    columns = ("key", "ledger", "status", "action", "attempt", "routing_key", "body")
    return tuple(
        row.asDict() for row in messages.orderBy("key", "ledger").select(*columns).limit(SAMPLE_ROWS).collect()
    )
