"""The delay of refused logins, and the bound on recorded failures."""

from warren.broker.access.logins import DELAY_MAX_MS, FAILURE_EXPIRY_MS, FAILURES_MAX, LoginThrottle


def test_each_failure_doubles_the_wait_up_to_a_bound() -> None:
    throttle = LoginThrottle()
    delays = [throttle.failed("h", "u", 1_000 * number) for number in range(300)]
    assert delays[:7] == [0, 100, 200, 400, 800, 1_600, 3_200]
    assert set(delays[7:]) == {DELAY_MAX_MS}


def test_a_good_login_and_a_while_without_failures_end_it() -> None:
    throttle = LoginThrottle()
    throttle.failed("h", "u", 0)
    assert throttle.failed("h", "u", FAILURE_EXPIRY_MS) == 100
    assert throttle.failed("h", "u", 2 * FAILURE_EXPIRY_MS + 1) == 0
    throttle.failed("h", "u", 2 * FAILURE_EXPIRY_MS + 2)
    throttle.succeeded("h", "u")
    assert throttle.failed("h", "u", 2 * FAILURE_EXPIRY_MS + 3) == 0


def test_the_oldest_failures_are_dropped_beyond_the_limit() -> None:
    throttle = LoginThrottle()
    throttle.failed("h", "first", 0)
    for number in range(FAILURES_MAX - 1):
        throttle.failed("h", f"user {number}", 1)
    assert throttle.failed("h", "first", 2) == 100
    throttle.failed("h", "one more", 3)
    assert throttle.count() == FAILURES_MAX
    assert throttle.failed("h", "user 0", 4) == 0
    assert throttle.failed("h", "first", 4) == 200
