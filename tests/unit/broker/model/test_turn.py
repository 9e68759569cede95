"""The timers of a turn, tested with idle expiries, which report to a queue owner when a timer fires."""

import sys

from tests.unit.broker.queues.world import START_MS, RecordingOwner, World
from warren.broker.model.turn import CANCELLED_TIMERS_MIN, Turn
from warren.broker.queues.queue import IdleExpiry


def clocks(turn: Turn, owner: RecordingOwner, count: int) -> list[IdleExpiry]:
    """Expiries of different queues; each reports its queue when one of its timers fires."""
    return [IdleExpiry(World().queue, 0, turn, owner) for _ in range(count)]


def turn_at(now_ms: int = START_MS) -> Turn:
    turn = Turn()
    turn.now_ms = now_ms
    return turn


def test_timers_fire_in_the_order_of_time_and_then_of_creation() -> None:
    turn, owner = turn_at(), RecordingOwner()
    first, second, third, fourth = (IdleExpiry(World().queue, 0, turn, owner) for _ in range(4))
    for delay_ms, clock in ((30, fourth), (10, first), (20, second), (20, third)):
        turn.set_timer(START_MS + delay_ms, clock)
    turn.now_ms = START_MS + 20
    turn.fire_timers()
    in_order = [clock._queue for clock in (first, second, third)]
    assert owner.expired == in_order
    turn.now_ms = START_MS + 30
    turn.fire_timers()
    assert owner.expired == [*in_order, fourth._queue]


def test_a_timer_fires_once_and_not_before_its_time() -> None:
    turn, owner = turn_at(), RecordingOwner()
    (clock,) = clocks(turn, owner, 1)
    timer = turn.set_timer(START_MS + 5, clock)
    turn.now_ms = START_MS + 4
    turn.fire_timers()
    assert (owner.expired, timer.live) == ([], True)
    turn.now_ms = START_MS + 6
    turn.fire_timers()
    turn.fire_timers()
    assert (len(owner.expired), timer.live) == (1, False)


def test_a_cancelled_timer_never_fires_and_may_be_cancelled_again() -> None:
    turn, owner = turn_at(), RecordingOwner()
    cancelled, kept = clocks(turn, owner, 2)
    timer = turn.set_timer(START_MS + 1, cancelled)
    turn.set_timer(START_MS + 2, kept)
    turn.cancel_timer(timer)
    turn.cancel_timer(timer)
    turn.now_ms = START_MS + 2
    turn.fire_timers()
    assert owner.expired == [kept._queue]
    assert turn._cancelled_count == len(turn._timers) == 0


def test_a_timer_that_fired_may_be_cancelled_without_effect() -> None:
    turn, owner = turn_at(), RecordingOwner()
    (clock,) = clocks(turn, owner, 1)
    timer = turn.set_timer(START_MS, clock)
    turn.fire_timers()
    turn.cancel_timer(timer)
    turn.set_timer(START_MS + 1, clock)
    assert turn.next_timer_ms() == START_MS + 1


def test_the_next_timer_is_the_earliest_that_is_not_cancelled() -> None:
    turn, owner = turn_at(), RecordingOwner()
    (clock,) = clocks(turn, owner, 1)
    assert turn.next_timer_ms() == 0
    early, _late = turn.set_timer(START_MS + 1, clock), turn.set_timer(START_MS + 9, clock)
    assert turn.next_timer_ms() == START_MS + 1
    turn.cancel_timer(early)
    assert turn.next_timer_ms() == START_MS + 9


def test_a_cancelled_timer_releases_its_target() -> None:
    turn, owner = turn_at(), RecordingOwner()
    (clock,) = clocks(turn, owner, 1)
    before = sys.getrefcount(clock)
    timer = turn.set_timer(START_MS + 10**9, clock)
    assert sys.getrefcount(clock) == before + 1
    turn.cancel_timer(timer)
    assert sys.getrefcount(clock) == before


def test_ten_thousand_cancelled_timers_do_not_pile_up() -> None:
    turn, owner = turn_at(), RecordingOwner()
    living, cancelled = clocks(turn, owner, 2)
    for number in range(100):
        turn.set_timer(START_MS + 500_000 + number, living)
    for number in range(10_000):
        turn.cancel_timer(turn.set_timer(START_MS + 1000 + number, cancelled))
    assert len(turn._timers) <= 100 + CANCELLED_TIMERS_MIN + 1
    turn.now_ms = START_MS + 600_000
    turn.fire_timers()
    assert owner.expired == [living._queue] * 100


def test_cancelled_timers_among_many_live_ones_are_swept() -> None:
    turn, owner = turn_at(), RecordingOwner()
    (clock,) = clocks(turn, owner, 1)
    timers = [turn.set_timer(START_MS + number, clock) for number in range(8000)]
    for timer in timers[:7000]:
        turn.cancel_timer(timer)
    assert len(turn._timers) <= 2 * 1000 + CANCELLED_TIMERS_MIN
    assert turn._cancelled_count == len(turn._timers) - 1000
    assert turn.next_timer_ms() == START_MS + 7000
