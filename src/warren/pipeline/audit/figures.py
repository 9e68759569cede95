"""One row per queue: what the trace saw, what the broker counted, and what is wrong between the two.

    figures(judged, counters) -> DataFrame

With `missing` messages that came to the queue and are not known to have left it (`audit.judging`), and at most as many
of them still waiting there as were `in_queue` and have not left it since:

    lost            what is missing beyond those that may wait, and beyond those that may be excused. Nobody knows which
                    ones wait, and so those that could be excused are taken for them first
    excused         what else is missing. The broker kept its word all the same, or may have: the message's expiration
                    had passed; the queue has limits and no dead-letter exchange, or refuses what is too much; the queue
                    is mirrored and the message was never confirmed
    duplicated      repetitions (`audit.judging`). Of messages without an id, less those that the broker counted as
                    published and nobody traced
    out_of_order    messages that overtook another
    untraced        messages that were delivered, and nothing says how they came to the queue

A queue that the broker does not know has nothing waiting. If it is known only as the key of a publish to the default
exchange there never was one, and it has no row; streams have none, for they keep what they give.

Not here: which messages these are (`audit.findings`).
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

COLUMNS: Final = (
    "vhost",
    "queue",
    "published",
    "confirmed",
    "delivered",
    "redelivered",
    "acked",
    "rejected",
    "dead_lettered",
    "in_queue",
    "lost",
    "duplicated",
    "out_of_order",
    "excused",
    "untraced",
    "broker_published",
    "broker_delivered",
    "broker_acked",
    "note",
)
FAULTS: Final = ("lost", "duplicated", "out_of_order")


def figures(judged: DataFrame, counters: DataFrame) -> DataFrame:
    """A row for every queue that the trace tells of."""
    together = judged.where(sql.col("queue").isNotNull()).groupBy("vhost", "queue").agg(*_seen(), *_wrong())
    known = together.join(sql.broadcast(counters.withColumn("is_there", sql.lit(True))), ["vhost", "queue"], "left")
    audited = known.where(
        (sql.coalesce("is_there", sql.lit(False)) | sql.col("existed")) & ~sql.coalesce("stream", sql.lit(False))
    )
    return _balanced(audited).select(*COLUMNS)


def unroutable(judged: DataFrame, counters: DataFrame) -> DataFrame:
    """One row, `publishes`: how many came to no queue, or named one to the default exchange that never was."""
    named = judged.groupBy("vhost", "queue").agg(_existed(), sql.sum("publishes").alias("publishes"))
    known = counters.select("vhost", "queue")
    nowhere = named.where(sql.col("queue").isNull() | ~sql.col("existed"))
    unknown = nowhere.join(sql.broadcast(known), ["vhost", "queue"], "left_anti")
    return unknown.agg(sql.coalesce(sql.sum("publishes"), sql.lit(0)).alias("publishes"))


def _seen() -> list[Column]:
    delivered = sql.when(sql.col("deliveries") > 0, sql.greatest(sql.col("first_deliveries"), sql.lit(1))).otherwise(0)
    return [
        sql.sum("publishes").alias("published"),
        sql.sum("attempts").alias("attempts"),
        sql.count_if(sql.col("confirmed") > 0).alias("confirmed_any"),
        sql.sum(delivered).alias("delivered"),
        sql.sum("deliveries").alias("deliveries"),
        sql.sum("redelivered").alias("redelivered"),
        sql.sum("acked").alias("acked"),
        sql.sum("rejected").alias("rejected"),
        sql.sum("dead_lettered").alias("dead_lettered"),
        _existed(),
    ]


def _existed() -> Column:
    """Whether anything but a publish to the default exchange tells of the queue."""
    signs = ("arrivals", "confirmed", "deliveries", "acked", "rejected", "dead_lettered")
    any_sign = sum((sql.col(name) for name in signs), sql.lit(0)) > 0
    return sql.bool_or((sql.col("exchange") != "") | any_sign).alias("existed")


def _wrong() -> list[Column]:
    unconfirmed = (sql.col("confirmed") == 0) | sql.col("expirable")
    return [
        sql.sum("missing").alias("missing"),
        sql.count_if("waited").alias("waited"),
        sql.sum(sql.when(unconfirmed, sql.col("missing")).otherwise(0)).alias("missing_unconfirmed"),
        sql.sum(sql.when(sql.col("expirable"), sql.col("missing")).otherwise(0)).alias("missing_expirable"),
        sql.sum("repeated").alias("repeated"),
        sql.sum("guessed").alias("guessed"),
        sql.count_if("overtaking").alias("out_of_order"),
        sql.count_if("untraced").alias("untraced"),
    ]


def _balanced(queues: DataFrame) -> DataFrame:
    """With what is lost, excused and duplicated, and a note on what is behind it."""
    none = sql.lit(0).cast("bigint")
    mirrored = sql.col("confirmed_any") > 0
    excusable = (
        sql.when(sql.col("may_drop"), sql.col("missing"))
        .when(mirrored, sql.col("missing_unconfirmed"))
        .otherwise(sql.col("missing_expirable"))
    )
    still = sql.greatest(none, sql.coalesce("in_queue", none) - sql.col("waited"))
    gone = sql.greatest(none, sql.col("missing") - still)
    excused = sql.least(gone, sql.greatest(none, excusable - still))
    unpublished = _lacking("broker_published", "attempts")
    sure = sql.col("repeated") - sql.col("guessed")
    balanced = queues.withColumns({"lost": gone - excused, "excused": excused}).withColumns(
        {
            "confirmed": sql.when(mirrored, sql.col("confirmed_any")),
            "duplicated": sure + sql.greatest(none, sql.col("guessed") - unpublished),
            "unpublished": unpublished,
            "undelivered": _lacking("broker_delivered", "deliveries"),
            "unexpected": sql.greatest(none, still - sql.col("missing")),
            "in_queue": sql.coalesce("in_queue", none),
        }
    )
    return balanced.withColumn("note", _note())


def _lacking(counted: str, traced: str) -> Column:
    """How much the broker counted that the trace has not; it counts from its start, so the other way says nothing."""
    return sql.greatest(sql.lit(0).cast("bigint"), sql.coalesce(counted, sql.lit(0)) - sql.col(traced))


def _note() -> Column:
    return sql.concat_ws(
        "; ",
        sql.when(sql.col("is_there").isNull(), sql.lit("the queue is not there any more")),
        sql.when(
            (sql.col("excused") > 0) & sql.coalesce("may_drop", sql.lit(False)),
            sql.lit("its limits may have dropped messages without a dead letter"),
        ),
        sql.when(
            (sql.col("excused") > 0) & (sql.col("confirmed_any") > 0) & (sql.col("missing_unconfirmed") > 0),
            sql.lit("messages were not confirmed, or had expired"),
        ),
        _says("{} messages wait in it that the trace does not expect there", "unexpected"),
        _says("the trace lacks {} publishes that the broker counted", "unpublished"),
        _says("the trace lacks {} deliveries that the broker counted", "undelivered"),
    )


def _says(text: str, number: str) -> Column:
    before, after = text.split("{}")
    said = sql.concat(sql.lit(before), sql.col(number).cast("string"), sql.lit(after))
    return sql.when(sql.col(number) > 0, said)
