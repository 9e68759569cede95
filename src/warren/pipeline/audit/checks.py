"""What each message's way through a queue says for itself, before the queue's counters are known.

    judged(passages, taken) -> DataFrame        passages, with these columns

    missing         1 or more: it came to the queue, and is not known to have left it. Messages that came after the
                    counters were asked for are not judged.
    waited          it left the queue, after the counters were there: it is among those that they say were waiting
    expirable       it is missing, and its own `expiration` has passed
    repeated        how many deliveries, or publishes under its id, there are beyond what there should be
    guessed         the part of `repeated` that is of messages without an id: equal messages that were published while
                    nobody traced look the same
    untraced        it was delivered, and nothing says how it came to the queue
    overtaking      it was delivered before one that was published earlier on the same way

A message has come to a queue once for its publishes, however often it was published under its id, and once for each
time it came back as a dead letter. It has left it with each first delivery, and when it died waiting. Any sign of a
client that had it (an ack, a redelivery) is as good as a first delivery, which may have happened while nobody traced.
Equal messages without an id are judged together, in the row of the last of them.

*The same way* is what AMQP promises order for: one channel that published, one exchange and routing key, one queue,
one channel that it was delivered to; and one priority. Only first deliveries that are not marked as redelivered count,
and only messages that were published once: which attempt of several came to the queue is not known. Only places of the
same source are compared, so that no clock is asked.

Not here: what is lost (`audit.figures`).

One row per queue: what the trace saw, what the broker counted, and what is wrong between the two.

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

The messages behind a queue's figures: which are lost, which came twice, which overtook others.

    findings(judged, figures, limit) -> DataFrame       the figures, with a list of messages in each row

Which of the missing messages wait in the queue and which are lost nobody can say; those that were published first are
named, because a queue gives them first.

Invariant: what is listed, and in which order, depends on the rows alone; of each kind `limit` at most, the first by the
time they were published.

Not here: how many there are (`audit.figures`).
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
    """When the broker was asked for its counters, and when it had answered; what lies between may be in them or not."""

    asked_at: datetime
    answered_at: datetime


def check_passages(passages: DataFrame, taken: CountersInterval | None) -> DataFrame:
    """Passages with what they say; without a time all of them were over when the counters were taken."""
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
    told = counted.withColumns(
        {
            "expirable": (sql.col("missing") > 0) & _has_expired(until),
            "guessed": sql.when(sql.col("without_id"), sql.col("repeated")).otherwise(0),
            "untraced": never_came,
            "in_order": _is_ordered(),
        }
    )
    return told.withColumn("overtaking", sql.col("in_order") & _overtakes()).drop("in_order", "in_time")


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


def _of_equals(figure: Column) -> Column:
    """The sum over all messages that are equal to this one; of a message with an id there is only one."""
    return sql.sum(figure).over(Window.partitionBy(*EQUALS))


def _once(figure: Column) -> Column:
    """What is known of equal messages only together stands in the row of the last of them."""
    last = sql.max("copy").over(Window.partitionBy(*EQUALS))
    return sql.when(sql.col("copy") == last, sql.greatest(sql.lit(0).cast("bigint"), figure)).otherwise(0)


def _missing() -> Column:
    return _once(_of_equals(sql.when(sql.col("in_time"), sql.col("entered") - sql.col("went")).otherwise(0)))


def _repeated() -> Column:
    """Beyond one for each time it came; of equal messages without an id each publish is one that came."""
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
    """Whether it was published and delivered on one way, which can be compared with others."""
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


def queue_stats(judged: DataFrame, counters: DataFrame) -> DataFrame:
    """A row for every queue that the trace tells of."""
    together = (
        judged.where(sql.col("queue").isNotNull()).groupBy("vhost", "queue").agg(*_traced_counts(), *_fault_counts())
    )
    known = together.join(sql.broadcast(counters.withColumn("is_there", sql.lit(True))), ["vhost", "queue"], "left")
    audited = known.where(
        (sql.coalesce("is_there", sql.lit(False)) | sql.col("existed")) & ~sql.coalesce("stream", sql.lit(False))
    )
    return _balanced(audited).select(*STATS_COLUMNS)


def unroutable(judged: DataFrame, counters: DataFrame) -> DataFrame:
    """One row, `publishes`: how many came to no queue, or named one to the default exchange that never was."""
    named = judged.groupBy("vhost", "queue").agg(_existed(), sql.sum("publishes").alias("publishes"))
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
    """Whether anything but a publish to the default exchange tells of the queue."""
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
