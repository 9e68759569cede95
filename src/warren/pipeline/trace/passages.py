"""Passages: one row for each message and queue, and the life of each message, from the events of a trace.

A message is what has one `message_key` in a virtual host. Publishes under one message id, or under one publisher and
publishing id, are one message. Equal messages without either are told apart by count, in the order of the trace: the
nth publish goes with the nth first delivery from a queue, the nth confirm, ack and so on. It cannot be known which of
several equal ones was redelivered; their sums are right, and no row is invented. `copy` is that n, and 1 for all other
messages.

A message comes to a queue by being published (`publishes`; repetitions that the broker drops, with the same publisher
and publishing id, count once; including them they are `attempts`) or as a dead letter, of another queue or its own
(`arrivals`). A publish that reached no queue is a row without a queue.

It may come and go many times, as in a loop of retries. `entries` are the times at which it came, without repetitions.
`exits` are those at which it left: by a first delivery, or by a death that no consumer caused. If neither was traced,
as when a node and its copies are lost, the first redelivery or death of any kind is an exit.

The position of an event in the trace is its *place*: the source, and a growing number in it. Two places of one source
are in order even if clocks are wrong; between sources there is only `at`.

All rows of a message are brought together once, by key; the rest needs no further shuffle.

**Lives.** `message_lives` has one row for each message. `queues` has an entry for each queue that the message was
routed to or seen in, sorted by name. `publishes` is the largest number of publishes to one queue. `unroutable` is a
message that was published and reached no queue. Latencies are in milliseconds, from the first traced publish:

    confirm_ms      until the last of the queues had its first confirm; only mirrored queues report it
    delivery_ms     until the first delivery from any queue
    ack_ms          until the last of the queues had its first ack

Queues without a confirm or an ack are left out: the message may wait there, or their consumers never ack. A value that
no queue has, or of a publish that was not traced, is null. If several nodes wrote the trace, latencies are off by the
difference of their clocks, and may be negative.

Not here: the meaning of the counts for a queue (`audit.checks`), latencies of many messages (`pipeline.report`).
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sql

WITHOUT_ID: Final = "digest:"
"""The prefix of keys of messages without an id."""
WAITING_DEATHS: Final = ("expired", "maxlen")
"""Reasons of dead letters that no consumer caused."""
IDENTITY: Final = (
    "message_id",
    "correlation_id",
    "app_id",
    "publisher",
    "publishing_id",
    "exchange",
    "routing_keys",
    "delivery_mode",
    "priority",
    "expiration",
    "payload_bytes",
)
SENDER: Final = ("node", "connection", "channel", "user")
COUNTS: Final = (
    "publishes",
    "arrivals",
    "confirmed",
    "confirmed_at",
    "deliveries",
    "first_deliveries",
    "redelivered",
    "first_delivered_at",
    "last_delivered_at",
    "acked",
    "acked_at",
    "rejected",
    "requeued",
    "dead_lettered",
    "dead_lettered_at",
    "reasons",
    "confirm_ms",
    "delivery_ms",
    "ack_ms",
)
"""The columns about the queue, in this order."""


def passages(events: DataFrame) -> DataFrame:
    """One row per message and queue."""
    together = _placed(events).repartition("vhost", "message_key")
    return _summed(_by_queue(_numbered(together)))


def _placed(events: DataFrame) -> DataFrame:
    """Add `place`: a stream's partition and offset, or the number of a trace file and the byte in it."""
    parts = sql.split("event_id", "/")
    numbers = sql.when(sql.col("event_id").startswith("file:"), 2).otherwise(1)
    source = sql.array_join(sql.slice(parts, 1, sql.size(parts) - numbers), "/")
    number = sql.when(numbers == 2, sql.element_at(parts, -2).try_cast("bigint")).otherwise(0)
    position = sql.element_at(parts, -1).try_cast("bigint")
    place = sql.struct(source.alias("source"), number.alias("number"), position.alias("position"))
    again = sql.col("type").eqNullSafe("received") & sql.coalesce("redelivered", sql.lit(False))
    return events.withColumns(
        {
            "place": place,
            "happened": sql.struct("at", place.alias("place")),
            "kind": sql.when(again, "redelivered").otherwise(sql.col("type")),
            "without_id": sql.col("message_key").startswith(WITHOUT_ID),
        }
    )


def _numbered(events: DataFrame) -> DataFrame:
    """Add `copy`."""
    message = Window.partitionBy("vhost", "message_key")
    of_a_kind = Window.partitionBy("vhost", "message_key", "kind", _leaves()).orderBy("happened")
    there_are = sql.max(sql.when(sql.col("kind").isin("published", "received"), sql.col("nth"))).over(message)
    known = sql.greatest(sql.coalesce(there_are, sql.lit(1)), sql.lit(1))
    return (
        events.withColumn("nth", sql.row_number().over(of_a_kind))
        .withColumn("known", known)
        .withColumn("copy", sql.when(sql.col("without_id"), sql.least("nth", "known")).otherwise(1).cast("int"))
        .drop("nth", "known")
    )


def _by_queue(events: DataFrame) -> DataFrame:
    """One row for each queue that an event is about, with its `role` there."""
    reached = sql.coalesce("routed_queues", sql.array().cast("array<string>"))
    published = sql.transform(reached, lambda queue: _role(queue, sql.lit("published")))
    arrived = sql.transform(reached, lambda queue: _role(queue, sql.lit("arrived")))
    here = sql.array(_role(sql.col("queue"), sql.col("kind")))
    kind = sql.col("kind")
    concerned = (
        sql.when(kind == "published", published)
        .when(kind == "dead_lettered", sql.concat(here, arrived))
        .otherwise(here)
    )
    exploded = events.withColumn("concerned", sql.explode_outer(concerned))
    return exploded.withColumns(
        {"queue": sql.col("concerned.queue"), "role": sql.coalesce("concerned.role", sql.col("kind"))}
    ).drop("concerned")


def _summed(rows: DataFrame) -> DataFrame:
    grouped = rows.groupBy("vhost", "message_key", "copy", "queue").agg(*_identity(), *_entering(), *_leaving())
    flat = grouped.select(
        "vhost",
        "message_key",
        "copy",
        "queue",
        *(sql.col(f"identity.{name}").alias(name) for name in IDENTITY),
        *(sql.col(f"sent.{name}").alias(name) for name in (*SENDER, "published_at", "published_place")),
        *(sql.col(name) for name in grouped.columns if name not in ("vhost", "message_key", "copy", "queue")),
    )
    since = sql.unix_millis("published_at")
    published = sql.slice(sql.array_sort("published_ats"), 1, sql.col("publishes").cast("int"))
    any_exit = sql.array_compact(sql.array(sql.least("first_delivered_at", "dead_lettered_at")))
    return flat.withColumns(
        {
            "entries": sql.concat(published, "arrived_ats"),
            "exits": sql.when(sql.size("left_ats") > 0, sql.col("left_ats")).otherwise(any_exit),
            "confirm_ms": sql.unix_millis("confirmed_at") - since,
            "delivery_ms": sql.unix_millis("first_delivered_at") - since,
            "ack_ms": sql.unix_millis("acked_at") - since,
        }
    ).drop("identity", "sent", "published_ats", "arrived_ats", "left_ats")


def _identity() -> list[Column]:
    """The identity and destination of the message: of its first publish, or else of its first event."""
    by = sql.struct((sql.col("role") != "published").alias("other"), "happened")
    sent = sql.struct(*SENDER, sql.col("at").alias("published_at"), sql.col("place").alias("published_place"))
    return [
        sql.min_by(sql.struct(*IDENTITY), by).alias("identity"),
        sql.min_by(sent, _of("published", sql.col("happened"))).alias("sent"),
    ]


def _entering() -> list[Column]:
    repeatable = sql.col("publisher").isNotNull() & sql.col("publishing_id").isNotNull()
    ids = sql.collect_set(sql.when(_is("published") & repeatable, sql.struct("publisher", "publishing_id")))
    singly = sql.count_if(_is("published") & ~repeatable)
    return [
        (sql.size(ids) + singly).cast("bigint").alias("publishes"),
        sql.count_if(_is("published")).alias("attempts"),
        sql.count_if(_is("arrived")).alias("arrivals"),
        sql.min(sql.when(_is("published") | _is("arrived"), sql.col("at"))).alias("entered_at"),
        sql.collect_list(_of("published", sql.col("at"))).alias("published_ats"),
        sql.collect_list(_of("arrived", sql.col("at"))).alias("arrived_ats"),
        sql.count_if(_is("confirmed")).alias("confirmed"),
        sql.min(_of("confirmed", sql.col("at"))).alias("confirmed_at"),
    ]


def _leaving() -> list[Column]:
    delivered = _is("received") | _is("redelivered")
    died_waiting = _is("dead_lettered") & sql.col("reason").isin(*WAITING_DEATHS)
    first = sql.struct(
        sql.col("place"), "connection", "channel", (sql.col("role") == "redelivered").alias("redelivered")
    )
    return [
        sql.count_if(delivered).alias("deliveries"),
        sql.count_if(_is("received")).alias("first_deliveries"),
        sql.count_if(_is("redelivered")).alias("redelivered"),
        sql.min(sql.when(delivered, sql.col("at"))).alias("first_delivered_at"),
        sql.max(sql.when(delivered, sql.col("at"))).alias("last_delivered_at"),
        sql.min_by(first, sql.when(delivered, sql.col("happened"))).alias("first_delivery"),
        sql.count_if(_is("acked")).alias("acked"),
        sql.min(_of("acked", sql.col("at"))).alias("acked_at"),
        sql.count_if(_is("rejected")).alias("rejected"),
        sql.count_if(_is("rejected") & sql.col("reason").eqNullSafe("requeued")).alias("requeued"),
        sql.count_if(_is("dead_lettered")).alias("dead_lettered"),
        sql.count_if(died_waiting).alias("died_waiting"),
        sql.collect_list(sql.when(_is("received") | died_waiting, sql.col("at"))).alias("left_ats"),
        sql.min(_of("dead_lettered", sql.col("at"))).alias("dead_lettered_at"),
        sql.array_sort(sql.collect_set(_of("dead_lettered", sql.col("reason")))).alias("reasons"),
    ]


def _leaves() -> Column:
    """The queue that an event is about; publishes have one numbering for all queues."""
    return sql.when(sql.col("kind") != "published", sql.col("queue"))


def _role(queue: Column, role: Column) -> Column:
    return sql.struct(queue.alias("queue"), role.alias("role"))


def _is(role: str) -> Column:
    return sql.col("role") == role


def _of(role: str, value: Column) -> Column:
    return sql.when(_is(role), value)


MESSAGES_KIND: Final = "lives of messages"
MESSAGES_VERSION: Final = 1


def message_lives(events: DataFrame) -> DataFrame:
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
