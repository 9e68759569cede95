"""Errors of every command: one sentence and an exit code, and nothing is written.

Commands that reach Spark use the session of all tests here, instead of one of their own.

Not here: settings of a single job (its own tests); `reconcile` exits as `diff` does, with 2 for every trouble.
"""

import os
import re
import signal
import subprocess
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.command_process import WARREN
from tests.pipeline.jobs import dumped, tree
from tests.spark.streams import publish, until_expired
from tests.support.deadlines import eventually
from tests.support.ports import free_port
from warren.cli.main import run as warren
from warren.client import blocking
from warren.pipeline import tables
from warren.pipeline.folder import Folder
from warren.pipeline.reconcile.job import KIND, VERSION
from warren.pipeline.trace import job as trace_job
from warren.pipeline.trace import lake as trace_lake
from warren.pipeline.trace.sources import FileSource
from warren.wire.field_tables import Table

JOB_DEADLINE_S = 120.0
NO_BROKER = "amqp://guest:guest@127.0.0.1:1/%2F"


class Desk:
    """A folder with valid inputs, and the command lines that use them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.lake = Folder(str(folder / "lake"))
        self.lake.put_json("lake.json", {"kind": trace_lake.KIND, "version": trace_lake.VERSION})
        (folder / "traces").mkdir()
        (folder / "counters.json").write_text("[]")
        for name in ("orders", "payments"):
            (folder / f"{name}.csv").write_text("id,amount\n1,2.50\n2,3.10\n")
        self.out.mkdir()

    def command(self, job: str) -> list[str]:
        here, lake, url = str(self.folder), str(self.lake), ["--url", NO_BROKER]
        return {
            "trace": ["trace", "--lake", f"{self.out}/lake", "--files", f"{here}/traces"],
            "audit": ["audit", "--lake", lake, "--counters", f"{here}/counters.json", "--out", f"{self.out}/audit"],
            "report": ["report", "--lake", lake, "--out", f"{self.out}/report.html"],
            "reconcile": self.reconcile(f"{here}/orders.csv", f"{here}/payments.csv"),
            "load": ["load", f"{here}/orders.csv", "--state", f"{self.out}/state", *url, "--routing-key", "orders"],
            "compensate": ["compensate", f"{here}/found", "--state", f"{self.out}/state", *url, "--routing-key", "q"],
        }[job]

    def reconcile(self, *ledgers: str) -> list[str]:
        return ["reconcile", *ledgers, "--key", "id", "--amount", "amount", "--out", f"{self.out}/found"]


JOBS = ("trace", "audit", "report", "reconcile", "load", "compensate")
Refused = Callable[..., str]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def refused(desk: Desk, capsys: pytest.CaptureFixture[str]) -> Refused:
    """Runs a command line that must be refused, and says with which sentence."""

    def run(command: list[str], exit_code: int | None = None) -> str:
        before = tree(desk.folder)
        code = warren(["pipeline", *command])
        said = capsys.readouterr()
        assert code == (exit_code or (2 if command[0] == "reconcile" else 1)), said
        assert said.out == ""
        *progress, sentence = said.err.splitlines()
        assert not any("Traceback" in line or line.startswith((" ", "warren: ")) for line in progress), said.err
        assert tree(desk.folder) == before
        assert sentence.startswith("warren: ")
        return sentence.removeprefix("warren: ")

    return run


@pytest.mark.parametrize("job", JOBS)
def test_without_a_java_that_will_do_no_job_begins(
    job: str, desk: Desk, refused: Refused, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert refused(desk.command(job)).startswith("Spark needs Java, and /nowhere/bin/java cannot be started")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "/nowhere")
    missing = "Spark needs Java 17 or newer, and there is none: install openjdk-17-jre-headless"
    assert refused(desk.command(job)) == missing
    java = tmp_path_factory.mktemp("java") / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(java.parent.parent))
    too_old = f"Spark needs Java 17 or newer, and {java} is version 11: install openjdk-17-jre-headless"
    assert refused(desk.command(job)) == too_old


@pytest.mark.parametrize("job", JOBS)
def test_a_wrong_spark_master_is_reported_before_anything_is_done(job: str, desk: Desk, refused: Refused) -> None:
    assert refused([*desk.command(job), "--master", "lokal[*]"]).startswith("'lokal[*]' is no master of Spark: local")
    for kind in ("spark", "sc"):
        url = f"{kind}://127.0.0.1:{free_port()}"
        assert refused([*desk.command(job), "--master", url]) == f"no Spark answers at {url}: Connection refused"


@pytest.mark.parametrize("job", JOBS)
def test_wrong_usage_is_exit_code_2(job: str, desk: Desk, refused: Refused) -> None:
    assert refused([*desk.command(job), "--nonsense"], 2).startswith("No such option: --nonsense")
    assert refused([*desk.command(job), "--conf", "memory"], 2) == "--conf is spark.KEY=VALUE, not 'memory'"
    assert refused([job], 2).startswith("Missing ")


@pytest.mark.timeout(120)
def test_a_failed_start_of_java_is_reported_in_one_line(desk: Desk) -> None:
    command = [WARREN, "pipeline", *desk.command("report"), "--memory", "12q"]
    ended = subprocess.run(command, capture_output=True, text=True)
    said = "warren: Spark does not start: Invalid maximum heap size: -Xmx12q\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", said)


@pytest.mark.parametrize("job", ["trace", "audit", "report"])
@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"kind": trace_lake.KIND, "version": 2}, "is a lake of version 2, and this is for version 1; read it with"),
        ({"kind": "orders"}, "is no lake of traces: its lake.json is of something else"),
    ],
)
def test_a_lake_with_another_schema_is_left_alone(
    job: str, found: object, said: str, desk: Desk, refused: Refused
) -> None:
    desk.lake.put_json("lake.json", found)
    command = [str(desk.lake) if word == f"{desk.out}/lake" else word for word in desk.command(job)]
    assert refused(command).startswith(f"{desk.lake} {said}")


def test_a_lake_with_another_schema_is_no_ledger(desk: Desk, refused: Refused, shared: SparkSession) -> None:
    desk.lake.put_json("lake.json", {"kind": trace_lake.KIND, "version": 2})
    (desk.folder / "books.toml").write_text(
        f'key = ["id"]\n[ledgers.orders]\nsource = "csv"\npath = "orders.csv"\n'
        f'[ledgers.traced]\nsource = "lake"\npath = "{desk.lake}"\ncolumns = {{ id = "message_id" }}\n'
    )
    said = refused(["reconcile", f"{desk.folder}/books.toml", "--out", f"{desk.out}/found"])
    assert said.startswith(f"ledger traced: {desk.lake} is a lake of version 2, and this is for version 1")


def test_a_ledger_without_a_column_or_without_rows_is_reported(
    desk: Desk, refused: Refused, shared: SparkSession
) -> None:
    orders, payments = (desk.folder / f"{name}.csv" for name in ("orders", "payments"))
    payments.write_text("id,sum\n1,2.50\n")
    said = refused(desk.reconcile(str(orders), str(payments)))
    assert said == "ledger right has no column amount; it has id, sum"
    payments.write_text("id,amount\n")
    said = refused(desk.reconcile(str(orders), str(payments)))
    assert said == "ledger right is empty; if it may be, say so"
    said = refused(desk.reconcile(str(orders), f"{desk.folder}/nowhere.csv"))
    assert said.startswith("ledger right cannot be read: Path does not exist: ")


def test_a_broker_that_cannot_be_reached_ends_every_job_that_needs_one(
    desk: Desk, refused: Refused, shared: SparkSession
) -> None:
    result = shared.createDataFrame(
        [("1", "missing", ["right"], [], [], [], (1, "{}"), None)],
        "key string, status string, missing array<string>, differing array<string>, duplicated array<string>, "
        "late array<string>, left struct<rows: bigint, record: string>, right struct<rows: bigint, record: string>",
    )
    facts = {"ledgers": ["left", "right"], "authority": "left", "day": "2026-11-15"}
    tables.replace(result, Folder(f"{desk.folder}/found"), KIND, VERSION, facts)
    (desk.folder / "books.toml").write_text(
        f'key = ["id"]\n[ledgers.orders]\nsource = "csv"\npath = "orders.csv"\n[ledgers.payments]\nsource = "stream"\n'
        f'url = "{NO_BROKER}"\nstream = "payments"\nschema = "id string"\n'
    )
    lines = [
        ["trace", "--lake", f"{desk.out}/lake", "--stream", "trace", "--url", NO_BROKER],
        ["audit", "--lake", str(desk.lake), "--http", "http://127.0.0.1:1", "--out", f"{desk.out}/audit"],
        ["reconcile", f"{desk.folder}/books.toml", "--out", f"{desk.out}/found"],
        [*desk.command("load"), "--timeout", "1"],
        [*desk.command("compensate"), "--yes", "--timeout", "1"],
    ]
    for line in lines:
        assert re.search(r"127\.0\.0\.1:1.*[Rr]efused", refused(line))


def test_an_expired_stream_ends_the_trace_and_leaves_its_lake(
    desk: Desk,
    shared: SparkSession,
    url: str,
    broker: blocking.Channel,
    queue: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    limits: Table = {
        "x-queue-type": "stream",
        "x-max-length-bytes": 2_000_000,
        "x-stream-max-segment-size-bytes": 1_000_000,
    }
    stream, published = broker.declare_queue(f"{queue}-trace", durable=True, arguments=limits).name, count()
    publish(broker, stream, [next(published) for _ in range(10)], 1000)
    command = ["pipeline", "trace", "--lake", f"{desk.out}/lake", "--stream", stream, "--url", url]
    lake = Folder(f"{desk.out}/lake")
    assert warren(command) == 1, "they are no copies, and in quarantine"
    before = dumped(trace_lake.quarantine(shared, lake))
    broker.prefetch(10)
    until_expired(broker, stream, published, 1000)
    capsys.readouterr()
    assert warren(command) == 1
    *_, sentence = capsys.readouterr().err.splitlines()
    assert sentence.startswith("warren: ")
    assert "offsets 10 to " in sentence
    assert dumped(trace_lake.quarantine(shared, lake)) == before


def test_corrupt_trace_lines_are_counted_kept_and_reported_once(
    desk: Desk, shared: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, traced = f"{desk.out}/lake", desk.folder / "traces" / "orders.log"
    traced.write_bytes(b'{"torn\n\xff\xfe\n{"schema_version": 1}\n')
    killed_before_it_could_tell = trace_job.Settings(lake, (FileSource(str(traced.parent)),))
    assert trace_job.run(shared, killed_before_it_could_tell).added_quarantined == 3
    for added, told, kept in ((b"", 3, 3), (b"", 0, 3), (b"nonsense\n", 1, 4)):
        with traced.open("ab") as file:
            file.write(added)
        capsys.readouterr()
        assert warren(["pipeline", *desk.command("trace")]) == (1 if told else 0)
        said = capsys.readouterr()
        assert [line.split(":")[0] for line in said.out.splitlines()] == ["events", "quarantined", "messages"]
        assert f"\nquarantined: {kept} " in said.out
        sentence = (
            f"warren: lines that cannot be parsed: {told}; they are in the quarantine of {lake}, with the reasons"
        )
        assert [line for line in said.err.splitlines() if line.startswith("warren: ")] == [sentence][: bool(told)]
    assert trace_lake.quarantine(shared, Folder(lake)).count() == 4


def test_a_java_that_ends_under_a_job_is_named(desk: Desk) -> None:
    arguments = [*desk.command("trace"), "--continuous", "--every", "1", "--master", "local[1]", "--memory", "600m"]
    job = subprocess.Popen([WARREN, "pipeline", *arguments], stderr=subprocess.PIPE, text=True)
    with job:
        try:
            checkpoint = desk.out / "lake" / "checkpoints"
            eventually(lambda: checkpoint.exists() or job.poll() is not None, "the query has begun", JOB_DEADLINE_S)
            os.kill(int(subprocess.check_output(["pgrep", "-P", str(job.pid), "java"])), signal.SIGKILL)
            _, said = job.communicate(timeout=JOB_DEADLINE_S)
        finally:
            job.kill()
    assert job.returncode == 1
    assert said.strip().splitlines()[-1].startswith("warren: the Java behind Spark has ended; ")
    assert "Traceback" not in said
