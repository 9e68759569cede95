"""Kills of the processes of Spark's tasks, while the query that reads a queue goes on.

In every micro-batch one task waits until all Python processes of its executor, or the executor, were killed.
"""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.driver_process import Driver
from tests.spark.standalone import StandaloneCluster
from warren.client import Properties, blocking

BATCHES = 3
BATCH_ROWS = 400
ROWS = BATCHES * BATCH_ROWS
DEADLINE_S = 600.0
STEP_S = 0.02

pytestmark = pytest.mark.timeout(1500)


def test_a_queue_is_read_once_though_the_python_of_its_tasks_is_killed(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str, folder: Path
) -> None:
    check_that_kills_change_nothing(spark, url, broker, queue, folder, "local[2, 4]", kill_workers_beside)


def test_a_queue_is_read_once_though_its_executors_are_killed(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str, folder: Path
) -> None:
    with StandaloneCluster(folder) as cluster:
        check_that_kills_change_nothing(spark, url, broker, queue, folder, cluster.url, kill_executor_of)


def check_that_kills_change_nothing(
    spark: SparkSession,
    url: str,
    broker: blocking.Channel,
    queue: str,
    folder: Path,
    master: str,
    kill: Callable[[int], None],
) -> None:
    bodies = [b"%d" % number for number in range(ROWS)]
    broker.send_many(bodies, routing_key=queue, properties=Properties(delivery_mode=2))
    broker.wait_for_confirms()
    pauses = folder / "pauses"
    pauses.mkdir()
    arguments = {
        "master": master,
        "pauses": str(pauses),
        "read": {
            "url": url,
            "queue": queue,
            "stagingDir": str(folder / "staged"),
            "maxRecordsPerTrigger": str(BATCH_ROWS),
        },
        "out": str(folder / "out"),
        "checkpoint": str(folder / "checkpoint"),
    }
    driver = Driver(folder / "driver.log", "tests.spark.pausing_job", **arguments)
    try:
        for batch in range(BATCHES):
            kill(paused_process(driver, pauses / f"{batch}.reached"))
            (pauses / f"{batch}.over").touch()
        driver.finish(DEADLINE_S)
    finally:
        driver.kill()
    rows = spark.read.parquet(str(folder / "out")).collect()
    assert sorted(row.number for row in rows) == list(range(ROWS))
    assert broker.declare_queue(queue, passive=True).messages == 0
    assert list((folder / "staged").glob("*.arrow")) == []


def paused_process(driver: Driver, reached: Path) -> int:
    """The process of the task that waits between two of its rows."""
    deadline = time.monotonic() + DEADLINE_S
    while not (reached.exists() and reached.read_text()):
        assert driver.runs(), driver.said()
        assert time.monotonic() < deadline, driver.said()
        time.sleep(STEP_S)
    return int(reached.read_text())


def kill_workers_beside(worker: int) -> None:
    """This process and the others that Spark has forked for tasks; one of them reads the staged files."""
    forker = parent_of(worker)
    workers = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if parent_of(pid) == forker]
    assert worker in workers
    for pid in workers:
        os.kill(pid, signal.SIGKILL)


def kill_executor_of(worker: int) -> None:
    executor = parent_of(parent_of(worker))
    assert b"CoarseGrainedExecutorBackend" in Path(f"/proc/{executor}/cmdline").read_bytes()
    os.kill(executor, signal.SIGKILL)


def parent_of(pid: int) -> int:
    """0: it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except FileNotFoundError:
        return 0
