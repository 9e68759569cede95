"""The rows of a ledger as they are: from files, a database, a stream, a trace lake, or the reliability kit.

| kind      | needs                          | its columns                                                           |
|-----------|--------------------------------|-----------------------------------------------------------------------|
| `parquet` | `path`                         | those of the files                                                    |
| `csv`     | `path`                         | those of the header, all of them text                                 |
| `json`    | `path`                         | of objects, one a line: `schema`, or what is found, as text           |
| `jdbc`    | `url`, and `table` or `query`  | those of the database                                                 |
| `stream`  | `url`, `stream`                | `message`, and with `schema` those of the JSON body                   |
| `lake`    | `path`                         | those of traced events                                                |
| `outbox`  | `url`                          | of `client.ledgers.database`; `created_at` is its time                |
| `inbox`   | `url`, `consumer`              | the same; `received_at`                                               |

A path without a scheme is one of the file system, even if Spark's default is another. Text stays text, so that no
amount becomes a binary fraction; a decimal of the schema is read as text first, because Spark would round it. The body
of a stream's message is an object, or an array of them.

Invariant: nothing is dropped. An invalid line or body, or one that does not fit the schema, is a row with its text in
the column `CORRUPT`.

**Reliability kit.** Its tables are read by SQLAlchemy and written as Parquet for Spark, because Spark has no driver for
SQLite, and PostgreSQL's may be missing. The rows are one snapshot, and few of them are in memory at a time. An invalid
amount, or one that does not fit a ledger, makes only its own row unreadable.

**Streams.** Expired messages would be reported as missing, and sent again. A stream drops its oldest messages first. So
a day is complete if the stream has its very first message, or one that arrived before the day began; without a day,
everything is needed. The broker knows arrival times; a message's own time is not later. A reader begins where the
stream began at this check, so a message that expires before the read is an error of the reader, and not a gap.
`failOnDataLoss = 'false'` among the ledger's options compares what is left.

Not here: the meaning of columns (`reconcile.ledgers`), the rows of the kit that count (`client.ledgers.database`).
"""

import json
import os
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import DecimalType, StringType, StructField, StructType

from warren.pipeline.errors import PipelineError, sentence
from warren.pipeline.folder import Folder
from warren.pipeline.load.splitting import split_all
from warren.pipeline.reconcile.settings import LedgerSource, ReconcileLedger
from warren.pipeline.trace import lake
from warren.spark.options import StreamOptions, read_options
from warren.spark.stream_client import OffsetBounds, StreamOffsetReader

if TYPE_CHECKING:
    from sqlalchemy import Engine


OUTBOX: Final = "outbox"
INBOX: Final = "inbox"
TIME_COLUMNS: Final = {OUTBOX: "created_at", INBOX: "received_at"}
"""The time column by kind, for kinds whose description need not name it."""

IN_FLIGHT: Final = timedelta(minutes=1)
"""The default limit of a message in flight."""

CORRUPT: Final = "_corrupt_record"
AMOUNT: Final = "amount"
AMOUNT_LIMIT: Final = Decimal(10) ** 16
AMOUNT_PLACES: Final = Decimal("0.0001")
ROWS: Final = "rows.parquet"
MOMENT: Final = "timestamp"
SPARK_TYPES: Final = {"attempt": "int", "amount": "decimal(20,4)"} | dict.fromkeys(
    ("created_at", "sent_at", "done_at", "received_at"), MOMENT
)
ARROW_TYPES: Final = {
    "string": pa.string(),
    "int": pa.int32(),
    "decimal(20,4)": pa.decimal128(20, 4),
    MOMENT: pa.timestamp("us", "UTC"),
}


def empty_table_frame(spark: SparkSession, source: LedgerSource) -> DataFrame:
    """An empty frame; a `WarrenError` if the database or its tables are missing."""
    with _TableReader(source) as reading:
        reading.check()
        return spark.createDataFrame([], reading.schema)


def database_time(source: LedgerSource) -> datetime:
    """The time of the database's clock."""
    with _TableReader(source) as reading:
        return reading.moment()


def is_recent(since: datetime) -> Column:
    """Whether a row of an outbox was written, or sent last, after that."""
    return sql.greatest("created_at", "sent_at") > sql.lit(since)


def copied(spark: SparkSession, source: LedgerSource, folder: Folder) -> DataFrame:
    """All rows, copied to the folder."""
    with _TableReader(source) as reading:
        wrote = folder.write_parquet(ROWS, reading.arrow_schema, reading.pieces())
        frame = spark.read.schema(reading.schema).parquet(folder.uri)
    found = frame.count()
    if found != wrote:
        raise PipelineError(
            f"{wrote:,} rows were written to {folder}, and Spark finds {found:,} of them: "
            "give a folder that this machine and all of Spark's see alike"
        )
    return frame


class _TableReader:
    """One connection to the database."""

    def __init__(self, source: LedgerSource) -> None:
        try:
            from warren.client.ledgers import database
            from warren.client.ledgers.database import open_database
        except ModuleNotFoundError as error:
            raise PipelineError(
                f"an {source.kind} needs more packages: pip install 'warren[database]' ({error.name})"
            ) from None
        if source.url.startswith("jdbc:"):
            raise PipelineError(f"the url of an {source.kind} is like postgresql://USER@HOST/NAME, without jdbc:")
        self._engine: Engine = open_database(source.url, source.user, source.password, named="url")
        self._check = database.check_ledger
        self._moment = database.database_now
        own = database.OUTBOX_COLUMNS if source.kind == OUTBOX else database.INBOX_COLUMNS
        self._names = (*own, CORRUPT)
        self._amount_at = own.index(AMOUNT)
        self._rows: Callable[[], Iterator[list[tuple[Any, ...]]]] = (
            (lambda: database.outbox_rows(self._engine))
            if source.kind == OUTBOX
            else (lambda: database.inbox_rows(self._engine, source.consumer))
        )

    def __enter__(self) -> "_TableReader":
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.dispose()

    def check(self) -> None:
        self._check(self._engine)

    def moment(self) -> datetime:
        return self._moment(self._engine)

    @property
    def schema(self) -> str:
        return ", ".join(f"{name} {SPARK_TYPES.get(name, 'string')}" for name in self._names)

    @property
    def arrow_schema(self) -> Any:
        return pa.schema([(name, ARROW_TYPES[SPARK_TYPES.get(name, "string")]) for name in self._names])

    def pieces(self) -> Iterator[Any]:
        schema = self.arrow_schema
        for rows in self._rows():
            values = zip(*(self._checked(row) for row in rows), strict=True)
            arrays = [pa.array(each, field.type) for each, field in zip(values, schema, strict=True)]
            yield pa.Table.from_arrays(arrays, schema=schema)

    def _checked(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """With its amount as a number, or with the text of an invalid one."""
        at = self._amount_at
        amount = _exact_amount(row[at])
        corrupt = None if amount is not None or row[at] is None else str(row[at])
        return (*row[:at], amount, *row[at + 1 :], corrupt)


def _exact_amount(text: str | None) -> Decimal | None:
    try:
        amount = Decimal(text or "")
    except InvalidOperation:
        return None
    if not amount.is_finite() or abs(amount) >= AMOUNT_LIMIT:
        return None
    exact = amount.quantize(AMOUNT_PLACES)
    return exact if exact == amount else None


STARTING_OFFSETS = "startingOffsets"


def stream_options(source: LedgerSource, begins: datetime | None) -> dict[str, str]:
    """The options of a reader that leaves nothing out; a `PipelineError` if messages have expired."""
    given = {"url": source.url, "stream": source.stream, **source.options}
    options = read_options(given)
    assert isinstance(options, StreamOptions)
    if not options.fail_on_data_loss or (begins is None and options.starting_offsets is not None):
        return given
    places = StreamOffsetReader(options.broker, options.stream)
    try:
        bounds = places.bounds()
        _check_reaches_back(places, bounds, source.stream, begins)
    finally:
        places.close()
    if options.starting_offsets is None:
        given[STARTING_OFFSETS] = json.dumps({str(partition): here.first for partition, here in bounds.items()})
    return given


def _check_reaches_back(
    places: StreamOffsetReader, bounds: dict[int, OffsetBounds], stream: str, begins: datetime | None
) -> None:
    cut = [partition for partition, here in bounds.items() if here.first > 0]
    if cut and begins is not None:
        since = places.resolve(STARTING_OFFSETS, f"timestamp:{round(begins.timestamp() * 1000)}", bounds)
        cut = [partition for partition in cut if since[str(partition)] <= bounds[partition].first]
    if cut:
        what = f"offsets 0 to {bounds[cut[0]].first - 1} of partition {cut[0]} of stream {stream!r} have expired"
        needed = "all of it is compared" if begins is None else f"nothing is left from before {begins.isoformat()}"
        raise PipelineError(f"{what}, and {needed}; the option failOnDataLoss = 'false' compares what is left")


CORRUPT_COLUMN: Final = CORRUPT
MESSAGE: Final = "message"
NEEDED_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "parquet": ("path",),
    "csv": ("path",),
    "json": ("path",),
    "jdbc": ("url",),
    "stream": ("url", "stream"),
    "lake": ("path",),
    OUTBOX: ("url",),
    INBOX: ("url", "consumer"),
}
CHANGING_KINDS: Final = frozenset({"jdbc", "stream", OUTBOX, INBOX})
"""Sources that may change between two reads are read once and kept for the run."""

DIGITS_MAX: Final = 38


def read_ledger(spark: SparkSession, ledger: ReconcileLedger, begins: datetime | None) -> DataFrame:
    """A frame with known columns, not read yet; a `PipelineError` if it is unreadable or does not reach back."""
    try:
        frame = READERS[ledger.source.kind](spark, ledger.source, begins)
        frame.schema  # noqa: B018  through Connect nothing is looked at before
    except PipelineError as error:
        raise PipelineError(f"ledger {ledger.name}: {error}") from None
    except Exception as error:
        raise PipelineError(f"ledger {ledger.name} cannot be read: {sentence(error)}") from error
    return frame


def _parquet(spark: SparkSession, source: LedgerSource, _: datetime | None) -> DataFrame:
    return spark.read.options(**_options(source)).parquet(_uri(source.path))


def _csv(spark: SparkSession, source: LedgerSource, _: datetime | None) -> DataFrame:
    """Without `enforceSchema`, a file with a different header is refused and not read by position."""
    options = {"header": "true", "enforceSchema": "false"} | _options(source)
    header = spark.read.options(**options).csv(_uri(source.path)).columns
    schema = StructType()
    for name in (*header, CORRUPT_COLUMN):
        schema = schema.add(name, "string")
    return spark.read.options(columnNameOfCorruptRecord=CORRUPT_COLUMN, **options).schema(schema).csv(_uri(source.path))


def _json(spark: SparkSession, source: LedgerSource, _: datetime | None) -> DataFrame:
    reader = spark.read.options(**({"primitivesAsString": "true"} | _options(source)))
    schema = _columns(source.schema) if source.schema else reader.json(_uri(source.path)).schema
    if CORRUPT_COLUMN not in schema.names:
        schema = schema.add(CORRUPT_COLUMN, "string")
    lines = (
        reader.option("columnNameOfCorruptRecord", CORRUPT_COLUMN).schema(_with_text(schema)).json(_uri(source.path))
    )
    return _exact_decimals(lines, schema)


def _jdbc(spark: SparkSession, source: LedgerSource, _: datetime | None) -> DataFrame:
    if bool(source.table) == bool(source.query):
        raise PipelineError("a database is read by `table` or by `query`, one of them")
    # a time without a zone stays so, instead of getting this machine's zone
    reader = spark.read.format("jdbc").options(url=source.url, preferTimestampNTZ="true")
    reader = reader.option("dbtable", source.table) if source.table else reader.option("query", source.query)
    if source.user:
        reader = reader.option("user", source.user)
    if source.password:
        reader = reader.option("password", source.password)
    return reader.options(**_options(source)).load()


def _stream(spark: SparkSession, source: LedgerSource, begins: datetime | None) -> DataFrame:
    options = {"includeHeaders": "true"} | stream_options(source, begins)
    messages = spark.read.format("warren").options(**options).load()
    message = sql.struct(*(sql.col(name) for name in messages.columns if name != "body")).alias(MESSAGE)
    if not source.schema:
        return messages.select(message)
    schema = _columns(source.schema)
    text = sql.col("body").cast("string")
    is_object = sql.ltrim(text).startswith("{")
    array = sql.when(is_object, sql.concat(sql.lit("["), text, sql.lit("]"))).otherwise(text).alias("body")
    return _exact_decimals(split_all(messages.select(message, array), _with_text(schema), CORRUPT_COLUMN), schema)


def _lake(spark: SparkSession, source: LedgerSource, _: datetime | None) -> DataFrame:
    return lake.events(spark, Folder(source.path))


def _kit(spark: SparkSession, source: LedgerSource, _: datetime | None) -> DataFrame:
    return empty_table_frame(spark, source)


def _with_text(schema: StructType) -> StructType:
    """Text instead of decimals."""
    return StructType(
        [
            StructField(field.name, StringType()) if isinstance(field.dataType, DecimalType) else field
            for field in schema.fields
        ]
    )


def _exact_decimals(rows: DataFrame, schema: StructType) -> DataFrame:
    """Decimals from the text that was read; a number that does not fit the schema is corrupt."""
    corrupt, decimals = sql.col(CORRUPT_COLUMN), {}
    for field in schema.fields:
        kind = field.dataType
        if not isinstance(kind, DecimalType):
            continue
        text = sql.col(f"`{field.name}`")
        widest = DecimalType(DIGITS_MAX, DIGITS_MAX - (kind.precision - kind.scale))
        fits = sql.coalesce(text.try_cast(kind).cast(widest) == text.try_cast(widest), sql.lit(False))
        decimals[field.name] = sql.when(fits, text.try_cast(kind))
        corrupt = sql.coalesce(corrupt, sql.when(~fits, text))
    return rows.withColumns(decimals | {CORRUPT_COLUMN: corrupt})


def _uri(path: str) -> str:
    return path if "://" in path else f"file://{os.path.abspath(path)}"


def _columns(schema: str) -> StructType:
    found = StructType.fromDDL(schema)
    if not isinstance(found, StructType):
        raise PipelineError(f"schema {schema!r} names no columns; it is written like: id string, amount decimal(12,2)")
    return found


def _options(source: LedgerSource) -> dict[str, Any]:
    return dict(source.options)


READERS: Final = {
    "parquet": _parquet,
    "csv": _csv,
    "json": _json,
    "jdbc": _jdbc,
    "stream": _stream,
    "lake": _lake,
    OUTBOX: _kit,
    INBOX: _kit,
}
