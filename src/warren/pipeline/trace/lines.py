"""Lines of trace files, as `trace.files` reads them, taken apart into records.

A record has what `trace.events` makes an event of, or a *fault*: why it cannot be one. Each line is in exactly one
record, whatever is in it. A line is faulty if it is no UTF-8, not one JSON object, of a schema version that is not
known here, if a field has another type than it should, if its type or its time says nothing, or its payload is no
base64. Two objects on one line are a fault, because a parser would take the first and pass over the other.

Not here: copies from a stream (`trace.firehose`).
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from warren.pipeline.trace.records import PROPERTIES, RECORD, TYPES, timed, typed

SCHEMA_VERSION: Final = 1
CORRUPT: Final = "corrupt"
LINE: Final = (
    "schema_version INT, timestamp STRING, type STRING, node STRING, connection STRING, vhost STRING, user STRING, "
    "channel INT, exchange STRING, queue STRING, routed_queues ARRAY<STRING>, routing_keys ARRAY<STRING>, "
    f"properties {PROPERTIES}, redelivered BOOLEAN, reason STRING, epoch INT, nodes ARRAY<STRING>, payload STRING, "
    f"{CORRUPT} STRING"
)


def records(lines: DataFrame, source: str) -> DataFrame:
    """One for each line; `source` names the folder in event ids, if there are several."""
    text = sql.col("line").cast("string")
    readable = sql.when(sql.is_valid_utf8(text) & _is_one_object(text), text)
    parsed = lines.withColumn(
        "parsed", sql.from_json(readable, LINE, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT})
    ).withColumn("said_version", _version(text))
    fields = {name: sql.col(f"parsed.{name}") for name in ("node", "vhost", "exchange", "properties")}
    of_delivery = sql.col("parsed.type").isin("received", "acked", "rejected")
    known = parsed.select(
        sql.concat(sql.lit(_prefix(source)), sql.concat_ws("/", "trace", "piece", "byte")).alias("event_id"),
        "line",
        _fault().alias("fault"),
        timed(sql.col("parsed.timestamp")).alias("at"),
        sql.col("parsed.type").alias("type"),
        *(column.alias(name) for name, column in fields.items()),
        *(sql.nullif(sql.col(f"parsed.{name}"), sql.lit("")).alias(name) for name in ("connection", "user", "reason")),
        sql.nullif(sql.col("parsed.channel"), sql.lit(0)).alias("channel"),
        sql.when(sql.col("parsed.type") != "published", sql.col("parsed.queue")).alias("queue"),
        *(sql.col(f"parsed.{name}").alias(name) for name in ("routed_queues", "routing_keys", "nodes")),
        sql.when(of_delivery, sql.coalesce("parsed.redelivered", sql.lit(False))).alias("redelivered"),
        sql.when(sql.col("parsed.type") == "confirmed", sql.col("parsed.epoch")).alias("epoch"),
        _payload().alias("payload"),
    )
    return typed(known, RECORD)


def _prefix(source: str) -> str:
    return f"file:{source}/" if source else "file:"


def _is_one_object(text: Column) -> Column:
    """Between brackets it is a list of one; otherwise something follows the first object."""
    list_of_one = sql.json_array_length(sql.concat(sql.lit("["), text, sql.lit("]"))) == 1
    return text.startswith("{") & text.endswith("}") & sql.coalesce(list_of_one, sql.lit(False))


def _version(text: Column) -> Column:
    """Also of an object that does not fit the schema, as one of another version may not."""
    said = sql.when(sql.is_valid_utf8(text), sql.get_json_object(text, "$.schema_version")).try_cast("int")
    return sql.coalesce(sql.col("parsed.schema_version"), said)


def _payload() -> Column:
    return sql.try_to_binary("parsed.payload", sql.lit("base64"))


def _fault() -> Column:
    text, version = sql.col("line").cast("string"), sql.col("said_version")
    broken = sql.col("parsed").isNull() | sql.col(f"parsed.{CORRUPT}").isNotNull()
    strange = sql.concat(
        sql.lit("its schema version is "), version, sql.lit(f", and this is for version {SCHEMA_VERSION}")
    )
    return (
        sql.when(~sql.is_valid_utf8(text), "it is no UTF-8")
        .when(~_is_one_object(text), "it is not one JSON object")
        .when(version != SCHEMA_VERSION, strange)
        .when(broken, "a field has another type than it should")
        .when(version.isNull(), "it has no schema version")
        .when(~sql.coalesce(sql.col("parsed.type").isin(*TYPES), sql.lit(False)), "its type is not known")
        .when(timed(sql.col("parsed.timestamp")).isNull(), "its time cannot be read")
        .when(sql.coalesce("parsed.vhost", sql.lit("")) == "", "it has no virtual host")
        .when(_payload().isNull(), "its payload is no base64")
    )
