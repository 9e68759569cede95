"""Forecasts, and when there is none."""

from collections.abc import Sequence
from datetime import date

import pytest

from warren.pipeline.html.quantities import rounded
from warren.pipeline.report import forecast
from warren.pipeline.report.flows import DAY_S
from warren.pipeline.report.forecast import DailyTotals, DaysToLimit, LimitForecast, Trend, fit_trend, whole_days

MONDAY = (date(2026, 11, 2) - date(1970, 1, 1)).days


def days_of(numbers: Sequence[int]) -> list[DailyTotals]:
    return [DailyTotals(MONDAY + at, number, 1000 * number, number // 10) for at, number in enumerate(numbers)]


def trend_of(days: Sequence[DailyTotals]) -> Trend:
    trend = forecast.trend_of(days, lambda day: day.messages)
    assert trend is not None
    return trend


@pytest.mark.parametrize(
    ("first_s", "last_s", "expected"),
    [
        (0, 3 * DAY_S - 1, [0, 1, 2]),
        (1800, 3 * DAY_S - 1800, [0, 1, 2]),
        (DAY_S // 2, 3 * DAY_S - 1, [1, 2]),
        (0, 2 * DAY_S + DAY_S // 2, [0, 1]),
        (DAY_S // 2, DAY_S + DAY_S // 2, []),
        (DAY_S // 4, DAY_S // 2, []),
    ],
)
def test_half_days_at_either_end_do_not_count(first_s: int, last_s: int, expected: list[int]) -> None:
    begin = MONDAY * DAY_S
    found = whole_days(days_of([5, 5, 5]), begin + first_s, begin + last_s)
    assert [day.number - MONDAY for day in found] == expected


def test_a_day_without_a_message_counts_as_nothing() -> None:
    kept = [day for day in days_of([5, 5, 5]) if day.number != MONDAY + 1]
    found = whole_days(kept, MONDAY * DAY_S, (MONDAY + 3) * DAY_S - 1)
    assert [day.messages for day in found] == [5, 0, 5]


def test_six_days_are_too_few_and_seven_are_not() -> None:
    assert forecast.trend_of(days_of([1] * 6), lambda day: day.messages) is None
    assert forecast.trend_of(days_of([1] * 7), lambda day: day.messages) is not None
    assert "needs at least 7 whole days, and these events have 6" in forecast.too_few_days(days_of([1] * 6))


def test_a_limit_is_reached_when_the_line_comes_up_to_it() -> None:
    trend = trend_of(days_of(range(100, 800, 100)))  # 700 on the last day, and 100 more each day
    assert forecast.days_to_daily_limit(trend, 1000) == DaysToLimit(3, 3, 3)
    assert forecast.days_to_daily_limit(trend, 10**9) == DaysToLimit(None, None, None)


def test_the_room_is_used_up_by_the_sum_of_the_days() -> None:
    trend = trend_of(days_of([100] * 7))
    assert forecast.days_to_total_limit(trend, 250) == DaysToLimit(3, 3, 3)
    assert forecast.days_to_total_limit(trend, 100 * 366) == DaysToLimit(366, 366, 366)
    assert forecast.days_to_total_limit(trend, 100 * 366 + 1) == DaysToLimit(None, None, None)


def test_a_shrinking_quantity_never_reaches_a_limit() -> None:
    trend = trend_of(days_of([700, 600, 500, 400, 300, 200, 100]))
    assert forecast.days_to_total_limit(trend, 1) == DaysToLimit(None, None, None)


def test_the_forecast_of_a_varying_quantity_has_a_range() -> None:
    reach = forecast.days_to_daily_limit(trend_of(days_of([100, 240, 260, 440, 460, 640, 660])), 1000)
    assert reach.earliest is not None
    assert reach.expected is not None
    assert reach.latest is not None
    assert reach.earliest < reach.expected < reach.latest


def test_growth_that_chance_explains_is_not_called_growth() -> None:
    sentence = forecast.growth_sentence(fit_trend([5, 9, 4, 8, 5, 9, 6]), "messages a day", rounded)
    assert sentence.startswith(
        "No growth of the messages a day can be told from chance: from one day to the next they change by −"
    )
    level = forecast.growth_sentence(fit_trend([5] * 7), "messages a day", rounded)
    assert level == "The messages a day are the same every day, after 7 whole days."
    clear = forecast.growth_sentence(fit_trend([10, 20, 30, 40, 50, 60, 70]), "messages a day", rounded)
    assert clear == "The messages a day grow by 10 from one day to the next (95 %: 10 to 10), after 7 whole days."


def test_the_sentence_on_a_rate_names_the_day() -> None:
    days = days_of(range(36_000, 36_000 * 8, 36_000))  # 1 to 7 a second in the busiest hour
    trend = fit_trend([day.busiest for day in days])
    assert forecast.forecast_rate(trend, days, 10).text == (
        "The busiest hour reaches 10 messages a second on 2026-11-11 by the trend; "
        "between 2026-11-11 and 2026-11-11 for 95 % of what may come."
    )
    near = forecast.forecast_rate(trend, days, 3)
    assert near == LimitForecast("The busiest hour reached 3 messages a second already on 2026-11-04.", is_near=True)
    far = forecast.forecast_rate(trend, days, 10_000)
    assert far.text.startswith("The busiest hour reaches 10,000 messages a second not within a year of 2026-11-08")
    assert not far.is_near


def test_the_sentence_about_a_disk_states_its_assumptions() -> None:
    days = days_of([1024] * 7)
    trend = fit_trend([day.bytes for day in days])
    assert forecast.forecast_disk(trend, days, 10 * 1000 * 1024).text == (
        "If everything that is published is kept, 9.77 MiB are full on 2026-11-18 by the trend; "
        "between 2026-11-18 and 2026-11-18 for 95 % of what may come."
    )
