"""Records as events: one row for each event of a message, and the key that all events of a message share.

A record has the fields of a traced copy, by name, or a fault.

**The key** is the message's id, or the publisher and id of its deduplication (docs/publishing.md), or else a digest of
its first exchange and key, its properties and its payload. The digest leaves out what a broker changes on the way:
headers about deaths and copies, the delay, and the expiration that a dead letter loses. Equal messages without ids
share a key, and are told apart by counting (`trace.passages`).

**Quarantine.** A record with a fault is a row too: its id, the fault, and its line; all else is null. So the rows read
and the rows kept have the same number, and one commit covers both.

Payloads are left out unless requested; their length and a digest always stay.

Not here: making records (`trace.sources`), storing rows (`trace.lake`).
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

EVENT_TYPES: Final = ("published", "received", "confirmed", "acked", "rejected", "dead_lettered")

PROPERTIES: Final = (
    "STRUCT<content_type: STRING, content_encoding: STRING, headers: STRING, delivery_mode: INT, priority: INT, "
    "correlation_id: STRING, reply_to: STRING, expiration: STRING, message_id: STRING, timestamp: BIGINT, "
    "type: STRING, user_id: STRING, app_id: STRING, cluster_id: STRING>"
)
"""Headers are a table of any types, and therefore JSON."""

RECORD_COLUMNS: Final = {
    "event_id": "string",
    "line": "binary",
    "fault": "string",
    "at": "timestamp",
    "type": "string",
    "node": "string",
    "connection": "string",
    "vhost": "string",
    "user": "string",
    "channel": "int",
    "exchange": "string",
    "queue": "string",
    "routed_queues": "array<string>",
    "routing_keys": "array<string>",
    "properties": PROPERTIES,
    "redelivered": "boolean",
    "reason": "string",
    "epoch": "int",
    "nodes": "array<string>",
    "payload": "binary",
}


def cast_columns(frame: DataFrame, columns: dict[str, str]) -> DataFrame:
    """These columns, in this order and of these types."""
    return frame.select(*(sql.col(name).cast(kind).alias(name) for name, kind in columns.items()))


def parse_time(text: Column) -> Column:
    """An RFC 3339 time; null if it is invalid."""
    return sql.when(text.rlike(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"), text.try_cast("timestamp"))


DIGEST_DIGITS: Final = 32

COLUMNS: Final = {
    "event_id": "string",
    "day": "date",
    "vhost": "string",
    "at": "timestamp",
    "type": "string",
    "node": "string",
    "connection": "string",
    "channel": "int",
    "user": "string",
    "exchange": "string",
    "queue": "string",
    "routed_queues": "array<string>",
    "routing_keys": "array<string>",
    "message_id": "string",
    "correlation_id": "string",
    "app_id": "string",
    "content_type": "string",
    "delivery_mode": "int",
    "priority": "int",
    "expiration": "string",
    "headers": "string",
    "redelivered": "boolean",
    "reason": "string",
    "epoch": "int",
    "nodes": "array<string>",
    "payload_bytes": "int",
    "digest": "string",
    "publisher": "string",
    "publishing_id": "string",
    "message_key": "string",
    "payload": "binary",
}
SCHEMA: Final = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())

QUARANTINE: Final = {"fault": "string", "line": "binary"}
ROWS: Final = COLUMNS | QUARANTINE
ROWS_SCHEMA: Final = ", ".join(f"{name} {kind}" for name, kind in ROWS.items())

ADDED_HEADERS: Final = (
    "x-death",
    "x-first-death-exchange",
    "x-first-death-queue",
    "x-first-death-reason",
    "x-last-death-exchange",
    "x-last-death-queue",
    "x-last-death-reason",
    "x-delivery-count",
    "x-delay",
    "CC",
    "BCC",
)
DEATHS: Final = (
    "struct<`x-death`: array<struct<exchange: string, queue: string, reason: string, `routing-keys`: array<string>>>>"
)
KEPT_PROPERTIES: Final = (
    "content_type",
    "content_encoding",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "timestamp",
    "type",
    "user_id",
    "app_id",
)
SAME_NAME: Final = (
    "vhost",
    "at",
    "type",
    "node",
    "connection",
    "channel",
    "user",
    "exchange",
    "queue",
    "redelivered",
    "reason",
    "epoch",
)
OF_PROPERTIES: Final = (
    "message_id",
    "correlation_id",
    "app_id",
    "content_type",
    "delivery_mode",
    "priority",
    "expiration",
    "headers",
)
LISTS: Final = ("routed_queues", "routing_keys", "nodes")


def rows(records: DataFrame, payloads: bool = False) -> DataFrame:
    """An event for each record, or a row of the quarantine."""
    table = sql.from_json("properties.headers", "map<string, string>")
    seen = records.withColumn("table", table).withColumn(
        "deaths", sql.from_json("properties.headers", DEATHS)["x-death"]
    )
    seen = seen.withColumn("digest", _digest(sql.col("payload")))
    seen = seen.withColumn("publisher", sql.col("table")["x-warren-publisher"])
    seen = seen.withColumn("publishing_id", sql.col("table")["x-warren-publishing-id"])
    sound = sql.col("fault").isNull()
    made = {
        "day": sql.to_date("at"),
        **{name: sql.col(name) for name in SAME_NAME},
        **{name: sql.col(f"properties.{name}") for name in OF_PROPERTIES},
        **{name: sql.coalesce(name, sql.array().cast("array<string>")) for name in LISTS},
        "payload_bytes": sql.octet_length("payload"),
        **{name: sql.col(name) for name in ("digest", "publisher", "publishing_id")},
        "message_key": _message_key(),
        "payload": sql.col("payload") if payloads else sql.lit(None),
    }
    whole = seen.select(
        "event_id",
        *(sql.when(sound, column).alias(name) for name, column in made.items()),
        "fault",
        sql.when(~sound, sql.col("line")).alias("line"),
    )
    return cast_columns(whole, ROWS)


def _digest(octets: Column) -> Column:
    return sql.substring(sql.sha2(octets, 256), 1, DIGEST_DIGITS)


def _message_key() -> Column:
    published_once = sql.concat(sql.lit("pub:"), sql.col("publisher"), sql.lit("/"), sql.col("publishing_id"))
    return sql.coalesce(
        sql.concat(sql.lit("id:"), sql.col("properties.message_id")),
        published_once,
        sql.concat(sql.lit("digest:"), _digest(_identity().cast("binary"))),
    )


def _identity() -> Column:
    """The text that identifies a message without an id."""
    # a repeated death moves to the front, so the last entry need not be the first death
    first_deaths = sql.filter(
        "deaths",
        lambda death: (
            (death["queue"] == sql.col("table")["x-first-death-queue"])
            & (death["reason"] == sql.col("table")["x-first-death-reason"])
        ),
    )
    first_death = sql.coalesce(_first(first_deaths), sql.try_element_at("deaths", sql.lit(-1)))
    own_headers = sql.map_filter("table", lambda name, _: ~name.isin(*ADDED_HEADERS))
    return sql.to_json(
        sql.struct(
            sql.coalesce(first_death["exchange"], sql.col("exchange")).alias("exchange"),
            sql.coalesce(_first(first_death["routing-keys"]), _first(sql.col("routing_keys"))).alias("routing_key"),
            *(sql.col(f"properties.{name}").alias(name) for name in KEPT_PROPERTIES),
            sql.array_sort(sql.map_entries(own_headers)).alias("headers"),
            sql.col("digest").alias("payload"),
        )
    )


def _first(names: Column) -> Column:
    return sql.try_element_at(names, sql.lit(1))
