"""How long messages took from their publish: to the first delivery, to the ack, to the confirm.

Latencies are whole milliseconds, as traces have them. They are counted by value first; percentiles are then exact, and
the same on every run, which Spark's approximate ones are not: those depend on how rows were spread over tasks.

A latency below zero means that the clocks of two nodes disagree. It says nothing about the message and is only counted
(`apart`).

Not here: which publish a delivery belongs to (`trace.passages`).
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from warren.pipeline.report.tallies import LATENCIES

QUANTILES: Final = (0.5, 0.9, 0.99)


def counted(tallies: DataFrame) -> DataFrame:
    """`vhost`, `name` (of the queue), `kind`, `moment` (of the publish), `ms`, and how many `messages` took so long."""
    return tallies.where(sql.col("kind").isin(*LATENCIES))


def apart(counts: DataFrame) -> DataFrame:
    """One row: how many `messages` seem to have arrived before they were sent."""
    return counts.where(sql.col("ms") < 0).agg(sql.coalesce(sql.sum("messages"), sql.lit(0)).alias("messages"))


def by_queue(counts: DataFrame) -> DataFrame:
    """`vhost`, `name`, `kind`, and the percentiles of all its messages."""
    return _percentiles(counts, "vhost", "name", "kind")


def by_moment(counts: DataFrame) -> DataFrame:
    """`kind`, `moment`, and the percentiles of all queues together."""
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
