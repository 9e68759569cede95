"""Drivers that are killed while they read a stream into Parquet: no row is missing, and none is there twice.

`WARREN_DRIVER_KILLS` sets how many drivers are killed; `make faults` kills twenty.
"""

import os
import random
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.driver_process import Driver
from tests.spark.streams import DEADLINE_S, batches_in, declare, publish, until_more_batches
from tests.spark.test_stream_source import written
from warren.client import blocking

KILLS = int(os.environ.get("WARREN_DRIVER_KILLS", "3"))
FIRST_ROWS = 1000
ROWS = 400


@pytest.mark.timeout(480 + 120 * KILLS)
def test_killed_drivers_leave_no_gap_and_no_duplicate(
    spark: SparkSession, url: str, broker: blocking.Channel, folder: Path
) -> None:
    chance = random.Random(KILLS)
    stream = declare(broker)
    # so many that no run is over before it is killed
    publish(broker, stream, range(FIRST_ROWS), 100)
    end = FIRST_ROWS

    def driver() -> Driver:
        return Driver(
            folder / "driver.log",
            source="warren",
            read={
                "url": url,
                "stream": stream,
                "startingOffsets": "earliest",
                "maxRecordsPerTrigger": "100",
                "minPartitions": "2",
            },
            sink="parquet",
            write={"path": str(folder / "out")},
            checkpoint=str(folder / "checkpoint"),
        )

    for _ in range(KILLS):
        publish(broker, stream, range(end, end + ROWS), 100)
        end += ROWS
        running = driver()
        # planned, or committed: either is a point to go on from
        log = chance.choice(["offsets", "commits"])
        known = batches_in(folder / "checkpoint", log)
        try:
            until_more_batches(folder / "checkpoint", log, known, running.runs)
            time.sleep(chance.uniform(0, 0.5))
        finally:
            was_killed = running.kill()
        assert was_killed, f"it was over before it was killed: {running.said()}"
    driver().finish(DEADLINE_S * 3)
    assert written(spark, folder) == list(range(end))
