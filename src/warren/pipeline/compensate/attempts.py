"""All attempts there ever were, in one table that is replaced whole, and the run that is not finished.

::

    STATE/attempts/         a row for each message: key, ledger, status, action, day, attempt, message_id, routing_key,
                            run, part, confirmed; body until it is confirmed
    its facts               publisher; results that are done; `open`: the run whose messages are not all confirmed
    STATE/runs/N/           which parts of run N are published (`pipeline.publishing`)
    STATE/begun.json        how many runs were begun; put before the first message of each is published

A run is opened with its messages in one step, and closed in one step. So there is never a message that is published and
not in the table, and never more than one run open. One that is given up leaves its messages as attempts of which nobody
knows whether they were published.

A table that is lost, or older than the last run, is refused: what was begun, or is left of runs, tells of it.

Not here: what is in the messages (`compensate.planning`).
"""

import math
import uuid
from dataclasses import dataclass, replace
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from warren.pipeline import tables
from warren.pipeline.compensate.settings import THROUGH_BROKER
from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import Folder
from warren.pipeline.publishing import PART_BYTES, PART_MESSAGES, Part

KIND: Final = "attempts to compensate"
VERSION: Final = 1
ATTEMPTS: Final = "attempts"
RUNS: Final = "runs"
BEGUN: Final = "begun.json"
SCHEMA: Final = (
    "key string, ledger string, status string, action string, day string, attempt int, message_id string, "
    "routing_key string, body string, run int, part bigint, confirmed boolean"
)


@dataclass(frozen=True)
class OpenRun:
    """A run whose messages may be published or not."""

    number: int
    result: str
    exchange: str
    parts: tuple[Part, ...]
    through: str = THROUGH_BROKER

    @property
    def messages(self) -> int:
        return sum(part.messages for part in self.parts)


@dataclass(frozen=True)
class Attempts:
    """The table as it is."""

    rows: DataFrame
    publisher: str
    runs: int
    results: tuple[str, ...]
    open: OpenRun | None


def read(spark: SparkSession, state: Folder) -> Attempts:
    """An empty one if there were no attempts; a `PipelineError` if there were some that it does not know."""
    folder = state.child(ATTEMPTS)
    begun_runs = (state.read_json(BEGUN) or {"runs": 0})["runs"]
    if not folder.exists(tables.TABLE):
        if begun_runs or state.exists(RUNS):
            raise _lost(folder, "is gone")
        empty = spark.createDataFrame([], SCHEMA)
        return Attempts(empty, f"compensate-{uuid.uuid4().hex[:16]}", 0, (), None)
    rows, facts = tables.read(spark, folder, KIND, VERSION)
    if facts["runs"] < begun_runs:
        raise _lost(folder, f"knows {facts['runs']} of {begun_runs} runs")
    return Attempts(rows, facts["publisher"], facts["runs"], tuple(facts["results"]), _open_run(facts["open"]))


def opened(
    attempts: Attempts, messages: DataFrame, result: str, exchange: str, state: Folder, through: str = THROUGH_BROKER
) -> None:
    """Write down what is going to be published."""
    number = attempts.runs + 1
    counted = messages.agg(sql.count("*").alias("messages"), sql.sum(sql.octet_length("body")).alias("bytes")).first()
    assert counted is not None
    count = max(math.ceil(counted["messages"] / PART_MESSAGES), math.ceil((counted["bytes"] or 0) / PART_BYTES), 1)
    parted = (
        messages.withColumn("run", sql.lit(number))
        .withColumn("part", sql.pmod(sql.xxhash64("message_id"), sql.lit(count)))
        .withColumn("confirmed", sql.lit(False))
    )
    sums = parted.groupBy("part").agg(
        sql.count("*").alias("messages"), sql.sum(sql.octet_length("body")).alias("bytes")
    )
    parts = [Part(row["part"], row["messages"], row["messages"], row["bytes"]) for row in sums.collect()]
    run = OpenRun(number, result, exchange, tuple(sorted(parts, key=lambda part: part.number)), through)
    rows = attempts.rows.unionByName(_typed(parted))
    write(replace(attempts, rows=rows, runs=number, open=run), state)


def begun(attempts: Attempts, state: Folder) -> None:
    """From now on messages of the open run may be published."""
    state.put_json(BEGUN, {"publisher": attempts.publisher, "runs": attempts.runs})


def closed(attempts: Attempts, state: Folder) -> None:
    """All messages of the open run are confirmed."""
    assert attempts.open is not None
    of_run = sql.col("run") == attempts.open.number
    rows = attempts.rows.withColumn("confirmed", sql.col("confirmed") | of_run)
    results = (*attempts.results, attempts.open.result)
    write(replace(abandoned(replace(attempts, rows=rows)), results=results), state)
    state.child(RUNS).delete()


def abandoned(attempts: Attempts) -> Attempts:
    """As they are when nobody goes on with the run that is open."""
    return replace(attempts, rows=_without_bodies(attempts.rows), open=None)


def _without_bodies(rows: DataFrame) -> DataFrame:
    """Only an open run has some, and needs them."""
    return rows.withColumn("body", sql.lit(None).cast("string"))


def _typed(rows: DataFrame) -> DataFrame:
    fields = [each.strip().split(" ") for each in SCHEMA.split(",")]
    return rows.select(*[sql.col(name).cast(kind) for name, kind in fields])


def write(attempts: Attempts, state: Folder) -> None:
    """Make these the table."""
    facts: dict[str, Any] = {
        "publisher": attempts.publisher,
        "runs": attempts.runs,
        "results": list(attempts.results),
        "open": None,
    }
    if attempts.open is not None:
        run = attempts.open
        parts = [[part.number, part.messages, part.records, part.bytes] for part in run.parts]
        facts["open"] = {
            "number": run.number,
            "result": run.result,
            "exchange": run.exchange,
            "parts": parts,
            "through": run.through,
        }
    ordered = attempts.rows.orderBy("key", "attempt", "ledger")
    tables.replace(ordered, state.child(ATTEMPTS), KIND, VERSION, facts)


def _lost(folder: Folder, how: str) -> PipelineError:
    return PipelineError(
        f"{folder}/{tables.TABLE} {how}, and what it does not know would be sent again: "
        f"bring back the latest one with the {tables.DATA} beside it, or give an empty folder if all may be sent again"
    )


def _open_run(facts: Any) -> OpenRun | None:
    if facts is None:
        return None
    parts = tuple(Part(*each) for each in facts["parts"])
    through = facts.get("through", THROUGH_BROKER)
    return OpenRun(facts["number"], facts["result"], facts["exchange"], parts, through)
