"""Rows that are written to a real node, and the checks before the first one is."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sql

from tests.support.queue_contents import taken
from warren.client import blocking


def rows(spark: SparkSession, count: int, partitions: int = 2) -> DataFrame:
    return spark.range(0, count, 1, partitions).select(sql.col("id").cast("string").alias("body"))


def write(frame: DataFrame, url: str, **options: object) -> None:
    frame.write.format("warren").mode("append").option("url", url).options(**options).save()


def test_rows_are_written_as_persistent_messages_with_ids(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str
) -> None:
    write(rows(spark, 1000), url, routingKey=queue)
    found = taken(broker, queue, 1000)
    assert sorted(int(each.body) for each in found) == list(range(1000))
    assert {each.properties.delivery_mode for each in found} == {2}
    assert len({each.headers["x-warren-publishing-id"] for each in found}) == 1000
    publishers = {each.headers["x-warren-publisher"] for each in found}
    assert {str(each).rpartition("/")[0][-2:] for each in publishers} == {"/0", "/1"}


def test_routing_key_headers_and_properties_come_from_columns(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str
) -> None:
    broker.declare_exchange("orders", "topic")
    broker.bind_queue(queue, "orders", "order.#")
    frame = spark.range(2).select(
        sql.lit("orders").alias("exchange"),
        sql.concat(sql.lit("order."), "id").alias("routing_key"),
        sql.concat(sql.lit("number "), "id").alias("message_id"),
        sql.struct(sql.lit("text/plain").alias("content_type"), sql.lit(4).alias("priority")).alias("properties"),
        sql.create_map(sql.lit("table"), sql.col("id").cast("string")).alias("headers"),
        sql.encode(sql.lit("coffee"), "UTF-8").alias("body"),
    )
    write(frame, url)
    found = sorted(taken(broker, queue, 2), key=lambda each: each.routing_key)
    assert [each.routing_key for each in found] == ["order.0", "order.1"]
    assert [each.exchange for each in found] == ["orders", "orders"]
    assert [each.properties.message_id for each in found] == ["number 0", "number 1"]
    assert [(each.properties.content_type, each.properties.priority) for each in found] == [("text/plain", 4)] * 2
    assert [each.headers["table"] for each in found] == ["0", "1"]
    assert [each.headers["x-warren-publishing-id"] for each in found] == ["number 0", "number 1"]


def test_a_body_of_many_frames_arrives_whole(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str
) -> None:
    frame = spark.range(2).select(sql.repeat(sql.lit("0123456789"), 50_000).alias("body"))
    write(frame, url, routingKey=queue)
    assert [each.body for each in taken(broker, queue, 2)] == [b"0123456789" * 50_000] * 2


def test_equal_rows_are_all_kept(spark: SparkSession, url: str, broker: blocking.Channel, queue: str) -> None:
    write(spark.range(50).select(sql.lit("the same").alias("body")), url, routingKey=queue)
    assert len(taken(broker, queue, 50)) == 50


def failing_once(frame: DataFrame, behind: int) -> DataFrame:
    """The same rows; the first attempt at each task fails after so many rows."""

    def fail_once(rows: Iterator[Row]) -> Iterator[Row]:
        task = TaskContext.get()
        for number, row in enumerate(rows):
            if number == behind and task is not None and task.attemptNumber() == 0:
                raise RuntimeError("as planned")
            yield row

    return frame.rdd.mapPartitions(fail_once).toDF("body string")


@pytest.fixture
def small_batches(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    yield
    spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


@pytest.mark.usefixtures("small_batches")
def test_messages_of_a_failed_task_are_not_there_twice(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str
) -> None:
    write(failing_once(rows(spark, 2000), 900), url, routingKey=queue)
    assert sorted(int(each.body) for each in taken(broker, queue, 2000)) == list(range(2000))


@pytest.mark.usefixtures("small_batches")
def test_a_task_may_have_many_times_more_rows_than_a_queue_remembers_of_a_publisher(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str
) -> None:
    small = broker.declare_queue(f"small-{queue}", durable=True, arguments={"x-warren-dedup-window": 1000}).name
    write(failing_once(rows(spark, 10_000, 1), 9000), url, routingKey=small)
    assert sorted(int(each.body) for each in taken(broker, small, 10_000)) == list(range(10_000))


def test_a_task_with_more_rows_than_are_remembered_is_refused_unless_the_user_allows_it(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str
) -> None:
    with pytest.raises(PySparkException, match="a task has more than 499 rows, and the broker could not tell"):
        write(rows(spark, 1000), url, routingKey=queue, maxRecordsPerTask="499")
    assert taken(broker, queue, 0) == []
    write(rows(spark, 1000), url, routingKey=queue, maxRecordsPerTask="500")
    assert len(taken(broker, queue, 1000)) == 1000


def test_a_job_that_is_run_again_under_its_name_writes_nothing_twice(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str
) -> None:
    for _ in range(2):
        write(rows(spark, 500), url, routingKey=queue, publisher="nightly")
    assert len(taken(broker, queue, 500)) == 500


def test_a_streaming_query_writes_each_row_once_though_its_checkpoint_forgot_the_last_batch(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str, folder: Path
) -> None:
    spark.range(300).selectExpr("cast(id as string) body").write.parquet(str(folder / "in"))

    def run() -> None:
        query = (
            spark.readStream.schema("body string")
            .parquet(str(folder / "in"))
            .writeStream.format("warren")
            .options(url=url, routingKey=queue, checkpointLocation=str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run()
    commits = [path for path in (folder / "checkpoint" / "commits").iterdir() if path.name.isdigit()]
    last = max(commits, key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink()
    run()
    assert sorted(int(each.body) for each in taken(broker, queue, 300)) == list(range(300))


@pytest.mark.parametrize(
    ("columns", "options", "sentence"),
    [
        (["'a' as body"], {"routing": "x"}, "there is no option 'routing' for writing; did you mean routingKey?"),
        (["'a' as body", "'b' as key"], {"routingKey": "x"}, "a message has no column 'key'"),
        (["1 as body"], {"routingKey": "x"}, "column body is binary or string, not int"),
        (["'a' as body"], {}, "nothing says where messages go"),
        (["'a' as body"], {"routingKey": "nobody's"}, "no queue takes messages of exchange '' with key"),
        (["'a' as body"], {"exchange": "missing"}, "404 NOT_FOUND"),
    ],
)
def test_unwritable_output_is_reported_in_one_sentence(
    spark: SparkSession, url: str, columns: list[str], options: dict[str, str], sentence: str
) -> None:
    frame = spark.range(1).selectExpr(*columns)
    with pytest.raises(PySparkException, match=sentence.replace("?", r"\?")):
        write(frame, url, **options)


def test_a_broker_that_cannot_be_reached_is_named(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match=r"cannot connect to 127\.0\.0\.1:1: connection refused"):
        write(rows(spark, 1), "amqp://127.0.0.1:1", routingKey="x", timeout="0.1")
