"""`reconcile`: reads the ledgers, compares them, and writes the result.

::

    OUT/table.json, OUT/data/       the keys that are not in balance, as a table (`pipeline.tables`)
    OUT/summary.json                the counts, beside the table
    OUT/report.html                 the page, likewise
    OUT/unfinished/                 while it runs

The ledgers are opened and their columns checked before anything is written, and the table is replaced in one step. A
job that was killed leaves the result as it was, and is run again.

What is on its way while the ledgers are read is no difference, if that is known of them (`reconcile.flight`).

Invariant: every pass sees the same rows. What somebody may add to meanwhile is read once, and kept for the run.

Not here: what is compared with what (`reconcile.comparing`).
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
from warren.pipeline.reconcile import comparing, flight, kit, ledgers, statuses
from warren.pipeline.reconcile.ledgers import Opened
from warren.pipeline.reconcile.page import DifferenceList, page
from warren.pipeline.reconcile.settings import Settings
from warren.pipeline.reconcile.sources import MOVING
from warren.pipeline.reconcile.summary import Outcome, Tally, facts, reconciliation, trimmed

KIND: Final = "reconciled keys"
VERSION: Final = 1
SUMMARY: Final = "summary.json"
REPORT: Final = "report.html"
LISTED_MAX: Final = 200
BROADCAST_KEYS_MAX: Final = 1_000_000
"""So many keys fit into every task's memory; the ledgers' rows are picked by them without being moved."""


def run(spark: SparkSession, settings: Settings, out: Folder) -> Outcome:
    """Compare the ledgers, and write the result to `out`."""
    with out.alone():
        return _run(spark, settings, out)


def _run(spark: SparkSession, settings: Settings, out: Folder) -> Outcome:
    opened = ledgers.opened(spark, settings)
    if out.exists(tables.TABLE):
        tables.described(out, KIND, VERSION)
    moments = flight.moments(settings)
    with _workplace(out) as work:
        in_order = [_kept(spark, ledger, work) for ledger in sorted(opened, key=flight.is_read_last)]
        opened = sorted(in_order, key=lambda ledger: ledger.number)
        with watch(spark, "looking for what is on its way"):
            opened, in_flight = flight.landed(
                settings, opened, moments, lambda keys: _stored(spark, keys, work.child("in-flight"))
            )
        with watch(spark, "counting rows"):
            counted = _count_rows(settings, opened)
        _refuse_empty(settings, counted)
        with watch(spark, "comparing keys"):
            found = comparing.suspects(_union(settings, opened), settings)
            keys = _stored(spark, found, work.child("suspects"))
        with watch(spark, "judging differences"):
            judged = _stored(spark, comparing.judged(_picked(settings, opened, keys), settings), work.child("judged"))
            outcome = replace(_outcome(settings, counted, judged), in_flight=in_flight)
            result = _result(settings, judged)
            beside = {
                SUMMARY: as_text(facts(outcome)),
                REPORT: page(reconciliation(outcome, _lists(result, outcome))),
            }
            tables.replace(result.orderBy("status", "key"), out, KIND, VERSION, facts(outcome), beside)
    return outcome


@contextmanager
def _workplace(out: Folder) -> Iterator[Folder]:
    """A folder for the run; if nothing came of it, there is not even `out` where there was none."""
    work = out.child("unfinished")
    work.delete()
    try:
        yield work
    finally:
        work.delete()
        if out.exists() and not out.children():
            out.delete()


def _kept(spark: SparkSession, ledger: Opened, work: Folder) -> Opened:
    source, folder = ledger.ledger.source, work.child(f"ledger-{ledger.ledger.name}")
    if source.kind not in MOVING:
        return ledger
    with watch(spark, f"reading {ledger.ledger.name}"):
        if source.kind in kit.TIMES:
            return ledgers.kept_whole(ledger, _copied(spark, ledger, folder))
        return ledgers.kept(ledger, _stored(spark, ledger.frame, folder))


def _copied(spark: SparkSession, ledger: Opened, folder: Folder) -> DataFrame:
    try:
        return kit.copied(spark, ledger.ledger.source, folder)
    except ClientError as error:
        raise PipelineError(f"ledger {ledger.ledger.name}: {error}") from None


def _stored(spark: SparkSession, frame: DataFrame, folder: Folder) -> DataFrame:
    tables.write(frame, folder)
    return spark.read.schema(frame.schema).parquet(folder.uri)


def _union(settings: Settings, opened: list[Opened]) -> DataFrame:
    return reduce(DataFrame.union, (ledgers.rows(settings, opened, ledger) for ledger in opened))


def _picked(settings: Settings, opened: list[Opened], keys: DataFrame) -> DataFrame:
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


def _count_rows(settings: Settings, opened: list[Opened]) -> dict[str, dict[str, Any]]:
    """Of each ledger: all its rows, those of the day, and what their amounts come to."""
    of_day = comparing.in_day(settings.business_day)
    figures = [sql.count(sql.lit(1)).alias("all"), sql.count_if(of_day).alias("rows")]
    if len(settings.amounts) == 1 and not settings.compared:
        figures.append(sql.sum(sql.when(of_day, sql.col(settings.amounts[0]))).alias("total"))
    counted = {
        row["ledger"]: row.asDict() for row in _union(settings, opened).groupBy("ledger").agg(*figures).collect()
    }
    nothing = {"all": 0, "rows": 0}
    return {name: counted.get(number, nothing) for number, name in enumerate(settings.names)}


def _refuse_empty(settings: Settings, counted: dict[str, dict[str, Any]]) -> None:
    for ledger in settings.ledgers:
        figures = counted[ledger.name]
        if figures["rows"] or ledger.may_be_empty:
            continue
        if not figures["all"]:
            raise PipelineError(f"ledger {ledger.name} is empty; if it may be, say so")
        raise PipelineError(
            f"ledger {ledger.name} has no row of {settings.day} (in {settings.zone}) among {figures['all']:,}; "
            "if it may be empty, say so"
        )


def _outcome(settings: Settings, counted: dict[str, dict[str, Any]], judged: DataFrame) -> Outcome:
    figures = [sql.count(sql.lit(1)).alias("keys"), sql.sum(comparing.AUTHORITY_ROWS).alias("authority_rows")]
    for number, name in enumerate(settings.names):
        figures += [
            sql.count_if(sql.col(name).isNotNull()).alias(f"keys_{number}"),
            sql.coalesce(sql.sum(sql.col(name)["rows"] - 1), sql.lit(0)).alias(f"repeated_{number}"),
            sql.count_if(sql.array_contains("late", name)).alias(f"late_{number}"),
        ]
    found = judged.groupBy(comparing.OF_THE_DAY, "status").agg(*figures).collect()
    unsuspected = counted[settings.authority]["rows"] - sum(row["authority_rows"] for row in found)
    todays = [row for row in found if row[comparing.OF_THE_DAY]]
    counts = dict.fromkeys(statuses.PRECEDENCE, 0) | {row["status"]: row["keys"] for row in todays}
    counts[statuses.BALANCED] += unsuspected
    tallies = tuple(
        Tally(
            name,
            counted[name]["rows"],
            unsuspected + sum(row[f"keys_{number}"] for row in todays),
            sum(row[f"repeated_{number}"] for row in todays),
            sum(row[f"late_{number}"] for row in todays),
            counted[name].get("total"),
        )
        for number, name in enumerate(settings.names)
    )
    return Outcome(settings, counts, tallies)


def _result(settings: Settings, judged: DataFrame) -> DataFrame:
    """What is kept: a suspect may have been cleared, by the tolerance or because it is another day's."""
    found = judged.filter(comparing.OF_THE_DAY).drop(comparing.OF_THE_DAY, comparing.AUTHORITY_ROWS)
    return found if settings.everything else found.filter(sql.col("status") != statuses.BALANCED)


def _lists(result: DataFrame, outcome: Outcome) -> tuple[DifferenceList, ...]:
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
    wanted = sql.col("status") != statuses.BALANCED
    first = shown.filter(wanted).withColumn("place", place).filter(sql.col("place") <= LISTED_MAX).drop("place")
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for status, *values in sorted(first.collect(), key=lambda row: (row["key"] is not None, row["key"])):
        rows.setdefault(status, []).append(
            tuple(trimmed(each) if isinstance(each, Decimal) else each for each in values)
        )
    return tuple(
        DifferenceList(status, tuple(columns), tuple(rows[status]), outcome.counts[status])
        for status in statuses.PRECEDENCE
        if status in rows
    )
