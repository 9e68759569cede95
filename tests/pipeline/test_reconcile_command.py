"""`warren pipeline reconcile` as people run it: a database, a stream and a file compared; exit codes and sentences."""

import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.streams import declare, until_expired
from tests.support.ports import free_port
from tests.support.postgres import JDBC_DRIVER, USER, Postgres
from warren.cli.main import run
from warren.client import Message, Properties, blocking
from warren.pipeline import tables
from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import Folder
from warren.pipeline.reconcile import job
from warren.pipeline.reconcile.settings import LedgerSource, ReconcileLedger, ReconcileSettings
from warren.pipeline.reconcile.sources import read_ledger

WARREN = Path(sys.executable).with_name("warren")
SCHEMA = "id string, amount decimal(12,2), currency string, at timestamp"
TABLE = """
create table orders (id int, amount numeric(12,2), currency char(3), booked timestamp, note text);
insert into orders select n, n + 0.10, 'EUR', '2026-11-15 02:00', 'of ' || n from generate_series(1, 500) n;
update orders set amount = 0.01 where id = 7;
insert into orders values (900, 1, 'EUR', '2026-11-14 23:00', 'of another day');
"""


def test_a_database_a_stream_and_a_file_are_compared(
    spark: SparkSession, postgres: Postgres, url: str, broker: blocking.Channel, tmp_path: Path
) -> None:
    postgres.execute(TABLE)
    stream = declare(broker)
    records = [_record(number) for number in range(1, 501) if number not in (9, 13)]
    bodies = [json.dumps(records[0]), json.dumps(records[1:]), json.dumps(_record(13) | {"amount": "abc"})]
    bodies += ['{"id": broken', '[{"id": "1"}] and more', "[]"]
    persistent = Properties(delivery_mode=2)
    broker.send_many([Message(body.encode(), persistent) for body in bodies], routing_key=stream)
    broker.wait_for_confirms()
    lines = [f"{number},{number}.1,EUR,2026-11-15T10:00:00Z" for number in range(1, 501) if number != 11]
    (tmp_path / "bank.csv").write_text("\n".join(["id,amount,currency,at", *lines]) + "\n")
    (tmp_path / "ledgers.toml").write_text(_description(postgres.url, url, stream))
    done = _reconcile(str(tmp_path / "ledgers.toml"), "--day", "2026-11-15", "--out", str(tmp_path / "out"))
    assert done.returncode == 1, done.stderr
    told = [line.split()[:2] for line in done.stdout.splitlines()]
    assert told[1:] == [
        ["orders", "500"],
        ["payments", "501"],
        ["bank", "499"],
        ["unreadable", "2"],
        ["missing", "2"],
        ["differs", "1"],
        ["balanced", "496"],
        ["5", "differences"],
        [f"{tmp_path}/out/report.html"],
    ]
    rows, _ = tables.read(spark, Folder(str(tmp_path / "out")), job.KIND, job.VERSION)
    found = {row["key"]: row for row in rows.collect()}
    assert {key: row["status"] for key, row in found.items()} == {
        None: "unreadable",
        "13": "unreadable",
        "7": "differs",
        "9": "missing",
        "11": "missing",
    }
    assert found["7"]["differing"] == ["payments.amount", "bank.amount"]
    assert (found["9"]["missing"], found["11"]["missing"]) == (["payments"], ["bank"])
    assert json.loads(found["9"]["orders"]["record"])["note"] == "of 9"
    assert json.loads(found["7"]["payments"]["record"]) == {**_record(7), "at": "2026-11-15T10:00:00.000Z"}


def test_a_database_or_a_broker_that_cannot_be_reached_is_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    left = ReconcileLedger("left", LedgerSource("csv", path=str(tmp_path / "a.csv")))
    closed = free_port()
    database = LedgerSource("jdbc", url=f"jdbc:postgresql://127.0.0.1:{closed}/x", table="orders")
    broker = LedgerSource("stream", url=f"amqp://127.0.0.1:{closed}", stream="s", options={"timeout": "1"})
    out = tmp_path / "out"
    for source, sentence in ((database, "^ledger right cannot be read: No suitable driver$"), (broker, "127.0.0.1")):
        settings = ReconcileSettings(
            (left, ReconcileLedger("right", source, columns={"id": "message.message_id"})), ("id",), "left"
        )
        with pytest.raises(Exception, match=sentence):
            job.run(spark, settings, Folder(str(out)))
        assert not out.exists()


def test_a_stream_of_which_the_beginning_has_expired_is_refused(
    spark: SparkSession, url: str, broker: blocking.Channel
) -> None:
    stream = declare(broker, {"x-max-length-bytes": 2_000_000, "x-stream-max-segment-size-bytes": 1_000_000})
    broker.prefetch(10)
    first = until_expired(broker, stream, count(), 1000)
    ledger = ReconcileLedger("sent", LedgerSource("stream", url=url, stream=stream))
    now = datetime.now(UTC)
    for begins, reason in ((None, "all of it is compared"), (now - timedelta(days=1), "nothing is left from before ")):
        with pytest.raises(PipelineError, match=rf"^ledger sent: offsets 0 to \d+ .* have expired, and {reason}"):
            read_ledger(spark, ledger, begins)
    rows = read_ledger(spark, ledger, now + timedelta(hours=1)).select("message.offset").collect()
    assert min(row["offset"] for row in rows) >= first
    what_is_left = replace(ledger, source=replace(ledger.source, options={"failondataloss": "false"}))
    assert read_ledger(spark, what_is_left, None).count() > 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["a.csv"], "reconcile takes one description (.toml) or two files"),
        (["a.csv", "b.csv"], "there must be a key column by which rows of the ledgers belong together"),
        (
            ["a.csv", "b.csv", "--key", "id", "--tolerance", "-1"],
            "the tolerance is -1; it must be a number and not negative",
        ),
        (["a.csv", "b.csv", "--key", "id", "--zone", "Mars"], "the business day is in zone 'Mars', which is unknown"),
        (["a.csv", "b.csv", "--key", "id", "--authority", "x"], "the authority 'x' is no ledger; they are left, right"),
        (["l.toml", "--key", "id"], "key belongs into l.toml, or to two files"),
        (["l.toml"], "l.toml cannot be read: No such file or directory"),
    ],
)
def test_wrong_usage_is_a_sentence_and_exit_code_2(
    words: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run(["pipeline", "reconcile", *words, "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("warren: ")
    assert sentence in said
    assert said.count("\n") == 1
    assert not out.exists()


def _record(number: int) -> dict[str, object]:
    return {"id": str(number), "amount": number + 0.1, "currency": "EUR", "at": "2026-11-15T10:00:00Z"}


def _description(database: str, broker: str, stream: str) -> str:
    return f"""
key = "id"
amounts = ["amount"]
compared = ["currency"]
zone = "America/New_York"
[ledgers.orders]
source = "jdbc"
url = "{database}"
user = "{USER}"
table = "orders"
options = {{ driver = "org.postgresql.Driver" }}
time = "booked"
zone = "America/New_York"
[ledgers.payments]
source = "stream"
url = "{broker}"
stream = "{stream}"
schema = "{SCHEMA}"
time = "at"
[ledgers.bank]
source = "csv"
path = "bank.csv"
time = "at"
"""


def _reconcile(*words: str) -> subprocess.CompletedProcess[str]:
    spark = ["--master", "local[2]", "--memory", "1g", "--conf", f"spark.jars={JDBC_DRIVER}"]
    command = [str(WARREN), "pipeline", "reconcile", *words, *spark]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
