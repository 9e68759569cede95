"""How long a failed login is kept waiting for its answer.

Each failure of a user from one address doubles the wait, up to a bound; a good login, or a while without failures, ends
it. The first failure waits for nothing: people mistype. Only refusals wait, so nobody who knows the password is kept
out by somebody who does not.

What is remembered is bounded: of too many, those whose last failure is the longest ago are forgotten.

Not here: what a login is judged by (`broker.access.logins`).
"""

from typing import Final, final

FIRST_DELAY_MS: Final = 100
DELAY_MAX_MS: Final = 4_000
FORGIVEN_AFTER_MS: Final = 600_000
REMEMBERED_MAX: Final = 10_000


@final
class LoginBrakes:
    """Failures by address and user."""

    def __init__(self) -> None:
        # how many, and when the last was; the oldest first
        self._failures: dict[tuple[str, str], tuple[int, int]] = {}

    def failed(self, host: str, user: str, now_ms: int) -> int:
        """Count a failure; for how many milliseconds its answer waits."""
        who = (host, user)
        count, last_ms = self._failures.pop(who, (0, now_ms))
        if now_ms - last_ms > FORGIVEN_AFTER_MS:
            count = 0
        while len(self._failures) >= REMEMBERED_MAX:
            del self._failures[next(iter(self._failures))]
        self._failures[who] = (count + 1, now_ms)
        # beyond the bound there is nothing to double
        return 0 if count == 0 else min(FIRST_DELAY_MS << min(count - 1, 16), DELAY_MAX_MS)

    def succeeded(self, host: str, user: str) -> None:
        self._failures.pop((host, user), None)

    def count(self) -> int:
        """How many users at addresses are remembered."""
        return len(self._failures)
