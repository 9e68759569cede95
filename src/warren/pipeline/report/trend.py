"""A straight line through one number a day, and how far it can be trusted.

Least squares: the line that is nearest to the days, `intercept + slope * day`. Two margins of 95 % go with it, both
from Student's t with two degrees of freedom less than there are days: that of the line itself, which is about the mean
of many days, and the wider one of a single day, which also varies by itself. Both grow the farther one looks ahead.

Not here: what the numbers mean (`forecast`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

# t at 97.5 % for 1 to 30 degrees of freedom
_STUDENT: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_NORMAL: Final = 1.95996


@dataclass(frozen=True)
class Trend:
    """The line; day 0 is the first day that it was laid through."""

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
        """Whether growth or decline can be told from chance."""
        return abs(self.slope) > self.slope_margin

    def _leverage(self, day: float) -> float:
        return 1 / self.days + (day - self.middle) ** 2 / self.spread

    def _margin(self, variance: float) -> float:
        return student(self.days - 2) * self.scatter * math.sqrt(variance)


def fit(values: Sequence[float]) -> Trend:
    """The line through a number for each day, in order; at least three of them."""
    days = len(values)
    middle = (days - 1) / 2
    mean = math.fsum(values) / days
    spread = math.fsum((day - middle) ** 2 for day in range(days))
    slope = math.fsum((day - middle) * (value - mean) for day, value in enumerate(values)) / spread
    intercept = mean - slope * middle
    errors = math.fsum((value - intercept - slope * day) ** 2 for day, value in enumerate(values))
    return Trend(days, slope, intercept, math.sqrt(errors / (days - 2)), middle, spread)


def student(freedom: int) -> float:
    """The quantile of 97.5 %: 95 % lie within it on both sides."""
    if freedom <= len(_STUDENT):
        return _STUDENT[freedom - 1]
    z = _NORMAL
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
