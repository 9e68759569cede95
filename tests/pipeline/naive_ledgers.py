"""A naive reconciliation: a list of entries, one key at a time.

The tests compare Spark's findings with it. It follows the documentation of `reconcile.days` and `reconcile.statuses`,
and shares no code with the job.
"""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from warren.pipeline.reconcile.comparison import status_of
from warren.pipeline.reconcile.settings import ReconcileSettings


@dataclass(frozen=True)
class Entry:
    """One row of a ledger, by its number."""

    ledger: int
    key: str | None
    at: datetime | None
    amount: Decimal | None
    currency: str | None
    readable: bool


@dataclass(frozen=True)
class Verdict:
    status: str
    missing: tuple[str, ...]
    differing: tuple[str, ...]
    duplicated: tuple[str, ...]
    late: tuple[str, ...]


def verdicts(entries: list[Entry], settings: ReconcileSettings) -> dict[str | None, Verdict]:
    """Of every key of the day."""
    found = {}
    for key in {entry.key for entry in entries}:
        seen = [entry for entry in entries if entry.key == key and is_seen(entry, settings)]
        of_today = [entry for entry in seen if not is_past(entry, settings)]
        if is_plain(of_today, settings):
            seen = of_today
        if belongs(seen, settings):
            found[key] = _verdict(seen, settings)
    return found


def is_seen(entry: Entry, settings: ReconcileSettings) -> bool:
    day = settings.business_day
    return day is None or entry.at is None or entry.at < day.closes


def is_past(entry: Entry, settings: ReconcileSettings) -> bool:
    day = settings.business_day
    return day is not None and entry.at is not None and entry.at < day.begins


def is_plain(entries: list[Entry], settings: ReconcileSettings) -> bool:
    """True if every ledger has one such row, all of the day and equal, so that earlier rows do not matter."""
    day = settings.business_day
    whole = all(entry.readable and (day is None or entry.at is None or entry.at < day.ends) for entry in entries)
    alike = len({(entry.amount, entry.currency) for entry in entries}) == 1
    return sorted(entry.ledger for entry in entries) == list(range(len(settings.ledgers))) and whole and alike


def belongs(seen: list[Entry], settings: ReconcileSettings) -> bool:
    """Whether the key is one of the day."""
    day = settings.business_day
    if day is None:
        return True
    if not any(entry.at is None or day.begins <= entry.at < day.ends for entry in seen):
        return False
    anchor = _anchor(seen, settings)
    if anchor is None or day.begins <= anchor < day.ends:
        return True
    fresh = any(entry.at is None or day.fresh <= entry.at < day.ends for entry in seen)
    return anchor < day.day_before or (anchor < day.begins and fresh)


def _anchor(seen: list[Entry], settings: ReconcileSettings) -> datetime | None:
    of_authority = [entry for entry in seen if entry.ledger == settings.authority_index]
    times = [entry.at for entry in of_authority or seen if entry.at is not None]
    return min(times) if times else None


def _verdict(seen: list[Entry], settings: ReconcileSettings) -> Verdict:
    of = {name: [entry for entry in seen if entry.ledger == number] for number, name in enumerate(settings.names)}
    values = {name: {(entry.amount, entry.currency) for entry in rows} for name, rows in of.items()}
    missing = tuple(name for name, rows in of.items() if not rows)
    duplicated = tuple(name for name, rows in of.items() if len(rows) > 1)
    differing = tuple(_differing(of, settings))
    late = tuple(name for name, rows in of.items() if _is_late(rows, _anchor(seen, settings), settings))
    applies = {
        "unreadable": not all(entry.readable for entry in seen),
        "contradicting": any(len(each) > 1 for each in values.values()),
        "unexpected": settings.authority in missing,
        "missing": bool(missing),
        "differs": bool(differing),
        "duplicated": bool(duplicated),
        "late": bool(late),
    }
    status = status_of([name for name, holds in applies.items() if holds])
    return Verdict(status, missing, differing, duplicated, late)


def _differing(of: dict[str, list[Entry]], settings: ReconcileSettings) -> list[str]:
    """By the least row of each, where a ledger has several."""
    rows = {name: min(entries, key=_order) for name, entries in of.items() if entries}
    if settings.authority not in rows:
        return []
    right = rows[settings.authority]
    found = []
    for name, entry in rows.items():
        if not _tolerated(entry.amount, right.amount, settings):
            found.append(f"{name}.amount")
        if entry.currency != right.currency:
            found.append(f"{name}.currency")
    return found


def _order(entry: Entry) -> tuple[object, ...]:
    return (
        (entry.amount is not None, entry.amount or Decimal(0)),
        (entry.currency is not None, entry.currency or ""),
    )


def _tolerated(mine: Decimal | None, right: Decimal | None, settings: ReconcileSettings) -> bool:
    if mine is None or right is None:
        return mine is right
    return abs(mine - right) <= max(settings.tolerance, settings.relative * abs(right))


def _is_late(rows: list[Entry], anchor: datetime | None, settings: ReconcileSettings) -> bool:
    day = settings.business_day
    times = [entry.at for entry in rows if entry.at is not None]
    if day is None or not times:
        return False
    cut = day.begins if anchor is not None and anchor < day.begins else day.ends
    return min(times) >= cut
