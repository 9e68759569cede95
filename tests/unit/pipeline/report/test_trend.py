"""A line through days, against numbers that were reckoned by hand."""

import math

import pytest

from warren.pipeline.report.forecast import fit_trend, student_quantile


def test_a_straight_line_is_found_again_without_doubt() -> None:
    trend = fit_trend([10, 12, 14, 16, 18])
    assert (trend.slope, trend.intercept) == (2, 10)
    assert trend.at(9) == 28
    assert trend.day_margin(9) == pytest.approx(0, abs=1e-9)
    assert trend.is_clear


def test_the_margins_are_those_of_the_textbook() -> None:
    # 1 3 2 5 4: mean 3, slope 0.8, intercept 1.4, squares of errors 3.6, so scatter √1.2 with three degrees of freedom
    trend = fit_trend([1, 3, 2, 5, 4])
    assert trend.slope == pytest.approx(0.8)
    assert trend.intercept == pytest.approx(1.4)
    assert trend.scatter == pytest.approx(math.sqrt(1.2))
    assert trend.slope_margin == pytest.approx(3.182 * math.sqrt(1.2 / 10))
    assert trend.line_margin(2) == pytest.approx(3.182 * math.sqrt(1.2 / 5))
    assert trend.day_margin(6) == pytest.approx(3.182 * math.sqrt(1.2 * (1 + 1 / 5 + 16 / 10)))
    assert not trend.is_clear


def test_the_margin_grows_with_the_distance() -> None:
    trend = fit_trend([1, 3, 2, 5, 4])
    assert trend.day_margin(5) < trend.day_margin(50) < trend.day_margin(500)
    assert trend.line_margin(50) < trend.day_margin(50)


def test_students_quantile_goes_on_where_the_table_ends() -> None:
    assert student_quantile(1) == 12.706
    assert student_quantile(31) == pytest.approx(2.0395, abs=0.0005)
    assert student_quantile(1000) == pytest.approx(1.9623, abs=0.0005)
    quantiles = [student_quantile(freedom) for freedom in range(1, 60)]
    assert quantiles == sorted(quantiles, reverse=True)
