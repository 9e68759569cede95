"""`reconcile`: reads the ledgers, compares them, and writes the result.

::

    OUT/table.json, OUT/data/       the keys that are not in balance, as a table (`pipeline.tables`)
    OUT/summary.json                the counts, beside the table
    OUT/report.html                 the page, likewise
    OUT/unfinished/                 while it runs

The ledgers are opened and their columns checked before anything is written, and the table is replaced in one step. A
job that was killed leaves the result as it was, and is run again.

Messages in flight while the ledgers are read are no differences, as far as ledgers show them (`reconcile.ledgers`).

Invariant: every pass sees the same rows. A source that may change meanwhile is read once, and kept for the run.

Not here: the comparison (`reconcile.comparison`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from functools import reduce
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sql

from warren.client.errors import ClientError
from warren.pipeline import tables
from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import Folder, as_text
from warren.pipeline.progress import watch
from warren.pipeline.reconcile import comparison, ledgers, sources
from warren.pipeline.reconcile.ledgers import OpenLedger
from warren.pipeline.reconcile.settings import ReconcileSettings
from warren.pipeline.reconcile.sources import CHANGING_KINDS
from warren.pipeline.reconcile.summary import (
    DifferenceList,
    LedgerCounts,
    ReconcileOutcome,
    facts,
    reconciliation,
    render_page,
    trimmed,
)

KIND: Final = "reconciled keys"
VERSION: Final = 1
SUMMARY: Final = "summary.json"
REPORT: Final = "report.html"
LISTED_MAX: Final = 200
BROADCAST_KEYS_MAX: Final = 1_000_000
"""As many keys fit into every task's memory; the ledgers' rows are filtered by them without a shuffle."""


def run(spark: SparkSession, settings: ReconcileSettings, out: Folder) -> ReconcileOutcome:
    """Compare the ledgers, and write the result to `out`."""
    with out.alone():
        return _run(spark, settings, out)


def _run(spark: SparkSession, settings: ReconcileSettings, out: Folder) -> ReconcileOutcome:
    opened = ledgers.open_ledgers(spark, settings)
    if out.exists(tables.TABLE):
        tables.described(out, KIND, VERSION)
    moments = ledgers.database_times(settings)
    with _workplace(out) as work:
        in_order = [_kept(spark, ledger, work) for ledger in sorted(opened, key=ledgers.is_read_last)]
        opened = sorted(in_order, key=lambda ledger: ledger.number)
        with watch(spark, "looking for messages in flight"):
            opened, in_flight = ledgers.without_in_flight(
                settings, opened, moments, lambda keys: _stored(spark, keys, work.child("in-flight"))
            )
        with watch(spark, "counting rows"):
            counted = _count_rows(settings, opened)
        _refuse_empty(settings, counted)
        with watch(spark, "comparing keys"):
            found = comparison.suspects(_union(settings, opened), settings)
            keys = _stored(spark, found, work.child("suspects"))
        with watch(spark, "judging differences"):
            compared = _stored(
                spark, comparison.compare_keys(_picked(settings, opened, keys), settings), work.child("judged")
            )
            outcome = replace(_outcome(settings, counted, compared), in_flight=in_flight)
            result = _result(settings, compared)
            beside = {
                SUMMARY: as_text(facts(outcome)),
                REPORT: render_page(reconciliation(outcome, _lists(result, outcome))),
            }
            tables.replace(result.orderBy("status", "key"), out, KIND, VERSION, facts(outcome), beside)
    return outcome


@contextmanager
def _workplace(out: Folder) -> Iterator[Folder]:
    """A folder for the run; after a failure also `out` is removed if it did not exist before."""
    work = out.child("unfinished")
    work.delete()
    try:
        yield work
    finally:
        work.delete()
        if out.exists() and not out.children():
            out.delete()


def _kept(spark: SparkSession, ledger: OpenLedger, work: Folder) -> OpenLedger:
    source, folder = ledger.ledger.source, work.child(f"ledger-{ledger.ledger.name}")
    if source.kind not in CHANGING_KINDS:
        return ledger
    with watch(spark, f"reading {ledger.ledger.name}"):
        if source.kind in sources.TIME_COLUMNS:
            return ledgers.kept_whole(ledger, _copied(spark, ledger, folder))
        return ledgers.kept(ledger, _stored(spark, ledger.frame, folder))


def _copied(spark: SparkSession, ledger: OpenLedger, folder: Folder) -> DataFrame:
    try:
        return sources.copied(spark, ledger.ledger.source, folder)
    except ClientError as error:
        raise PipelineError(f"ledger {ledger.ledger.name}: {error}") from None


def _stored(spark: SparkSession, frame: DataFrame, folder: Folder) -> DataFrame:
    tables.write(frame, folder)
    return spark.read.schema(frame.schema).parquet(folder.uri)


def _union(settings: ReconcileSettings, opened: list[OpenLedger]) -> DataFrame:
    return reduce(DataFrame.union, (ledgers.rows(settings, opened, ledger) for ledger in opened))


def _picked(settings: ReconcileSettings, opened: list[OpenLedger], keys: DataFrame) -> DataFrame:
    """The rows of these keys, each with its ledger's whole row as `record`."""
    wanted = keys.select(sql.col("key").alias("wanted"))
    if keys.count() <= BROADCAST_KEYS_MAX:
        wanted = sql.broadcast(wanted)
    picked = []
    for ledger in opened:
        rows = ledgers.rows(settings, opened, ledger, with_raw=True)
        chosen = rows.join(wanted, sql.col("key").eqNullSafe(sql.col("wanted")), "left_semi")
        record = sql.to_json("raw", {"ignoreNullFields": "false"}).alias("record")
        picked.append(chosen.select(*(name for name in rows.columns if name != "raw"), record))
    return reduce(DataFrame.union, picked)


def _count_rows(settings: ReconcileSettings, opened: list[OpenLedger]) -> dict[str, dict[str, Any]]:
    """For each ledger: all rows, those of the day, and the sums of their amounts."""
    of_day = comparison.is_in_day(settings.business_day)
    aggregates = [sql.count(sql.lit(1)).alias("all"), sql.count_if(of_day).alias("rows")]
    if len(settings.amounts) == 1 and not settings.compared:
        aggregates.append(sql.sum(sql.when(of_day, sql.col(settings.amounts[0]))).alias("total"))
    counted = {
        row["ledger"]: row.asDict() for row in _union(settings, opened).groupBy("ledger").agg(*aggregates).collect()
    }
    nothing = {"all": 0, "rows": 0}
    return {name: counted.get(number, nothing) for number, name in enumerate(settings.names)}


def _refuse_empty(settings: ReconcileSettings, counted: dict[str, dict[str, Any]]) -> None:
    for ledger in settings.ledgers:
        counts = counted[ledger.name]
        if counts["rows"] or ledger.may_be_empty:
            continue
        if not counts["all"]:
            raise PipelineError(f"ledger {ledger.name} is empty; if it may be, say so")
        raise PipelineError(
            f"ledger {ledger.name} has no row of {settings.day} (in {settings.zone}) among {counts['all']:,}; "
            "if it may be empty, say so"
        )


def _outcome(settings: ReconcileSettings, counted: dict[str, dict[str, Any]], compared: DataFrame) -> ReconcileOutcome:
    aggregates = [sql.count(sql.lit(1)).alias("keys"), sql.sum(comparison.AUTHORITY_ROWS).alias("authority_rows")]
    for number, name in enumerate(settings.names):
        aggregates += [
            sql.count_if(sql.col(name).isNotNull()).alias(f"keys_{number}"),
            sql.coalesce(sql.sum(sql.col(name)["rows"] - 1), sql.lit(0)).alias(f"repeated_{number}"),
            sql.count_if(sql.array_contains("late", name)).alias(f"late_{number}"),
        ]
    found = compared.groupBy(comparison.OF_THE_DAY, "status").agg(*aggregates).collect()
    unsuspected = counted[settings.authority]["rows"] - sum(row["authority_rows"] for row in found)
    todays = [row for row in found if row[comparison.OF_THE_DAY]]
    counts = dict.fromkeys(comparison.PRECEDENCE, 0) | {row["status"]: row["keys"] for row in todays}
    counts[comparison.BALANCED] += unsuspected
    ledgers = tuple(
        LedgerCounts(
            name,
            counted[name]["rows"],
            unsuspected + sum(row[f"keys_{number}"] for row in todays),
            sum(row[f"repeated_{number}"] for row in todays),
            sum(row[f"late_{number}"] for row in todays),
            counted[name].get("total"),
        )
        for number, name in enumerate(settings.names)
    )
    return ReconcileOutcome(settings, counts, ledgers)


def _result(settings: ReconcileSettings, compared: DataFrame) -> DataFrame:
    """The rows to keep: a suspect may be cleared by the tolerance, or belong to another day."""
    found = compared.filter(comparison.OF_THE_DAY).drop(comparison.OF_THE_DAY, comparison.AUTHORITY_ROWS)
    return found if settings.everything else found.filter(sql.col("status") != comparison.BALANCED)


def _lists(result: DataFrame, outcome: ReconcileOutcome) -> tuple[DifferenceList, ...]:
    """The first keys of every status but one, as the page shows them."""
    settings = outcome.settings
    columns = {"key": sql.col("key")}
    columns["where"] = sql.concat_ws(", ", "missing", "differing", "duplicated", "late")
    for ledger in settings.ledgers:
        columns |= {f"{ledger.name} {field}": sql.col(ledger.name)[field] for field in ("rows", *settings.values)}
        if ledger.time:
            columns[f"{ledger.name} at (UTC)"] = sql.col(ledger.name)["at"].cast("string")
    shown = result.select("status", *(column.alias(title) for title, column in columns.items()))
    place = sql.row_number().over(Window.partitionBy("status").orderBy("key"))
    wanted = sql.col("status") != comparison.BALANCED
    first = shown.filter(wanted).withColumn("place", place).filter(sql.col("place") <= LISTED_MAX).drop("place")
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for status, *values in sorted(first.collect(), key=lambda row: (row["key"] is not None, row["key"])):
        rows.setdefault(status, []).append(
            tuple(trimmed(each) if isinstance(each, Decimal) else each for each in values)
        )
    return tuple(
        DifferenceList(status, tuple(columns), tuple(rows[status]), outcome.counts[status])
        for status in comparison.PRECEDENCE
        if status in rows
    )
