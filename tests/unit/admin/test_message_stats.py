"""Sums of statistics of several nodes."""

from typing import Any

import pytest

from warren.admin.message_stats import added, summed


def samples(*numbers: int, newest: int = 30) -> list[dict[str, int]]:
    return [{"sample": number, "timestamp": newest - 10 * back} for back, number in enumerate(numbers)]


def test_counts_rates_and_averages_add_up() -> None:
    one = {"publish": 3, "publish_details": {"rate": 0.5, "avg": 1.0}, "ack": 1}
    other = {"publish": 4, "publish_details": {"rate": 1.5, "avg": 2.0}, "get": 2}
    assert added(one, other) == {"publish": 7, "publish_details": {"rate": 2.0, "avg": 3.0}, "ack": 1, "get": 2}
    assert one == {"publish": 3, "publish_details": {"rate": 0.5, "avg": 1.0}, "ack": 1}


@pytest.mark.parametrize(
    ("other", "total"),
    [
        (samples(10, 20, 30), samples(11, 22, 33)),
        # a step ahead, or behind
        (samples(5, 10, 20, 30, newest=40), samples(11, 22, 33)),
        (samples(20, 30, newest=20), samples(21, 22, 33)),
        ([], samples(1, 2, 3)),
    ],
)
def test_samples_are_added_by_their_moments(other: list[dict[str, int]], total: list[dict[str, int]]) -> None:
    assert added({"samples": samples(1, 2, 3)}, {"samples": other}) == {"samples": total}


@pytest.mark.parametrize(
    ("parts", "total"),
    [
        ([], {}),
        ([None, {"a": 1}, None], {"a": 1}),
        # a row without selected columns is an empty list
        ([[], {"a": 1}], {"a": 1}),
        ([{"a": 1}, []], {"a": 1}),
        (
            [{"state": {"one": "running"}}, {"state": {"two": "running"}}],
            {"state": {"one": "running", "two": "running"}},
        ),
        ([{"name": "q", "n": 1}, {"name": "q", "n": 2}], {"name": "q", "n": 3}),
        ([{"durable": True}, {"durable": True}], {"durable": True}),
    ],
)
def test_values_that_are_no_numbers_stay_unchanged(parts: list[Any], total: Any) -> None:
    assert summed(parts) == total
