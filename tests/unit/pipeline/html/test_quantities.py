"""Numbers as people read them."""

from datetime import date, datetime
from decimal import Decimal

import pytest

from warren.pipeline.html.quantities import bytes_of, duration, many, rounded, shown, size


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (True, "yes"),
        (1234567, "1,234,567"),
        (Decimal("1234567.10"), "1,234,567.10"),
        (1234.567, "1,230"),
        (datetime(2026, 11, 1, 9, 30), "2026-11-01 09:30:00"),
        (datetime(2026, 11, 1, 9, 30, 0, 5000), "2026-11-01 09:30:00.005"),
        (date(2026, 11, 1), "2026-11-01"),
        ("<b>", "<b>"),
    ],
)
def test_a_value_is_shown_as_people_read_it(value: object, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.01234, "0.0123"), (12.345, "12.3"), (999.7, "1,000"), (123456, "123,000"), (-2.5, "-2.5")],
)
def test_a_measured_number_has_three_figures(value: float, text: str) -> None:
    assert rounded(value) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (2**40, "1 TiB")])
def test_a_size_is_in_the_unit_that_suits_it(value: int, text: str) -> None:
    assert size(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0, "0 ms"), (12.5, "12.5 ms"), (1500, "1.5 s"), (90_000, "1.5 min"), (86_400_000, "1 d")],
)
def test_a_time_is_in_the_unit_that_suits_it(value: float | None, text: str) -> None:
    assert duration(value) == text


def test_a_noun_follows_its_number() -> None:
    assert (many(1, "key"), many(2000, "key"), many(0, "entry", "entries")) == ("1 key", "2,000 keys", "0 entries")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500GB", 500 * 10**9),
        ("1.5 TiB", 3 * 2**39),
        ("10k", 10_000),
        ("7", 7),
        ("7B", 7),
        ("7iB", None),
        ("much", None),
        ("-1GB", None),
    ],
)
def test_a_size_is_read_as_people_write_it(text: str, value: int | None) -> None:
    assert bytes_of(text) == value
