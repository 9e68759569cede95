"""The job `trace` on the files and the Firehose of a real node, with planted faults."""

import itertools
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.deadlines import eventually
from tests.support.node_process import NodeProcess
from tests.support.operator import Operator
from tests.support.ports import free_port
from warren.client import Message, Properties, blocking
from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import Folder
from warren.pipeline.trace import job, lake
from warren.pipeline.trace.sources import FileSource, StreamSource

DEADLINE_S = 120.0
PIECES = "trace_files.rotation.size = 16KiB\ntrace_files.rotation.count = 500\n"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    node = NodeProcess(tmp_path_factory.mktemp("node"), configuration=PIECES)
    yield node
    node.stop()


class Trace:
    """A trace to files, of a queue of its own, and what it must have written."""

    def __init__(self, node: NodeProcess, broker: blocking.Channel) -> None:
        self.name = f"trace-{uuid.uuid4().hex[:8]}"
        self.queue = broker.declare_queue(self.name, durable=True).name
        self._operator = Operator(node.addresses["http"])
        self._broker = broker
        self._numbers = itertools.count()
        self.directory = node.data / "traces"
        pattern = {"format": "json", "pattern": "#"}
        assert self._operator._call("PUT", ["traces", "/", self.name], pattern)[0] in (201, 204)

    @property
    def source(self) -> FileSource:
        return FileSource(str(self.directory), traces=(self.name,))

    def pass_through(self, count: int) -> None:
        """So many messages in and out, and until the trace has written them."""
        first = next(self._numbers)
        for number in range(first, first + count):
            self._broker.publish(Message(b"%d" % number, Properties(message_id=f"m{number}")), "", self.queue)
        self._numbers = itertools.count(first + count)
        consumer = self._broker.consume(self.queue)
        taken = 0
        while taken < count:
            batch = consumer.batch(DEADLINE_S)
            assert batch
            taken += len(batch)
            self._broker.ack(batch[-1], multiple=True)
        consumer.cancel()
        eventually(lambda: self.acked() >= first + count)

    def acked(self) -> int:
        """None if a piece is put aside, and so has another name, while they are looked at."""
        pieces = self.directory.glob(f"{self.name}.log*")
        try:
            return sum(path.read_bytes().count(b'"type":"acked"') for path in pieces)
        except FileNotFoundError:
            return 0

    def finished(self) -> list[Path]:
        return list(self.directory.glob(f"{self.name}.log.*"))

    def plant(self, octets: bytes) -> None:
        """Write into the file that the trace writes."""
        with (self.directory / f"{self.name}.log").open("ab") as file:
            file.write(octets)

    def end(self) -> None:
        self._operator._call("DELETE", ["traces", "/", self.name], None)


@pytest.fixture
def trace(node: NodeProcess, broker: blocking.Channel) -> Iterator[Trace]:
    trace = Trace(node, broker)
    yield trace
    trace.end()


@pytest.fixture
def lake_folder(tmp_path: Path) -> Folder:
    return Folder(str(tmp_path / "lake"))


def run(spark: SparkSession, folder: Folder, *files: FileSource, **more: object) -> job.Outcome:
    return job.run(spark, job.Settings(str(folder), files, **more))


def types_in(spark: SparkSession, folder: Folder) -> Counter[str]:
    rows = lake.events(spark, folder).groupBy("type").count().collect()
    return Counter({row.type: row["count"] for row in rows})


def test_trace_files_come_into_the_lake_once_with_all_their_lines_until_some_are_gone(
    spark: SparkSession, lake_folder: Folder, trace: Trace
) -> None:
    planted = [b"\x00\x00", b'{"schema_version":9}', b"\xff\xfe"]
    trace.pass_through(60)
    trace.plant(b"".join(line + b"\n" for line in planted))
    assert run(spark, lake_folder, trace.source) == job.Outcome(180, 3, 180, 3, 60)
    kept = {bytes(row.line): row.reason for row in lake.quarantine(spark, lake_folder).collect()}
    assert kept == {
        planted[0]: "it is not one JSON object",
        planted[1]: "its schema version is 9, and this is for version 1",
        planted[2]: "it is no UTF-8",
    }
    trace.pass_through(40)
    assert len(trace.finished()) > 3
    twin = FileSource(str(trace.directory), "twin", (trace.name,))
    second = run(spark, lake_folder, trace.source, twin)
    assert (second.events, second.added_events, second.quarantined) == (600, 420, 6)
    events = lake.events(spark, lake_folder).groupBy("event_id", "vhost", "type").count().collect()
    assert {row["count"] for row in events} == {1}
    assert {row.vhost for row in events} == {"/"}
    assert Counter(row.type for row in events) == {"published": 200, "received": 200, "acked": 200}
    trace.pass_through(60)
    for path in trace.finished():
        path.unlink()
    with pytest.raises(
        PipelineError, match=rf"^trace '{trace.name}' in .* cannot be read on: .*; --allow-loss reads what is left$"
    ):
        run(spark, lake_folder, trace.source)


def test_the_firehose_comes_through_a_stream_that_the_job_declares_until_the_stream_is_lost(
    spark: SparkSession, lake_folder: Folder, node: NodeProcess, url: str, broker: blocking.Channel
) -> None:
    stream = f"trace {uuid.uuid4().hex[:8]}"
    settings = job.Settings(str(lake_folder), stream=StreamSource(url, stream, declare=True))
    operator = Operator(node.addresses["http"])
    settings.sources[0].prepare()
    operator.trace("/", True)
    try:
        queue = broker.declare_queue("", exclusive=True).name
        for number in range(20):
            broker.publish(Message(b"%d" % number, Properties(headers={"n": number})), "", queue)
        for _ in range(20):
            got = broker.get(queue)
            assert got is not None
            broker.ack(got)
        broker.declare_queue(queue, passive=True)
    finally:
        operator.trace("/", False)
    broker.publish(b"no copy", "", stream)
    outcome = job.run(spark, settings)
    assert (outcome.added_events, outcome.added_quarantined, outcome.messages) == (60, 1, 20)
    assert types_in(spark, lake_folder) == {"published": 20, "received": 20, "acked": 20}
    keys = [row["count"] for row in lake.events(spark, lake_folder).groupBy("message_key").count().collect()]
    assert keys == [3] * 20
    [strange] = lake.quarantine(spark, lake_folder).collect()
    assert strange.reason == "it is no copy of the Firehose"
    broker.delete_queue(stream)
    with pytest.raises(
        PipelineError, match=rf"^partition 0 of '{stream}' ends at 0 and was read up to 61; --allow-loss reads"
    ):
        job.run(spark, settings)


@pytest.mark.timeout(600)
def test_a_job_that_runs_on_sees_every_line_while_files_are_put_aside(
    spark: SparkSession, lake_folder: Folder, trace: Trace
) -> None:
    enough = threading.Event()

    def traffic() -> None:
        try:
            for count in (70, 50, 80):
                trace.pass_through(count)
            eventually(lambda: lake_folder.exists(lake.LAKE) and lake.counts(spark, lake_folder)[0] >= 600)
        finally:
            enough.set()

    sender = threading.Thread(target=traffic)
    sender.start()
    outcome = job.run(spark, job.Settings(str(lake_folder), (trace.source,), continuous=True, every_s=1), enough)
    sender.join()
    assert outcome == job.Outcome(600, 0, 600, 0, 200)
    assert len(trace.finished()) > 3


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"kind": "warren trace lake", "version": 2}, "is a lake of version 2, and this is for version 1"),
        ({"kind": "orders", "version": 1}, r"is no lake of traces: its lake\.json is of something else"),
        (None, "is no lake of traces, and it is not empty"),
    ],
)
def test_a_lake_of_something_else_is_refused_and_left_alone(
    spark: SparkSession, lake_folder: Folder, tmp_path: Path, told: object, said: str
) -> None:
    lake_folder.put_json("lake.json" if told else "other.json", told)
    with pytest.raises(PipelineError, match=said):
        run(spark, lake_folder, FileSource(str(tmp_path)))
    assert len(lake_folder.children()) == 1


def test_a_source_keeps_its_place_once_something_was_read_there(
    spark: SparkSession, lake_folder: Folder, tmp_path: Path
) -> None:
    for name, octets in (("text", b"=" * 80 + b"\n"), ("one", b"nonsense\n"), ("two", b"")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "orders.log").write_bytes(octets)
    with pytest.raises(PipelineError, match="trace 'orders' is written as text"):
        run(spark, lake_folder, FileSource(str(tmp_path / "text")))
    assert run(spark, lake_folder, FileSource(str(tmp_path / "one"))).added_quarantined == 1
    with pytest.raises(PipelineError, match=r"source 'files' of .* is files in .*/one, and not files in .*/two; give"):
        run(spark, lake_folder, FileSource(str(tmp_path / "two")))


def test_an_unreachable_broker_and_a_missing_stream_are_reported_in_one_sentence(
    spark: SparkSession, lake_folder: Folder, url: str
) -> None:
    silent = f"amqp://guest:guest@127.0.0.1:{free_port()}/%2F"
    for declare in (True, False):
        with pytest.raises(PipelineError, match=r"^cannot connect to 127\.0\.0\.1:\d+: [^\n]+$"):
            job.run(spark, job.Settings(str(lake_folder), stream=StreamSource(silent, "trace", declare)))
    with pytest.raises(PipelineError, match=r"^[^\n]*no queue 'nowhere' in vhost '/'[^\n]*$"):
        job.run(spark, job.Settings(str(lake_folder), stream=StreamSource(url, "nowhere")))
    assert not lake_folder.exists()
