"""What is to be sent, through an outbox: rows of it are sent again or taken back, or messages are added to it.

    attempts ──▶ findings, part by part ──▶ `client.ledgers.settling`, a transaction for each part

What was decided about how often a key is tried, and the intent, are those of any compensation; only the last step is
another. After a kill a part is settled again, of which the outbox has all or nothing.

Not here: what is done about a finding (`client.ledgers.settling`).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from warren.client.errors import ClientError
from warren.pipeline.compensate.attempts import OpenRun
from warren.pipeline.compensate.planning import HEADERS, compensation_id
from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import Folder
from warren.pipeline.publishing import Part, carry_out
from warren.pipeline.reconcile.statuses import UNEXPECTED

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from warren.client.ledgers.settling import Finding


def check(url: str) -> None:
    """A `PipelineError` unless the database is there, and has the tables."""
    from warren.client.ledgers.reading import check_ledger

    with _opened(url) as engine:
        check_ledger(engine)


def previewed(messages: DataFrame, exchange: str, url: str) -> Mapping[str, int]:
    """What would become of these messages, by now: how many of each."""
    with _opened(url) as engine:
        from warren.client.ledgers.settling import preview

        return Counter(step.value for step in preview(engine, _findings(messages, exchange)))


def settled(rows: DataFrame, run: OpenRun, folder: Folder, url: str, tell: Callable[[Part], None]) -> Mapping[str, int]:
    """Carry out what is left of the run; what became of it. Parts that an earlier one has carried out are not in it."""
    steps: Counter[str] = Counter()
    with _opened(url) as engine:
        from warren.client.ledgers.settling import settle

        def write(wave: Sequence[Part]) -> None:
            for part in wave:
                findings = _findings(rows.where(sql.col("part") == part.number), run.exchange)
                steps.update(step.value for step in settle(engine, findings))

        carry_out(run.parts, folder, write, tell)
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


def _findings(rows: DataFrame, exchange: str) -> "Iterator[Finding]":
    """In an order of their own, so that a part that is settled again is settled alike."""
    from warren.client.ledgers.settling import Finding

    columns = ("message_id", "routing_key", "body", *HEADERS)
    chosen = rows.select(*columns, compensation_id().alias("compensation_id")).orderBy("message_id")
    for row in chosen.toLocalIterator():
        values: dict[str, Any] = row.asDict()
        yield Finding(
            business_id=values["key"],
            action=values["action"],
            is_unexpected=values["status"] == UNEXPECTED,
            message_id=values["message_id"],
            body=values["body"].encode(),
            headers={name: str(values[name]) for name in (*HEADERS, "compensation_id")},
            exchange=exchange,
            routing_key=values["routing_key"],
        )
