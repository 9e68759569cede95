"""The life of each message: one row, with what became of it in every queue, from the events of a trace.

    lives(events) -> DataFrame

Which events are one message's stands in `trace.passages`. `queues` has an entry for each queue that the message was
routed to or seen in, sorted by name. `publishes` is how often it was published to the queue that was given it most
often. `unroutable` is a message that was published and came to no queue.

Latencies are in milliseconds, from the first publish that was traced:

    confirm_ms      until the last of the queues had its first confirm; only mirrored queues tell
    delivery_ms     until the first delivery from any queue
    ack_ms          until the last of the queues had its first ack

Queues without a confirm or an ack are left out: of one in which a message waits, or whose consumers never ack, nobody
knows more than that. What no queue tells, and what is of a publish that was not traced, is null. Those of a trace that
several nodes wrote, each to its own files, are off by as much as the clocks are apart, and may be negative.

Not here: latencies of many messages together (`pipeline.report`).
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from warren.pipeline.trace.passages import COUNTS, IDENTITY, SENDER, passages

KIND: Final = "lives of messages"
VERSION: Final = 1


def lives(events: DataFrame) -> DataFrame:
    """One row per message."""
    by = sql.struct(sql.col("published_at").isNull().alias("other"), "published_at", "published_place", "queue")
    named = sql.struct(*IDENTITY)
    sent = sql.struct(*SENDER, "published_at")
    passage = sql.when(sql.col("queue").isNotNull(), sql.struct("queue", *COUNTS))
    routed = sql.when(sql.col("publishes") > 0, sql.col("queue"))
    grouped = (
        passages(events)
        .groupBy("vhost", "message_key", "copy")
        .agg(
            sql.min_by(named, by).alias("identity"),
            sql.min_by(sent, by).alias("sent"),
            sql.max("publishes").alias("publishes"),
            sql.array_sort(sql.collect_set(routed)).alias("routed_queues"),
            sql.array_sort(sql.collect_list(passage)).alias("queues"),
            sql.max("confirm_ms").alias("confirm_ms"),
            sql.min("delivery_ms").alias("delivery_ms"),
            sql.max("ack_ms").alias("ack_ms"),
        )
    )
    return grouped.select(
        "vhost",
        "message_key",
        "copy",
        *(sql.col(f"identity.{name}").alias(name) for name in IDENTITY),
        *(sql.col(f"sent.{name}").alias(name) for name in (*SENDER, "published_at")),
        "publishes",
        "routed_queues",
        ((sql.col("publishes") > 0) & (sql.size("queues") == 0)).alias("unroutable"),
        "queues",
        "confirm_ms",
        "delivery_ms",
        "ack_ms",
    )
