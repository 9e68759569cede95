"""Logins: whether a client's credentials are accepted.

A login is decided at once, unless the user's password hash is slow to compute. Then the shell computes it
(`VerifyPassword`) and answers later (`PasswordVerified`). Logins with the same user and password share one computation.
Few computations run at a time, and none for clients that have disconnected. Addresses with waiting logins take turns,
and the number of waiting logins of one address is bounded, so that a flood of guesses from one address does not delay
the others.

A verified password is kept as a keyed digest until the user changes, so that the next login takes microseconds. A login
of an unknown user, or of a user without a password, takes as long as any other.

The answer to a failed login is delayed (`LoginThrottle`). Each failure of a user from one address doubles the delay, up
to a bound; a success, or a time without failures, resets it. The first failure is not delayed, because people mistype.
A success is never delayed, so an attacker cannot lock out a user who knows the password. The number of recorded
failures is bounded: the oldest are dropped.

Not here: the SASL exchange (`broker.sessions.handshake`), the hashes (`broker.access.passwords`).
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
    """The credentials of a client."""

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
        # authenticated by other means: a certificate, or the node itself (`trusted`)
        self.external = external
        self.trusted = trusted


@mypyc_attr(allow_interpreted_subclasses=True)
class LoginWaiter:
    """A client or operator that waits for a login."""

    @abstractmethod
    def still_waits(self) -> bool:
        """Whether the client is still connected."""

    @abstractmethod
    def login_decided(self, refusal: str) -> None:
        """Called once, unless the client has disconnected; `refusal` is the reason for the log, empty on success."""


FIRST_DELAY_MS: Final = 100
DELAY_MAX_MS: Final = 4_000
FAILURE_EXPIRY_MS: Final = 600_000
FAILURES_MAX: Final = 10_000


@final
class LoginThrottle:
    """Failed logins by address and user."""

    def __init__(self) -> None:
        # the count, and the time of the last failure; oldest first
        self._failures: dict[tuple[str, str], tuple[int, int]] = {}

    def failed(self, host: str, user: str, now_ms: int) -> int:
        """Count a failure; the delay of its answer in milliseconds."""
        key = (host, user)
        count, last_ms = self._failures.pop(key, (0, now_ms))
        if now_ms - last_ms > FAILURE_EXPIRY_MS:
            count = 0
        while len(self._failures) >= FAILURES_MAX:
            del self._failures[next(iter(self._failures))]
        self._failures[key] = (count + 1, now_ms)
        # the shift is bounded, since the delay is
        return 0 if count == 0 else min(FIRST_DELAY_MS << min(count - 1, 16), DELAY_MAX_MS)

    def succeeded(self, host: str, user: str) -> None:
        self._failures.pop((host, user), None)

    def count(self) -> int:
        """How many pairs of address and user have failures."""
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
"""For one address; as many as can be decided before the clients time out."""


@final
class Logins:
    """Decides logins."""

    def __init__(self, settings: BrokerSettings, turn: Turn, catalog: AccessCatalog, secret: bytes) -> None:
        self._turn: Turn = turn
        self._catalog: AccessCatalog = catalog
        self._secret: bytes = secret
        self._loopback_users: list[str] = settings.loopback_users
        self._usual_algorithm: str = settings.password_hashing_module
        self._throttle: LoginThrottle = LoginThrottle()
        # digests of verified passwords, by user
        self._verified_digests: dict[str, bytes] = {}
        self._tickets: int = 0
        self._running_checks: dict[int, PasswordCheck] = {}
        # checks by digest, running and queued; the queued ones also by the address of their first login
        self._checks: dict[bytes, PasswordCheck] = {}
        self._queued_checks: dict[str, list[PasswordCheck]] = {}

    def log_in(self, attempt: LoginAttempt, waiter: LoginWaiter) -> None:
        """Decide a login; `waiter.login_decided` is called within this call, or later."""
        user = self._catalog.users.get(attempt.user)
        if attempt.external:
            # a trusted connection without a user name is the node's own
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
        """The shell has computed a hash."""
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
        """The user was changed or deleted."""
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
        """The oldest queued check of the next address."""
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
    """A login that waits for a check."""

    def __init__(self, attempt: LoginAttempt, waiter: LoginWaiter) -> None:
        self.attempt: LoginAttempt = attempt
        self.waiter: LoginWaiter = waiter


@final
class PasswordCheck:
    """The comparison of one password with one hash, and the logins that wait for it."""

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
        """Whether a waiting client is still connected."""
        return any(candidate.waiter.still_waits() for candidate in self.candidates)


@final
class DelayedRefusal(TimerTarget):
    """A refusal that is sent later."""

    def __init__(self, waiter: LoginWaiter, refusal: str) -> None:
        self._waiter: LoginWaiter = waiter
        self._refusal: str = refusal

    def timer_fired(self) -> None:
        self._waiter.login_decided(self._refusal)
