"""A job with one slow task, so that Spark starts a second attempt beside the first.

    python -m tests.spark.speculating_job ARGUMENTS as JSON

reads a stream and writes it to a queue, in one stage. The first attempt at one partition stops for minutes when it has
passed on a part of its rows; each attempt at that partition leaves a file of its number.

Not here: the claims (`tests.spark.test_stream_cluster`).
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.spark.driver_process import SESSION

SLOW_S = 600.0
SLOW_PARTITION = 1
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
}


def main(arguments: dict[str, Any]) -> None:
    from pyspark import TaskContext
    from pyspark.sql import SparkSession

    attempts = arguments["attempts"]

    def pass_on(batches: Iterator[Any]) -> Iterator[Any]:
        task = TaskContext.get()
        assert task is not None
        slow = task.partitionId() == SLOW_PARTITION
        if slow:
            Path(attempts, str(task.attemptNumber())).touch()
        for number, batch in enumerate(batches):
            if slow and task.attemptNumber() == 0 and number > 0:
                time.sleep(SLOW_S)
            yield batch

    builder = SparkSession.Builder().master(arguments["master"]).appName("warren speculation")
    for name, value in (SESSION | SPECULATION).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    rows = spark.read.format("warren").options(**arguments["read"]).load()
    passed = rows.select("body").mapInArrow(pass_on, "body binary")
    passed.write.format("warren").mode("append").options(**arguments["write"]).save()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
