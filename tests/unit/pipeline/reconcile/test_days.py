"""Business days: midnights of their zone, also when clocks change; days, zones and graces as people write them."""

from datetime import UTC, date, datetime, timedelta

import pytest

from warren.pipeline.errors import PipelineError
from warren.pipeline.reconcile.settings import business_day, check_zone, parse_day, parse_grace


def test_a_day_is_from_midnight_to_midnight_in_its_zone() -> None:
    day = business_day(date(2026, 11, 15), "Asia/Tokyo", timedelta(hours=2))
    assert day.begins == datetime(2026, 11, 14, 15, tzinfo=UTC)
    assert day.fresh == datetime(2026, 11, 14, 17, tzinfo=UTC)
    assert day.ends == datetime(2026, 11, 15, 15, tzinfo=UTC)
    assert day.closes == datetime(2026, 11, 15, 17, tzinfo=UTC)


@pytest.mark.parametrize(("day", "hours"), [(date(2026, 3, 29), 23), (date(2026, 10, 25), 25), (date(2026, 6, 1), 24)])
def test_a_day_on_which_clocks_are_changed_is_shorter_or_longer(day: date, hours: int) -> None:
    found = business_day(day, "Europe/Berlin", timedelta())
    assert found.ends - found.begins == timedelta(hours=hours)


@pytest.mark.parametrize("zone", ["Europe/Berlim", "", "../etc/passwd", "/etc/passwd", "Europe"])
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(PipelineError, match=r"ledger payments is in zone .* which is unknown"):
        check_zone(zone, "ledger payments")


@pytest.mark.parametrize(
    ("text", "grace"),
    [("0", timedelta()), ("90m", timedelta(minutes=90)), ("6h", timedelta(hours=6)), ("45s", timedelta(seconds=45))],
)
def test_a_grace_is_a_number_with_a_unit(text: str, grace: timedelta) -> None:
    assert parse_grace(text) == grace


@pytest.mark.parametrize("text", ["6", "-6h", "6 h", "six", "", "24h", "1d"])
def test_any_other_grace_is_refused(text: str) -> None:
    with pytest.raises(PipelineError, match="grace"):
        parse_grace(text)


@pytest.mark.parametrize("text", ["15.11.2026", "2026-11-31", "today"])
def test_a_day_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(PipelineError, match="a day is written like 2026-11-15"):
        parse_day(text)
