"""The sources of a trace, folders of trace files and a stream, and their records.

A record has the fields of `trace.events`, or a *fault*: why it cannot be an event.

**Lines.** Each line is exactly one record. A line is faulty if it is not UTF-8, not one JSON object, of an unknown
schema version, if a field has the wrong type, if its type or time is invalid, or its payload is not base64. Two objects
on one line are a fault, because a parser would take the first and skip the other.

**Firehose.** Copies come through a stream that is bound to `amq.rabbitmq.trace`. The routing key of a copy names the
event and where it happened, its headers have the rest (docs/tracing.md), and its body is the message's. The time of the
event is its arrival in the stream. Another message in the stream, or an incomplete copy, is a fault.

Not here: events (`trace.events`), reading the files (`trace.files`), reading streams (`warren.spark`).
"""

import hashlib
import os
import re
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from warren.client import ClientError as ClientErrorOfClient
from warren.client import blocking
from warren.client.errors import ClientError, UriError
from warren.client.uri import parse_uri
from warren.pipeline.errors import PipelineError
from warren.pipeline.trace import files
from warren.pipeline.trace.events import EVENT_TYPES, PROPERTIES, RECORD_COLUMNS, cast_columns, parse_time
from warren.pipeline.trace.files import TraceFiles
from warren.pipeline.trace.lake import SOURCE
from warren.spark.options import BrokerOptions
from warren.spark.stream_client import ReadError, StreamOffsetReader

SCHEMA_VERSION: Final = 1
CORRUPT_COLUMN: Final = "corrupt"
LINE_SCHEMA: Final = (
    "schema_version INT, timestamp STRING, type STRING, node STRING, connection STRING, vhost STRING, user STRING, "
    "channel INT, exchange STRING, queue STRING, routed_queues ARRAY<STRING>, routing_keys ARRAY<STRING>, "
    f"properties {PROPERTIES}, redelivered BOOLEAN, reason STRING, epoch INT, nodes ARRAY<STRING>, payload STRING, "
    f"{CORRUPT_COLUMN} STRING"
)


def line_records(lines: DataFrame, source: str) -> DataFrame:
    """One record for each line; `source` names the folder in event ids, if there are several."""
    text = sql.col("line").cast("string")
    readable = sql.when(sql.is_valid_utf8(text) & _is_one_object(text), text)
    parsed = lines.withColumn(
        "parsed",
        sql.from_json(readable, LINE_SCHEMA, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT_COLUMN}),
    ).withColumn("said_version", _version(text))
    fields = {name: sql.col(f"parsed.{name}") for name in ("node", "vhost", "exchange", "properties")}
    of_delivery = sql.col("parsed.type").isin("received", "acked", "rejected")
    known = parsed.select(
        sql.concat(sql.lit(_prefix(source)), sql.concat_ws("/", "trace", "piece", "byte")).alias("event_id"),
        "line",
        _line_fault().alias("fault"),
        parse_time(sql.col("parsed.timestamp")).alias("at"),
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
    return cast_columns(known, RECORD_COLUMNS)


def _prefix(source: str) -> str:
    return f"file:{source}/" if source else "file:"


def _is_one_object(text: Column) -> Column:
    """In brackets it is a list of one; otherwise something follows the first object."""
    list_of_one = sql.json_array_length(sql.concat(sql.lit("["), text, sql.lit("]"))) == 1
    return text.startswith("{") & text.endswith("}") & sql.coalesce(list_of_one, sql.lit(False))


def _version(text: Column) -> Column:
    """Also of an object that does not fit the schema, for example one of another version."""
    said = sql.when(sql.is_valid_utf8(text), sql.get_json_object(text, "$.schema_version")).try_cast("int")
    return sql.coalesce(sql.col("parsed.schema_version"), said)


def _payload() -> Column:
    return sql.try_to_binary("parsed.payload", sql.lit("base64"))


def _line_fault() -> Column:
    text, version = sql.col("line").cast("string"), sql.col("said_version")
    broken = sql.col("parsed").isNull() | sql.col(f"parsed.{CORRUPT_COLUMN}").isNotNull()
    strange = sql.concat(
        sql.lit("its schema version is "), version, sql.lit(f", and this is for version {SCHEMA_VERSION}")
    )
    return (
        sql.when(~sql.is_valid_utf8(text), "it is no UTF-8")
        .when(~_is_one_object(text), "it is not one JSON object")
        .when(version != SCHEMA_VERSION, strange)
        .when(broken, "a field has another type than it should")
        .when(version.isNull(), "it has no schema version")
        .when(~sql.coalesce(sql.col("parsed.type").isin(*EVENT_TYPES), sql.lit(False)), "its type is not known")
        .when(parse_time(sql.col("parsed.timestamp")).isNull(), "its time cannot be read")
        .when(sql.coalesce("parsed.vhost", sql.lit("")) == "", "it has no virtual host")
        .when(_payload().isNull(), "its payload is no base64")
    )


FIREHOSE_EXCHANGE: Final = "amq.rabbitmq.trace"
FIREHOSE_COLUMNS: Final = "partition,offset,timestamp,exchange,routing_key,headers,body"
"""The columns read from the stream."""

FIREHOSE_KINDS: Final = {
    "publish": "published",
    "deliver": "received",
    "confirm": "confirmed",
    "ack": "acked",
    "reject": "rejected",
    "dead": "dead_lettered",
}


def declare_firehose_stream(url: str, stream: str) -> None:
    """Create the stream and bind it to all copies of the Firehose; both may exist."""
    try:
        with blocking.connect(url, name="warren pipeline trace") as connection:
            channel = connection.channel()
            channel.declare_queue(stream, durable=True, arguments={"x-queue-type": "stream"})
            channel.bind_queue(stream, FIREHOSE_EXCHANGE, "#")
    except ClientErrorOfClient as error:
        raise PipelineError(str(error)) from None


def firehose_records(copies: DataFrame, stream: str) -> DataFrame:
    """One record for each message of the stream."""
    kind = sql.substring_index("routing_key", ".", 1)
    event_type = sql.create_map(*(sql.lit(word) for pair in FIREHOSE_KINDS.items() for word in pair))[kind]
    of_delivery = event_type.isin("received", "acked", "rejected")
    known = copies.select(
        sql.concat(sql.lit(f"stream:{stream}/"), sql.concat_ws("/", "partition", "offset")).alias("event_id"),
        _shown().alias("line"),
        _firehose_fault(event_type).alias("fault"),
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
    return cast_columns(known, RECORD_COLUMNS)


def _header(name: str) -> Column:
    return sql.col("headers")[name]


def _number(name: str) -> Column:
    return _header(name).try_cast("int")


def _names(name: str) -> Column:
    return sql.from_json(_header(name), "array<string>")


def _properties() -> Column:
    return sql.from_json(_header("properties"), PROPERTIES)


def _firehose_fault(event_type: Column) -> Column:
    return (
        sql.when((sql.col("exchange") != FIREHOSE_EXCHANGE) | event_type.isNull(), "it is no copy of the Firehose")
        .when(sql.coalesce(_header("vhost"), sql.lit("")) == "", "it has no virtual host")
        .when(_header("exchange_name").isNull(), "it does not say where it was published")
        .when(_names("routing_keys").isNull(), "it has no routing keys")
        .when(sql.get_json_object(_header("properties"), "$").isNull(), "its properties cannot be read")
    )


def _shown() -> Column:
    """A faulty message as a line of JSON, with the body in base64, to be kept."""
    whole = sql.struct("exchange", "routing_key", "timestamp", "headers", sql.base64("body").alias("body"))
    return sql.to_json(whole).cast("binary")


RECORDS_PER_TRIGGER: Final = 1_000_000
UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True)
class FileSource:
    """The trace files of one node: of all its traces, or of the named ones."""

    directory: str
    name: str = ""
    traces: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        return f"files-{self.name}" if self.name else "files"

    def facts(self) -> dict[str, Any]:
        return {"kind": "files in", "place": os.path.abspath(self.directory)}

    def check(self) -> None:
        if self.name and SOURCE.fullmatch(self.name) is None:
            raise PipelineError(f"a folder of trace files is named by letters, digits and . _ -, not {self.name!r}")
        if any("," in trace for trace in self.traces):
            raise PipelineError("a trace whose name has a comma in it cannot be chosen; read all of its folder")

    def prepare(self) -> None:
        """A `PipelineError` if the folder is missing."""
        files.traces_in(self.directory)

    def records(self, spark: SparkSession, allow_loss: bool) -> DataFrame:
        spark.dataSource.register(TraceFiles)
        reader = spark.readStream.format(TraceFiles.name()).option("directory", os.path.abspath(self.directory))
        if self.traces:
            reader = reader.option("traces", ",".join(self.traces))
        return line_records(reader.option("failOnDataLoss", str(not allow_loss).lower()).load(), self.name)


@dataclass(frozen=True)
class StreamSource:
    """A stream that is bound to the Firehose; `declare` creates it."""

    url: str = field(repr=False)
    stream: str
    declare: bool = False

    @property
    def source(self) -> str:
        clean = UNSAFE.sub("_", self.stream)
        if clean != self.stream:
            clean += "-" + hashlib.sha256(self.stream.encode()).hexdigest()[:8]
        return f"stream-{clean}"

    def facts(self) -> dict[str, Any]:
        return {"kind": "stream", "place": self.stream, "vhost": f"of virtual host {parse_uri(self.url).vhost}"}

    def check(self) -> None:
        if not self.stream:
            raise PipelineError("a stream has a name")
        try:
            parse_uri(self.url)
        except UriError as error:
            raise PipelineError(f"the broker's URL: {error}") from None

    def prepare(self) -> None:
        """A `PipelineError` if the stream is missing, or the broker is unreachable."""
        if self.declare:
            declare_firehose_stream(self.url, self.stream)
        places = StreamOffsetReader(BrokerOptions(self.url), self.stream)
        try:
            places.queues()
        except (ReadError, ClientError) as error:
            raise PipelineError(str(error)) from None
        finally:
            places.close()

    def records(self, spark: SparkSession, allow_loss: bool) -> DataFrame:
        copies = spark.readStream.format("warren").options(
            url=self.url,
            stream=self.stream,
            startingOffsets="earliest",
            columns=FIREHOSE_COLUMNS,
            maxRecordsPerTrigger=RECORDS_PER_TRIGGER,
            failOnDataLoss=str(not allow_loss).lower(),
        )
        return firehose_records(copies.load(), self.stream)


TraceSource = FileSource | StreamSource
