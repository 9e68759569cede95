"""The audit as functions from DataFrames to DataFrames: passages, queue stats, and findings.

**Passages.** `check_passages` adds these columns to each message's passage through a queue:

    missing         1 or more: it came to the queue, and is not known to have left it. Messages that came after the
                    counters were requested are not judged.
    waited          it left the queue after the counters were taken: it is among those that they count as waiting
    expirable       it is missing, and its own `expiration` has passed
    repeated        how many deliveries, or publishes under its id, there are beyond the expected ones
    guessed         the part of `repeated` of messages without an id: equal messages that were published while
                    tracing was off look the same
    untraced        it was delivered, and the trace does not show how it came to the queue
    overtaking      it was delivered before a message that was published earlier on the same path

A message comes to a queue once for its publishes, however often it was published under its id, and once for each time
it was dead-lettered there. It leaves the queue with each first delivery, and when it dies waiting. Any sign of a client
that had it (an ack, a redelivery) counts as a first delivery, which may have happened while tracing was off. Equal
messages without an id are judged together, in the row of the last of them.

*The same path* is where AMQP promises order: one publishing channel, one exchange and routing key, one queue, one
consuming channel, and one priority. Only first deliveries that are not marked as redelivered count, and only messages
that were published once: which of several attempts came to the queue is not known. Only places of the same source are
compared, so that no clock matters.

**Queues.** With `missing` messages, and at most as many of them still waiting as were `in_queue` and have not left it
since:

    lost            the missing messages beyond those that may wait and those that may be excused. It is not known which
                    ones wait, so those that could be excused are counted as waiting first
    excused         the other missing messages. The broker kept its promise, or may have: the message's expiration had
                    passed; the queue has limits and no dead-letter exchange, or rejects publishes; the queue is
                    mirrored and the message was never confirmed
    duplicated      repetitions. For messages without an id, less those that the broker counted as published and the
                    trace does not have
    out_of_order    messages that overtook another
    untraced        delivered messages without a trace of how they came to the queue

A queue that the broker does not know has nothing waiting. If it is known only as the key of a publish to the default
exchange it never existed, and has no row. Streams have none, because they keep their messages.

**Findings** are the messages behind the stats. It cannot be known which missing messages wait and which are lost; those
published first are listed, because a queue delivers them first. The list depends on the rows alone; each kind has at
most `limit`, the first by publish time.

Not here: passages (`trace.passages`), the broker's counters (`audit.counters`).
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sql

from warren.pipeline.trace.passages import WITHOUT_ID

EQUALS: Final = ("vhost", "message_key", "queue")
WAY: Final = (
    "vhost",
    "queue",
    "node",
    "connection",
    "channel",
    "exchange",
    "routing_keys",
    "priority",
    "published_place.source",
    "first_delivery.connection",
    "first_delivery.channel",
    "first_delivery.place.source",
)


@dataclass(frozen=True)
class CountersInterval:
    """When the counters were requested and when they were answered; events in between may be counted or not."""

    asked_at: datetime
    answered_at: datetime


def check_passages(passages: DataFrame, taken: CountersInterval | None) -> DataFrame:
    """Passages with the columns above; without a time all of them ended before the counters were taken."""
    until = None if taken is None else taken.asked_at
    counted = passages.withColumns(
        {
            "without_id": sql.col("message_key").startswith(WITHOUT_ID),
            "entered": sql.least(sql.col("publishes"), sql.lit(1)) + sql.col("arrivals"),
            "went": _first_deliveries() + sql.col("died_waiting"),
            "in_time": _by(until),
        }
    ).withColumns({"missing": _missing(), "waited": _waited(taken), "repeated": _repeated()})
    never_came = (sql.col("entered") == 0) & (sql.col("deliveries") > 0) & (_of_equals(sql.col("entered")) == 0)
    checked = counted.withColumns(
        {
            "expirable": (sql.col("missing") > 0) & _has_expired(until),
            "guessed": sql.when(sql.col("without_id"), sql.col("repeated")).otherwise(0),
            "untraced": never_came,
            "in_order": _is_ordered(),
        }
    )
    return checked.withColumn("overtaking", sql.col("in_order") & _overtakes()).drop("in_order", "in_time")


def _first_deliveries() -> Column:
    """How often it was delivered for the first time, or must have been."""
    rejected_dead = sql.col("dead_lettered") - sql.col("died_waiting")
    signs = sql.col("deliveries") + sql.col("acked") + sql.col("rejected") + rejected_dead
    return sql.greatest(sql.col("first_deliveries"), sql.least(sql.lit(1), signs))


def _by(until: datetime | None) -> Column:
    return sql.lit(True) if until is None else sql.coalesce(sql.col("entered_at") <= sql.lit(until), sql.lit(True))


def _waited(taken: CountersInterval | None) -> Column:
    if taken is None:
        return sql.lit(False)
    left_at = sql.least("first_delivered_at", "acked_at", "dead_lettered_at")
    return sql.coalesce(sql.col("in_time") & (left_at > sql.lit(taken.answered_at)), sql.lit(False))


def _of_equals(value: Column) -> Column:
    """The sum over all messages equal to this one; a message with an id has no equals."""
    return sql.sum(value).over(Window.partitionBy(*EQUALS))


def _once(value: Column) -> Column:
    """Put a sum over equal messages into the row of the last of them."""
    last = sql.max("copy").over(Window.partitionBy(*EQUALS))
    return sql.when(sql.col("copy") == last, sql.greatest(sql.lit(0).cast("bigint"), value)).otherwise(0)


def _missing() -> Column:
    return _once(_of_equals(sql.when(sql.col("in_time"), sql.col("entered") - sql.col("went")).otherwise(0)))


def _repeated() -> Column:
    """Beyond one for each time it came; each publish of equal messages without an id is one."""
    extra = _of_equals(sql.col("first_deliveries") - sql.col("entered"))
    anonymous = sql.when(_of_equals(sql.col("entered")) > 0, extra).otherwise(0)
    beyond = sql.col("first_deliveries") - sql.greatest(sql.col("entered"), sql.lit(1))
    named = sql.greatest(sql.col("publishes") - 1, beyond)
    return _once(sql.when(sql.col("without_id"), anonymous).otherwise(named))


def _has_expired(until: datetime | None) -> Column:
    lifetime_ms = sql.col("expiration").try_cast("bigint")
    if until is None:
        return lifetime_ms.isNotNull()
    due_ms = sql.unix_millis("entered_at") + lifetime_ms
    return sql.coalesce(due_ms <= sql.unix_millis(sql.lit(until)), sql.lit(False))


def _is_ordered() -> Column:
    """Whether it was published and delivered on one path that can be compared with others."""
    once = (sql.col("attempts") == 1) & (sql.col("arrivals") == 0) & (sql.col("deliveries") > 0)
    return once & ~sql.coalesce("first_delivery.redelivered", sql.lit(True))


def _overtakes() -> Column:
    published = [sql.col("published_place.number"), sql.col("published_place.position")]
    delivered = sql.struct("first_delivery.place.number", "first_delivery.place.position")
    earlier = Window.partitionBy(*WAY, "in_order").orderBy(*published).rowsBetween(Window.unboundedPreceding, -1)
    return sql.coalesce(sql.max(delivered).over(earlier) > delivered, sql.lit(False))


STATS_COLUMNS: Final = (
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


def queue_stats(checked: DataFrame, counters: DataFrame) -> DataFrame:
    """A row for every queue in the trace."""
    together = (
        checked.where(sql.col("queue").isNotNull()).groupBy("vhost", "queue").agg(*_traced_counts(), *_fault_counts())
    )
    known = together.join(sql.broadcast(counters.withColumn("is_there", sql.lit(True))), ["vhost", "queue"], "left")
    audited = known.where(
        (sql.coalesce("is_there", sql.lit(False)) | sql.col("existed")) & ~sql.coalesce("stream", sql.lit(False))
    )
    return _balanced(audited).select(*STATS_COLUMNS)


def unroutable(checked: DataFrame, counters: DataFrame) -> DataFrame:
    """One row, `publishes`: how many reached no queue, or named a queue that never existed on the default exchange."""
    named = checked.groupBy("vhost", "queue").agg(_existed(), sql.sum("publishes").alias("publishes"))
    known = counters.select("vhost", "queue")
    nowhere = named.where(sql.col("queue").isNull() | ~sql.col("existed"))
    unknown = nowhere.join(sql.broadcast(known), ["vhost", "queue"], "left_anti")
    return unknown.agg(sql.coalesce(sql.sum("publishes"), sql.lit(0)).alias("publishes"))


def _traced_counts() -> list[Column]:
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
    """Whether anything but a publish to the default exchange mentions the queue."""
    signs = ("arrivals", "confirmed", "deliveries", "acked", "rejected", "dead_lettered")
    any_sign = sum((sql.col(name) for name in signs), sql.lit(0)) > 0
    return sql.bool_or((sql.col("exchange") != "") | any_sign).alias("existed")


def _fault_counts() -> list[Column]:
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
    """Add lost, excused and duplicated, and a note with the reasons."""
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
    """How many the broker counted that the trace lacks; it counts from its start, so the reverse means nothing."""
    return sql.greatest(sql.lit(0).cast("bigint"), sql.coalesce(counted, sql.lit(0)) - sql.col(traced))


def _note() -> Column:
    return sql.concat_ws(
        "; ",
        sql.when(sql.col("is_there").isNull(), sql.lit("the queue does not exist any more")),
        sql.when(
            (sql.col("excused") > 0) & sql.coalesce("may_drop", sql.lit(False)),
            sql.lit("its limits may have dropped messages without a dead letter"),
        ),
        sql.when(
            (sql.col("excused") > 0) & (sql.col("confirmed_any") > 0) & (sql.col("missing_unconfirmed") > 0),
            sql.lit("messages were not confirmed, or had expired"),
        ),
        _count_text("{} messages wait in it that the trace does not expect there", "unexpected"),
        _count_text("the trace lacks {} publishes that the broker counted", "unpublished"),
        _count_text("the trace lacks {} deliveries that the broker counted", "undelivered"),
    )


def _count_text(text: str, number: str) -> Column:
    before, after = text.split("{}")
    said = sql.concat(sql.lit(before), sql.col(number).cast("string"), sql.lit(after))
    return sql.when(sql.col(number) > 0, said)


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


def findings(checked: DataFrame, stats: DataFrame, limit: int) -> DataFrame:
    """Stats with `findings`, an array of structs."""
    faults = stats.select("vhost", "queue", "lost", "duplicated", sql.col("confirmed").isNotNull().alias("mirrored"))
    found = _found(checked.join(sql.broadcast(faults), ["vhost", "queue"]))
    in_turn = Window.partitionBy("vhost", "queue", "finding").orderBy("published_at", "message_key", "copy")
    listed = (
        found.withColumn("turn", sql.row_number().over(in_turn))
        .where(sql.col("turn") <= limit)
        .groupBy("vhost", "queue")
        .agg(sql.array_sort(sql.collect_list(sql.struct(*FINDING))).alias("findings"))
    )
    with_lists = stats.join(listed, ["vhost", "queue"], "left")
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
