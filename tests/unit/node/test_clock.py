"""The node's clock."""

import time

import pytest

from warren.node.turn_loop import Clock


def test_the_clock_is_the_wall_clock_at_start_plus_the_elapsed_time() -> None:
    elapsed_ns = iter([5_000_000_000, 5_000_999_999, 5_001_000_000, 8_000_000_000])
    clock = Clock(lambda: 1_700_000_000_123_000_000, lambda: next(elapsed_ns))
    assert [clock.now_ms() for _ in range(3)] == [1_700_000_000_123, 1_700_000_000_124, 1_700_000_003_123]


def test_a_wall_clock_that_is_set_back_does_not_turn_the_clock_back() -> None:
    wall_ns = [1_700_000_000_000_000_000]
    monotonic_ns = [10_000_000]
    clock = Clock(lambda: wall_ns[0], lambda: monotonic_ns[0])
    before = clock.now_ms()
    wall_ns[0] -= 3_600_000_000_000
    monotonic_ns[0] += 2_000_000
    assert clock.now_ms() == before + 2


def test_the_clock_counts_in_whole_milliseconds_and_never_backwards() -> None:
    clock = Clock()
    times = [clock.now_ms() for _ in range(10_000)]
    assert times == sorted(times)
    assert all(type(each) is int for each in times)


def test_the_clock_counts_while_the_machine_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A master that wakes up knows that its delivery lease is over."""
    asleep_ns = [0]
    real = time.clock_gettime_ns

    def read(clock: int) -> int:
        return real(clock) + (asleep_ns[0] if clock == time.CLOCK_BOOTTIME else 0)

    monkeypatch.setattr(time, "clock_gettime_ns", read)
    clock = Clock()
    before = clock.now_ms()
    asleep_ns[0] = 3_600_000_000_000
    assert clock.now_ms() - before >= 3_600_000
