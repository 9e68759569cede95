"""Messages and bytes by exchange or queue and step of time.

A row of flows is `side` (exchange or queue), `vhost`, `name`, `kind`, `moment`, `messages`, `bytes`. An exchange has
the kind `published`. A queue has `arrived` (published or dead-lettered into it), `delivered` (for the first time),
`redelivered`, `confirmed`, `acked`, `rejected` and `dead_lettered` (from it). `moment` is the beginning of the step, in
seconds since 1970.

All other functions here use flows, which are few, and not events, which are many.

Not here: latencies (`report.latencies`).
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sql

HOUR_S: Final = 3600
DAY_S: Final = 86_400
QUEUE_KINDS: Final = ("arrived", "delivered", "redelivered", "confirmed", "acked", "rejected", "dead_lettered")

_EVENT: Final = ("side", "vhost", "name", "kind", "moment")


def step_of(time: Column, step_s: int) -> Column:
    """The beginning of the step of a timestamp, in seconds."""
    return sql.floor(sql.unix_seconds(time) / step_s).cast("bigint") * step_s


def span(events: DataFrame) -> DataFrame:
    """One row: `first` and `last`, in seconds since 1970, null if there are none, and the number of `events`."""
    seconds = sql.unix_seconds("at")
    return events.agg(
        sql.min(seconds).alias("first"), sql.max(seconds).alias("last"), sql.count(sql.lit(1)).alias("events")
    )


def flows(events: DataFrame, step_s: int) -> DataFrame:
    """Events added up by exchange or queue, kind and step."""
    moment = step_of(sql.col("at"), step_s).alias("moment")
    size = sql.coalesce(sql.col("payload_bytes"), sql.lit(0)).cast("bigint").alias("size")
    is_published = sql.col("type") == "published"
    brings = is_published | (sql.col("type") == "dead_lettered")
    published = events.where(is_published).select(*_place("exchange", "exchange"), _kind("published"), moment, size)
    arrived = events.where(brings).select(
        sql.lit("queue").alias("side"),
        "vhost",
        sql.explode("routed_queues").alias("name"),
        _kind("arrived"),
        moment,
        size,
    )
    again = (sql.col("type") == "received") & sql.coalesce(sql.col("redelivered"), sql.lit(False))
    kind = (
        sql.when(again, "redelivered")
        .when(sql.col("type") == "received", "delivered")
        .otherwise(sql.col("type"))
        .alias("kind")
    )
    passed = events.where(~is_published).select(*_place("queue", "queue"), kind, moment, size)
    return (
        published.unionByName(arrived)
        .unionByName(passed)
        .groupBy(*_EVENT)
        .agg(sql.count(sql.lit(1)).alias("messages"), sql.sum("size").alias("bytes"))
    )


def totals(flow: DataFrame) -> DataFrame:
    """By virtual host, side and kind: `messages` and `bytes`."""
    sums = [sql.sum(name).alias(name) for name in ("messages", "bytes")]
    return flow.groupBy("vhost", "side", "kind").agg(*sums)


def over_time(flow: DataFrame, side: str, kind: str, step_s: int, limit: int) -> DataFrame:
    """`vhost`, `name`, `moment`, `messages`: the `limit` busiest by name, all others under the name null."""
    wanted = flow.where((sql.col("side") == side) & (sql.col("kind") == kind))
    leaders = (
        wanted.groupBy("vhost", "name")
        .agg(sql.sum("messages").alias("all"))
        .orderBy(sql.desc("all"), "vhost", "name")
        .limit(limit)
        .select("vhost", "name", sql.lit(True).alias("leads"))
    )
    lead = sql.col("leads").isNotNull()
    return (
        wanted.join(sql.broadcast(leaders), ["vhost", "name"], "left")
        .groupBy(
            sql.when(lead, sql.col("vhost")).alias("vhost"),
            sql.when(lead, sql.col("name")).alias("name"),
            _wider(step_s).alias("moment"),
        )
        .agg(sql.sum("messages").alias("messages"))
    )


def queue_totals(flow: DataFrame, step_s: int) -> DataFrame:
    """A row for each queue: a column for each kind, `bytes` that arrived, and `peak`, the most in one step."""
    stepped = (
        flow.where(sql.col("side") == "queue")
        .groupBy("vhost", "name", _wider(step_s).alias("moment"))
        .agg(
            *(_sum_of("messages", kind).alias(kind) for kind in QUEUE_KINDS), _sum_of("bytes", "arrived").alias("bytes")
        )
    )
    sums = [sql.sum(name).alias(name) for name in (*QUEUE_KINDS, "bytes")]
    peak = sql.max(sql.greatest("arrived", "delivered")).alias("peak")
    return stepped.groupBy("vhost", "name").agg(*sums, peak)


def daily(flow: DataFrame) -> DataFrame:
    """A row for each day with publishes: `day` (days since 1970), `messages`, `bytes`, `busiest`.

    `busiest` is the number of messages in the day's busiest hour: the load that a broker must bear, which a mean hides.
    """
    hourly = (
        flow.where(sql.col("side") == "exchange")
        .groupBy(_wider(HOUR_S).alias("hour"))
        .agg(sql.sum("messages").alias("messages"), sql.sum("bytes").alias("bytes"))
    )
    return hourly.groupBy(sql.floor(sql.col("hour") / DAY_S).cast("bigint").alias("day")).agg(
        sql.sum("messages").alias("messages"), sql.sum("bytes").alias("bytes"), sql.max("messages").alias("busiest")
    )


def busiest_first(frame: DataFrame, weight: Column, limit: int, *within: str) -> DataFrame:
    """The first rows by weight, with their `rank` and the number of all in `of`; within equal columns `within`.

    Equals are ranked by name, so that the order is fixed.
    """
    group = Window.partitionBy(*within) if within else Window.partitionBy(sql.lit(0))
    rank = sql.row_number().over(group.orderBy(weight.desc(), "vhost", "name"))
    return frame.withColumns({"rank": rank, "of": sql.count(sql.lit(1)).over(group)}).where(sql.col("rank") <= limit)


def _place(side: str, name: str) -> tuple[Column, Column, Column]:
    return sql.lit(side).alias("side"), sql.col("vhost"), sql.col(name).alias("name")


def _kind(name: str) -> Column:
    return sql.lit(name).alias("kind")


def _wider(step_s: int) -> Column:
    """A longer step, from the moment of a shorter one."""
    return sql.floor(sql.col("moment") / step_s).cast("bigint") * step_s


def _sum_of(column: str, kind: str) -> Column:
    return sql.sum(sql.when(sql.col("kind") == kind, sql.col(column)).otherwise(0))
