"""What became of each message in each queue: one row for a message and a queue, from the events of a trace.

    passages(events) -> DataFrame

A message is what has one `message_key` in a virtual host. Publishes under one message id, or under one publisher and
publishing id, are one message. Messages without either that are equal in all else are told apart by count, in the
order of the trace: the nth publish goes with the nth first delivery from a queue, the nth confirm, ack and so on.
Which of several equal ones was redelivered cannot be known; their sums are right, and no row is made up for them.
`copy` is that n, and 1 for all other messages.

A message comes to a queue by being published (`publishes`; repetitions that the broker drops, because publisher and
publishing id are the same, count once; with them they are `attempts`) or as a dead letter, of another queue or of its
own (`arrivals`). A publish that no queue took is a row without a queue.

It may come and go many times, as in a loop of retries. `entries` are the times at which it came, repetitions left out.
`exits` are those at which it went: by a first delivery, or by a death that no consumer gave. If neither was traced, as
when a node is lost and its copies with it, the first redelivery or death of any kind is one.

Where something happened in the trace is its *place*: the source, and a number in it that grows. Two places of one
source are in order, whatever clocks say; between sources there is only `at`.

All rows of a message are brought together once, by key; what follows needs no further exchange between Spark's tasks.

Not here: one row for a message (`trace.messages`), what the figures mean for a queue (`audit.figures`).

The life of each message: one row, with what became of it in every queue, from the events of a trace.

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

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sql

WITHOUT_ID: Final = "digest:"
"""How the keys of messages begin that nothing but what they say tells apart."""
WAITING_DEATHS: Final = ("expired", "maxlen")
"""Reasons of dead letters that no consumer gave."""
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
"""What a row says of the queue, in this order."""


def passages(events: DataFrame) -> DataFrame:
    """One row per message and queue."""
    together = _placed(events).repartition("vhost", "message_key")
    return _summed(_by_queue(_numbered(together)))


def _placed(events: DataFrame) -> DataFrame:
    """With `place`: a stream's partition and offset, or a trace's files, the number of one and the byte in it."""
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
    """With `copy`."""
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
    """Once for each queue that an event is about, with the `role` it has there."""
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
    """Who the message is and where it was sent: as its first publish says, or else its first event."""
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
    """The queue that an event is about; publishes are numbered whichever queues they are for."""
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
