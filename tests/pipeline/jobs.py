"""Every job as a command line with fixed inputs, and its complete output as text.

    job = Jobs(folder, spark, node, url, broker).report()
    Command(log, *job.arguments(place)).finish(job.exit_code)
    job.left(place)                 # the same list of lines after every run

The output is the sorted rows of tables, the bytes of pages, and for jobs that publish the messages in the broker, which
are consumed. Names of data folders and of publishers differ from run to run, and are left out.

Not here: running them (`command_process`).
"""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from sqlalchemy import create_engine, insert, select

from tests.pipeline.test_report_job import record
from tests.support.node_process import NodeProcess
from tests.support.operator import Operator
from warren.client import Message, Properties, blocking
from warren.client.tables import OUTBOX, create_tables
from warren.pipeline import tables
from warren.pipeline.audit import job as audit_job
from warren.pipeline.compensate import attempts
from warren.pipeline.folder import Folder
from warren.pipeline.reconcile import job as reconcile_job
from warren.pipeline.reconcile.describing import two_paths
from warren.pipeline.trace import job as trace_job
from warren.pipeline.trace import lake
from warren.pipeline.trace.sources import FileSource
from warren.wire.field_tables import Table

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
TRACED = 600
COPIED = 50
KEYS = 30_000
LOADED = 45_000
"""In messages of two records: more than one part of a load, and of a compensation, has."""

DAY = "2026-11-01"


@dataclass(frozen=True)
class Job:
    """`arrived` tells how many messages have come to the broker, for jobs that publish."""

    name: str
    arguments: Callable[[Path], list[str]]
    left: Callable[[Path], list[str]]
    exit_code: int = 0
    tells_once: bool = False
    """Whether it exits with 0 when an earlier run has already reported everything."""
    arrived: Callable[[], int] = lambda: 0


class Jobs:
    """Inputs are made when the first job needs them."""

    def __init__(
        self, folder: Path, spark: SparkSession, node: NodeProcess, url: str, broker: blocking.Channel
    ) -> None:
        self._folder = folder
        self._spark = spark
        self._operator = Operator(node.addresses["http"])
        self._url = url
        self._broker = broker

    def trace(self) -> Job:
        """A trace of files, with a torn line, and of the Firehose of a node."""
        traces, stream = self._traces(), self._copies()
        of_stream = ["--stream", stream, "--url", self._url]
        return Job(
            "trace",
            lambda place: ["trace", "--lake", f"{place}/lake", "--files", str(traces), *of_stream],
            lambda place: self._lake_rows(place / "lake"),
            exit_code=1,
            tells_once=True,
        )

    def trace_on_and_on(self, once: Job) -> Job:
        """The same, continuously; with files of its own, which grow by `more_is_traced`."""
        traces = self._folder / "growing"
        traces.mkdir(exist_ok=True)
        (traces / "orders.log").touch()

        def arguments(place: Path) -> list[str]:
            return [word if word != str(self._traces()) else str(traces) for word in once.arguments(place)]

        on_and_on = ["--continuous", "--every", "1"]
        return replace(once, name="trace on and on", arguments=lambda place: [*arguments(place), *on_and_on])

    def more_is_traced(self, part: float) -> None:
        """Give the growing file this share of the other file's bytes, cut at any byte."""
        whole = (self._traces() / "orders.log").read_bytes()
        with (self._folder / "growing" / "orders.log").open("r+b") as grown:
            grown.seek(0, os.SEEK_END)
            grown.write(whole[grown.tell() : round(part * len(whole))])

    def events_in(self, place: Path) -> int:
        """How many the lake has, with lines that are in quarantine."""
        known = Folder(str(place / "lake"))
        return sum(lake.counts(self._spark, known)) if known.exists(lake.LAKE) else 0

    def audit(self) -> Job:
        known, counters = self._lake(), self._counters()
        said = ["--lake", str(known), "--counters", str(counters), "--until", "2026-12-01T00:00:00Z"]
        return Job(
            "audit",
            lambda place: ["audit", *said, "--out", f"{place}/audit"],
            lambda place: self._table(place / "audit", audit_job.KIND, audit_job.VERSION),
            exit_code=1,
        )

    def report(self) -> Job:
        known = self._lake()
        return Job(
            "report",
            lambda place: ["report", "--lake", str(known), "--out", f"{place}/report.html"],
            lambda place: [(place / "report.html").read_text()],
        )

    def reconcile(self) -> Job:
        books = [str(self._ledger("orders")), str(self._ledger("payments"))]
        return Job(
            "reconcile",
            lambda place: ["reconcile", *books, "--key", "id", "--amount", "amount", "--out", f"{place}/found"],
            self._reconciled,
            exit_code=1,
        )

    def load(self) -> Job:
        file, queue = self._records(), self._queue("loaded")
        to = ["--url", self._url, "--routing-key", queue, "--max-bytes", "100"]
        return Job(
            "load",
            lambda place: ["load", str(file), "--state", f"{place}/state", *to],
            lambda place: [*self._finished(place / "state" / "load.json"), *self._drained(queue)],
            arrived=lambda: self._waiting(queue),
        )

    def compensate(self) -> Job:
        result, queue = self._result(), self._queue("corrections")
        to = ["--url", self._url, "--routing-key", queue, "--day", DAY, "--yes"]
        return Job(
            "compensate",
            lambda place: ["compensate", str(result), "--state", f"{place}/state", *to],
            lambda place: [*self._attempts(place / "state"), *self._drained(queue)],
            arrived=lambda: self._waiting(queue),
        )

    def settle(self) -> Job:
        """A compensation through an outbox, which has all orders as rows that were sent."""
        result = self._result()
        to = ["--routing-key", "corrections", "--day", DAY, "--yes"]
        return Job(
            "settle",
            lambda place: [
                "compensate", str(result), "--state", f"{place}/state", "--outbox", _outbox(place / "outbox.db"), *to
            ],
            lambda place: [*self._attempts(place / "state"), *_rows_of(place / "outbox.db")],
        )  # fmt: skip

    def _traces(self) -> Path:
        traces = self._folder / "traces"
        if not traces.exists():
            traces.mkdir()
            lines = [json.dumps(each) for each in _traffic()]
            (traces / "orders.log").write_text("\n".join([*lines, "{torn"]) + "\n")
        return traces

    def _copies(self) -> str:
        """A stream with copies of real messages; its name."""
        stream, queue = self._queue("copies", {"x-queue-type": "stream"}), self._queue("copied")
        self._broker.bind_queue(stream, "amq.rabbitmq.trace", "#")
        self._operator.trace("/", True)
        try:
            for number in range(COPIED):
                self._broker.publish(Message(b"goods", Properties(message_id=f"copy {number}")), "", queue)
                delivery = self._broker.get(queue)
                assert delivery is not None
                self._broker.ack(delivery)
        finally:
            self._operator.trace("/", False)
        return stream

    def _lake(self) -> Path:
        place = self._folder / "lake"
        if not (place / "messages" / "table.json").exists():
            trace_job.run(self._spark, trace_job.Settings(str(place), (FileSource(str(self._traces())),)))
        return place

    def _counters(self) -> Path:
        path = self._folder / "counters.json"
        queues = [{"vhost": "/", "name": name, "messages_ready": 0} for name in ("orders", "archive")]
        path.write_text(json.dumps(queues))
        return path

    def _ledger(self, name: str) -> Path:
        path = self._folder / f"{name}.csv"
        if not path.exists():
            path.write_text("id,amount\n" + "".join(_rows(name)))
        return path

    def _result(self) -> Path:
        result = self._folder / "result"
        options = {"key": ["id"], "amounts": ["amount"]}
        settings = two_paths(str(self._ledger("orders")), str(self._ledger("payments")), options)
        reconcile_job.run(self._spark, settings, Folder(str(result)))
        return result

    def _records(self) -> Path:
        path = self._folder / "records.csv"
        rows = (f"{number},{number % 997}.50\n" for number in range(LOADED))
        path.write_text("number,amount\n" + "".join(rows))
        return path

    def _queue(self, name: str, arguments: Table | None = None) -> str:
        return self._broker.declare_queue(name, durable=True, arguments=arguments or {}).name

    def _waiting(self, queue: str) -> int:
        return self._broker.declare_queue(queue, passive=True).messages

    def _drained(self, queue: str) -> list[str]:
        """All messages, taken out."""
        count = self._waiting(queue)
        consumer = self._broker.consume(queue, no_ack=True)
        found: list[str] = []
        while len(found) < count:
            batch = consumer.batch(30.0)
            assert batch, f"{count} messages are in {queue}, and {len(found)} came"
            for each in batch:
                own = {name: value for name, value in each.headers.items() if not name.startswith("x-warren-")}
                found.append(f"{each.properties.message_id} {sorted(own.items())} {each.body.decode()}")
        consumer.cancel()
        assert self._waiting(queue) == 0
        return sorted(found)

    def _lake_rows(self, place: Path) -> list[str]:
        known = Folder(str(place))
        frames = [read(self._spark, known) for read in (lake.events, lake.quarantine, lake.messages)]
        return [line for frame in frames for line in dumped(frame)]

    def _table(self, place: Path, kind: str, version: int) -> list[str]:
        rows, facts = tables.read(self._spark, Folder(str(place)), kind, version)
        assert len(list((place / "data").iterdir())) == 1
        return [json.dumps(facts, sort_keys=True), *dumped(rows)]

    def _reconciled(self, place: Path) -> list[str]:
        out = place / "found"
        names = sorted(path.name for path in out.iterdir() if not path.name.startswith("."))
        assert names == ["data", "report.html", "summary.json", "table.json"]
        pages = [(out / name).read_text() for name in ("summary.json", "report.html")]
        return [*pages, *self._table(out, reconcile_job.KIND, reconcile_job.VERSION)]

    def _finished(self, path: Path) -> list[str]:
        return [json.dumps(json.loads(path.read_text())["finished"], sort_keys=True)]

    def _attempts(self, state: Path) -> list[str]:
        rows, facts = tables.read(self._spark, Folder(str(state / "attempts")), attempts.KIND, attempts.VERSION)
        del facts["publisher"]
        return [json.dumps(facts, sort_keys=True), *dumped(rows)]


def _outbox(file: Path) -> str:
    """Its URL; it is made when it is asked for first."""
    url = f"sqlite:///{file}"
    if not file.exists():
        engine = create_engine(url)
        create_tables(engine)
        rows = [{"business_id": f"o{number}", "body": b"", "status": "sent"} for number in range(KEYS)]
        with engine.begin() as connection:
            connection.execute(insert(OUTBOX), rows)
        engine.dispose()
    return url


def _rows_of(file: Path) -> list[str]:
    """The rows of an outbox, without times and ids."""
    engine = create_engine(f"sqlite:///{file}")
    columns = ("business_id", "kind", "status", "routing_key", "properties", "body")
    with engine.connect() as connection:
        found = [str(tuple(row)) for row in connection.execute(select(*(OUTBOX.c[name] for name in columns)))]
    engine.dispose()
    return sorted(found)


def dumped(frame: DataFrame) -> list[str]:
    """All rows as JSON, sorted, behind the schema."""
    return [frame.schema.simpleString(), *sorted(row[0] for row in frame.selectExpr("to_json(struct(*))").collect())]


def tree(folder: Path) -> dict[str, bytes]:
    """Every file with what is in it, and every folder."""
    found: dict[str, bytes] = {}
    for place, folders, files in os.walk(folder):
        found |= {os.path.join(place, name): b"" for name in folders}
        found |= {os.path.join(place, name): Path(place, name).read_bytes() for name in files}
    return found


def _traffic() -> Iterator[dict[str, object]]:
    """Messages for two queues; one in fifty is never delivered."""
    for number in range(TRACED):
        at = BEGIN + timedelta(minutes=number)
        yield record(at, "published", number, routed_queues=["orders", "archive"])
        for queue in ("orders", "archive"):
            if number % 50:
                yield record(at + timedelta(milliseconds=20), "received", number, queue=queue)
                yield record(at + timedelta(milliseconds=50), "acked", number, queue=queue)


def _rows(name: str) -> Iterator[str]:
    """Of the orders, most are not paid; some are paid twice, some in part, and some payments have no order."""
    for number in range(KEYS):
        if name == "orders":
            yield f"o{number},{number % 89}.10\n"
        elif number % 6 == 0:
            yield f"o{number},{number % 89}.{'10' if number % 5 else '20'}\n" * (1 + (number % 7 == 0))
            if number % 11 == 0:
                yield f"x{number},1.00\n"
