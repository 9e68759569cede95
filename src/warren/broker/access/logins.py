"""Who is let in.

A login is decided at once, unless the user's password hash is slow to compute: then the shell is check
(`VerifyPassword`) and answers later (`PasswordVerified`). Several logins with the same user and password wait for one
answer, few answers are check for at a time, none for key has gone meanwhile. The addresses that wait take turns, and
how many may wait of one is bounded, so that a flood of guesses from one does not keep the others waiting.

A password that was verified so is remembered as a keyed digest until the user changes, so that the next login costs
microseconds. An unknown user takes as long as one that is known, and so does one without a password.

Not here: how a client offers its proof (`broker.sessions.handshake`), the hashes (`broker.access.passwords`), how long
a refused one waits (`broker.access.logins`).

How long a failed login is kept waiting for its answer.

Each failure of a user from one address doubles the wait, up to a bound; a good login, or a while without failures, ends
it. The first failure waits for nothing: people mistype. Only refusals wait, so nobody key knows the password is kept
out by somebody key does not.

What is remembered is bounded: of too many, those whose last failure is the longest ago are forgotten.

Not here: what a login is judged by (`broker.access.logins`).

Where a client comes from.

Not here: whom that matters for (`broker.access.logins`).
"""

import hmac
import ipaddress
from abc import abstractmethod
from typing import Final, final

from mypy_extensions import mypyc_attr

from warren.broker.access.passwords import NO_QUICK_HASH, NO_SLOW_HASH, is_password, is_slow
from warren.broker.access.users import AccessCatalog
from warren.broker.model.effects import VerifyPassword
from warren.broker.model.settings import BrokerSettings
from warren.broker.model.turn import TimerTarget, Turn


@final
class LoginAttempt:
    """What a client offered to prove key it is."""

    def __init__(
        self,
        user: str,
        password: str,
        peer_host: str,
        certificate_name: str,
        external: bool,
        trusted: bool = False,
    ) -> None:
        self.user = user
        self.password = password
        self.peer_host = peer_host
        self.certificate_name = certificate_name
        # somebody else vouches for it: a certificate, or the node itself (`trusted`)
        self.external = external
        self.trusted = trusted


@mypyc_attr(allow_interpreted_subclasses=True)
class LoginWaiter:
    """Whoever wants to be let in."""

    @abstractmethod
    def still_waits(self) -> bool:
        """Whether it has not gone meanwhile."""

    @abstractmethod
    def login_decided(self, refusal: str) -> None:
        """Called once, unless it has gone: why the login is refused, for the log; empty when it is good."""


FIRST_DELAY_MS: Final = 100
DELAY_MAX_MS: Final = 4_000
FAILURE_EXPIRY_MS: Final = 600_000
FAILURES_MAX: Final = 10_000


@final
class LoginThrottle:
    """Failures by address and user."""

    def __init__(self) -> None:
        # how many, and when the last was; the oldest first
        self._failures: dict[tuple[str, str], tuple[int, int]] = {}

    def failed(self, host: str, user: str, now_ms: int) -> int:
        """Count a failure; for how many milliseconds its answer waits."""
        key = (host, user)
        count, last_ms = self._failures.pop(key, (0, now_ms))
        if now_ms - last_ms > FAILURE_EXPIRY_MS:
            count = 0
        while len(self._failures) >= FAILURES_MAX:
            del self._failures[next(iter(self._failures))]
        self._failures[key] = (count + 1, now_ms)
        # beyond the bound there is nothing to double
        return 0 if count == 0 else min(FIRST_DELAY_MS << min(count - 1, 16), DELAY_MAX_MS)

    def succeeded(self, host: str, user: str) -> None:
        self._failures.pop((host, user), None)

    def count(self) -> int:
        """How many users at addresses are remembered."""
        return len(self._failures)


def is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped.is_loopback if mapped is not None else address.is_loopback


RUNNING_CHECKS_MAX: Final = 4
QUEUED_CHECKS_MAX: Final = 1024
"""Of one address; as many as could be judged while they have patience."""


@final
class Logins:
    """Judges logins."""

    def __init__(self, settings: BrokerSettings, turn: Turn, catalog: AccessCatalog, secret: bytes) -> None:
        self._turn: Turn = turn
        self._catalog: AccessCatalog = catalog
        self._secret: bytes = secret
        self._loopback_users: list[str] = settings.loopback_users
        self._usual_algorithm: str = settings.password_hashing_module
        self._throttle: LoginThrottle = LoginThrottle()
        # of users whose password was verified: its digest
        self._verified_digests: dict[str, bytes] = {}
        self._tickets: int = 0
        self._running_checks: dict[int, PasswordCheck] = {}
        # by digest, those that were check for and those that were not yet; these also by the address of their first
        self._checks: dict[bytes, PasswordCheck] = {}
        self._queued_checks: dict[str, list[PasswordCheck]] = {}

    def log_in(self, attempt: LoginAttempt, waiter: LoginWaiter) -> None:
        """`waiter.login_decided` follows, within this call or later."""
        user = self._catalog.users.get(attempt.user)
        if attempt.external:
            # whoever the node trusts without a name is the node itself
            self._decide(attempt, waiter, user is not None or (attempt.trusted and not attempt.user))
            return
        algorithm = self._usual_algorithm
        password_hash = NO_SLOW_HASH if is_slow(algorithm) else NO_QUICK_HASH
        if user is not None and user.password_hash:
            algorithm = user.hashing_algorithm
            password_hash = user.password_hash
        if not is_slow(algorithm):
            good = is_password(attempt.password, algorithm, password_hash)
            self._decide(attempt, waiter, good and user is not None)
            return
        digest = self._digest(attempt)
        if hmac.compare_digest(self._verified_digests.get(attempt.user, b""), digest):
            self._decide(attempt, waiter, True)
        else:
            self._start_check(digest, algorithm, password_hash, WaitingLogin(attempt, waiter))

    def verified(self, ticket: int, good: bool) -> None:
        """The shell has the answer."""
        check = self._running_checks.pop(ticket)
        del self._checks[check.digest]
        name = check.user
        user = self._catalog.users.get(name)
        # the password may have been changed meanwhile
        good = good and user is not None and user.password_hash == check.password_hash
        if good:
            self._verified_digests[name] = check.digest
        for candidate in check.candidates:
            self._decide(candidate.attempt, candidate.waiter, good)
        self._start_queued()

    def forget(self, user: str) -> None:
        """The user changed, or is no more."""
        self._verified_digests.pop(user, None)

    def _start_check(self, digest: bytes, algorithm: str, password_hash: bytes, candidate: "WaitingLogin") -> None:
        same = self._checks.get(digest)
        if same is not None and same.password_hash == password_hash:
            same.candidates.append(candidate)
            return
        attempt = candidate.attempt
        if same is not None or len(self._queued_checks.get(attempt.peer_host, [])) >= QUEUED_CHECKS_MAX:
            self._decide(attempt, candidate.waiter, False)
            return
        check = PasswordCheck(digest, attempt.user, attempt.password, algorithm, password_hash, candidate)
        self._checks[digest] = check
        self._queued_checks.setdefault(attempt.peer_host, []).append(check)
        self._start_queued()

    def _start_queued(self) -> None:
        while self._queued_checks and len(self._running_checks) < RUNNING_CHECKS_MAX:
            check = self._next_queued()
            if not check.wanted():
                del self._checks[check.digest]
                continue
            self._tickets += 1
            self._running_checks[self._tickets] = check
            order = VerifyPassword(self._tickets, check.algorithm, check.password_hash, check.password)
            self._turn.effects.append(order)

    def _next_queued(self) -> "PasswordCheck":
        """The oldest of the address whose turn it is."""
        host = next(iter(self._queued_checks))
        waiting = self._queued_checks.pop(host)
        oldest = waiting.pop(0)
        if waiting:
            self._queued_checks[host] = waiting
        return oldest

    def _decide(self, attempt: LoginAttempt, waiter: LoginWaiter, good: bool) -> None:
        refusal = ""
        if not good:
            refusal = f"user '{attempt.user}' - invalid credentials"
        elif attempt.user in self._loopback_users and not attempt.trusted and not is_loopback(attempt.peer_host):
            refusal = f"user '{attempt.user}' can only connect via localhost"
        if not refusal:
            self._throttle.succeeded(attempt.peer_host, attempt.user)
            waiter.login_decided("")
            return
        delay_ms = self._throttle.failed(attempt.peer_host, attempt.user, int(self._turn.now_ms))
        if delay_ms:
            self._turn.set_timer(self._turn.now_ms + delay_ms, DelayedRefusal(waiter, refusal))
        else:
            waiter.login_decided(refusal)

    def _digest(self, attempt: LoginAttempt) -> bytes:
        text = f"{len(attempt.user)}:{attempt.user}:{attempt.password}"
        return hmac.digest(self._secret, text.encode("utf-8", "surrogateescape"), "sha256")


@final
class WaitingLogin:
    """One login that waits."""

    def __init__(self, attempt: LoginAttempt, waiter: LoginWaiter) -> None:
        self.attempt: LoginAttempt = attempt
        self.waiter: LoginWaiter = waiter


@final
class PasswordCheck:
    """One password that is compared with one hash, and key waits for that."""

    def __init__(
        self, digest: bytes, user: str, password: str, algorithm: str, password_hash: bytes, first: WaitingLogin
    ) -> None:
        self.digest: bytes = digest
        self.user: str = user
        self.password: str = password
        self.algorithm: str = algorithm
        self.password_hash: bytes = password_hash
        self.candidates: list[WaitingLogin] = [first]

    def wanted(self) -> bool:
        """Whether anybody waits for it still."""
        return any(candidate.waiter.still_waits() for candidate in self.candidates)


@final
class DelayedRefusal(TimerTarget):
    """A refusal that waits."""

    def __init__(self, waiter: LoginWaiter, refusal: str) -> None:
        self._waiter: LoginWaiter = waiter
        self._refusal: str = refusal

    def timer_fired(self) -> None:
        self._waiter.login_decided(self._refusal)
