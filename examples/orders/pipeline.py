"""The jobs of the demo: each is a command line of `warren pipeline`, shown before it runs.

They run in this process one after another, so that Java is started once for all of them.

Not here: what is made of their results (`demo`).
"""

import json
import time
from pathlib import Path

import pyarrow.parquet as parquet
from telling import Teller

from warren.cli.main import run

SPARK = ("--memory", "1g", "--conf", "spark.sql.shuffle.partitions=4")
"""Little is enough for a day's orders; shown nowhere, because nobody has to know it."""


class JobFailed(Exception):
    """A job ended otherwise than it should."""


class Pipeline:
    """Runs jobs in the working directory."""

    def __init__(self, teller: Teller) -> None:
        self._teller = teller

    def run(self, *words: str, expected: int = 0) -> None:
        """Run one job, which ends with the expected exit code."""
        self._teller.add(f"$ warren pipeline {' '.join(words)}")
        began = time.monotonic()
        code = run(["pipeline", *words, *SPARK])
        if code != expected:
            raise JobFailed(f"warren pipeline {words[0]} ended with {code}, and not with {expected}")
        self._teller.add(f"({time.monotonic() - began:.1f} s)")


def statuses(result: Path) -> dict[str, str]:
    """Of a reconciliation: every key that is a difference, and its status."""
    data = json.loads((result / "table.json").read_text())["data"]
    rows = parquet.read_table(result / "data" / data, columns=["key", "status"]).to_pylist()
    return {row["key"]: row["status"] for row in sorted(rows, key=lambda row: row["key"]) if row["status"] != "late"}
