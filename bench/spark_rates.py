"""The measurement of `bench/spark`, in an interpreter that has Spark.

Not here: its arguments.
"""

import contextlib
import os
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator

from brokers import Broker, NotAvailable, warren
from idle_spark import IdleSource
from measure import machine, progress
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.readwriter import DataStreamWriter

from warren.client import blocking
from warren.spark.java import JavaError, java_version

BATCH_ROWS = 1_000
BATCHES = 30
WARM_UP_BATCHES = 10
QUEUE, STREAM = "bench.queue", "bench.stream"


def measure(rows: int, rounds: int) -> int:
    try:
        java_version()
        with warren() as broker, _session() as spark:
            _measure(spark, _url(broker), rows, rounds)
    except (NotAvailable, JavaError, OSError) as reason:
        print(f"spark: {reason}", file=sys.stderr)
        return 1
    return 0


@contextlib.contextmanager
def _session() -> Iterator[SparkSession]:
    # its Python processes import `idle_spark` from here
    os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable, PYTHONPATH=os.path.dirname(__file__))
    settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.ui.showConsoleProgress": "false"}
    builder = SparkSession.Builder().master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()


def _url(broker: Broker) -> str:
    return f"amqp://guest:guest@{broker.address[0]}:{broker.address[1]}/%2F"


def _measure(spark: SparkSession, url: str, count: int, rounds: int) -> None:
    with blocking.connect(url) as connection:
        channel = connection.channel()
        channel.declare_queue(QUEUE, durable=True)
        channel.declare_queue(STREAM, durable=True, arguments={"x-queue-type": "stream"})
        print(f"{machine()}. {count:,} rows of 1 KiB.\n\n| | rows/s |\n|---|---:|")
        rows = _rows(spark, count)
        _say("made by Spark, into its sink that does nothing", count, rounds, lambda: _discard(rows))

        def write_anew() -> None:
            channel.purge_queue(QUEUE)
            _write(rows, url, QUEUE)

        _say("written to a queue, confirmed", count, rounds, write_anew)
        channel.purge_queue(QUEUE)
        _write(rows, url, STREAM)
        read = spark.read.format("warren").options(url=url, stream=STREAM, startingOffsets="earliest").load()
        assert read.count() == count
        _say("read from a stream", count, rounds, lambda: _discard(read))
    _micro_batches(spark, url, rounds)


def _rows(spark: SparkSession, count: int) -> DataFrame:
    number = sql.lpad(sql.col("id").cast("string"), 12, "0")
    return spark.range(0, count, 1, 2).select(sql.concat(sql.repeat(sql.lit("x"), 1012), number).alias("body"))


def _discard(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _write(frame: DataFrame, url: str, queue: str) -> None:
    frame.write.format("warren").mode("append").options(url=url, routingKey=queue).save()


def _say(title: str, count: int, rounds: int, work: Callable[[], None]) -> None:
    """The first time warms up; then the median."""
    took_s = []
    for round_no in range(rounds + 1):
        began_s = time.monotonic()
        work()
        took_s.append(time.monotonic() - began_s)
        progress(f"{title}: round {round_no} took {took_s[-1]:.2f} s")
    print(f"| {title} | {count / statistics.median(took_s[1:]):,.0f} |", flush=True)


def _micro_batches(spark: SparkSession, url: str, rounds: int) -> None:
    spark.dataSource.register(IdleSource)
    own = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=BATCH_ROWS, numPartitions=2).load()
    bodies = own.select(sql.col("value").cast("string").alias("body"))
    stream = (
        spark.readStream.format("warren")
        .options(url=url, stream=STREAM, startingOffsets="earliest", maxRecordsPerTrigger=BATCH_ROWS, minPartitions=2)
        .load()
    )
    idle = spark.readStream.format("idle").load()
    writers: dict[str, Callable[[], DataStreamWriter]] = {
        "Spark's own, to nowhere": lambda: own.writeStream.format("noop"),
        "to a sink in Python that does nothing": lambda: own.select("value").writeStream.format("idle"),
        "written": lambda: bodies.writeStream.format("warren").options(url=url, routingKey=QUEUE),
        "from a source in Python that does nothing": lambda: idle.writeStream.format("noop"),
        "read from a stream": lambda: stream.writeStream.format("noop"),
    }
    took_ms: dict[str, list[float]] = {title: [] for title in writers}
    for round_no in range(rounds):
        for title, writer in writers.items():
            took_ms[title].append(_batch_ms(writer()))
            progress(f"{title}: round {round_no} took {took_ms[title][-1]:.0f} ms a micro-batch")
    least = statistics.median(took_ms["Spark's own, to nowhere"])
    print(f"\n| micro-batches of {BATCH_ROWS:,} rows | ms | of Spark's own |\n|---|---:|---:|")
    for title, took in took_ms.items():
        print(f"| {title} | {statistics.median(took):.0f} | {statistics.median(took) / least:.2f} |")


def _batch_ms(writer: DataStreamWriter) -> float:
    """The median time of a trigger."""
    with tempfile.TemporaryDirectory() as folder:
        query = writer.option("checkpointLocation", folder).queryName(uuid.uuid4().hex).start()
        while query.isActive and len(query.recentProgress) < BATCHES + WARM_UP_BATCHES:
            time.sleep(0.05)
        took = [each.durationMs["triggerExecution"] for each in query.recentProgress if each.numInputRows]
        query.stop()
    return statistics.median(took[WARM_UP_BATCHES:])
