"""What both sources of a trace are made into before they are events: the fields of a copy, by name, or a fault.

Not here: how lines (`trace.lines`) and messages of a stream (`trace.firehose`) become records, what events are made of
them (`trace.events`).
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

TYPES: Final = ("published", "received", "confirmed", "acked", "rejected", "dead_lettered")

PROPERTIES: Final = (
    "STRUCT<content_type: STRING, content_encoding: STRING, headers: STRING, delivery_mode: INT, priority: INT, "
    "correlation_id: STRING, reply_to: STRING, expiration: STRING, message_id: STRING, timestamp: BIGINT, "
    "type: STRING, user_id: STRING, app_id: STRING, cluster_id: STRING>"
)
"""Headers are a table of any types, and therefore JSON."""

RECORD: Final = {
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


def typed(frame: DataFrame, columns: dict[str, str]) -> DataFrame:
    """These columns, in this order and of these types."""
    return frame.select(*(sql.col(name).cast(kind).alias(name) for name, kind in columns.items()))


def timed(text: Column) -> Column:
    """A time as RFC 3339 has it; null if it is none."""
    return sql.when(text.rlike(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"), text.try_cast("timestamp"))
