"""A driver in a process of its own, to be killed.

    python -m tests.spark.driver_process ARGUMENTS as JSON

runs one streaming query until everything is processed, and is killed with everything it started, because it leads a
process group. Its source is a folder of Parquet files, a queue or a stream, its sink a queue or a folder.

Not here: the kills and the claims (the tests).
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

SESSION = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}


class Driver:
    """One run of a query, or of another program that takes its arguments as JSON."""

    def __init__(self, log: Path, program: str = "tests.spark.driver_process", **arguments: Any) -> None:
        environment = {
            **os.environ,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
        }
        self._log = log
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", program, json.dumps(arguments)],
                cwd=ROOT,
                env=environment,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def runs(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> bool:
        """True if this kill ended it."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait() == -signal.SIGKILL

    def finish(self, timeout_s: float = 120.0) -> None:
        """Wait until it has ended with exit code 0."""
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            code = -1
        assert code == 0, self.said()

    def said(self) -> str:
        """The last lines that this run and earlier ones wrote."""
        return self._log.read_text(errors="replace")[-4000:]


def main(arguments: dict[str, Any]) -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.Builder().master(arguments.get("master", "local[2]")).appName("warren driver")
    for name, value in (SESSION | arguments.get("config", {})).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    source = spark.readStream.format(arguments["source"]).options(**arguments["read"])
    if "schema" in arguments:
        source = source.schema(arguments["schema"])
    rows = source.load()
    if "columns" in arguments:
        rows = rows.selectExpr(*arguments["columns"])
    query = (
        rows.writeStream.format(arguments["sink"])
        .options(**arguments["write"])
        .option("checkpointLocation", arguments["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
