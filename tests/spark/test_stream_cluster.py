"""A job on a standalone cluster of Spark, and queries during a kill of their broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.driver_process import Driver
from tests.spark.standalone import StandaloneCluster
from tests.spark.streams import declare, number_in, publish, until_more_batches
from tests.spark.test_stream_source import numbers, read, read_stream, run_to_the_end, written
from tests.support.node_process import NodeProcess
from tests.support.queue_contents import taken
from warren.client import blocking


@pytest.mark.timeout(400)
def test_a_job_on_a_standalone_cluster_reads_every_partition(
    spark: SparkSession, url: str, broker: blocking.Channel, folder: Path
) -> None:
    stream = declare(broker, {"x-stream-partitions": 2})
    for partition in range(2):
        publish(broker, f"{stream}-{partition}", range(1000 * partition, 1000 * partition + 1000), 500)
    with StandaloneCluster(folder) as cluster:
        Driver(
            folder / "driver.log",
            master=cluster.url,
            config={
                "spark.executor.memory": "512m",
                "spark.executor.cores": "1",
                "spark.scheduler.minRegisteredResourcesRatio": "1.0",
                "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
                "spark.cores.max": "2",
            },
            source="warren",
            read={"url": url, "stream": stream, "startingOffsets": "earliest", "minPartitions": "4"},
            sink="parquet",
            write={"path": str(folder / "out")},
            checkpoint=str(folder / "checkpoint"),
        ).finish(240)
        assert all(list(worker.glob("app-*/*")) for worker in cluster.work_folders())
    assert written(spark, folder) == list(range(2000))


@pytest.mark.timeout(400)
def test_a_task_that_is_overtaken_by_another_attempt_is_neither_read_nor_written_twice(
    url: str, broker: blocking.Channel, queue: str, folder: Path
) -> None:
    stream = declare(broker)
    publish(broker, stream, range(4000), 1000)
    attempts = folder / "attempts"
    attempts.mkdir()
    # Spark makes no second attempt on a host that has one
    with StandaloneCluster(folder, ("127.0.0.1", "127.0.0.2")) as cluster:
        arguments = {
            "master": cluster.url,
            "attempts": str(attempts),
            "read": {"url": url, "stream": stream, "startingOffsets": "earliest", "minPartitions": "4"},
            "write": {"url": url, "routingKey": queue},
        }
        Driver(folder / "driver.log", "tests.spark.speculating_job", **arguments).finish(300)
    assert sorted(path.name for path in attempts.iterdir()) == ["0", "1"]
    assert sorted(number_in(each.body) for each in taken(broker, queue, 4000)) == list(range(4000))


@pytest.fixture
def lone_node(tmp_path: Path) -> Iterator[NodeProcess]:
    node = NodeProcess(tmp_path / "node")
    yield node
    node.kill()


def test_a_broker_that_is_killed_in_mid_query_costs_nothing_but_time(
    spark: SparkSession, lone_node: NodeProcess, folder: Path
) -> None:
    node = lone_node
    url = f"amqp://guest:guest@{node.amqp[0]}:{node.amqp[1]}/%2F"
    with blocking.connect(url) as connection:
        channel = connection.channel(confirms=True)
        stream = declare(channel)
        publish(channel, stream, range(30_000), 1000)
    frame = read_stream(spark, url, stream, maxRecordsPerTrigger=10_000, minPartitions=2)
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    for planned in range(2):
        until_more_batches(folder / "checkpoint", "offsets", planned, lambda: query.isActive)
        node.crash()
    assert query.awaitTermination(200), query.status
    assert written(spark, folder) == list(range(30_000))
    run_to_the_end(frame, folder)
    assert written(spark, folder) == numbers(read(spark, url, stream))
