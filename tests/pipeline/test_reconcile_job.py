"""The job `reconcile`: ledgers of every kind of file with planted faults, what is written, and what is refused."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import StringType

from tests.docs.test_trace_schema import documented
from warren.pipeline import tables
from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import Folder
from warren.pipeline.reconcile import job
from warren.pipeline.reconcile.describing import described, two_paths
from warren.pipeline.reconcile.ledgers import instant_of
from warren.pipeline.reconcile.settings import LedgerSource, ReconcileLedger, ReconcileSettings
from warren.pipeline.reconcile.sources import CORRUPT_COLUMN, read_ledger
from warren.pipeline.reconcile.summary import ReconcileOutcome, summary_text
from warren.pipeline.trace import job as trace
from warren.pipeline.trace.sources import FileSource

ORDERS = "order_id long, placed_at timestamp, total decimal(12,2), currency string, customer string"
DAY = date(2026, 11, 15)
MIDDAY = datetime(2026, 11, 15, 12, tzinfo=UTC)
MIDNIGHT = datetime(2026, 11, 15, 23, tzinfo=UTC)
"""In Berlin."""

DESCRIPTION = """
key = "order"
amounts = ["amount"]
compared = ["currency"]
authority = "orders"
zone = "Europe/Berlin"
grace = "1h"
tolerance = 0.01

[ledgers.orders]
source = "parquet"
path = "orders"
time = "placed_at"
columns = { order = "order_id", amount = "total" }

[ledgers.payments]
source = "csv"
path = "payments.csv"
options = { sep = ";" }
time = "booked"
zone = "America/New_York"
where = "kind = 'payment'"
columns = { order = "Order No", amount = "paid" }
"""
PAYMENTS = """Order No;kind;paid;currency;booked
1;payment;10.00;EUR;2026-11-15 07:00:00
2;payment;10.01;EUR;2026-11-15T07:00:00
3;payment;10.02;EUR;2026-11-15 07:00:00
4;payment;10.00;USD;2026-11-15 13:00:00+01:00
5;payment;10.00;EUR;2026-11-15T12:00:00Z
5;payment;10;EUR;2026-11-15T12:00:01Z
6;payment;10.00;EUR;2026-11-15 07:00:00
6;payment;11.00;EUR;2026-11-15 07:00:00
8;payment;10.00;EUR;2026-11-15 07:00:00
9;payment;10.00;EUR;2026-11-15 18:30:00
10;payment;10.00;EUR;2026-11-15 19:00:00
11;payment;ten;EUR;2026-11-15 07:00:00
12;payment;10.00;EUR;noon
13;payment;10.00
14;refund;-10.00;EUR;2026-11-15 07:00:00
20;payment;10.00;EUR;2026-11-14 17:59:59
21;payment;10.00;EUR;2026-11-14 18:30:00
"""
EXPECTED = {
    "3": "differs",
    "4": "differs",
    "5": "duplicated",
    "6": "contradicting",
    "7": "missing",
    "8": "unexpected",
    "9": "late",
    "10": "missing",
    "11": "unreadable",
    "12": "unreadable",
    "13": "unreadable",
    "14": "missing",
}


@pytest.fixture(scope="module")
def ledgers(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ledgers")
    orders: list[Any] = [(number, MIDDAY, Decimal("10.00"), "EUR", "c") for number in range(1, 15) if number != 8]
    orders[8 - 1] = (9, MIDNIGHT - timedelta(seconds=1), Decimal("10.00"), "EUR", "c")
    orders.append((20, MIDDAY - timedelta(days=1), Decimal("10.00"), "EUR", "of the day before"))
    orders.append((21, MIDNIGHT - timedelta(days=1, seconds=1), Decimal("10.00"), "EUR", "late the day before"))
    spark.createDataFrame(orders, ORDERS).write.parquet(str(folder / "orders"))
    (folder / "payments.csv").write_text(PAYMENTS)
    (folder / "ledgers.toml").write_text(DESCRIPTION)
    return folder


@pytest.fixture(scope="module")
def result(spark: SparkSession, ledgers: Path) -> tuple[Folder, ReconcileOutcome]:
    out = Folder(str(ledgers / "out"))
    return out, job.run(spark, described(str(ledgers / "ledgers.toml"), "2026-11-15"), out)


def test_every_planted_fault_is_found_and_nothing_else(
    spark: SparkSession, result: tuple[Folder, ReconcileOutcome]
) -> None:
    out, outcome = result
    found = {row["key"]: row for row in _rows(spark, out)}
    assert {key: row["status"] for key, row in found.items()} == EXPECTED
    assert outcome.counts["balanced"] == 2
    assert not outcome.balanced
    assert found["3"]["differing"] == ["payments.amount"]
    assert found["4"]["differing"] == ["payments.currency"]
    assert found["5"]["duplicated"] == ["payments"]
    assert found["7"]["missing"] == ["payments"]
    assert found["9"]["late"] == ["payments"]
    assert found["7"]["payments"] is None
    assert found["6"]["payments"]["other"]["amount"] == 11
    assert json.loads(found["7"]["orders"]["record"])["customer"] == "c"
    assert json.loads(found["8"]["payments"]["record"])["Order No"] == "8"
    assert sorted(out.children()) == ["data", "report.html", "summary.json", "table.json"]
    assert out.read_json("summary.json")["counts"] == outcome.counts
    assert out.read_json("summary.json")["rows"] == {"orders": 13, "payments": 13}


def test_a_repeated_run_writes_the_same_bytes(
    spark: SparkSession, ledgers: Path, result: tuple[Folder, ReconcileOutcome]
) -> None:
    out, outcome = result
    texts = [out.read_text(name) for name in ("summary.json", "report.html")]
    rows = _rows(spark, out)
    again = job.run(spark, described(str(ledgers / "ledgers.toml"), "2026-11-15"), out)
    assert [out.read_text(name) for name in ("summary.json", "report.html")] == texts
    assert _rows(spark, out) == rows
    assert again == outcome
    assert summary_text(outcome).splitlines()[0] == "orders and payments of 2026-11-15"
    assert summary_text(outcome).splitlines()[-1] == "11 differences"


def test_every_digit_counts_and_lines_that_make_no_sense_are_not_dropped(spark: SparkSession, tmp_path: Path) -> None:
    """In JSON, and in binary fractions, which are what they are printed as."""
    long = "1234567890123456789.123456789012345678"
    sums = "0.30000000000000004"
    (tmp_path / "left.jsonl").write_text(
        f'{{"a": 1, "b": "x", "amount": {long}}}\n{{"a": 2, "b": "x", "amount": {sums}}}\n'
    )
    (tmp_path / "right.jsonl").write_text(
        f'{{"a": "1", "b": "x", "amount": {long[:-1]}9}}\n{{"a": 2, "b": "x", "amount": "{sums}0"}}\n{{"a": 3,\n'
    )
    spark.sql("select 2 as a, 'x' as b, 0.1d + 0.2d as amount").write.parquet(str(tmp_path / "third"))
    ledgers = tuple(
        ReconcileLedger(name, LedgerSource(kind, path=str(tmp_path / file)), where="b = 'x'")
        for name, kind, file in (
            ("left", "json", "left.jsonl"),
            ("right", "json", "right.jsonl"),
            ("third", "parquet", "third"),
        )
    )
    out = Folder(str(tmp_path / "out"))
    outcome = job.run(spark, ReconcileSettings(ledgers, ("a", "b"), "left", ("amount",)), out)
    found = {row["key"]: row for row in _rows(spark, out)}
    assert {key: row["status"] for key, row in found.items()} == {'["1","x"]': "missing", None: "unreadable"}
    assert found['["1","x"]']["differing"] == ["right.amount"]
    assert found['["1","x"]']["left"]["amount"] == Decimal(long)
    assert outcome.counts["balanced"] == 1
    assert str(outcome.ledgers[0].total) == "1234567890123456789.423456789012345718"


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-11-15", "2026-11-15 05:00:00"),
        ("2026-11-15 10:00:00", "2026-11-15 15:00:00"),
        ("2026-11-15T10:00:00-0800", "2026-11-15 18:00:00"),
        ("2026-11-15 10:00:00 Europe/Berlin", "2026-11-15 09:00:00"),
        ("2026-11-15 10:00:00 CET", "2026-11-15 09:00:00"),
        ("2026-11-15 10:00:00.5Z", "2026-11-15 10:00:00.5"),
        ("10:00:00", None),
        ("10:00:00Z", None),
    ],
)
def test_a_time_is_of_the_zone_it_names_or_else_of_the_ledgers(
    spark: SparkSession, text: str, instant: str | None
) -> None:
    given = spark.createDataFrame([(text,)], "time string")
    found = given.select(instant_of(sql.col("time"), StringType(), "America/New_York").cast("string")).first()
    assert found is not None
    assert found[0] == instant


def test_a_path_without_a_scheme_is_of_the_file_system_also_if_sparks_default_differs(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.range(2).write.parquet(str(tmp_path / "parquet"))
    (tmp_path / "csv").write_text("id\n0\n1\n")
    (tmp_path / "json").write_text('{"id": 0}\n{"id": 1}\n')
    elsewhere = {"fs.defaultFS": "hdfs://127.0.0.1:1"}
    for kind in ("parquet", "csv", "json"):
        ledger = ReconcileLedger("left", LedgerSource(kind, path=str(tmp_path / kind), options=elsewhere))
        assert read_ledger(spark, ledger, None).count() == 2


def test_a_number_that_its_schema_has_no_room_for_is_unreadable_and_not_rounded(
    spark: SparkSession, tmp_path: Path
) -> None:
    lines = ['{"id": 1, "amount": 10.014}', '{"id": 2, "amount": "abc"}', '{"id": 3, "amount": 1234.00}']
    lines += ['{"id": 4, "amount": 10.010}', '{"id": 5, "amount": "10.01"}', '{"id": 6}']
    (tmp_path / "l.jsonl").write_text("\n".join(lines))
    source = LedgerSource("json", path=str(tmp_path / "l.jsonl"), schema="id string, amount decimal(5,2)")
    rows = read_ledger(spark, ReconcileLedger("left", source), None).collect()
    assert [(row["id"], row["amount"]) for row in rows if row[CORRUPT_COLUMN] is None] == [
        ("4", Decimal("10.01")),
        ("5", Decimal("10.01")),
        ("6", None),
    ]
    assert [row["id"] for row in rows if row[CORRUPT_COLUMN] is not None] == ["1", "2", "3"]


def test_keys_of_a_file_that_is_no_utf8_are_unreadable_and_not_equal(spark: SparkSession, tmp_path: Path) -> None:
    """Read as UTF-8, both are M\ufffdller: two customers would balance."""
    for name, key in (("left", "Müller"), ("right", "Möller")):
        (tmp_path / f"{name}.csv").write_text(f"id,amount\nplain,5\n{key},5\n", encoding="latin-1")
    paths = {name: LedgerSource("csv", path=str(tmp_path / f"{name}.csv")) for name in ("left", "right")}
    ledgers = tuple(ReconcileLedger(name, source) for name, source in paths.items())
    out = Folder(str(tmp_path / "out"))
    outcome = job.run(spark, ReconcileSettings(ledgers, ("id",), "left", ("amount",)), out)
    assert outcome.counts["balanced"] == 1
    assert [(row["key"], row["status"]) for row in _rows(spark, out)] == [("M\ufffdller", "unreadable")]


def test_a_third_ledger_is_compared_with_the_authority_and_all_keys_are_kept_if_wanted(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = {"a": [("1", 5), ("2", 5), ("3", 5)], "b": [("1", 5), ("2", 5), ("4", 5)], "c": [("1", 5), ("2", 6)]}
    for name, each in rows.items():
        spark.createDataFrame(each, "id string, amount int").write.parquet(str(tmp_path / name))
    ledgers = tuple(ReconcileLedger(name, LedgerSource("parquet", path=str(tmp_path / name))) for name in rows)
    out = Folder(str(tmp_path / "out"))
    outcome = job.run(spark, ReconcileSettings(ledgers, ("id",), "a", ("amount",), everything=True), out)
    found = {row["key"]: (row["status"], row["missing"], row["differing"]) for row in _rows(spark, out)}
    assert found == {
        "1": ("balanced", [], []),
        "2": ("differs", [], ["c.amount"]),
        "3": ("missing", ["b", "c"], []),
        "4": ("unexpected", ["a", "c"], []),
    }
    assert outcome.counts["balanced"] == 1
    assert [ledger.keys for ledger in outcome.ledgers] == [3, 3, 2]


def test_a_lake_of_traces_is_a_ledger_of_what_was_published(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    published = [_traced(number, "published") for number in (1, 2)] + [_traced(number, "acked") for number in (1, 3)]
    (tmp_path / "traces" / "t.log").write_text("".join(f"{line}\n" for line in published))
    trace.run(spark, trace.Settings(str(tmp_path / "lake"), (FileSource(str(tmp_path / "traces")),)))
    (tmp_path / "bank.csv").write_text("id,amount\n1,10.50\n3,10.50\n")
    columns = {"id": "message_id", "amount": "get_json_object(headers, '$.amount')"}
    of_lake = ReconcileLedger(
        "sent",
        LedgerSource("lake", path=str(tmp_path / "lake")),
        columns=columns,
        time="at",
        where="type = 'published'",
    )
    bank = ReconcileLedger("bank", LedgerSource("csv", path=str(tmp_path / "bank.csv")))
    out = Folder(str(tmp_path / "out"))
    settings = ReconcileSettings((of_lake, bank), ("id",), "sent", ("amount",), day=DAY)
    outcome = job.run(spark, settings, out)
    assert {row["key"]: row["status"] for row in _rows(spark, out)} == {"2": "missing", "3": "unexpected"}
    assert outcome.counts["balanced"] == 1


@pytest.mark.parametrize(
    ("was", "becomes", "sentence"),
    [
        ('"Order No"', '"order_no"', "ledger payments has no column order_no; it has Order No, kind, paid, currency"),
        ('path = "orders"', 'path = "nowhere"', "ledger orders cannot be read: Path does not exist"),
        ('path = "payments.csv"', 'path = "ledgers.toml/x"', "ledger payments cannot be read: "),
        ('"placed_at"', '"order_id"', "ledger orders: order_id is of type bigint, which cannot be a time"),
        ('amount = "total"', 'amount = "placed_at"', "placed_at is of type timestamp, which cannot be an amount"),
        ('order = "order_id"', 'order = "cast(total as double)"', "is of type double, which cannot be a key"),
        ("\"kind = 'payment'\"", '"kind"', "ledger payments: kind is of type string, which cannot be a filter"),
        ("\"kind = 'payment'\"", '"kind = "', "ledger payments: where is 'kind = ', but: Syntax error"),
        ('amount = "paid"', 'amount = "paid + fee"', "ledger payments: amount is 'paid \\+ fee', but: .*`fee`"),
        ("2026-11-15", "2026-11-10", r"ledger orders has no row of 2026-11-10 \(in Europe/Berlin\) among 15"),
    ],
)
def test_a_ledger_that_will_not_do_is_refused_and_nothing_is_written(
    spark: SparkSession, ledgers: Path, tmp_path: Path, was: str, becomes: str, sentence: str
) -> None:
    described_here = ledgers / f"{tmp_path.name}.toml"
    described_here.write_text(DESCRIPTION.replace(was, becomes))
    settings = described(str(described_here), becomes if was == "2026-11-15" else "2026-11-15")
    out = tmp_path / "out"
    with pytest.raises(PipelineError, match=sentence) as raised:
        job.run(spark, settings, Folder(str(out)))
    assert "\n" not in str(raised.value)
    assert not out.exists()


def test_an_empty_ledger_is_refused_unless_it_may_be(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "left"))
    (tmp_path / "right.csv").write_text("id\n")
    paths = (str(tmp_path / "left"), str(tmp_path / "right.csv"))
    out = Folder(str(tmp_path / "out"))
    with pytest.raises(PipelineError, match="ledger right is empty"):
        job.run(spark, two_paths(*paths, {"key": ["id"]}), out)
    assert not out.exists()
    outcome = job.run(spark, two_paths(*paths, {"key": ["id"], "may_be_empty": True}), out)
    assert outcome.counts["missing"] == 3


def test_a_folder_that_has_another_table_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "ids"))
    out = Folder(str(tmp_path / "out"))
    tables.replace(spark.range(1), out, "numbers", 1)
    with pytest.raises(PipelineError, match="has numbers, and not reconciled keys"):
        job.run(spark, two_paths(str(tmp_path / "ids"), str(tmp_path / "ids"), {"key": ["id"]}), out)
    assert tables.read(spark, out, "numbers", 1)[0].count() == 1


def _traced(number: int, kind: str) -> str:
    """A line of a trace file."""
    line = {name: example for name, (_, example) in documented().items()}
    properties = {"message_id": str(number), "headers": {"amount": "10.5"}}
    queue = "none" if kind == "published" else "orders"
    return json.dumps(line | {"type": kind, "properties": properties, "queue": queue})


def _rows(spark: SparkSession, out: Folder) -> list[Row]:
    frame, _ = tables.read(spark, out, job.KIND, job.VERSION)
    return sorted(frame.collect(), key=lambda row: (row["key"] is None, row["key"] or ""))
