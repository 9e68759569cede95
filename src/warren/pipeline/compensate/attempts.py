"""The messages of a compensation, all attempts so far, and the unfinished run.

::

    STATE/attempts/         a row for each message: key, ledger, status, action, day, attempt, message_id, routing_key,
                            run, part, confirmed; body until it is confirmed
    its facts               publisher; results that are done; `open`: the run whose messages are not all confirmed
    STATE/runs/N/           the published parts of run N (`pipeline.publication`)
    STATE/begun.json        how many runs were begun; written before the first message of each is published

The table is replaced whole. A run is opened with its messages in one step, and closed in one step. So a published
message is always in the table, and at most one run is open. An abandoned run leaves its messages as attempts with an
unknown outcome. A table that is lost, or older than the last run, is refused; `begun.json` and the folders of runs
reveal it.

**Planning.** `wanted_actions` has a row for each key and each ledger that needs an action. `plan_messages` counts the
attempts of a key, leaves out the keys that had enough, and gives the others a number, an id and a body.
`exhausted_keys` has the keys that were left out. All messages of a key in one run are one attempt.

A compensation is identified by a digest of key, ledger, status and day; the id of a message is that and the attempt. So
a repeated run for the same day publishes the same attempt under the same id, and a consumer can recognise a further
attempt of a message that may still be in its queue.

Not here: reading the result and publishing (`compensate.job`).
"""

import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from warren.pipeline import tables
from warren.pipeline.compensate.settings import CORRECT, NONE, RESEND, REVERSE, THROUGH_BROKER
from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import Folder
from warren.pipeline.publication import PART_BYTES, PART_MESSAGES, PublishPart
from warren.pipeline.reconcile.comparison import CONTRADICTING, DIFFERS, DUPLICATED, MISSING, UNEXPECTED

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
    parts: tuple[PublishPart, ...]
    through: str = THROUGH_BROKER

    @property
    def messages(self) -> int:
        return sum(part.messages for part in self.parts)


@dataclass(frozen=True)
class Attempts:
    """The current table."""

    rows: DataFrame
    publisher: str
    runs: int
    results: tuple[str, ...]
    open: OpenRun | None


def read(spark: SparkSession, state: Folder) -> Attempts:
    """An empty table if there were no attempts; a `PipelineError` if attempts are missing from it."""
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
    """Write down the messages of a new run."""
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
    parts = [PublishPart(row["part"], row["messages"], row["messages"], row["bytes"]) for row in sums.collect()]
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
    """The table without the open run."""
    return replace(attempts, rows=_without_bodies(attempts.rows), open=None)


def _without_bodies(rows: DataFrame) -> DataFrame:
    """Only the open run needs bodies."""
    return rows.withColumn("body", sql.lit(None).cast("string"))


def _typed(rows: DataFrame) -> DataFrame:
    fields = [each.strip().split(" ") for each in SCHEMA.split(",")]
    return rows.select(*[sql.col(name).cast(kind) for name, kind in fields])


def write(attempts: Attempts, state: Folder) -> None:
    """Replace the table."""
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
    parts = tuple(PublishPart(*each) for each in facts["parts"])
    through = facts.get("through", THROUGH_BROKER)
    return OpenRun(facts["number"], facts["result"], facts["exchange"], parts, through)


ID_CHARACTERS: Final = 32
BETWEEN: Final = "\u001f"
HEADERS: Final = ("action", "key", "status", "ledger", "attempt", "day")
"""The headers of a message, as text, from the columns of the same names; after them `compensation_id`."""


def wanted_actions(result: DataFrame, ledgers: Sequence[str], authority: str, actions: Mapping[str, str]) -> DataFrame:
    """Columns key, status, ledger, action, rows, wrong, right."""
    chosen = {status: action for status, action in actions.items() if action != NONE}
    of_status = reduce(
        lambda so_far, each: so_far.when(sql.col("status") == each[0], each[1]),
        chosen.items(),
        sql.when(sql.lit(False), sql.lit(NONE)),
    )
    others = [name for name in ledgers if name != authority]
    cases = sql.array(*[_case(name, authority) for name in others])
    found = result.where(sql.col("key").isNotNull() & sql.col("status").isin(*chosen))
    each = found.select("key", "status", of_status.alias("action"), sql.explode(cases).alias("case"))
    has, too_many = sql.col("case.has"), sql.col("case.has") - sql.col("case.due")
    complete = ~sql.col("action").isin(RESEND, CORRECT) | sql.col("case.right").isNotNull()
    return each.where(sql.col("case.concerned") & complete).select(
        "key",
        "status",
        sql.col("case.ledger").alias("ledger"),
        "action",
        sql.when((sql.col("status") == DUPLICATED) & (sql.col("action") == REVERSE), too_many)
        .otherwise(has)
        .alias("rows"),
        sql.col("case.wrong").alias("wrong"),
        sql.col("case.right").alias("right"),
    )


def _case(name: str, authority: str) -> Column:
    """The case of one ledger, whether or not it needs an action."""
    status, ledger = sql.col("status"), sql.col(name)
    has = sql.coalesce(sql.col(f"{name}.rows"), sql.lit(0))
    due = sql.coalesce(sql.col(f"{authority}.rows"), sql.lit(0))
    concerned = (
        sql.when(status == MISSING, sql.array_contains("missing", name))
        .when(status == UNEXPECTED, ledger.isNotNull())
        .when(status == DIFFERS, sql.exists("differing", lambda each: each.startswith(f"{name}.")))
        # if the authority has it as often, there is nothing to reverse
        .when(status == DUPLICATED, sql.array_contains("duplicated", name) & (has > due))
        .when(status == CONTRADICTING, sql.array_contains("duplicated", name))
        .otherwise(False)
    )
    return sql.struct(
        sql.lit(name).alias("ledger"),
        sql.coalesce(concerned, sql.lit(False)).alias("concerned"),
        has.alias("has"),
        due.alias("due"),
        sql.col(f"{name}.record").alias("wrong"),
        sql.col(f"{authority}.record").alias("right"),
    )


def plan_messages(wanted: DataFrame, attempts: DataFrame, max_attempts: int, day: str, routing_key: str) -> DataFrame:
    """The messages of the keys that may be tried once more."""
    counted = _counted(wanted, attempts).where(sql.col("before") < max_attempts)
    numbered = counted.withColumn("attempt", sql.col("before") + 1).drop("before").withColumn("day", sql.lit(day))
    message_id = sql.concat_ws("-", compensation_id(), sql.col("attempt").cast("string"))
    return numbered.select(
        "key",
        "ledger",
        "status",
        "action",
        "day",
        "attempt",
        message_id.alias("message_id"),
        _routing_key(routing_key).alias("routing_key"),
        _body().alias("body"),
    )


def compensation_id() -> Column:
    """The same for all attempts, from key, ledger, status and day."""
    origin = sql.concat_ws(BETWEEN, "key", "ledger", "status", "day")
    return sql.substring(sql.sha2(origin, 256), 1, ID_CHARACTERS)


def exhausted_keys(wanted: DataFrame, attempts: DataFrame, max_attempts: int) -> DataFrame:
    """The keys that had all their attempts, with their number."""
    counted = _counted(wanted, attempts).where(sql.col("before") >= max_attempts)
    return counted.select("key", sql.col("before").alias("attempts")).distinct()


def _counted(wanted: DataFrame, attempts: DataFrame) -> DataFrame:
    """Add a column `before`: the attempts of the key so far."""
    before = attempts.groupBy("key").agg(sql.max("attempt").alias("before"))
    joined = wanted.join(before, "key", "left")
    return joined.withColumn("before", sql.coalesce("before", sql.lit(0)))


def _routing_key(template: str) -> Column:
    with_ledger = sql.replace(sql.lit(template), sql.lit("{ledger}"), sql.col("ledger"))
    return sql.replace(with_ledger, sql.lit("{action}"), sql.col("action"))


def _body() -> Column:
    """A record is copied as the ledger wrote it, so that no number is parsed and formatted again."""
    head = sql.to_json(sql.struct("action", "key", "ledger", "status", "rows"))
    envelope = sql.concat(
        sql.regexp_replace(head, r"\}$", ""),
        sql.lit(',"wrong":'),
        sql.coalesce("wrong", sql.lit("null")),
        sql.lit(',"right":'),
        sql.coalesce("right", sql.lit("null")),
        sql.lit("}"),
    )
    return sql.when(sql.col("action") == RESEND, sql.col("right")).otherwise(envelope)
