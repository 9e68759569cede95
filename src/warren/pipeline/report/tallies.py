"""What befell messages in queues, counted in one pass over the passages: how long they took, when they came and went.

A row of tallies is `vhost`, `name` (of the queue), `kind`, `moment`, `ms` and how many `messages` it is about.

- `delivery`, `ack`, `confirm`: so many messages that were published in that step took so many `ms` from the publish.
- `entered`, `left`: so many came into the queue in that step, or went from it for the first time; `ms` is null.

Passages are as many as messages; tallies are few, and latencies and backlogs are both made of them.

Not here: what is made of them (`latencies`, `backlogs`).
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from warren.pipeline.report.flows import step_of

LATENCIES: Final = ("delivery", "ack", "confirm")


def tallied(passages: DataFrame, step_s: int) -> DataFrame:
    """A message enters a queue by a publish or as a dead letter, and leaves by a delivery or as a dead letter."""
    left_at = sql.least("first_delivered_at", "dead_lettered_at")
    came = sql.col("entered_at").isNotNull()
    moves = [
        *(_move(kind, sql.col("published_at"), step_s, sql.col(f"{kind}_ms")) for kind in LATENCIES),
        _move("entered", sql.col("entered_at"), step_s),
        _move("left", sql.when(came, left_at), step_s),
    ]
    is_latency = sql.col("move.kind").isin(*LATENCIES)
    return (
        passages.where(sql.col("queue").isNotNull())
        .select("vhost", sql.col("queue").alias("name"), sql.explode(sql.array(*moves)).alias("move"))
        .where(sql.col("move.moment").isNotNull() & (sql.col("move.ms").isNotNull() | ~is_latency))
        .groupBy("vhost", "name", "move.kind", "move.moment", "move.ms")
        .agg(sql.count(sql.lit(1)).alias("messages"))
    )


def _move(kind: str, at: Column, step_s: int, ms: Column | None = None) -> Column:
    took = sql.lit(None) if ms is None else ms
    moment = step_of(at, step_s).alias("moment")
    return sql.struct(sql.lit(kind).alias("kind"), moment, took.cast("bigint").alias("ms"))
