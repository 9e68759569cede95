"""What befell messages in queues, counted in one pass over the passages: how long they took, when they came and went.

A row of tallies is `vhost`, `name` (of the queue), `kind`, `moment`, `ms` and how many `messages` it is about.

- `delivery`, `ack`, `confirm`: so many messages that were published in that step took so many `ms` from the publish.
- `entered`, `left`: so many came into the queue in that step, or went from it; `ms` is null. One that comes again, as
  in a loop of retries, counts again. What was in the queue before the trace began does not count: no more go than came.

Passages are as many as messages; tallies are few, and latencies and backlogs are both made of them.

Not here: what is made of them (`latencies`, `backlogs`).
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sql

from warren.pipeline.report.flows import step_of

LATENCIES: Final = ("delivery", "ack", "confirm")


def tallied(passages: DataFrame, step_s: int) -> DataFrame:
    """A message enters a queue by a publish or as a dead letter, and leaves by a delivery or as a dead letter."""
    moves = sql.concat(
        sql.array(*(_move(kind, sql.col("published_at"), step_s, sql.col(f"{kind}_ms")) for kind in LATENCIES)),
        sql.transform("entries", lambda at: _move("entered", at, step_s)),
        sql.transform(_exits_of_what_came(), lambda at: _move("left", at, step_s)),
    )
    is_latency = sql.col("move.kind").isin(*LATENCIES)
    return (
        passages.where(sql.col("queue").isNotNull())
        .select("vhost", sql.col("queue").alias("name"), moves.alias("moves"))
        .select("vhost", "name", sql.explode("moves").alias("move"))
        .where(sql.col("move.moment").isNotNull() & (sql.col("move.ms").isNotNull() | ~is_latency))
        .groupBy("vhost", "name", "move.kind", "move.moment", "move.ms")
        .agg(sql.count(sql.lit(1)).alias("messages"))
    )


def _exits_of_what_came() -> Column:
    """As many as there are entries, of equal messages together: which of them came or went is a guess."""
    equal = Window.partitionBy("vhost", "message_key", "queue")
    earlier = equal.orderBy("copy").rowsBetween(Window.unboundedPreceding, -1)
    came = sql.sum(sql.size("entries")).over(equal)
    gone = sql.coalesce(sql.sum(sql.size("exits")).over(earlier), sql.lit(0))
    count = sql.greatest(sql.least(sql.size("exits"), came - gone), sql.lit(0))
    return sql.slice(sql.array_sort("exits"), 1, count.cast("int"))


def _move(kind: str, at: Column, step_s: int, ms: Column | None = None) -> Column:
    took = sql.lit(None) if ms is None else ms
    moment = step_of(at, step_s).alias("moment")
    return sql.struct(sql.lit(kind).alias("kind"), moment, took.cast("bigint").alias("ms"))
