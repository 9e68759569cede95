"""Queues of a real node as a source: browsed, or consumed with nothing lost and nothing read twice."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import Row

from tests.spark.queries import run_through
from tests.support.node_process import NodeProcess
from warren.client import Message, Properties, blocking

Run = Callable[..., None]


def fill(broker: blocking.Channel, queue: str, numbers: range) -> None:
    broker.send_many([b"%d" % number for number in numbers], routing_key=queue, properties=Properties(delivery_mode=2))
    broker.wait_for_confirms()


def ready(broker: blocking.Channel, queue: str) -> int:
    return broker.declare_queue(queue, passive=True).messages


@pytest.fixture
def run(spark: SparkSession, url: str, queue: str, folder: Path) -> Run:
    """Read the messages of the queue into Parquet files."""

    def process(**options: object) -> None:
        frame = (
            spark.readStream.format("warren")
            .options(url=url, queue=queue, stagingDir=str(folder / "staged"), **options)
            .load()
        )
        run_through(
            frame.selectExpr("cast(cast(body as string) as int) number", "offset")
            .writeStream.format("parquet")
            .options(path=str(folder / "out"), checkpointLocation=str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start
        )

    return process


@pytest.fixture
def results(spark: SparkSession, folder: Path) -> Callable[[], list[int]]:
    def read() -> list[int]:
        return sorted(row.number for row in spark.read.parquet(str(folder / "out")).collect())

    return read


def staged(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "staged").glob("*.arrow"))


def test_a_batch_read_browses_and_leaves_everything_where_it_is(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str
) -> None:
    properties = Properties(message_id="m", content_type="text/plain", headers={"table": 4, "late": True})
    broker.publish(Message(b"first", properties), routing_key=queue)
    broker.publish(b"second", routing_key=queue)
    frame = spark.read.format("warren").options(url=url, queue=queue, includeHeaders="true").load()
    first, second = frame.drop("timestamp").collect()
    assert first.asDict()["headers"] == {"table": "4", "late": "true"}
    assert (first.message_id, first.properties.content_type, first.routing_key) == ("m", "text/plain", queue)
    assert (first.exchange, first.partition, first.offset, bytes(first.body)) == ("", 0, 0, b"first")
    assert (second.message_id, second.headers, second.offset, bytes(second.body)) == (None, None, 1, b"second")
    assert ready(broker, queue) == 2


def test_columns_that_are_not_wanted_are_not_there(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str
) -> None:
    fill(broker, queue, range(3))
    frame = spark.read.format("warren").options(url=url, queue=queue, columns="body, routing_key").load()
    assert frame.collect() == [Row(body=b"%d" % number, routing_key=queue) for number in range(3)]


def test_a_query_consumes_a_queue_in_batches_and_empties_it(
    broker: blocking.Channel, queue: str, folder: Path, run: Run, results: Callable[[], list[int]]
) -> None:
    fill(broker, queue, range(500))
    run(maxRecordsPerTrigger=200)
    assert results() == list(range(500))
    batches = [path for path in (folder / "checkpoint" / "commits").iterdir() if path.name.isdigit()]
    assert len(batches) == 3
    fill(broker, queue, range(500, 600))
    run()
    assert results() == list(range(600))
    assert (ready(broker, queue), staged(folder)) == (0, [])


def test_a_restart_of_the_node_loses_nothing_and_repeats_nothing(
    node: NodeProcess, url: str, queue: str, spark: SparkSession, folder: Path, results: Callable[[], list[int]]
) -> None:
    """The node is killed during a batch: staged messages come again, and are recognised."""
    with blocking.connect(url) as connection:
        fill(connection.channel(confirms=True), queue, range(300))
    killed: list[int] = []

    def keep(frame, number: int) -> None:  # type: ignore[no-untyped-def]
        if not killed:
            killed.append(number)
            node.crash()
        frame.selectExpr("cast(cast(body as string) as int) number").write.mode("append").parquet(str(folder / "out"))

    run_through(
        spark.readStream.format("warren")
        .options(url=url, queue=queue, stagingDir=str(folder / "staged"), maxRecordsPerTrigger=100)
        .load()
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start
    )
    assert killed
    assert results() == list(range(300))
    with blocking.connect(url) as connection:
        assert ready(connection.channel(), queue) == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"queue": "q", "mode": "consume"}, "a batch read cannot consume a queue"),
        ({"queue": "q", "startingOffsets": "earliest"}, "option startingOffsets makes no sense for a queue"),
        ({"queue": "missing"}, "queue 'missing' cannot be read: .*404 NOT_FOUND"),
        ({}, "reading needs option"),
        ({"que": "q"}, "did you mean queue"),
    ],
)
def test_unreadable_input_is_reported_in_one_sentence(
    spark: SparkSession, url: str, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(PySparkException, match=sentence):
        spark.read.format("warren").option("url", url).options(**options).load().count()


def test_a_stream_of_a_queue_wants_a_folder(spark: SparkSession, url: str, queue: str, folder: Path) -> None:
    frame = spark.readStream.format("warren").options(url=url, queue=queue).load()
    with pytest.raises(PySparkException, match="readStream of a queue needs option stagingDir"):
        frame.writeStream.format("noop").option("checkpointLocation", str(folder)).start().awaitTermination()
