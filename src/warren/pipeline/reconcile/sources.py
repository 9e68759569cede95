"""The rows of a ledger as they are: from files, a database, a stream, a trace lake, or the reliability kit.

| kind      | needs                          | its columns                                                           |
|-----------|--------------------------------|-----------------------------------------------------------------------|
| `parquet` | `path`                         | those of the files                                                    |
| `csv`     | `path`                         | those of the header, all of them text                                 |
| `json`    | `path`                         | of objects, one a line: `schema`, or what is found, as text           |
| `jdbc`    | `url`, and `table` or `query`  | those of the database                                                 |
| `stream`  | `url`, `stream`                | `message`, and with `schema` what the JSON in the body has            |
| `lake`    | `path`                         | those of traced events                                                |
| `outbox`  | `url`                          | of `client.ledgers.reading`; `created_at` is its time                 |
| `inbox`   | `url`, `consumer`              | the same; `received_at`                                               |

A path without a scheme is one of the file system, whatever Spark would take it for. Text stays text, so that no amount
goes through a binary fraction; and what the schema calls a decimal is read as text first, because Spark would round it.
A body of a stream is an object, or an array of them.

Invariant: nothing is dropped. A line or a body that makes no sense, or is not what the schema says, is a row whose
column `CORRUPT` has its text.

Not here: which of the columns mean what (`reconcile.ledgers`).
"""

import os
from datetime import datetime
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import DecimalType, StringType, StructField, StructType

from warren.pipeline.errors import PipelineError, sentence
from warren.pipeline.folder import Folder
from warren.pipeline.load.splitting import split_all
from warren.pipeline.reconcile import kit
from warren.pipeline.reconcile.retention import stream_options
from warren.pipeline.reconcile.settings import Ledger, Source
from warren.pipeline.trace import lake

CORRUPT: Final = kit.CORRUPT
MESSAGE: Final = "message"
NEEDS: Final[dict[str, tuple[str, ...]]] = {
    "parquet": ("path",),
    "csv": ("path",),
    "json": ("path",),
    "jdbc": ("url",),
    "stream": ("url", "stream"),
    "lake": ("path",),
    kit.OUTBOX: ("url",),
    kit.INBOX: ("url", "consumer"),
}
MOVING: Final = frozenset({"jdbc", "stream", kit.OUTBOX, kit.INBOX})
"""Somebody may add to these between two reads, so they are read once and kept for the run."""

DIGITS_MAX: Final = 38


def raw(spark: SparkSession, ledger: Ledger, begins: datetime | None) -> DataFrame:
    """Unread as yet, but its columns are known; a `PipelineError` if it cannot be read, or not from the day's begin."""
    try:
        frame = READERS[ledger.source.kind](spark, ledger.source, begins)
        frame.schema  # noqa: B018  through Connect nothing is looked at before
    except PipelineError as error:
        raise PipelineError(f"ledger {ledger.name}: {error}") from None
    except Exception as error:
        raise PipelineError(f"ledger {ledger.name} cannot be read: {sentence(error)}") from error
    return frame


def _parquet(spark: SparkSession, source: Source, _: datetime | None) -> DataFrame:
    return spark.read.options(**_options(source)).parquet(_uri(source.path))


def _csv(spark: SparkSession, source: Source, _: datetime | None) -> DataFrame:
    """Without `enforceSchema`, a file whose header differs is refused and not read by position."""
    options = {"header": "true", "enforceSchema": "false"} | _options(source)
    header = spark.read.options(**options).csv(_uri(source.path)).columns
    schema = StructType()
    for name in (*header, CORRUPT):
        schema = schema.add(name, "string")
    return spark.read.options(columnNameOfCorruptRecord=CORRUPT, **options).schema(schema).csv(_uri(source.path))


def _json(spark: SparkSession, source: Source, _: datetime | None) -> DataFrame:
    reader = spark.read.options(**({"primitivesAsString": "true"} | _options(source)))
    schema = _columns(source.schema) if source.schema else reader.json(_uri(source.path)).schema
    if CORRUPT not in schema.names:
        schema = schema.add(CORRUPT, "string")
    lines = reader.option("columnNameOfCorruptRecord", CORRUPT).schema(_with_text(schema)).json(_uri(source.path))
    return _exact(lines, schema)


def _jdbc(spark: SparkSession, source: Source, _: datetime | None) -> DataFrame:
    if bool(source.table) == bool(source.query):
        raise PipelineError("a database is read by `table` or by `query`, one of them")
    # a time without a zone comes as it is, and not as if it were one of this machine's
    reader = spark.read.format("jdbc").options(url=source.url, preferTimestampNTZ="true")
    reader = reader.option("dbtable", source.table) if source.table else reader.option("query", source.query)
    if source.user:
        reader = reader.option("user", source.user)
    if source.password:
        reader = reader.option("password", source.password)
    return reader.options(**_options(source)).load()


def _stream(spark: SparkSession, source: Source, begins: datetime | None) -> DataFrame:
    options = {"includeHeaders": "true"} | stream_options(source, begins)
    messages = spark.read.format("warren").options(**options).load()
    message = sql.struct(*(sql.col(name) for name in messages.columns if name != "body")).alias(MESSAGE)
    if not source.schema:
        return messages.select(message)
    schema = _columns(source.schema)
    text = sql.col("body").cast("string")
    is_object = sql.ltrim(text).startswith("{")
    array = sql.when(is_object, sql.concat(sql.lit("["), text, sql.lit("]"))).otherwise(text).alias("body")
    return _exact(split_all(messages.select(message, array), _with_text(schema), CORRUPT), schema)


def _lake(spark: SparkSession, source: Source, _: datetime | None) -> DataFrame:
    return lake.events(spark, Folder(source.path))


def _kit(spark: SparkSession, source: Source, _: datetime | None) -> DataFrame:
    return kit.columns(spark, source)


def _with_text(schema: StructType) -> StructType:
    """Text in place of decimals."""
    return StructType(
        [
            StructField(field.name, StringType()) if isinstance(field.dataType, DecimalType) else field
            for field in schema.fields
        ]
    )


def _exact(rows: DataFrame, schema: StructType) -> DataFrame:
    """The decimals of the text that was read; a number that the schema has no room for is not what it says."""
    corrupt, decimals = sql.col(CORRUPT), {}
    for field in schema.fields:
        kind = field.dataType
        if not isinstance(kind, DecimalType):
            continue
        text = sql.col(f"`{field.name}`")
        widest = DecimalType(DIGITS_MAX, DIGITS_MAX - (kind.precision - kind.scale))
        fits = sql.coalesce(text.try_cast(kind).cast(widest) == text.try_cast(widest), sql.lit(False))
        decimals[field.name] = sql.when(fits, text.try_cast(kind))
        corrupt = sql.coalesce(corrupt, sql.when(~fits, text))
    return rows.withColumns(decimals | {CORRUPT: corrupt})


def _uri(path: str) -> str:
    return path if "://" in path else f"file://{os.path.abspath(path)}"


def _columns(schema: str) -> StructType:
    found = StructType.fromDDL(schema)
    if not isinstance(found, StructType):
        raise PipelineError(f"schema {schema!r} names no columns; it is written like: id string, amount decimal(12,2)")
    return found


def _options(source: Source) -> dict[str, Any]:
    return dict(source.options)


READERS: Final = {
    "parquet": _parquet,
    "csv": _csv,
    "json": _json,
    "jdbc": _jdbc,
    "stream": _stream,
    "lake": _lake,
    kit.OUTBOX: _kit,
    kit.INBOX: _kit,
}
