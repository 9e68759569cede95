"""The audit as a job: a lake and the broker's counters in, a table of queues out.

    outcome = run(spark, Settings(lake, counters, out))
    outcome.is_well                 # nothing lost, nothing twice, nothing out of order

The table (`pipeline.tables`) has the stats and the lists of `audit.checks`. It is one table, so that both are always of
the same run.

Not here: counters (`audit.counters`), the lake (`pipeline.trace`).
"""

from dataclasses import dataclass
from typing import Final, final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sql

from warren.pipeline import tables
from warren.pipeline.audit import counters as broker
from warren.pipeline.audit.checks import FAULTS, CountersInterval, check_passages, findings, queue_stats, unroutable
from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import Folder
from warren.pipeline.progress import watch
from warren.pipeline.trace import lake as trace_lake
from warren.pipeline.trace.passages import passages

KIND: Final = "audit of queues"
VERSION: Final = 1


@final
@dataclass(frozen=True)
class Settings:
    """The traces to audit, and the place of the result."""

    lake: Folder
    counters: broker.Counters
    out: Folder
    taken: CountersInterval | None = None
    """When the counters were taken: later publishes are not expected in them. None: after everything else."""
    queues: tuple[str, ...] = ()
    """Only these queues; all if empty."""
    listed: int = 100
    """How many messages of each kind are listed for a queue."""

    def check(self) -> None:
        """Check the settings before Spark starts."""
        trace_lake.check(self.lake)
        if self.taken is not None:
            for at in (self.taken.asked_at, self.taken.answered_at):
                if at.tzinfo is None:
                    raise PipelineError(f"{at.isoformat()} has no time zone, and an audit needs to know it")
            if self.taken.answered_at < self.taken.asked_at:
                raise PipelineError("the broker cannot have answered before it was asked for its counters")
        if self.listed < 1:
            raise PipelineError("a list of findings has at least one")
        for each in self.counters.queues:
            asked_for = not self.queues or each.queue in self.queues
            if asked_for and not each.stream and each.in_queue is None:
                raise PipelineError(
                    f"queue {each.queue!r} in virtual host {each.vhost!r} does not say how many messages are in it; "
                    "audit it when its node runs"
                )


@final
@dataclass(frozen=True)
class AuditOutcome:
    """The result; `queues` has a row for each queue, with its lists."""

    queues: tuple[Row, ...]
    unroutable: int
    copies_dropped: int

    def total(self, fault: str) -> int:
        return sum(row[fault] for row in self.queues)

    @property
    def is_well(self) -> bool:
        return not any(self.total(fault) for fault in FAULTS)


def run(spark: SparkSession, settings: Settings) -> AuditOutcome:
    """Audit, and replace the table."""
    with settings.out.alone():
        return _run(spark, settings)


def _run(spark: SparkSession, settings: Settings) -> AuditOutcome:
    settings.check()
    counted = broker.frame(spark, settings.counters.queues)
    everything = check_passages(passages(trace_lake.events(spark, settings.lake)), settings.taken).persist()
    asked_for = _asked_for(everything, settings.queues)
    totals = queue_stats(asked_for, counted).persist()
    try:
        with watch(spark, "audit"):
            _check_names(everything, settings)
            lost_way = int(unroutable(everything, counted).collect()[0]["publishes"])
            table = findings(asked_for, totals, settings.listed).coalesce(1).sortWithinPartitions("vhost", "queue")
            tables.replace(table, settings.out, KIND, VERSION, _facts(settings, lost_way))
    finally:
        totals.unpersist()
        everything.unpersist()
    rows, _ = tables.read(spark, settings.out, KIND, VERSION)
    return AuditOutcome(tuple(rows.orderBy("vhost", "queue").collect()), lost_way, settings.counters.copies_dropped)


def _asked_for(ways: DataFrame, queues: tuple[str, ...]) -> DataFrame:
    return ways.where(sql.col("queue").isin(*queues)) if queues else ways


def _check_names(ways: DataFrame, settings: Settings) -> None:
    """A requested queue that is unknown is a typo, not a queue without faults."""
    unknown = set(settings.queues) - {each.queue for each in settings.counters.queues}
    if unknown:
        unknown -= {
            row["queue"] for row in ways.select("queue").where(sql.col("queue").isin(*unknown)).distinct().collect()
        }
    if unknown:
        raise PipelineError(f"neither the broker nor the lake knows a queue {min(unknown)!r}")


def _facts(settings: Settings, lost_way: int) -> dict[str, object]:
    return {
        "until": None if settings.taken is None else settings.taken.asked_at.isoformat(),
        "answered": None if settings.taken is None else settings.taken.answered_at.isoformat(),
        "queues": list(settings.queues),
        "unroutable": lost_way,
        "copies_dropped": settings.counters.copies_dropped,
    }
