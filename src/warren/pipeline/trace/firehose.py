"""Copies of the Firehose, as they come through a stream that is bound to `amq.rabbitmq.trace`, made into records.

A copy's routing key says what befell the message and where, its headers the rest (docs/tracing.md); its body is the
message's. When it arrived in the stream is the time of the event. Anything else that somebody published to the stream,
and a copy without what every copy has, is a fault.

Not here: reading the stream (`warren.spark`), lines of files (`trace.lines`).
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from warren.client import ClientError, blocking
from warren.pipeline.errors import PipelineError
from warren.pipeline.trace.records import PROPERTIES, RECORD, typed

EXCHANGE: Final = "amq.rabbitmq.trace"
COLUMNS: Final = "partition,offset,timestamp,exchange,routing_key,headers,body"
"""What is read of the stream."""

KINDS: Final = {
    "publish": "published",
    "deliver": "received",
    "confirm": "confirmed",
    "ack": "acked",
    "reject": "rejected",
    "dead": "dead_lettered",
}


def declare(url: str, stream: str) -> None:
    """Make the stream and bind it to everything that the Firehose copies; both may be there already."""
    try:
        with blocking.connect(url, name="warren pipeline trace") as connection:
            channel = connection.channel()
            channel.declare_queue(stream, durable=True, arguments={"x-queue-type": "stream"})
            channel.bind_queue(stream, EXCHANGE, "#")
    except ClientError as error:
        raise PipelineError(str(error)) from None


def records(copies: DataFrame, stream: str) -> DataFrame:
    """One for each message of the stream."""
    kind = sql.substring_index("routing_key", ".", 1)
    event_type = sql.create_map(*(sql.lit(word) for pair in KINDS.items() for word in pair))[kind]
    of_delivery = event_type.isin("received", "acked", "rejected")
    known = copies.select(
        sql.concat(sql.lit(f"stream:{stream}/"), sql.concat_ws("/", "partition", "offset")).alias("event_id"),
        _shown().alias("line"),
        _fault(event_type).alias("fault"),
        sql.col("timestamp").alias("at"),
        event_type.alias("type"),
        *(_header(name).alias(name) for name in ("node", "connection", "vhost", "user", "reason")),
        _number("channel").alias("channel"),
        _header("exchange_name").alias("exchange"),
        sql.when(event_type != "published", sql.expr("substring(routing_key, instr(routing_key, '.') + 1)")).alias(
            "queue"
        ),
        *(_names(name).alias(name) for name in ("routed_queues", "routing_keys", "nodes")),
        _properties().alias("properties"),
        sql.when(of_delivery, sql.coalesce(_number("redelivered") != 0, sql.lit(False))).alias("redelivered"),
        sql.when(event_type == "confirmed", _number("epoch")).alias("epoch"),
        sql.col("body").alias("payload"),
    )
    return typed(known, RECORD)


def _header(name: str) -> Column:
    return sql.col("headers")[name]


def _number(name: str) -> Column:
    return _header(name).try_cast("int")


def _names(name: str) -> Column:
    return sql.from_json(_header(name), "array<string>")


def _properties() -> Column:
    return sql.from_json(_header("properties"), PROPERTIES)


def _fault(event_type: Column) -> Column:
    return (
        sql.when((sql.col("exchange") != EXCHANGE) | event_type.isNull(), "it is no copy of the Firehose")
        .when(sql.coalesce(_header("vhost"), sql.lit("")) == "", "it has no virtual host")
        .when(_header("exchange_name").isNull(), "it does not say where it was published")
        .when(_names("routing_keys").isNull(), "it has no routing keys")
        .when(sql.get_json_object(_header("properties"), "$").isNull(), "its properties cannot be read")
    )


def _shown() -> Column:
    """What is kept of a faulty one: a line of JSON, with the body in base64."""
    whole = sql.struct("exchange", "routing_key", "timestamp", "headers", sql.base64("body").alias("body"))
    return sql.to_json(whole).cast("binary")
