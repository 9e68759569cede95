"""Comparing ledgers: suspect keys, then the status of each, as functions from DataFrames to DataFrames.

`suspects` groups all rows by key, and keeps of a key only a count, a few bits and two hashes of the compared values.
`compare_keys` groups the rows of the suspects, also of earlier days, and examines each ledger. Its result is the
result's table with two more columns for counting keys (`OF_THE_DAY`, `AUTHORITY_ROWS`). Keys that were never suspected
are not in it, but each of them is one row of the day in the authority; so their number is the authority's rows less
`AUTHORITY_ROWS`.

The status of a key is the first that applies, in the order of urgency. Each status presumes that none above it applies:
an unreadable row cannot be judged; where a ledger contradicts itself, it is unknown which of its rows counts; a missing
row cannot differ; and a repeated or late row matters only when all else is right.

Not here: reading and writing (`reconcile.job`).
"""

from collections.abc import Collection
from decimal import Decimal
from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from warren.pipeline.reconcile.settings import BusinessDay, ReconcileSettings

UNREADABLE: Final = "unreadable"
CONTRADICTING: Final = "contradicting"
UNEXPECTED: Final = "unexpected"
MISSING: Final = "missing"
DIFFERS: Final = "differs"
DUPLICATED: Final = "duplicated"
LATE: Final = "late"
BALANCED: Final = "balanced"

MEANINGS: Final[dict[str, str]] = {
    UNREADABLE: "A row has a key, an amount or a time that cannot be read.",
    CONTRADICTING: "A ledger has the key more than once, with different values.",
    UNEXPECTED: "The authority does not have the key, another ledger does.",
    MISSING: "The authority has the key, another ledger does not.",
    DIFFERS: "An amount differs from the authority's by more than the tolerance, or another compared column does.",
    DUPLICATED: "A ledger has the key more than once, each time with the same values.",
    LATE: "Everything is there and agrees; a ledger had it only after the day's end.",
    BALANCED: "Every ledger has the key once, and they agree.",
}
"""The meaning of each status, in order of precedence."""

PRECEDENCE: Final = tuple(MEANINGS)
IN_ORDER: Final = frozenset({LATE, BALANCED})
"""The statuses that need no action; all others are differences."""


def status_of(findings: Collection[str]) -> str:
    """The status of a key to which all these apply."""
    return next((status for status in PRECEDENCE if status in findings), BALANCED)


IN_DAY: Final = 1
DOUBTFUL: Final = 2
FIRST_LEDGER: Final = 4

OF_THE_DAY: Final = "of_the_day"
"""Whether the key belongs to this day (`BusinessDay`)."""
AUTHORITY_ROWS: Final = "authority_rows"
"""How many rows of the day the authority has of the key."""


def is_in_day(day: BusinessDay | None) -> Column:
    """Rows without a time belong to the day."""
    at = sql.col("at")
    return sql.lit(True) if day is None else at.isNull() | _between(at, day.begins, day.ends)


def suspects(rows: DataFrame, settings: ReconcileSettings) -> DataFrame:
    """The keys with a row in the day that are not plainly in balance; with `everything`, all keys with a row in it."""
    day = settings.business_day
    if day is not None:
        rows = rows.filter(sql.col("at").isNull() | _between(sql.col("at"), day.begins, day.closes))
    marks = (
        sql.when(is_in_day(day), IN_DAY)
        .otherwise(DOUBTFUL)
        .bitwiseOR(sql.when(sql.col("readable"), 0).otherwise(DOUBTFUL))
        .bitwiseOR(sql.expr(f"shiftleft({FIRST_LEDGER}, ledger)"))
    )
    found = (
        rows.select("key", marks.alias("marks"), _fingerprint(settings).alias("print"))
        .groupBy("key")
        .agg(
            sql.count(sql.lit(1)).alias("rows"),
            sql.bit_or("marks").alias("marks"),
            sql.min("print").alias("least"),
            sql.max("print").alias("most"),
        )
        .filter(sql.col("marks").bitwiseAND(IN_DAY) != 0)
    )
    count = len(settings.ledgers)
    complete = IN_DAY + FIRST_LEDGER * (2**count - 1)
    plain = (sql.col("rows") == count) & (sql.col("marks") == complete) & (sql.col("least") == sql.col("most"))
    return (found if settings.everything else found.filter(~plain)).select("key")


def compare_keys(rows: DataFrame, settings: ReconcileSettings) -> DataFrame:
    """One row for each key of these rows, which have a column `record`: its status, and its rows in each ledger."""
    day = settings.business_day
    if day is not None:
        rows = rows.filter(sql.col("at").isNull() | (sql.col("at") < sql.lit(day.closes)))
    numbers = range(len(settings.ledgers))
    aggregates = [each for number in numbers for each in _of_ledger(settings, number)]
    authority = sql.col("ledger") == settings.authority_index
    grouped = rows.groupBy("key").agg(
        *aggregates,
        sql.bool_and("readable").alias("readable"),
        sql.bool_or(is_in_day(day)).alias("in_day"),
        sql.bool_or(_is_fresh(day)).alias("fresh"),
        sql.count_if(authority & is_in_day(day)).alias(AUTHORITY_ROWS),
    )
    lists = _lists(settings, day)
    found = grouped.withColumns(lists).withColumn("status", _status(settings))
    return found.select(
        "key",
        "status",
        *lists,
        *(_ledger(settings, number).alias(settings.names[number]) for number in numbers),
        (sql.col("in_day") & _belongs(settings, day)).alias(OF_THE_DAY),
        AUTHORITY_ROWS,
    )


def _between(at: Column, begins: object, ends: object) -> Column:
    return (at >= sql.lit(begins)) & (at < sql.lit(ends))


def _fingerprint(settings: ReconcileSettings) -> Column:
    """Spark's hash skips nulls, so their positions are a part of it."""
    parts = [part for name in settings.values for part in (sql.col(name), sql.col(name).isNull())]
    return sql.xxhash64(*parts) if parts else sql.lit(0)


def _of_ledger(settings: ReconcileSettings, number: int) -> list[Column]:
    """The aggregates of one ledger's rows of a key: count, first time, least and greatest."""
    here = sql.col("ledger") == number
    values = [sql.col(name) for name in settings.values]
    least = sql.struct(*values, sql.col("at"), sql.col("record"))
    most = sql.struct(*values) if values else sql.struct(sql.lit(0).alias("nothing"))
    return [
        sql.count_if(here).alias(f"rows_{number}"),
        sql.min(sql.when(here, sql.col("at"))).alias(f"since_{number}"),
        sql.min(sql.when(here, least)).alias(f"least_{number}"),
        sql.max(sql.when(here, most)).alias(f"most_{number}"),
    ]


def _is_fresh(day: BusinessDay | None) -> Column:
    """Whether the row came after the grace of the day before."""
    return sql.lit(True) if day is None else sql.col("at").isNull() | _between(sql.col("at"), day.fresh, day.ends)


def _anchor(settings: ReconcileSettings) -> Column:
    """When the key began; null if unknown."""
    chosen = settings.authority_index
    times = [sql.col(f"since_{number}") for number in range(len(settings.ledgers))]
    return sql.when(sql.col(f"rows_{chosen}") > 0, times[chosen]).otherwise(sql.least(*times))


def _belongs(settings: ReconcileSettings, day: BusinessDay | None) -> Column:
    if day is None:
        return sql.lit(True)
    anchor = _anchor(settings)
    today = _between(anchor, day.begins, day.ends)
    # the day before counts rows in its grace only for the keys that began on it
    after_grace = (anchor < sql.lit(day.day_before)) | ((anchor < sql.lit(day.begins)) & sql.col("fresh"))
    return anchor.isNull() | today | after_grace


def _lists(settings: ReconcileSettings, day: BusinessDay | None) -> dict[str, Column]:
    """The columns that name the ledgers concerned."""
    numbers = range(len(settings.ledgers))
    lacks = {settings.names[number]: sql.col(f"rows_{number}") == 0 for number in numbers}
    repeats = {settings.names[number]: sql.col(f"rows_{number}") > 1 for number in numbers}
    late = {} if day is None else {settings.names[number]: _is_late(settings, day, number) for number in numbers}
    return {
        "missing": _named(lacks),
        "differing": _named(_differences(settings)),
        "duplicated": _named(repeats),
        "late": _named(late),
    }


def _named(conditions: dict[str, Column]) -> Column:
    if not conditions:
        return sql.array().cast("array<string>")
    return sql.array_compact(sql.array(*(sql.when(holds, name) for name, holds in conditions.items())))


def _is_late(settings: ReconcileSettings, day: BusinessDay, number: int) -> Column:
    cut = sql.when(_anchor(settings) < sql.lit(day.begins), sql.lit(day.begins)).otherwise(sql.lit(day.ends))
    return sql.col(f"since_{number}") >= cut


def _differences(settings: ReconcileSettings) -> dict[str, Column]:
    """The differences from the authority, where both have a row."""
    authority = settings.authority_index
    found: dict[str, Column] = {}
    for number, name in enumerate(settings.names):
        if number == authority:
            continue
        both = (sql.col(f"rows_{number}") > 0) & (sql.col(f"rows_{authority}") > 0)
        for value in settings.values:
            mine, theirs = sql.col(f"least_{number}.{value}"), sql.col(f"least_{authority}.{value}")
            differs = ~mine.eqNullSafe(theirs)
            if value in settings.amounts:
                differs &= ~_is_tolerated(mine, theirs, settings)
            found[f"{name}.{value}"] = both & differs
    return found


def _is_tolerated(mine: Column, theirs: Column, settings: ReconcileSettings) -> Column:
    """By one of the two tolerances; never if one has no amount."""
    gap = sql.abs(mine - theirs)
    allowed = [sql.lit(False)]
    if settings.tolerance:
        allowed.append(gap <= sql.lit(_plain(settings.tolerance)))
    if settings.relative:
        allowed.append(gap <= sql.abs(theirs) * sql.lit(_plain(settings.relative)))
    return sql.coalesce(reduce(or_, allowed), sql.lit(False))


def _plain(number: Decimal) -> Decimal:
    """Written without an exponent, from which Spark derives the number of digits."""
    return Decimal(f"{number:f}")


def _contradicts(settings: ReconcileSettings, number: int) -> Column:
    if not settings.values:
        return sql.lit(False)
    least = sql.struct(*(sql.col(f"least_{number}.{name}") for name in settings.values))
    return (sql.col(f"rows_{number}") > 1) & ~least.eqNullSafe(sql.col(f"most_{number}"))


def _status(settings: ReconcileSettings) -> Column:
    contradicting = reduce(or_, (_contradicts(settings, number) for number in range(len(settings.ledgers))))
    applies = {
        UNREADABLE: ~sql.col("readable"),
        CONTRADICTING: contradicting,
        UNEXPECTED: sql.col(f"rows_{settings.authority_index}") == 0,
        MISSING: sql.size("missing") > 0,
        DIFFERS: sql.size("differing") > 0,
        DUPLICATED: sql.size("duplicated") > 0,
        LATE: sql.size("late") > 0,
        BALANCED: sql.lit(True),
    }
    found = [sql.when(applies[status], sql.lit(status)) for status in PRECEDENCE]
    return sql.coalesce(*found)


def _ledger(settings: ReconcileSettings, number: int) -> Column:
    """The result's struct of one ledger."""
    least = f"least_{number}"
    fields = [sql.col(f"rows_{number}").alias("rows")]
    fields += [sql.col(f"{least}.{name}").alias(name) for name in (*settings.values, "at", "record")]
    if settings.values:
        fields.append(sql.when(_contradicts(settings, number), sql.col(f"most_{number}")).alias("other"))
    return sql.when(sql.col(f"rows_{number}") > 0, sql.struct(*fields))
