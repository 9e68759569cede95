"""The messages behind a queue's figures: which are lost, which came twice, which overtook others.

    findings(judged, figures, limit) -> DataFrame       the figures, with a list of messages in each row

Which of the missing messages wait in the queue and which are lost nobody can say; those that were published first are
named, because a queue gives them first.

Invariant: what is listed, and in which order, depends on the rows alone; of each kind `limit` at most, the first by the
time they were published.

Not here: how many there are (`audit.figures`).
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sql

LOST: Final = "lost"
DUPLICATED: Final = "duplicated"
OUT_OF_ORDER: Final = "out of order"
FINDING: Final = (
    "finding",
    "published_at",
    "message_key",
    "copy",
    "exchange",
    "routing_keys",
    "publishes",
    "deliveries",
    "first_delivered_at",
)


def findings(judged: DataFrame, figures: DataFrame, limit: int) -> DataFrame:
    """Figures with `findings`, an array of structs."""
    faults = figures.select("vhost", "queue", "lost", "duplicated", sql.col("confirmed").isNotNull().alias("mirrored"))
    found = _found(judged.join(sql.broadcast(faults), ["vhost", "queue"]))
    in_turn = Window.partitionBy("vhost", "queue", "finding").orderBy("published_at", "message_key", "copy")
    listed = (
        found.withColumn("turn", sql.row_number().over(in_turn))
        .where(sql.col("turn") <= limit)
        .groupBy("vhost", "queue")
        .agg(sql.array_sort(sql.collect_list(sql.struct(*FINDING))).alias("findings"))
    )
    with_lists = figures.join(listed, ["vhost", "queue"], "left")
    return with_lists.withColumn("findings", sql.coalesce("findings", sql.array()))


def _found(concerned: DataFrame) -> DataFrame:
    """A row for each message and kind of fault."""
    excusable = sql.col("expirable") | (sql.col("mirrored") & (sql.col("confirmed") == 0))
    suspected = (sql.col("lost") > 0) & (sql.col("missing") > 0) & ~excusable
    repeated = (sql.col("duplicated") > 0) & (sql.col("repeated") > 0)
    first = Window.partitionBy("vhost", "queue", "suspected").orderBy(
        "entered_at", "published_place", "message_key", "copy"
    )
    at_fault = (
        concerned.withColumn("suspected", suspected)
        .where(sql.col("suspected") | repeated | sql.col("overtaking"))
        .withColumn("nth", sql.row_number().over(first))
    )
    kinds = sql.array(
        sql.when(sql.col("suspected") & (sql.col("nth") <= sql.col("lost")), LOST),
        sql.when(repeated, DUPLICATED),
        sql.when(sql.col("overtaking"), OUT_OF_ORDER),
    )
    return at_fault.withColumn("finding", sql.explode(sql.array_compact(kinds)))
