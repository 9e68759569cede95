"""The jobs of the demo: each is a command line of `warren pipeline`, shown before it runs.

They run in this process one after another, so that Java is started once for all of them.

Not here: checking their results (`demo`).
"""

import json
import time
from pathlib import Path

import pyarrow.parquet as parquet
from narrator import Narrator

from warren.cli.main import run

SPARK = ("--memory", "1g", "--conf", "spark.sql.shuffle.partitions=4")
"""Spark settings that suit a day's orders; they are not printed."""


class JobFailed(Exception):
    """A job ended with an unexpected exit code."""


class Pipeline:
    """Runs jobs in the working directory."""

    def __init__(self, narrator: Narrator) -> None:
        self._narrator = narrator

    def run(self, *words: str, expected: int = 0) -> None:
        """Run one job, which must end with the expected exit code."""
        self._narrator.add(f"$ warren pipeline {' '.join(words)}")
        began = time.monotonic()
        code = run(["pipeline", *words, *SPARK])
        if code != expected:
            raise JobFailed(f"warren pipeline {words[0]} ended with {code}, and not with {expected}")
        self._narrator.add(f"({time.monotonic() - began:.1f} s)")


def statuses(result: Path) -> dict[str, str]:
    """The differences of a reconciliation: each key with its status."""
    data = json.loads((result / "table.json").read_text())["data"]
    rows = parquet.read_table(result / "data" / data, columns=["key", "status"]).to_pylist()
    return {row["key"]: row["status"] for row in sorted(rows, key=lambda row: row["key"]) if row["status"] != "late"}
