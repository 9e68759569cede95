"""Drivers of a sink, and of a queue's source, that are killed at random points of their work.

A run is killed shortly after an event: a batch was staged, planned or committed, or messages have arrived. Then the
next run continues from the same checkpoint. `WARREN_DRIVER_KILLS` sets the number of kills; there is enough work for
all of them. `make faults` kills twenty.
"""

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.driver_process import Driver
from warren.client import Properties, blocking

KILLS = int(os.environ.get("WARREN_DRIVER_KILLS", "3"))
BATCHES = 20 + 6 * KILLS
BATCH_ROWS = 500
ROWS = BATCHES * BATCH_ROWS
RUN_S = 180.0
STEP_S = 0.01


def kill_again_and_again(log: Path, arguments: dict[str, Any], progress: Callable[[], list[int]]) -> None:
    """Kill the given number of runs, each while it is at work."""
    chance = random.Random(7)
    for number in range(KILLS):
        driver = Driver(log, **arguments)
        watched = chance.randrange(len(progress()))
        before = progress()[watched]
        deadline = time.monotonic() + RUN_S
        while progress()[watched] <= before and driver.runs() and time.monotonic() < deadline:
            time.sleep(STEP_S)
        got_on = progress()[watched] > before
        time.sleep(chance.uniform(0, 0.3))
        assert driver.kill(), f"run {number} was over before it was killed: {driver.said()}"
        assert got_on, f"run {number} did not get on: {driver.said()}"


def count(folder: Path, pattern: str) -> int:
    return sum(1 for _ in folder.glob(pattern)) if folder.exists() else 0


@pytest.mark.timeout(3000)
def test_a_sink_writes_each_row_once_though_its_driver_is_killed(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str, folder: Path
) -> None:
    source = folder / "in"
    spark.range(0, ROWS, 1, BATCHES).selectExpr("lpad(cast(id as string), 1024, '0') body").write.parquet(str(source))
    arguments = {
        "source": "parquet",
        "schema": "body string",
        "read": {"path": str(source), "maxFilesPerTrigger": "1"},
        "sink": "warren",
        "write": {"url": url, "routingKey": queue},
        "checkpoint": str(folder / "checkpoint"),
    }

    def progress() -> list[int]:
        arrived = broker.declare_queue(queue, passive=True).messages
        return [arrived, count(folder / "checkpoint" / "offsets", "[0-9]*"), arrived // BATCH_ROWS]

    kill_again_and_again(folder / "driver.log", arguments, progress)
    Driver(folder / "driver.log", **arguments).finish(600.0)
    assert broker.declare_queue(queue, passive=True).messages == ROWS
    consumer = broker.consume(queue, no_ack=True)
    found: list[int] = []
    while len(found) < ROWS:
        found += [int(each.body) for each in consumer.batch(10.0)]
    assert sorted(found) == list(range(ROWS))


@pytest.mark.timeout(3000)
def test_a_queue_is_read_once_though_its_driver_is_killed(
    spark: SparkSession, url: str, broker: blocking.Channel, queue: str, folder: Path
) -> None:
    bodies = [b"%d" % number for number in range(ROWS)]
    broker.send_many(bodies, routing_key=queue, properties=Properties(delivery_mode=2))
    broker.wait_for_confirms()
    staged, checkpoint, out = folder / "staged", folder / "checkpoint", folder / "out"
    arguments = {
        "source": "warren",
        "read": {"url": url, "queue": queue, "stagingDir": str(staged), "maxRecordsPerTrigger": str(BATCH_ROWS)},
        "columns": ["cast(cast(body as string) as int) number"],
        "sink": "parquet",
        "write": {"path": str(out)},
        "checkpoint": str(checkpoint),
    }

    def progress() -> list[int]:
        newest = max([int(path.name[:18]) for path in staged.glob("*.arrow")], default=-1) if staged.exists() else -1
        return [
            newest,
            count(checkpoint / "offsets", "[0-9]*"),
            count(checkpoint / "commits", "[0-9]*"),
            count(out, "*"),
        ]

    def is_left() -> bool:
        """Messages, or a consumer that holds some: a process of a killed driver may live a moment longer."""
        found = broker.declare_queue(queue, passive=True)
        return found.messages > 0 or found.consumers > 0

    kill_again_and_again(folder / "driver.log", arguments, progress)
    while is_left():
        Driver(folder / "driver.log", **arguments).finish(600.0)
    rows = spark.read.parquet(str(out)).collect()
    assert sorted(row.number for row in rows) == list(range(ROWS))
    assert list(staged.glob("*.arrow")) == []
