"""Latencies from the publish to the first delivery, the ack and the confirm; and the backlog of queues.

`passage_counts` counts the passages in one pass. A row is `vhost`, `name` (of the queue), `kind`, `moment`, `ms` and
the number of `messages`:

- `delivery`, `ack`, `confirm`: messages published in that step that took `ms` from the publish.
- `entered`, `left`: messages that came into the queue in that step, or left it; `ms` is null. A message that comes
  again, as in a loop of retries, counts again. Messages from before the trace do not count: no more leave than came.

Passages are as many as messages; these counts are few, and latencies and backlogs are made of them.

Latencies are whole milliseconds, as in traces. They are counted by value first, so percentiles are exact and the same
on every run; Spark's approximate ones depend on how rows are spread over tasks. A negative latency means that the
clocks of two nodes differ; it is only counted (`apart`).

A message enters a queue when it is published or dead-lettered into it, and leaves with its first delivery or when it is
dead-lettered from there after that. A message that expires, is dropped or purged without a dead letter leaves no trace
and counts as waiting.

Not here: the publish of a delivery (`trace.passages`), traffic (`report.flows`).
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sql

from warren.pipeline.report.flows import step_of

LATENCY_KINDS: Final = ("delivery", "ack", "confirm")


def passage_counts(passages: DataFrame, step_s: int) -> DataFrame:
    """Count passages: entries by publish or dead letter, exits by delivery or dead letter."""
    moves = sql.concat(
        sql.array(*(_move(kind, sql.col("published_at"), step_s, sql.col(f"{kind}_ms")) for kind in LATENCY_KINDS)),
        sql.transform("entries", lambda at: _move("entered", at, step_s)),
        sql.transform(_exits_of_what_came(), lambda at: _move("left", at, step_s)),
    )
    is_latency = sql.col("move.kind").isin(*LATENCY_KINDS)
    return (
        passages.where(sql.col("queue").isNotNull())
        .select("vhost", sql.col("queue").alias("name"), moves.alias("moves"))
        .select("vhost", "name", sql.explode("moves").alias("move"))
        .where(sql.col("move.moment").isNotNull() & (sql.col("move.ms").isNotNull() | ~is_latency))
        .groupBy("vhost", "name", "move.kind", "move.moment", "move.ms")
        .agg(sql.count(sql.lit(1)).alias("messages"))
    )


def _exits_of_what_came() -> Column:
    """As many as there are entries, over equal messages: which of them came or left is a guess."""
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


QUANTILES: Final = (0.5, 0.9, 0.99)


def latency_counts(counts: DataFrame) -> DataFrame:
    """`vhost`, `name` (of the queue), `kind`, `moment` (of the publish), `ms`, and the number of `messages`."""
    return counts.where(sql.col("kind").isin(*LATENCY_KINDS))


def negative_latencies(counts: DataFrame) -> DataFrame:
    """One row: how many `messages` have a negative latency."""
    return counts.where(sql.col("ms") < 0).agg(sql.coalesce(sql.sum("messages"), sql.lit(0)).alias("messages"))


def by_queue(counts: DataFrame) -> DataFrame:
    """`vhost`, `name`, `kind`, and the percentiles of all its messages."""
    return _percentiles(counts, "vhost", "name", "kind")


def by_moment(counts: DataFrame) -> DataFrame:
    """`kind`, `moment`, and the percentiles over all queues."""
    return _percentiles(counts, "kind", "moment")


def by_queue_and_moment(counts: DataFrame, kind: str, limit: int) -> DataFrame:
    """`vhost`, `name`, `moment` and percentiles of one kind, for the queues with the most messages of it."""
    wanted = counts.where((sql.col("kind") == kind) & (sql.col("ms") >= 0))
    leaders = (
        wanted.groupBy("vhost", "name")
        .agg(sql.sum("messages").alias("all"))
        .orderBy(sql.desc("all"), "vhost", "name")
        .limit(limit)
        .select("vhost", "name")
    )
    return _percentiles(wanted.join(sql.broadcast(leaders), ["vhost", "name"]), "vhost", "name", "moment")


def _percentiles(counts: DataFrame, *keys: str) -> DataFrame:
    """By these keys: `messages`, `p50`, `p90`, `p99` and `longest`."""
    wanted = sql.array(*(sql.lit(quantile) for quantile in QUANTILES))
    exact = sql.percentile("ms", wanted, sql.col("messages")).alias("exact")
    grouped = counts.where(sql.col("ms") >= 0).groupBy(*keys)
    added = grouped.agg(sql.sum("messages").alias("messages"), exact, sql.max("ms").alias("longest"))
    return added.select(*keys, "messages", *_named(), "longest")


def _named() -> list[Column]:
    return [sql.col("exact")[place].alias(f"p{quantile * 100:.0f}") for place, quantile in enumerate(QUANTILES)]


def backlog_changes(counts: DataFrame) -> DataFrame:
    """`vhost`, `name`, `moment`, `change`: how many more wait after that step than before it."""
    entered, left = sql.col("kind") == "entered", sql.col("kind") == "left"
    change = sql.sum(sql.when(entered, sql.col("messages")).otherwise(-sql.col("messages")))
    return counts.where(entered | left).groupBy("vhost", "name", "moment").agg(change.alias("change"))


def final_backlog(change: DataFrame) -> DataFrame:
    """`vhost`, `name`, `waiting`: how many wait at the end, for queues with any."""
    left = change.groupBy("vhost", "name").agg(sql.sum("change").alias("waiting"))
    return left.where(sql.col("waiting") > 0)
