"""Ledgers that are tables of the reliability kit: an outbox, or what one consumer has in its inbox.

They are read here, by SQLAlchemy, and written as Parquet for Spark: SQLite has no driver that Spark could use, and
PostgreSQL's need not be there. What is read is one moment of the table, and few rows of it are in memory at a time. An
amount that is no number, or has no room in a ledger, makes its own row unreadable and no other.

Not here: which rows count (`client.ledgers.reading`).
"""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import Folder
from warren.pipeline.reconcile.settings import Source

if TYPE_CHECKING:
    from sqlalchemy import Engine

OUTBOX: Final = "outbox"
INBOX: Final = "inbox"
TIMES: Final = {OUTBOX: "created_at", INBOX: "received_at"}
"""The column that says when, by kind; also those of which no description has to say so."""

IN_FLIGHT: Final = timedelta(minutes=1)
"""How long a message may be on its way, unless somebody says otherwise."""

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


def columns(spark: SparkSession, source: Source) -> DataFrame:
    """No rows as yet; a `WarrenError` if the database is not there, or its tables are not."""
    with _Reading(source) as reading:
        reading.check()
        return spark.createDataFrame([], reading.schema)


def moment(source: Source) -> datetime:
    """What time it is, by the database's clock."""
    with _Reading(source) as reading:
        return reading.moment()


def is_fresh(since: datetime) -> Column:
    """Whether a row of an outbox was written, or sent last, after that."""
    return sql.greatest("created_at", "sent_at") > sql.lit(since)


def copied(spark: SparkSession, source: Source, folder: Folder) -> DataFrame:
    """All rows, which are in the folder from now on."""
    with _Reading(source) as reading:
        wrote = folder.write_parquet(ROWS, reading.arrow_schema, reading.pieces())
        frame = spark.read.schema(reading.schema).parquet(folder.uri)
    found = frame.count()
    if found != wrote:
        raise PipelineError(
            f"{wrote:,} rows were written to {folder}, and Spark finds {found:,} of them: "
            "give a folder that this machine and all of Spark's see alike"
        )
    return frame


class _Reading:
    """One look at the database."""

    def __init__(self, source: Source) -> None:
        try:
            from warren.client.ledgers import reading
            from warren.client.ledgers.database import open_database
        except ModuleNotFoundError as error:
            raise PipelineError(
                f"an {source.kind} needs more packages: pip install 'warren[database]' ({error.name})"
            ) from None
        if source.url.startswith("jdbc:"):
            raise PipelineError(f"the url of an {source.kind} is like postgresql://USER@HOST/NAME, without jdbc:")
        self._engine: Engine = open_database(source.url, source.user, source.password, named="url")
        self._check = reading.check_ledger
        self._moment = reading.moment
        own = reading.OUTBOX_COLUMNS if source.kind == OUTBOX else reading.INBOX_COLUMNS
        self._names = (*own, CORRUPT)
        self._amount_at = own.index(AMOUNT)
        self._rows: Callable[[], Iterator[list[tuple[Any, ...]]]] = (
            (lambda: reading.outbox_rows(self._engine))
            if source.kind == OUTBOX
            else (lambda: reading.inbox_rows(self._engine, source.consumer))
        )

    def __enter__(self) -> "_Reading":
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
        """With its amount as a number, or with the text of one that is none, or has no room in a ledger."""
        at = self._amount_at
        amount = _exact(row[at])
        corrupt = None if amount is not None or row[at] is None else str(row[at])
        return (*row[:at], amount, *row[at + 1 :], corrupt)


def _exact(text: str | None) -> Decimal | None:
    try:
        amount = Decimal(text or "")
    except InvalidOperation:
        return None
    if not amount.is_finite() or abs(amount) >= AMOUNT_LIMIT:
        return None
    exact = amount.quantize(AMOUNT_PLACES)
    return exact if exact == amount else None
