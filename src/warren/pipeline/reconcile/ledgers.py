"""Rows of every ledger in one shape, and messages in flight between an outbox and its receivers.

| column             | type      |                                                                            |
|--------------------|-----------|----------------------------------------------------------------------------|
| `key`              | string    | the business id; several parts as a JSON array; null if a part is          |
| `ledger`           | int       | its number                                                                 |
| `at`               | timestamp | when, in UTC; null for a ledger without times                              |
| `readable`         | boolean   | whether key, amounts and time are valid                                    |
| each amount        | decimal   | of one type for all ledgers, which holds the digits of each                |
| each compared one  | string    |                                                                            |

Integers and decimals are never rounded: the type is a decimal with room for all of them. Text and binary fractions (as
printed) have 18 digits after the point, or fewer if another ledger needs more before it.

A time without a zone is in the ledger's zone. Nothing here depends on this machine's clock; Spark's session has to be
in UTC, as `pipeline.session` starts it.

**In flight.**

    a moment ──▶ all ledgers but outboxes are read ──▶ outboxes are read ──▶ keys in flight are left out of all

A message is in the outbox before any receiver has it. So if the outbox is read last, it has everything that the others
have. A message that is only in the outbox may be in flight if it is fresh: written or sent within the outbox's limit,
counted back from before the others were read.

Not here: reading rows (`reconcile.sources`), the comparison (`reconcile.comparison`).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from warren.client.errors import ClientError
from warren.pipeline.errors import PipelineError, sentence
from warren.pipeline.reconcile import sources
from warren.pipeline.reconcile.settings import ReconcileLedger, ReconcileSettings
from warren.pipeline.reconcile.sources import CORRUPT_COLUMN, MESSAGE, read_ledger

DIGITS_MAX: Final = 37
"""One less than Spark has, so that a difference is exact too."""

WHOLE_DIGITS: Final[dict[type[DataType], int]] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
AS_TEXT: Final = (StringType, FloatType, DoubleType)
TEXT_DIGITS: Final = (19, 18)
"""Before and after the point; fewer after it if other ledgers need more before it."""
KEY_TYPES: Final = (StringType, ByteType, ShortType, IntegerType, LongType, DateType)
COMPARED_TYPES: Final = (*KEY_TYPES, BooleanType, DecimalType, FloatType, DoubleType, TimestampType, TimestampNTZType)
TIME_TYPES: Final = (StringType, DateType, TimestampType, TimestampNTZType)
UTC: Final = frozenset({"UTC", "Etc/UTC", "Z"})
PLAIN: Final = re.compile(r"\w+")
WITH_ZONE: Final = r"\d:\d[\d:.]*\s*[^\s\d:.]"
"""A non-digit after the time of day: Z, +01:00, UTC, Europe/Berlin. The end of a date is no offset."""


@dataclass(frozen=True)
class OpenLedger:
    """A readable ledger with all compared columns; `types` are those of its expressions."""

    ledger: ReconcileLedger
    number: int
    frame: DataFrame
    types: dict[str, DataType]


def open_ledgers(spark: SparkSession, settings: ReconcileSettings) -> list[OpenLedger]:
    """Every ledger; a `PipelineError` about the first that is unreadable or lacks a column."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    if zone not in UTC:
        raise PipelineError(f"Spark's session is in zone {zone}, and must be in UTC: spark.sql.session.timeZone")
    found = [_open_ledger(spark, settings, number, ledger) for number, ledger in enumerate(settings.ledgers)]
    for amount in settings.amounts:
        amount_type(found, amount)
    return found


def kept(ledger: OpenLedger, frame: DataFrame) -> OpenLedger:
    """The ledger, read from its kept rows."""
    return replace(ledger, frame=frame)


def kept_whole(ledger: OpenLedger, frame: DataFrame) -> OpenLedger:
    """The same for rows before its filter."""
    described = ledger.ledger
    return replace(ledger, frame=_filtered(frame, described) if described.where else frame)


def amount_type(ledgers: list[OpenLedger], amount: str) -> DecimalType:
    """The decimal with room for this amount of every ledger."""
    kinds = [ledger.types[amount] for ledger in ledgers]
    digits = [_digits(kind) for kind in kinds]
    whole, behind = max(each[0] for each in digits), max(each[1] for each in digits)
    if any(isinstance(kind, AS_TEXT) for kind in kinds):
        behind = max(behind, min(TEXT_DIGITS[1], DIGITS_MAX - whole))
    if whole + behind > DIGITS_MAX:
        raise PipelineError(
            f"amount {amount} would need {whole + behind} digits to hold that of every ledger; {DIGITS_MAX} is the most"
        )
    return DecimalType(whole + behind, behind)


def rows(
    settings: ReconcileSettings, ledgers: list[OpenLedger], ledger: OpenLedger, with_raw: bool = False
) -> DataFrame:
    """The ledger's rows in the common shape; `raw` is the ledger's whole row."""
    described, types = ledger.ledger, ledger.types
    frame = ledger.frame
    key = key_of(settings, ledger)
    columns = [key.alias("key"), sql.lit(ledger.number).alias("ledger")]
    # in a file that is not UTF-8, Spark replaces bytes by U+FFFD, and different keys may become one
    readable = key.isNotNull() & ~key.contains("\ufffd") & sql.is_valid_utf8(key)
    if described.time:
        at = instant_of(_column(described.time, frame), types["at"], described.zone)
        columns.append(at.alias("at"))
        readable &= at.isNotNull()
    else:
        columns.append(sql.lit(None).cast("timestamp").alias("at"))
    for name in settings.amounts:
        given = _column(described.expression(name), frame)
        amount = _amount(given, types[name], amount_type(ledgers, name))
        columns.append(amount.alias(name))
        readable &= given.isNull() | amount.isNotNull()
    columns += [_column(described.expression(name), frame).cast("string").alias(name) for name in settings.compared]
    if CORRUPT_COLUMN in frame.columns:
        readable &= sql.col(CORRUPT_COLUMN).isNull()
    columns.append(readable.alias("readable"))
    if with_raw:
        columns.append(_raw(frame).alias("raw"))
    return frame.select(*columns)


def key_of(settings: ReconcileSettings, ledger: OpenLedger) -> Column:
    """The key of a row in the ledger's own frame."""
    described, frame = ledger.ledger, ledger.frame
    return _key([_column(described.expression(name), frame).cast("string") for name in settings.key])


def instant_of(given: Column, kind: DataType, zone: str) -> Column:
    """In UTC; a time of day without a date is null, though Spark would take today's."""
    if isinstance(kind, TimestampType):
        return given
    written = given.try_cast("timestamp_ntz")
    in_zone = sql.to_utc_timestamp(written.cast("timestamp"), zone)
    if not isinstance(kind, StringType):
        return in_zone
    has_zone = written.isNotNull() & given.rlike(WITH_ZONE)
    return sql.when(has_zone, given.try_cast("timestamp")).otherwise(in_zone)


def _open_ledger(spark: SparkSession, settings: ReconcileSettings, number: int, ledger: ReconcileLedger) -> OpenLedger:
    day = settings.business_day
    frame = read_ledger(spark, ledger, None if day is None else day.begins)
    if ledger.where:
        frame = _filtered(frame, ledger)
    types: dict[str, DataType] = {}
    for name in settings.key:
        types[name] = _typed(frame, ledger, name, ledger.expression(name), KEY_TYPES, "a key")
    for name in settings.amounts:
        known = (DecimalType, *AS_TEXT, *WHOLE_DIGITS)
        types[name] = _typed(frame, ledger, name, ledger.expression(name), known, "an amount")
    for name in settings.compared:
        types[name] = _typed(frame, ledger, name, ledger.expression(name), COMPARED_TYPES, "compared")
    if ledger.time:
        types["at"] = _typed(frame, ledger, "time", ledger.time, TIME_TYPES, "a time")
    return OpenLedger(ledger, number, frame, types)


def _filtered(frame: DataFrame, ledger: ReconcileLedger) -> DataFrame:
    """Unreadable rows stay, even if the filter drops rows with nulls."""
    _typed(frame, ledger, "where", ledger.where, (BooleanType,), "a filter")
    chosen = _column(ledger.where, frame)
    return frame.filter(chosen | sql.col(CORRUPT_COLUMN).isNotNull() if CORRUPT_COLUMN in frame.columns else chosen)


def _typed(
    frame: DataFrame,
    ledger: ReconcileLedger,
    name: str,
    expression: str,
    allowed: tuple[type[DataType], ...],
    role: str,
) -> DataType:
    """The type of `name` in this ledger, if it exists and is allowed."""
    if PLAIN.fullmatch(expression) and expression not in frame.columns:
        has = ", ".join(each for each in frame.columns if each != CORRUPT_COLUMN)
        raise PipelineError(f"ledger {ledger.name} has no column {expression}; it has {has}")
    try:
        kind = frame.select(_column(expression, frame)).schema[0].dataType
    except Exception as error:
        raise PipelineError(f"ledger {ledger.name}: {name} is {expression!r}, but: {sentence(error)}") from error
    if isinstance(kind, allowed) or (role == "a key" and isinstance(kind, DecimalType) and not kind.scale):
        return kind
    raise PipelineError(f"ledger {ledger.name}: {expression} is of type {kind.simpleString()}, which cannot be {role}")


def _column(expression: str, frame: DataFrame) -> Column:
    return sql.col(f"`{expression}`") if expression in frame.columns else sql.expr(expression)


def _key(parts: list[Column]) -> Column:
    if len(parts) == 1:
        return parts[0]
    there = parts[0].isNotNull()
    for part in parts[1:]:
        there &= part.isNotNull()
    return sql.when(there, sql.to_json(sql.array(*parts)))


def _digits(kind: DataType) -> tuple[int, int]:
    """Digits before and after the point."""
    if isinstance(kind, DecimalType):
        return kind.precision - kind.scale, kind.scale
    return (TEXT_DIGITS[0], 0) if isinstance(kind, AS_TEXT) else (WHOLE_DIGITS[type(kind)], 0)


def _amount(given: Column, kind: DataType, wanted: DecimalType) -> Column:
    """Binary fractions as printed: 0.1 is a tenth. An invalid number is null."""
    return given.cast("string").try_cast(wanted) if isinstance(kind, AS_TEXT) else given.cast(wanted)


def _raw(frame: DataFrame) -> Column:
    """The record without the message that contained it."""
    names = [name for name in frame.columns if name != CORRUPT_COLUMN]
    own = [name for name in names if name != MESSAGE] or names
    return sql.struct(*(sql.col(f"`{name}`") for name in own))


def database_times(settings: ReconcileSettings) -> dict[str, datetime]:
    """The current time of each table's database; a `PipelineError` if the compared day is not over there."""
    found = {}
    for ledger in settings.ledgers:
        if ledger.source.kind not in sources.TIME_COLUMNS:
            continue
        try:
            found[ledger.name] = sources.database_time(ledger.source)
        except ClientError as error:
            raise PipelineError(f"ledger {ledger.name}: {error}") from None
        day = settings.business_day
        if day is not None and day.closes > found[ledger.name]:
            raise PipelineError(
                f"{settings.day} is not over, with its grace, before {day.closes:%Y-%m-%d %H:%M:%S} UTC, and what is "
                f"on its way to or from ledger {ledger.name} until then would be a difference"
            )
    return found


def is_read_last(ledger: OpenLedger) -> bool:
    return ledger.ledger.source.kind == sources.OUTBOX


def without_in_flight(
    settings: ReconcileSettings,
    opened: list[OpenLedger],
    at: Mapping[str, datetime],
    stored: Callable[[DataFrame], DataFrame],
) -> tuple[list[OpenLedger], int]:
    """The ledgers without keys in flight, and how many those are; they are `stored` once."""
    flying = [
        _keys_in_flight(settings, opened, each, at) for each in opened if is_read_last(each) and each.ledger.in_flight
    ]
    if not flying:
        return opened, 0
    keys = stored(reduce(DataFrame.union, flying).distinct())
    count = keys.count()
    if not count:
        return opened, 0
    without = [
        replace(each, frame=each.frame.join(keys, key_of(settings, each) == sql.col(IN_FLIGHT_KEY), "left_anti"))
        for each in opened
    ]
    return without, count


IN_FLIGHT_KEY = "key in flight"


def _keys_in_flight(
    settings: ReconcileSettings, opened: list[OpenLedger], outbox: OpenLedger, at: Mapping[str, datetime]
) -> DataFrame:
    """Keys of fresh rows that one of the other ledgers lacks."""
    since = at[outbox.ledger.name] - outbox.ledger.in_flight
    fresh = outbox.frame.filter(sources.is_recent(since)).select(key_of(settings, outbox).alias(IN_FLIGHT_KEY))
    lacking = [
        fresh.join(
            each.frame.select(key_of(settings, each).alias("key")),
            sql.col(IN_FLIGHT_KEY) == sql.col("key"),
            "left_anti",
        )
        for each in opened
        if each is not outbox
    ]
    return reduce(DataFrame.union, lacking)
