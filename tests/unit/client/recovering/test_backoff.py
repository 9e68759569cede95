"""Delays that grow, differ between clients, and start again after a lasting success."""

from warren.client.recovering.connection import Backoff


def delays(backoff: Backoff, count: int) -> list[float]:
    return [backoff.next_s() for _ in range(count)]


def test_delays_double_up_to_the_limit() -> None:
    assert delays(Backoff(0.1, 1.0, lambda: 1.0), 6) == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_chance_takes_away_up_to_a_half() -> None:
    assert delays(Backoff(0.1, 1.0, lambda: 0.0), 4) == [0.05, 0.1, 0.2, 0.4]
    backoff = Backoff(1.0, 1.0)
    found = {backoff.next_s() for _ in range(50)}
    assert len(found) > 1
    assert all(0.5 <= each < 1.0 for each in found)


def test_a_success_that_outlasts_the_delay_before_it_begins_anew() -> None:
    backoff = Backoff(0.1, 1.0, lambda: 1.0)
    delays(backoff, 3)
    backoff.succeeded(0.5)
    assert backoff.next_s() == 0.1


def test_a_success_that_does_not_last_changes_nothing() -> None:
    backoff = Backoff(0.1, 1.0, lambda: 1.0)
    delays(backoff, 3)
    backoff.succeeded(0.3)
    assert backoff.next_s() == 0.8
