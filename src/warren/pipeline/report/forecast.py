"""What comes next, if it goes on as it has: messages and bytes a day, the busiest hour, and when a limit is reached.

Only whole days count: a trace that begins at noon has half of its first day, and half a day is no small day. The first
and the last day count if the trace begins within the first hour of the one and ends within the last of the other. Days
between them on which nothing was published count as nothing.

A line needs a week of them. With fewer there is no forecast, and the page says so.

Not here: the line (`trend`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from warren.pipeline.html.quantities import many, rounded, size
from warren.pipeline.report.flows import DAY_S, HOUR_S
from warren.pipeline.report.trend import Trend, fit

FEWEST_DAYS: Final = 7
AHEAD_DAYS: Final = 30
FARTHEST_DAYS: Final = 366
EPOCH: Final = date(1970, 1, 1)


@dataclass(frozen=True)
class Day:
    """What was published on one day; `number` is days since 1970, `busiest` the messages of its busiest hour."""

    number: int
    messages: int
    bytes: int
    busiest: int

    @property
    def date(self) -> date:
        return EPOCH + timedelta(days=self.number)


@dataclass(frozen=True)
class Reach:
    """In how many days from the last whole one a limit is reached: by the line, and between which of 95 %.

    None is later than a year from then.
    """

    expected: int | None
    earliest: int | None
    latest: int | None


@dataclass(frozen=True)
class Foretold:
    """A sentence on a limit, and whether it may be reached within a year."""

    text: str
    is_near: bool


def whole_days(days: Sequence[Day], first_s: int, last_s: int) -> list[Day]:
    """The days that the trace has whole, from the first to the last, the empty ones filled in."""
    begin = first_s // DAY_S + (0 if first_s % DAY_S < HOUR_S else 1)
    end = last_s // DAY_S - (0 if last_s % DAY_S >= DAY_S - HOUR_S else 1)
    known = {day.number: day for day in days}
    return [known.get(number, Day(number, 0, 0, 0)) for number in range(begin, end + 1)]


def trend_of(days: Sequence[Day], of: Callable[[Day], float]) -> Trend | None:
    """None if there are too few days."""
    return fit([of(day) for day in days]) if len(days) >= FEWEST_DAYS else None


def reached(trend: Trend, limit: float) -> Reach:
    """When a single day comes up to the limit."""
    return Reach(
        _first(trend, lambda day: trend.at(day) >= limit),
        _first(trend, lambda day: trend.at(day) + trend.day_margin(day) >= limit),
        _first(trend, lambda day: trend.at(day) - trend.day_margin(day) >= limit),
    )


def used_up(trend: Trend, room: float) -> Reach:
    """When all days to come have filled the room. Days add up, and their ups and downs cancel: the line's margin."""
    return Reach(
        _first_sum(trend, room, trend.at),
        _first_sum(trend, room, lambda day: trend.at(day) + trend.line_margin(day)),
        _first_sum(trend, room, lambda day: trend.at(day) - trend.line_margin(day)),
    )


def growth_sentence(trend: Trend, what: str, shown: Callable[[float], str]) -> str:
    """By how much it grows from one day to the next, and whether that can be told from chance."""
    after = f"after {many(trend.days, 'whole day')}"
    low, high = trend.slope - trend.slope_margin, trend.slope + trend.slope_margin
    if not trend.slope and not trend.scatter:
        return f"The {what} are the same every day, {after}."
    if not trend.is_clear:
        return (
            f"No growth of the {what} can be told from chance: from one day to the next they change by "
            f"{_signed(low, shown)} to {_signed(high, shown)} (95 %), {after}."
        )
    verb = "grow" if trend.slope > 0 else "shrink"
    least, most = sorted((abs(low), abs(high)))
    by = f"{shown(abs(trend.slope))} from one day to the next"
    return f"The {what} {verb} by {by} (95 %: {shown(least)} to {shown(most)}), {after}."


def too_few(days: Sequence[Day]) -> str:
    """Why there is no forecast."""
    return f"A trend needs at least {FEWEST_DAYS} whole days, and these events have {len(days)}: no forecast is made."


def of_rate(trend: Trend, days: Sequence[Day], rate: float) -> Foretold:
    """When the busiest hour of a day has this many messages a second."""
    limit = f"{rounded(rate)} messages a second"
    over = [day for day in days if day.busiest >= rate * HOUR_S]
    if over:
        return Foretold(f"The busiest hour reached {limit} already on {over[0].date}.", is_near=True)
    reach = reached(trend, rate * HOUR_S)
    return Foretold(f"The busiest hour reaches {limit} {_when(reach, days[-1].date)}", reach.earliest is not None)


def of_disk(trend: Trend, days: Sequence[Day], room_bytes: int) -> Foretold:
    """When the payloads to come have filled a disk, if all of them are kept."""
    reach = used_up(trend, room_bytes)
    text = f"If everything that is published is kept, {size(room_bytes)} are full {_when(reach, days[-1].date)}"
    return Foretold(text, reach.earliest is not None)


def _when(reach: Reach, last: date) -> str:
    never = f"not within a year of {last}"
    if reach.earliest is None:
        return f"{never}, by the trend and for 95 % of what may come."
    expected = never if reach.expected is None else f"on {last + timedelta(days=reach.expected)}"
    begin = last + timedelta(days=reach.earliest)
    end = "more than a year later" if reach.latest is None else str(last + timedelta(days=reach.latest))
    return f"{expected} by the trend; between {begin} and {end} for 95 % of what may come."


def _first(trend: Trend, holds: Callable[[int], bool]) -> int | None:
    return next((ahead for ahead in range(1, FARTHEST_DAYS + 1) if holds(trend.days - 1 + ahead)), None)


def _first_sum(trend: Trend, room: float, of_day: Callable[[int], float]) -> int | None:
    filled = 0.0
    for ahead in range(1, FARTHEST_DAYS + 1):
        filled = math.fsum((filled, max(0.0, of_day(trend.days - 1 + ahead))))
        if filled >= room:
            return ahead
    return None


def _signed(value: float, shown: Callable[[float], str]) -> str:
    return f"{'−' if value < 0 else '+'}{shown(abs(value))}"
