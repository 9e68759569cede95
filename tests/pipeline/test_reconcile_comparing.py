"""What Spark finds about keys is what a person would find who took the rows one by one."""

from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as some
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from tests.pipeline.naive_ledgers import Entry, Verdict, verdicts
from warren.pipeline.reconcile import comparison
from warren.pipeline.reconcile.comparison import BALANCED, PRECEDENCE
from warren.pipeline.reconcile.settings import LedgerSource, ReconcileLedger, ReconcileSettings

SCHEMA = "key string, ledger int, at timestamp, amount decimal(12,2), currency string, readable boolean, record string"
NAMES = ("orders", "payments", "clearing")
DAY = date(2026, 10, 25)
TWO = ReconcileSettings(
    tuple(ReconcileLedger(name, LedgerSource("parquet"), time="at") for name in NAMES[:2]),
    key=("order_id",),
    authority="orders",
    amounts=("amount",),
    compared=("currency",),
)
OF_DAY = replace(TWO, day=DAY, zone="Europe/Berlin", grace=timedelta(hours=2))
THREE = replace(
    OF_DAY,
    ledgers=tuple(ReconcileLedger(name, LedgerSource("parquet"), time="at") for name in NAMES),
    authority="clearing",
)

# An example takes seconds, so none is made smaller; its keys are small already.
WITH_SPARK = settings(max_examples=2, deadline=None, phases=[Phase.generate])


def _moments() -> list[datetime]:
    """Each end of each stretch of the day, and a little off it."""
    day = OF_DAY.business_day
    assert day is not None
    ends = (day.begins, day.fresh, day.ends, day.closes, day.day_before)
    return [
        day.begins - timedelta(days=3),
        *(moment + timedelta(microseconds=off) for moment in ends for off in (0, -1)),
    ]


AMOUNTS = [None, *(Decimal(text) for text in ("0.00", "10.00", "10.01", "10.02", "-10.00", "1000.00", "1001.00"))]


def _entries(ledgers: int) -> some.SearchStrategy[list[Entry]]:
    """A handful of keys, so that most of them are in several ledgers, and half of the rows alike."""
    entry = some.builds(
        Entry,
        ledger=some.integers(0, ledgers - 1),
        key=some.sampled_from([None, *(f"k{number}" for number in range(100))]),
        at=some.one_of(some.just(_moments()[1]), some.sampled_from([None, *_moments()])),
        amount=some.one_of(some.just(Decimal("10.00")), some.sampled_from(AMOUNTS)),
        currency=some.one_of(some.just("EUR"), some.sampled_from([None, "USD"])),
        readable=some.sampled_from([True] * 19 + [False]),
    )
    return some.lists(entry, min_size=200, max_size=300)


@settings(WITH_SPARK)
@given(entries=_entries(2))
def test_two_ledgers_without_a_day_within_a_tolerance(spark: SparkSession, entries: list[Entry]) -> None:
    _check(spark, entries, replace(TWO, tolerance=Decimal("0.01"), relative=Decimal("0.001")))


@settings(WITH_SPARK)
@given(entries=_entries(3), grace_h=some.sampled_from([0, 2]))
def test_three_ledgers_of_a_day(spark: SparkSession, entries: list[Entry], grace_h: int) -> None:
    _check(spark, entries, replace(THREE, grace=timedelta(hours=grace_h)))


def test_each_status_is_found_and_only_by_what_makes_it(spark: SparkSession) -> None:
    day = OF_DAY.business_day
    assert day is not None
    plain = Entry(0, "", day.begins, Decimal("10.00"), "EUR", True)
    planted = {
        "unreadable": [plain, replace(plain, ledger=1, readable=False)],
        "contradicting": [plain, replace(plain, ledger=1), replace(plain, ledger=1, amount=Decimal("10.01"))],
        "unexpected": [replace(plain, ledger=1)],
        "missing": [plain],
        "differs": [plain, replace(plain, ledger=1, amount=None)],
        "duplicated": [plain, replace(plain, ledger=1), replace(plain, ledger=1)],
        "late": [plain, replace(plain, ledger=1, at=day.ends)],
        "balanced": [plain, replace(plain, ledger=1)],
    }
    assert tuple(planted) == PRECEDENCE
    entries = [replace(entry, key=status) for status, rows in planted.items() for entry in rows]
    for everything in (False, True):
        found, unsuspected = _found(spark, entries, replace(OF_DAY, everything=everything))
        kept = [status for status in PRECEDENCE if everything or status != BALANCED]
        assert {key: verdict.status for key, verdict in found.items()} == {status: status for status in kept}
        assert unsuspected == len(PRECEDENCE) - len(kept)


def test_a_row_that_comes_days_later_is_late_and_balances_if_the_authority_has_it(spark: SparkSession) -> None:
    day = OF_DAY.business_day
    assert day is not None
    today = Entry(0, "", day.begins + timedelta(hours=9), Decimal("10.00"), "EUR", True)
    earlier = replace(today, at=day.begins - timedelta(days=3))
    planted = {
        "late": [earlier, replace(today, ledger=1)],
        "balanced": [replace(earlier, ledger=1), today],
        "duplicated": [earlier, replace(earlier, ledger=1), replace(today, ledger=1)],
        "differs": [earlier, replace(today, ledger=1, amount=Decimal("7.00"))],
        "unexpected": [replace(today, ledger=1)],
    }
    entries = [replace(entry, key=status) for status, rows in planted.items() for entry in rows]
    entries += [replace(earlier, key="missing then and silent now")]
    found, _ = _found(spark, entries, OF_DAY)
    assert {key: verdict.status for key, verdict in found.items()} == {status: status for status in planted}
    assert found["late"].late == ("payments",)


def test_nulls_that_change_places_are_not_taken_for_each_other(spark: SparkSession) -> None:
    settings = replace(TWO, amounts=(), compared=("currency", "country"))
    rows = [("k", 0, None, None, "EUR"), ("k", 1, None, "EUR", None)]
    schema = "key string, ledger int, at timestamp, currency string, country string"
    frame = spark.createDataFrame(rows, schema).withColumn("readable", sql.lit(True))
    assert comparison.suspects(frame, settings).count() == 1


def test_the_result_has_each_ledgers_rows_of_a_key(spark: SparkSession) -> None:
    day = OF_DAY.business_day
    assert day is not None
    first = Entry(0, "k", day.begins, Decimal("10.00"), "EUR", True)
    entries = [first, replace(first, ledger=1, amount=Decimal("7.00")), replace(first, ledger=1, currency="USD")]
    [row] = comparison.compare_keys(_frame(spark, entries), OF_DAY).collect()
    at = row["orders"]["at"].astimezone(day.begins.tzinfo)
    assert (row["orders"]["rows"], row["orders"]["amount"], at) == (1, Decimal("10.00"), day.begins)
    assert row["orders"]["other"] is None
    assert row["orders"]["record"] == "10.00"
    assert (row["payments"]["rows"], row["payments"]["record"]) == (2, "7.00")
    assert row["payments"]["other"].asDict() == {"amount": Decimal("10.00"), "currency": "USD"}


def test_the_rows_order_and_their_partitions_change_nothing(spark: SparkSession) -> None:
    first = Entry(0, "k", None, Decimal("10.00"), "EUR", True)
    entries = [first, *(replace(first, ledger=1, amount=Decimal(number)) for number in range(20))]
    forwards = comparison.compare_keys(_frame(spark, entries).repartition(5), TWO).collect()
    assert forwards == comparison.compare_keys(_frame(spark, entries[::-1]).repartition(3), TWO).collect()


def _check(spark: SparkSession, entries: list[Entry], chosen: ReconcileSettings) -> None:
    expected = verdicts(entries, chosen)
    found, unsuspected = _found(spark, entries, chosen)
    assert {key: verdict for key, verdict in expected.items() if verdict.status != BALANCED} == {
        key: verdict for key, verdict in found.items() if verdict.status != BALANCED
    }
    in_balance = sum(verdict.status == BALANCED for verdict in found.values()) + unsuspected
    assert in_balance == sum(verdict.status == BALANCED for verdict in expected.values())


def _found(
    spark: SparkSession, entries: list[Entry], chosen: ReconcileSettings
) -> tuple[dict[str | None, Verdict], int]:
    """The verdicts on the keys that were suspected, and how many were not."""
    rows = _frame(spark, entries)
    keys = comparison.suspects(rows, chosen).withColumnRenamed("key", "wanted")
    picked = rows.join(keys, sql.col("key").eqNullSafe(sql.col("wanted")), "left_semi")
    judged = comparison.compare_keys(picked, chosen).collect()
    in_day = rows.filter(
        comparison.is_in_day(chosen.business_day) & (sql.col("ledger") == chosen.authority_index)
    ).count()
    todays = [row for row in judged if row[comparison.OF_THE_DAY]]
    lists = ("missing", "differing", "duplicated", "late")
    found = {row["key"]: Verdict(row["status"], *(tuple(row[name]) for name in lists)) for row in todays}
    return found, in_day - sum(row[comparison.AUTHORITY_ROWS] for row in judged)


def _frame(spark: SparkSession, entries: list[Entry]) -> DataFrame:
    rows: list[Any] = [
        (entry.key, entry.ledger, entry.at, entry.amount, entry.currency, entry.readable, str(entry.amount))
        for entry in entries
    ]
    return spark.createDataFrame(rows, SCHEMA)
