"""Compensation through an outbox: its rows are resent or reversed, or messages are added to it.

    planned ──▶ those that the outbox can act on ──▶ attempts
    attempts ──▶ findings, part by part ──▶ `client.ledgers.corrections`, a transaction for each part

The limit of attempts and the intent are the same as for a broker; only the last step differs. A message that the outbox
would not act on is no attempt. After a kill a part is applied again, of which the outbox has all or nothing.

Not here: the step for a finding (`client.ledgers.corrections`).
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from warren.client.errors import ClientError
from warren.pipeline.compensate.attempts import HEADERS, OpenRun, compensation_id
from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import Folder
from warren.pipeline.publication import PublishPart, write_parts
from warren.pipeline.reconcile.comparison import UNEXPECTED

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from warren.client.ledgers.corrections import ReconciliationFinding


DONE: Final = ("resent", "reversed", "added")
"""The steps that send a message."""


def check_outbox(url: str) -> None:
    """A `PipelineError` unless the database and its tables exist."""
    from warren.client.ledgers.database import check_ledger

    with _opened(url) as engine:
        check_ledger(engine)


@dataclass(frozen=True)
class OutboxPreview:
    """The steps that would be taken now: their counts, and the messages that would be acted on."""

    steps: Mapping[str, int]
    messages: DataFrame

    @property
    def idle(self) -> Mapping[str, int]:
        """The counts of steps that do nothing."""
        return {step: count for step, count in self.steps.items() if step not in DONE}


def preview_in_outbox(messages: DataFrame, exchange: str, url: str, keep: timedelta) -> OutboxPreview:
    with _opened(url) as engine:
        from warren.client.ledgers.corrections import preview_corrections

        findings = list(_findings(messages, exchange))
        steps = preview_corrections(engine, findings, keep)
    idle = [(each.message_id,) for each, step in zip(findings, steps, strict=True) if not step.is_done]
    counts = Counter(step.value for step in steps)
    if not idle:
        return OutboxPreview(counts, messages)
    without = messages.sparkSession.createDataFrame(idle, "idle string")
    chosen = messages.join(without, compensation_id() == sql.col("idle"), "left_anti")
    return OutboxPreview(counts, chosen)


def settle_in_outbox(
    rows: DataFrame, run: OpenRun, folder: Folder, url: str, keep: timedelta, report: Callable[[PublishPart], None]
) -> Mapping[str, int]:
    """Apply the rest of the run; returns its steps. Parts that an earlier run applied are not included."""
    steps: Counter[str] = Counter()
    with _opened(url) as engine:
        from warren.client.ledgers.corrections import apply_corrections

        def write(wave: Sequence[PublishPart]) -> None:
            for part in wave:
                findings = _findings(rows.where(sql.col("part") == part.number), run.exchange)
                steps.update(step.value for step in apply_corrections(engine, findings, keep))

        write_parts(run.parts, folder, write, report)
    return steps


@contextmanager
def _opened(url: str) -> "Iterator[Engine]":
    try:
        from warren.client.ledgers.database import open_database
    except ModuleNotFoundError as error:
        raise PipelineError(f"an outbox needs more packages: pip install 'warren[database]' ({error.name})") from None
    try:
        engine = open_database(url)
        try:
            yield engine
        finally:
            engine.dispose()
    except ClientError as error:
        raise PipelineError(f"the outbox: {error}") from None


def _findings(rows: DataFrame, exchange: str) -> "Iterator[ReconciliationFinding]":
    """In a fixed order, so that a part that is applied again is the same."""
    from warren.client.ledgers.corrections import ReconciliationFinding

    columns = ("routing_key", "body", *HEADERS)
    chosen = rows.select(*columns, compensation_id().alias("compensation_id")).orderBy("compensation_id")
    for row in chosen.toLocalIterator():
        values: dict[str, Any] = row.asDict()
        yield ReconciliationFinding(
            business_id=values["key"],
            action=values["action"],
            is_unexpected=values["status"] == UNEXPECTED,
            message_id=values["compensation_id"],
            body=values["body"].encode(),
            headers={name: str(values[name]) for name in (*HEADERS, "compensation_id")},
            exchange=exchange,
            routing_key=values["routing_key"],
            at=_moment(values["body"]),
        )


def _moment(body: str) -> datetime | None:
    """The time of the wrong row in an inbox, or of the right row in an outbox."""
    said = json.loads(body)
    if not isinstance(said, dict):
        return None
    wrong, right = said.get("wrong"), said.get("right")
    times = [
        record.get(name)
        for record, name in ((wrong, "received_at"), (right, "created_at"), (said, "created_at"))
        if isinstance(record, dict)
    ]
    for text in times:
        try:
            found = datetime.fromisoformat(str(text))
        except ValueError:
            continue
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    return None
