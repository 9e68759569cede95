"""A query that reads a queue into Parquet, and pauses inside a task of each micro-batch until the test continues it.

    python -m tests.spark.pausing_job ARGUMENTS as JSON

The first task of a micro-batch writes a file of the batch's number with its process id after a part of its rows, and
waits for another file. After a kill the second attempt does not wait.

Not here: the kills and the claims (`tests.spark.test_executor_kills`).
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.spark.driver_process import SESSION

BATCH_ID = "streaming.sql.batchId"
STEP_S = 0.02
CONFIG = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50",
}


def main(arguments: dict[str, Any]) -> None:
    from pyspark import TaskContext
    from pyspark.sql import SparkSession

    pauses = Path(arguments["pauses"])

    def pass_on(batches: Iterator[Any]) -> Iterator[Any]:
        task = TaskContext.get()
        assert task is not None
        for batch in batches:
            yield batch
            number = task.getLocalProperty(BATCH_ID)
            try:
                pause = os.open(pauses / f"{number}.reached", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            except FileExistsError:
                continue
            os.write(pause, b"%d" % os.getpid())
            os.close(pause)
            while not (pauses / f"{number}.over").exists():
                time.sleep(STEP_S)

    builder = SparkSession.Builder().master(arguments["master"]).appName("warren pauses")
    for name, value in (SESSION | CONFIG).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    rows = spark.readStream.format("warren").options(**arguments["read"]).load()
    query = (
        rows.select("body")
        .mapInArrow(pass_on, "body binary")
        .selectExpr("cast(cast(body as string) as int) number")
        .writeStream.format("parquet")
        .options(path=arguments["out"], checkpointLocation=arguments["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
