"""The rows of a ledger as they are: from files, a database, a stream or a trace lake.

| kind      | needs                          | its columns                                                           |
|-----------|--------------------------------|-----------------------------------------------------------------------|
| `parquet` | `path`                         | those of the files                                                    |
| `csv`     | `path`                         | those of the header, all of them text                                 |
| `json`    | `path`                         | of objects, one a line: `schema`, or what is found, as text           |
| `jdbc`    | `url`, and `table` or `query`  | those of the database                                                 |
| `stream`  | `url`, `stream`                | `message`, and with `schema` what the JSON in the body has            |
| `lake`    | `path`                         | those of traced events                                                |

Text stays text, so that no amount goes through a binary fraction. A body of a stream may be an array of objects.

Invariant: nothing is dropped. A line or a body that makes no sense is a row whose column `CORRUPT` has its text.

Not here: which of the columns mean what (`reconcile.ledgers`).
"""

from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from warren.pipeline.errors import PipelineError, sentence
from warren.pipeline.folder import Folder
from warren.pipeline.reconcile.settings import Ledger, Source
from warren.pipeline.trace import lake

CORRUPT: Final = "_corrupt_record"
MESSAGE: Final = "message"
NEEDS: Final[dict[str, tuple[str, ...]]] = {
    "parquet": ("path",),
    "csv": ("path",),
    "json": ("path",),
    "jdbc": ("url",),
    "stream": ("url", "stream"),
    "lake": ("path",),
}
MOVING: Final = frozenset({"jdbc", "stream"})
"""Somebody may add to these between two reads, so they are read once and kept for the run."""


def raw(spark: SparkSession, ledger: Ledger) -> DataFrame:
    """Unread as yet, but its columns are known; a `PipelineError` if it cannot be read."""
    try:
        frame = READERS[ledger.source.kind](spark, ledger.source)
        frame.schema  # noqa: B018  through Connect nothing is looked at before
    except PipelineError as error:
        raise PipelineError(f"ledger {ledger.name}: {error}") from None
    except Exception as error:
        raise PipelineError(f"ledger {ledger.name} cannot be read: {sentence(error)}") from error
    return frame


def _parquet(spark: SparkSession, source: Source) -> DataFrame:
    return spark.read.options(**_options(source)).parquet(source.path)


def _csv(spark: SparkSession, source: Source) -> DataFrame:
    """Without `enforceSchema`, a file whose header differs is refused and not read by position."""
    options = {"header": "true", "enforceSchema": "false"} | _options(source)
    header = spark.read.options(**options).csv(source.path).columns
    schema = StructType()
    for name in (*header, CORRUPT):
        schema = schema.add(name, "string")
    return spark.read.options(columnNameOfCorruptRecord=CORRUPT, **options).schema(schema).csv(source.path)


def _json(spark: SparkSession, source: Source) -> DataFrame:
    reader = spark.read.options(**({"primitivesAsString": "true"} | _options(source)))
    schema = _columns(source.schema) if source.schema else reader.json(source.path).schema
    if CORRUPT not in schema.names:
        schema = schema.add(CORRUPT, "string")
    return reader.option("columnNameOfCorruptRecord", CORRUPT).schema(schema).json(source.path)


def _jdbc(spark: SparkSession, source: Source) -> DataFrame:
    if bool(source.table) == bool(source.query):
        raise PipelineError("a database is read by `table` or by `query`, one of them")
    reader = spark.read.format("jdbc").option("url", source.url)
    reader = reader.option("dbtable", source.table) if source.table else reader.option("query", source.query)
    if source.user:
        reader = reader.option("user", source.user)
    if source.password:
        reader = reader.option("password", source.password)
    return reader.options(**_options(source)).load()


def _stream(spark: SparkSession, source: Source) -> DataFrame:
    options = {"includeHeaders": "true"} | _options(source)
    messages = spark.read.format("warren").options(url=source.url, stream=source.stream, **options).load()
    message = sql.struct(*(sql.col(name) for name in messages.columns if name != "body")).alias(MESSAGE)
    if not source.schema:
        return messages.select(message)
    schema = _columns(source.schema)
    text = sql.col("body").cast("string")
    records = sql.from_json(text, f"array<{schema.simpleString()}>", {"mode": "PERMISSIVE"})
    each = messages.select(message, text.alias(CORRUPT), sql.explode_outer(records).alias("record"))
    corrupt = sql.when(sql.col("record").isNull(), sql.col(CORRUPT)).alias(CORRUPT)
    return each.select(MESSAGE, *(sql.col(f"record.`{name}`") for name in schema.names), corrupt)


def _lake(spark: SparkSession, source: Source) -> DataFrame:
    return lake.events(spark, Folder(source.path))


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
}
