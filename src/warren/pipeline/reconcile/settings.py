"""The settings of a reconciliation: ledgers, compared values, tolerances and the business day; complete and checked.

Names of ledgers and of compared values become column names of the result, so they are plain words. A ledger's own
column or expression for a value is given apart.

Invariant: every mistake that can be found without reading a ledger is a `PipelineError` when the settings are made.

**A business day** is from midnight to midnight in its zone, with the time before it and the grace after it.

::

                    begins    fresh                              ends       closes
      … days before    │ grace  │                                  │  grace   │
      ─────────────────┴────────┴──────────────────────────────────┴──────────┘

A key belongs to the day of its anchor: its first row in the authority, or, without one, its first row anywhere. Its
rows in the other ledgers before `closes` belong to it, and are `late` if they came after `ends`. In the same way the
first rows of a day, before `fresh`, may belong to the day before: to a key whose anchor is in that day. A row after the
grace of its key's day was reported missing there; the day on which it comes counts it, a day later or a month. So no
row falls between two days, and for a key in doubt all earlier rows are examined. A key that is plainly in balance
within the day needs no earlier rows.

A day has 23 or 25 hours when clocks change; the zone knows.

Not here: the file (`reconcile.describing`), whether a ledger has its columns (`reconcile.ledgers`), the comparison
(`reconcile.comparison`).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from warren.pipeline.errors import PipelineError

GRACE_MAX: Final = timedelta(hours=23)
UNITS_S: Final = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True)
class BusinessDay:
    """Its moments, in UTC, and the moment at which the day before began."""

    day_before: datetime
    begins: datetime
    fresh: datetime
    ends: datetime
    closes: datetime


def business_day(day: date, zone: str, grace: timedelta) -> BusinessDay:
    day_before, begins, ends = (_midnight(day + timedelta(days=shift), zone) for shift in (-1, 0, 1))
    return BusinessDay(day_before, begins, begins + grace, ends, ends + grace)


def check_zone(zone: str, whose: str) -> None:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise PipelineError(
            f"{whose} is in zone {zone!r}, which is unknown; zones are named like Europe/Berlin"
        ) from None


def parse_day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise PipelineError(f"a day is written like 2026-11-15, not {text!r}") from None


def parse_grace(text: str) -> timedelta:
    """`90m`, `6h`; none is `0`."""
    found = re.fullmatch(r"(\d+)([smh])", text)
    if found is None and text != "0":
        raise PipelineError(f"a grace is a number with s, m or h, like 6h, not {text!r}")
    grace = timedelta(seconds=int(found[1]) * UNITS_S[found[2]]) if found else timedelta()
    if grace > GRACE_MAX:
        raise PipelineError(f"a grace of {text} is too long: at most {GRACE_MAX // timedelta(hours=1)}h")
    return grace


def _midnight(day: date, zone: str) -> datetime:
    return datetime.combine(day, time(), ZoneInfo(zone)).astimezone(UTC)


NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
RESERVED: Final = frozenset(
    {"key", "status", "missing", "differing", "duplicated", "late"}  # columns of the result
    | {"rows", "at", "record", "other"}  # fields of a ledger in it
    | {"ledger", "readable", "raw"}  # columns of a row while it is compared
)
LEDGERS_MAX: Final = 16
TOLERANCE_DIGITS_MAX: Final = 18
RELATIVE_DIGITS_MAX: Final = 9


@dataclass(frozen=True)
class LedgerSource:
    """The source of a ledger's rows; which fields apply depends on `kind`."""

    kind: str
    path: str = ""
    url: str = field(default="", repr=False)
    table: str = ""
    query: str = ""
    stream: str = ""
    consumer: str = ""
    schema: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ReconcileLedger:
    """`columns` maps a compared name to a column or an expression; the default is the column of that name."""

    name: str
    source: LedgerSource
    columns: Mapping[str, str] = field(default_factory=dict)
    time: str = ""
    zone: str = "UTC"
    where: str = ""
    may_be_empty: bool = False
    in_flight: timedelta = timedelta()
    """Of an outbox: how long a message may be in flight before its absence elsewhere counts."""

    def expression(self, name: str) -> str:
        return self.columns.get(name, name)


@dataclass(frozen=True)
class ReconcileSettings:
    """One run; with `everything` the result also has the keys in balance."""

    ledgers: tuple[ReconcileLedger, ...]
    key: tuple[str, ...]
    authority: str
    amounts: tuple[str, ...] = ()
    compared: tuple[str, ...] = ()
    day: date | None = None
    zone: str = "UTC"
    grace: timedelta = timedelta()
    tolerance: Decimal = Decimal(0)
    relative: Decimal = Decimal(0)
    everything: bool = False

    def __post_init__(self) -> None:
        _check_names(self)
        _check_columns(self)
        _check_tolerances(self)
        _check_times(self)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(ledger.name for ledger in self.ledgers)

    @property
    def values(self) -> tuple[str, ...]:
        """The values that must agree."""
        return (*self.amounts, *self.compared)

    @property
    def authority_index(self) -> int:
        return self.names.index(self.authority)

    @property
    def business_day(self) -> BusinessDay | None:
        return None if self.day is None else business_day(self.day, self.zone, self.grace)


def _check_names(settings: ReconcileSettings) -> None:
    if not 2 <= len(settings.ledgers) <= LEDGERS_MAX:
        raise PipelineError(f"there must be 2 to {LEDGERS_MAX} ledgers, not {len(settings.ledgers)}")
    if not settings.key:
        raise PipelineError("there must be a key column by which rows of the ledgers belong together")
    _check_words("ledger", settings.names, RESERVED)
    _check_words("column", settings.values, RESERVED)
    repeated_key = {name for name in settings.key if settings.key.count(name) > 1}
    if repeated_key:
        raise PipelineError(f"key column {min(repeated_key)} is named twice")
    if settings.authority not in settings.names:
        raise PipelineError(
            f"the authority {settings.authority!r} is no ledger; they are {_comma_separated(settings.names)}"
        )


def _check_words(what: str, names: Sequence[str], reserved: frozenset[str]) -> None:
    for name in names:
        if NAME.fullmatch(name) is None:
            raise PipelineError(
                f"{what} {name!r} must be named in small letters, digits and underscores; "
                "`columns` says what a ledger calls it"
            )
        if name in reserved:
            raise PipelineError(f"{what} {name} cannot be called that: the result has a column of that name")
        if names.count(name) > 1:
            raise PipelineError(f"{what} {name} is named twice")


def _check_columns(settings: ReconcileSettings) -> None:
    known = (*settings.key, *settings.values)
    for ledger in settings.ledgers:
        for name in ledger.columns:
            if name not in known:
                raise PipelineError(
                    f"ledger {ledger.name} says what {name} is, but only {_comma_separated(known)} are compared"
                )


def _check_tolerances(settings: ReconcileSettings) -> None:
    for what, value, digits in (
        ("tolerance", settings.tolerance, TOLERANCE_DIGITS_MAX),
        ("relative tolerance", settings.relative, RELATIVE_DIGITS_MAX),
    ):
        if not value.is_finite() or value < 0:
            raise PipelineError(f"the {what} is {value}; it must be a number and not negative")
        exponent = value.as_tuple().exponent
        if isinstance(exponent, int) and -exponent > digits:
            raise PipelineError(f"the {what} {value} has more than {digits} digits behind the point")
        if value and not settings.amounts:
            raise PipelineError(f"there is a {what}, but no amount to compare")
    if settings.relative > 1:
        raise PipelineError(f"the relative tolerance is {settings.relative}; it is a part of the amount, at most 1")
    if settings.tolerance >= Decimal(10) ** TOLERANCE_DIGITS_MAX:
        raise PipelineError(f"the tolerance {settings.tolerance} is too large")


def _check_times(settings: ReconcileSettings) -> None:
    check_zone(settings.zone, "the business day")
    for ledger in settings.ledgers:
        check_zone(ledger.zone, f"ledger {ledger.name}")
    if settings.day is not None and not any(ledger.time for ledger in settings.ledgers):
        raise PipelineError("there is a day, but no ledger says which column is its time")
    if settings.grace and settings.day is None:
        raise PipelineError("there is a grace, but no day that it comes after")


def _comma_separated(names: Sequence[str]) -> str:
    return ", ".join(names)
