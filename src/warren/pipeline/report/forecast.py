"""A forecast from the past days: messages and bytes a day, the busiest hour, and when a limit is reached.

Only whole days count. The first and the last day count if the trace begins within the first hour of the one and ends
within the last hour of the other. Days between them without publishes count as zero. A forecast needs a week of days;
with fewer the page says why there is none.

**Trend.** Least squares through one number a day: `intercept + slope * day`. It has two margins of 95 %, both from
Student's t with two degrees of freedom less than there are days: that of the line itself, which is about the mean of
many days, and the wider one of a single day. Both grow with the distance into the future.

Not here: the page (`report.outlook`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from warren.pipeline.html.quantities import many, rounded, size
from warren.pipeline.report.flows import DAY_S, HOUR_S

# t at 97.5 % for 1 to 30 degrees of freedom
_STUDENT: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_NORMAL: Final = 1.95996


@dataclass(frozen=True)
class Trend:
    """The line; day 0 is the first day of its data."""

    days: int
    slope: float
    intercept: float
    scatter: float  # of the days about the line
    middle: float  # the mean of the days' numbers
    spread: float  # the sum of the squares of their distances from it

    def at(self, day: float) -> float:
        return self.intercept + self.slope * day

    def line_margin(self, day: float) -> float:
        """How far the mean of days like this one may be from the line."""
        return self._margin(self._leverage(day))

    def day_margin(self, day: float) -> float:
        """How far a single day may be from the line."""
        return self._margin(1 + self._leverage(day))

    @property
    def slope_margin(self) -> float:
        return self._margin(1 / self.spread)

    @property
    def is_clear(self) -> bool:
        """Whether growth or decline is statistically significant."""
        return abs(self.slope) > self.slope_margin

    def _leverage(self, day: float) -> float:
        return 1 / self.days + (day - self.middle) ** 2 / self.spread

    def _margin(self, variance: float) -> float:
        return student_quantile(self.days - 2) * self.scatter * math.sqrt(variance)


def fit_trend(values: Sequence[float]) -> Trend:
    """The line through a number for each day, in order; at least three of them."""
    days = len(values)
    middle = (days - 1) / 2
    mean = math.fsum(values) / days
    spread = math.fsum((day - middle) ** 2 for day in range(days))
    slope = math.fsum((day - middle) * (value - mean) for day, value in enumerate(values)) / spread
    intercept = mean - slope * middle
    errors = math.fsum((value - intercept - slope * day) ** 2 for day, value in enumerate(values))
    return Trend(days, slope, intercept, math.sqrt(errors / (days - 2)), middle, spread)


def student_quantile(freedom: int) -> float:
    """The quantile of 97.5 %: 95 % lie within it on both sides."""
    if freedom <= len(_STUDENT):
        return _STUDENT[freedom - 1]
    z = _NORMAL
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


FEWEST_DAYS: Final = 7
AHEAD_DAYS: Final = 30
FARTHEST_DAYS: Final = 366
EPOCH: Final = date(1970, 1, 1)


@dataclass(frozen=True)
class DailyTotals:
    """The publishes of one day; `number` is days since 1970, `busiest` the messages of its busiest hour."""

    number: int
    messages: int
    bytes: int
    busiest: int

    @property
    def date(self) -> date:
        return EPOCH + timedelta(days=self.number)


@dataclass(frozen=True)
class DaysToLimit:
    """In how many days from the last whole one a limit is reached: by the line, and the bounds of 95 %.

    None means later than a year.
    """

    expected: int | None
    earliest: int | None
    latest: int | None


@dataclass(frozen=True)
class LimitForecast:
    """A sentence on a limit, and whether it may be reached within a year."""

    text: str
    is_near: bool


def whole_days(days: Sequence[DailyTotals], first_s: int, last_s: int) -> list[DailyTotals]:
    """The whole days of the trace, from the first to the last, with empty days filled in."""
    begin = first_s // DAY_S + (0 if first_s % DAY_S < HOUR_S else 1)
    end = last_s // DAY_S - (0 if last_s % DAY_S >= DAY_S - HOUR_S else 1)
    known = {day.number: day for day in days}
    return [known.get(number, DailyTotals(number, 0, 0, 0)) for number in range(begin, end + 1)]


def trend_of(days: Sequence[DailyTotals], of: Callable[[DailyTotals], float]) -> Trend | None:
    """None if there are too few days."""
    return fit_trend([of(day) for day in days]) if len(days) >= FEWEST_DAYS else None


def days_to_daily_limit(trend: Trend, limit: float) -> DaysToLimit:
    """When a single day reaches the limit."""
    return DaysToLimit(
        _first(trend, lambda day: trend.at(day) >= limit),
        _first(trend, lambda day: trend.at(day) + trend.day_margin(day) >= limit),
        _first(trend, lambda day: trend.at(day) - trend.day_margin(day) >= limit),
    )


def days_to_total_limit(trend: Trend, room: float) -> DaysToLimit:
    """When all coming days have filled the room. The variation of days cancels, so the line's margin applies."""
    return DaysToLimit(
        _first_sum(trend, room, trend.at),
        _first_sum(trend, room, lambda day: trend.at(day) + trend.line_margin(day)),
        _first_sum(trend, room, lambda day: trend.at(day) - trend.line_margin(day)),
    )


def growth_sentence(trend: Trend, what: str, shown: Callable[[float], str]) -> str:
    """The growth from one day to the next, and whether it is significant."""
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


def too_few_days(days: Sequence[DailyTotals]) -> str:
    """Why there is no forecast."""
    return f"A trend needs at least {FEWEST_DAYS} whole days, and these events have {len(days)}: no forecast is made."


def forecast_rate(trend: Trend, days: Sequence[DailyTotals], rate: float) -> LimitForecast:
    """When the busiest hour of a day has this many messages a second."""
    limit = f"{rounded(rate)} messages a second"
    over = [day for day in days if day.busiest >= rate * HOUR_S]
    if over:
        return LimitForecast(f"The busiest hour reached {limit} already on {over[0].date}.", is_near=True)
    reach = days_to_daily_limit(trend, rate * HOUR_S)
    return LimitForecast(f"The busiest hour reaches {limit} {_when(reach, days[-1].date)}", reach.earliest is not None)


def forecast_disk(trend: Trend, days: Sequence[DailyTotals], room_bytes: int) -> LimitForecast:
    """When the coming payloads have filled a disk, if all of them are kept."""
    reach = days_to_total_limit(trend, room_bytes)
    text = f"If everything that is published is kept, {size(room_bytes)} are full {_when(reach, days[-1].date)}"
    return LimitForecast(text, reach.earliest is not None)


def _when(reach: DaysToLimit, last: date) -> str:
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
