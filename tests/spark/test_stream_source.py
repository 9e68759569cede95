"""Streams as Spark reads them from a real node."""

import json
from itertools import count
from pathlib import Path

import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from tests.spark.queries import DEADLINE_S, run_through
from tests.spark.streams import declare, publish, until_expired
from warren.client import Message, Properties, blocking


def read(spark: SparkSession, url: str, stream: str, **options: object) -> DataFrame:
    said = {name: str(value) for name, value in options.items()}
    return spark.read.format("warren").option("url", url).option("stream", stream).options(**said).load()


def read_stream(spark: SparkSession, url: str, stream: str, **options: object) -> DataFrame:
    said = {"startingOffsets": "earliest"} | {name: str(value) for name, value in options.items()}
    return spark.readStream.format("warren").option("url", url).option("stream", stream).options(**said).load()


def numbers(frame: DataFrame) -> list[int]:
    return sorted(int(row.message_id) for row in frame.select("message_id").collect())


def run_to_the_end(frame: DataFrame, folder: Path) -> list[int]:
    """Read the whole stream into Parquet; the number of rows of each micro-batch."""
    return run_through(
        frame.writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start
    )


def written(spark: SparkSession, folder: Path) -> list[int]:
    return numbers(spark.read.parquet(str(folder / "out")))


@pytest.fixture
def channel(broker: blocking.Channel) -> blocking.Channel:
    broker.prefetch(10)
    return broker


def test_every_column_of_a_message_is_read(spark: SparkSession, url: str, channel: blocking.Channel) -> None:
    stream = declare(channel)
    channel.declare_exchange("shop", "topic")
    channel.bind_queue(stream, "shop", "order.#")
    properties = Properties(message_id="m1", content_type="text/plain", headers={"table": 4, "warm": True})
    channel.publish(Message(b"coffee", properties), "shop", "order.new")
    channel.publish(b"tea", routing_key=stream)
    frame = read(spark, url, stream, includeHeaders="true")
    first, second = frame.orderBy("offset").collect()
    assert (first.partition, first.offset, first.exchange, first.routing_key) == (0, 0, "shop", "order.new")
    assert (first.message_id, first.properties.content_type, first.body) == ("m1", "text/plain", b"coffee")
    assert first.headers == {"table": "4", "warm": "true"}
    assert (second.offset, second.exchange, second.routing_key, second.message_id) == (1, "", stream, None)
    assert (second.headers, second.body, second.properties.content_type) == (None, b"tea", None)
    arrived = frame.select(sf.max(sf.abs(sf.unix_timestamp("timestamp") - sf.unix_timestamp(sf.current_timestamp()))))
    # the time zone is right
    assert arrived.collect()[0][0] < 600


def test_a_batch_reads_from_one_place_to_another(spark: SparkSession, url: str, channel: blocking.Channel) -> None:
    stream = declare(channel)
    publish(channel, stream, range(4000), 1000)
    assert numbers(read(spark, url, stream)) == list(range(4000))
    assert numbers(read(spark, url, stream, startingOffsets=100, endingOffsets=3500)) == list(range(100, 3500))
    assert numbers(read(spark, url, stream, startingOffsets="latest")) == []
    assert numbers(read(spark, url, stream, endingOffsets="2001-01-01T00:00:00Z")) == []
    parts = read(spark, url, stream, minPartitions=5, columns="offset,message_id")
    assert parts.rdd.getNumPartitions() == 5
    assert parts.columns == ["offset", "message_id"]
    assert parts.filter("cast(offset as string) = message_id").count() == 4000


def test_the_partitions_of_a_stream_are_read_at_once(spark: SparkSession, url: str, channel: blocking.Channel) -> None:
    stream = declare(channel, {"x-stream-partitions": 3})
    channel.declare_exchange("keys", "fanout")
    channel.bind_queue(stream, "keys")
    for number in range(300):
        channel.send(Message(b"", Properties(message_id=str(number))), "keys", f"key-{number % 20}")
    channel.wait_for_confirms()
    frame = read(spark, url, stream)
    assert frame.rdd.getNumPartitions() == 3
    assert numbers(frame) == list(range(300))
    partitions = frame.groupBy("routing_key").agg(sf.countDistinct("partition").alias("of_key")).collect()
    assert {row.of_key for row in partitions} == {1}
    # within a key, what was sent first comes first
    by_key = frame.selectExpr("routing_key", "offset", "cast(message_id as int) as number")
    pairs = by_key.alias("a").join(by_key.alias("b"), "routing_key").filter("a.offset < b.offset")
    assert pairs.filter("a.number > b.number").count() == 0


def test_a_stream_is_read_on_from_its_checkpoint(
    spark: SparkSession, url: str, channel: blocking.Channel, folder: Path
) -> None:
    stream = declare(channel)
    frame = read_stream(spark, url, stream, consumerName="ledger")
    for start in (0, 500, 1000):
        publish(channel, stream, range(start, start + 500))
        run_to_the_end(frame, folder)
        assert written(spark, folder) == list(range(start + 500))
    run_to_the_end(frame, folder)
    assert written(spark, folder) == list(range(1500))
    stored = channel.consume(
        stream,
        arguments={"x-stream-probe": True, "x-stream-consumer-name": "ledger", "x-stream-offset": "stored"},
    )
    assert stored.batch(10.0)[0].headers["x-stream-offset"] == 1500
    stored.cancel()


def test_a_micro_batch_has_exactly_as_many_records_as_it_may(
    spark: SparkSession, url: str, channel: blocking.Channel, folder: Path
) -> None:
    stream = declare(channel, {"x-stream-partitions": 2})
    for number in range(1000):
        # two thirds of them in one partition
        channel.send(Message(b"", Properties(message_id=str(number))), "", f"{stream}-{number % 3 % 2}")
    channel.wait_for_confirms()
    assert run_to_the_end(read_stream(spark, url, stream, maxRecordsPerTrigger=300), folder) == [300, 300, 300, 100]
    assert written(spark, folder) == list(range(1000))


def test_a_micro_batch_has_about_as_many_bytes_as_it_may(
    spark: SparkSession, url: str, channel: blocking.Channel, folder: Path
) -> None:
    stream = declare(channel)
    publish(channel, stream, range(4000), 996)
    counts = run_to_the_end(read_stream(spark, url, stream, maxBytesPerTrigger=1_500_000), folder)
    assert len(counts) == 3
    assert all(1450 <= each <= 1550 for each in counts[:2])
    assert written(spark, folder) == list(range(4000))


def test_messages_that_arrive_after_the_start_of_available_now_are_left(
    spark: SparkSession, url: str, channel: blocking.Channel, folder: Path
) -> None:
    stream = declare(channel)
    publish(channel, stream, range(100))

    def more_arrives(batch: DataFrame, number: int) -> None:
        rows.append(batch.count())
        publish(channel, stream, range(100 + 10 * number, 110 + 10 * number))

    rows: list[int] = []
    query = (
        read_stream(spark, url, stream, maxRecordsPerTrigger=40)
        .writeStream.foreachBatch(more_arrives)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(DEADLINE_S)
    assert rows == [40, 40, 20]


def test_a_running_query_sees_what_arrives_and_begins_at_the_end(
    spark: SparkSession, url: str, channel: blocking.Channel, folder: Path
) -> None:
    stream = declare(channel)
    publish(channel, stream, range(100))
    frame = spark.readStream.format("warren").option("url", url).option("stream", stream).load()
    query = (
        frame.writeStream.format("memory").queryName("arrivals").option("checkpointLocation", str(folder / "c")).start()
    )
    try:
        query.processAllAvailable()
        for start in (100, 200):
            publish(channel, stream, range(start, start + 100))
            query.processAllAvailable()
            assert numbers(spark.table("arrivals")) == list(range(100, start + 100))
        progress = query.lastProgress
        assert progress is not None
        assert json.loads(progress.sources[0].latestOffset) == {"0": 300}
    finally:
        query.stop()


def test_a_task_that_fails_is_read_again_without_a_trace(
    spark: SparkSession, url: str, channel: blocking.Channel, folder: Path
) -> None:
    stream = declare(channel)
    publish(channel, stream, range(3000), 1000)
    frame = read_stream(spark, url, stream, minPartitions=2)
    shaken = sf.udf(_fails_once, "string", useArrow=False)
    run_to_the_end(frame.select(shaken("message_id").alias("message_id")), folder)
    assert written(spark, folder) == list(range(3000))


def _fails_once(message_id: str) -> str:
    """Fail inside the first attempt of each task."""
    context = TaskContext.get()
    assert context is not None
    if message_id in ("700", "2500") and context.attemptNumber() == 0:
        raise RuntimeError("a task was lost")
    return message_id


def test_a_query_fails_on_lost_data_by_default(
    spark: SparkSession, url: str, channel: blocking.Channel, folder: Path
) -> None:
    stream = declare(channel, {"x-max-length-bytes": 2_000_000, "x-stream-max-segment-size-bytes": 1_000_000})
    published = count()
    publish(channel, stream, [next(published) for _ in range(100)], 1000)
    run_to_the_end(read_stream(spark, url, stream), folder)
    first = until_expired(channel, stream, published, 1000)
    end = next(published)
    with pytest.raises(StreamingQueryException, match=r"offsets 100 to \d+ of partition 0"):
        run_to_the_end(read_stream(spark, url, stream), folder)
    assert written(spark, folder) == list(range(100))
    run_to_the_end(read_stream(spark, url, stream, failOnDataLoss="false"), folder)
    found = written(spark, folder)
    # more may have expired meanwhile
    assert first <= found[100]
    assert found == [*range(100), *range(found[100], end)]


def test_a_batch_fails_on_lost_data_by_default(spark: SparkSession, url: str, channel: blocking.Channel) -> None:
    stream = declare(channel, {"x-max-length-bytes": 2_000_000, "x-stream-max-segment-size-bytes": 1_000_000})
    published = count()
    first = until_expired(channel, stream, published, 1000)
    with pytest.raises(PySparkException, match=r"offsets 7 to \d+ of partition 0"):
        numbers(read(spark, url, stream, startingOffsets=7))
    found = numbers(read(spark, url, stream, startingOffsets=7, failOnDataLoss="false"))
    assert first <= found[0]
    assert found == list(range(found[0], next(published)))


def test_a_stream_that_was_made_anew_is_lost_data_too(
    spark: SparkSession, url: str, channel: blocking.Channel, folder: Path
) -> None:
    stream = declare(channel)
    publish(channel, stream, range(100))
    run_to_the_end(read_stream(spark, url, stream), folder)
    channel.delete_queue(stream)
    channel.declare_queue(stream, durable=True, arguments={"x-queue-type": "stream"})
    publish(channel, stream, range(1000, 1010))
    with pytest.raises(StreamingQueryException, match="ends at 10 and was read up to 100"):
        run_to_the_end(read_stream(spark, url, stream), folder)
    run_to_the_end(read_stream(spark, url, stream, failOnDataLoss="false"), folder)
    assert written(spark, folder) == [*range(100), *range(1000, 1010)]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"startingOffsets": "begin"}, "option startingOffsets is earliest, latest, an offset"),
        ({"endingOffsets": "500"}, "option endingOffsets: partition 0 ends at 0, before 500"),
        ({"maxRecordsPerTrigger": "5"}, "option maxRecordsPerTrigger makes no sense for a batch"),
        ({"startingOffsets": '{"1": 5}'}, "option startingOffsets names partition 1, and the stream has 1"),
    ],
)
def test_a_wrong_option_is_reported_in_a_sentence(
    spark: SparkSession, url: str, channel: blocking.Channel, options: dict[str, str], sentence: str
) -> None:
    stream = declare(channel)
    with pytest.raises(PySparkException) as told:
        read(spark, url, stream, **options).count()
    assert sentence in str(told.value)
