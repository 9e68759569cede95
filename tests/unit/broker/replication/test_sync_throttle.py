"""The rate limit of backfill."""

from warren.broker.replication.sync_throttle import SyncThrottle


def test_without_a_limit_there_is_nothing_to_wait_for() -> None:
    pace = SyncThrottle(0)
    pace.sent(1 << 40, 5_000)
    assert pace.free_at_ms() <= 5_000


def test_the_limit_counts_the_backfill_of_all_mirrors_together() -> None:
    pace = SyncThrottle(1_000)
    pace.sent(500, 10_000)
    assert pace.free_at_ms() == 10_500
    pace.sent(1, 10_000)
    assert pace.free_at_ms() == 10_501


def test_time_in_which_nothing_was_sent_is_not_saved_up() -> None:
    pace = SyncThrottle(1_000)
    pace.sent(500, 10_000)
    pace.sent(500, 60_000)
    assert pace.free_at_ms() == 60_500


def test_a_part_of_a_millisecond_is_not_lost() -> None:
    pace = SyncThrottle(3_000_000)
    for _ in range(3_000):
        pace.sent(1_000, 0)
    assert 999 <= pace.free_at_ms() <= 1_000
