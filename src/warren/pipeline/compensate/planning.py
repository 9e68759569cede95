"""From a reconciliation's result to messages: three functions from DataFrames to DataFrames.

`wanted` has a row for each key and each ledger in which something is to be done about it. `planned` counts the attempts
that there were of a key, leaves out the keys that had enough of them, and gives the rest a number, an id and a body.
`exhausted` has the keys that were left out. All messages of a key in one run are one attempt.

A compensation is known by a digest of key, ledger, status and day, and of nothing else; the id of a message is that and
the attempt. So whatever is run again for the same day publishes the same attempt under the same id, and a consumer
knows a further attempt, of something that may still be in its queue, for what it is.

Not here: what is kept of attempts (`compensate.attempts`), reading and publishing (`compensate.job`).
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from warren.pipeline.compensate.actions import CORRECT, NONE, RESEND, REVERSE
from warren.pipeline.reconcile.statuses import CONTRADICTING, DIFFERS, DUPLICATED, MISSING, UNEXPECTED

ID_CHARACTERS: Final = 32
BETWEEN: Final = "\u001f"
HEADERS: Final = ("action", "key", "status", "ledger", "attempt", "day")
"""Of a message, as text, each from the column of its name; behind them the `compensation_id`."""


def wanted(result: DataFrame, ledgers: Sequence[str], authority: str, actions: Mapping[str, str]) -> DataFrame:
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
    """What there is to say about one ledger, whether or not it is concerned."""
    status, ledger = sql.col("status"), sql.col(name)
    has = sql.coalesce(sql.col(f"{name}.rows"), sql.lit(0))
    due = sql.coalesce(sql.col(f"{authority}.rows"), sql.lit(0))
    concerned = (
        sql.when(status == MISSING, sql.array_contains("missing", name))
        .when(status == UNEXPECTED, ledger.isNotNull())
        .when(status == DIFFERS, sql.exists("differing", lambda each: each.startswith(f"{name}.")))
        # where the authority has it as often, there is nothing to take back
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


def planned(wanted: DataFrame, attempts: DataFrame, max_attempts: int, day: str, routing_key: str) -> DataFrame:
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
    """The same for all attempts, of rows that have key, ledger, status and day."""
    origin = sql.concat_ws(BETWEEN, "key", "ledger", "status", "day")
    return sql.substring(sql.sha2(origin, 256), 1, ID_CHARACTERS)


def exhausted(wanted: DataFrame, attempts: DataFrame, max_attempts: int) -> DataFrame:
    """The keys that had all their attempts, with how many there were."""
    counted = _counted(wanted, attempts).where(sql.col("before") >= max_attempts)
    return counted.select("key", sql.col("before").alias("attempts")).distinct()


def _counted(wanted: DataFrame, attempts: DataFrame) -> DataFrame:
    """With a column `before`: how many attempts there were of the key."""
    before = attempts.groupBy("key").agg(sql.max("attempt").alias("before"))
    joined = wanted.join(before, "key", "left")
    return joined.withColumn("before", sql.coalesce("before", sql.lit(0)))


def _routing_key(template: str) -> Column:
    with_ledger = sql.replace(sql.lit(template), sql.lit("{ledger}"), sql.col("ledger"))
    return sql.replace(with_ledger, sql.lit("{action}"), sql.col("action"))


def _body() -> Column:
    """A record stands in it as the ledger wrote it, so that no number in it is read and written again."""
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
