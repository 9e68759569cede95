"""A business day: from midnight to midnight in its zone, with what was before it and the grace after it.

::

                    begins    fresh                              ends       closes
      … days before    │ grace  │                                  │  grace   │
      ─────────────────┴────────┴──────────────────────────────────┴──────────┘

A key belongs to the day of its anchor: its first row in the authority, or, if that has none, its first row anywhere.
What the other ledgers have of it before `closes` is part of it, and `late` if it came after `ends`. In the same way the
first rows of a day may belong to the day before. What comes after the grace of its day was called missing there; it is
seen by the day on which it comes (`fresh`), a day later or a month. So no row falls between two days, and of a key that
the day leaves in doubt all earlier rows are looked at. One that is plainly in balance within the day has no past.

A day has 23 or 25 hours when clocks are changed; the zone knows.

Not here: comparing (`reconcile.comparing`).
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from warren.pipeline.errors import PipelineError

GRACE_MAX: Final = timedelta(hours=23)
UNITS_S: Final = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True)
class BusinessDay:
    """The four moments, in UTC."""

    begins: datetime
    fresh: datetime
    ends: datetime
    closes: datetime


def business_day(day: date, zone: str, grace: timedelta) -> BusinessDay:
    begins, ends = (_midnight(day + timedelta(days=shift), zone) for shift in (0, 1))
    return BusinessDay(begins, begins + grace, ends, ends + grace)


def check_zone(zone: str, whose: str) -> None:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise PipelineError(
            f"{whose} is in zone {zone!r}, which nobody knows; zones are named like Europe/Berlin"
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
