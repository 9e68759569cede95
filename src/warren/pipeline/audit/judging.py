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
class Taken:
    """When the broker was asked for its counters, and when it had answered; what lies between may be in them or not."""

    asked_at: datetime
    answered_at: datetime


def judged(passages: DataFrame, taken: Taken | None) -> DataFrame:
    """Passages with what they say; without a time all of them were over when the counters were taken."""
    until = None if taken is None else taken.asked_at
    counted = passages.withColumns(
        {
            "without_id": sql.col("message_key").startswith(WITHOUT_ID),
            "entered": sql.least(sql.col("publishes"), sql.lit(1)) + sql.col("arrivals"),
            "went": _seen() + sql.col("died_waiting"),
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


def _seen() -> Column:
    """How often it was delivered for the first time, or must have been."""
    rejected_dead = sql.col("dead_lettered") - sql.col("died_waiting")
    signs = sql.col("deliveries") + sql.col("acked") + sql.col("rejected") + rejected_dead
    return sql.greatest(sql.col("first_deliveries"), sql.least(sql.lit(1), signs))


def _by(until: datetime | None) -> Column:
    return sql.lit(True) if until is None else sql.coalesce(sql.col("entered_at") <= sql.lit(until), sql.lit(True))


def _waited(taken: Taken | None) -> Column:
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
