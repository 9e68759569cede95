"""The rate of a transfer and the estimate for the rest."""

import pytest

from warren.cli.migrate.transfer import TransferRate, duration_text


def test_the_rate_is_that_of_the_last_seconds() -> None:
    pace = TransferRate()
    for second in range(21):
        pace.reach(float(second), 1000 * min(second, 10))
    assert pace.rate == 0.0
    assert pace.left_s(500) is None
    pace.reach(21.0, 12_000)
    assert pace.rate == pytest.approx(2000 / 10)
    assert pace.left_s(400) == pytest.approx(2.0)


def test_nothing_is_known_before_there_are_two_points() -> None:
    pace = TransferRate()
    pace.reach(0.0, 0)
    assert (pace.rate, pace.left_s(5)) == (0.0, None)


@pytest.mark.parametrize(
    ("seconds", "words"), [(None, "unknown time"), (12.4, "12 s"), (120, "2 min"), (7300, "2 h 2 min")]
)
def test_a_duration_is_printed_in_words(seconds: float | None, words: str) -> None:
    assert duration_text(seconds) == words
