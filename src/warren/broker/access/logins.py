"""Logins: whether a client's credentials are accepted.

A login is decided at once, unless the user's password hash is slow to compute. Then the shell computes it
(`VerifyPassword`) and answers later (`PasswordVerified`). Logins with the same user and password share one computation.
Few computations run at a time, and none for clients that have disconnected. Addresses with waiting logins take turns;
so do the users of one address, where all unknown users count as one. The number of waiting logins of one address is
bounded: the newest one of the user with the most is refused. So a flood of guesses delays neither other addresses nor
other users of the same address.

A verified password is kept as a keyed digest until the user changes, so that the next login takes microseconds.

The time of a refusal does not tell whether the user exists, or which hash the user has. If there are slow hashes, every
refusal takes the computation of one. The refusals of one address are answered in the order of the logins, although the
turns of users decide them in another order. Only a login that succeeds overtakes.

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

from warren.broker.access.passwords import NO_QUICK_HASH, NO_SLOW_HASH, SCRYPT, SHA256, is_password, is_slow
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
        self._usually_slow: bool = is_slow(settings.password_hashing_module)
        self._throttle: LoginThrottle = LoginThrottle()
        # digests of verified passwords, by user
        self._verified_digests: dict[str, bytes] = {}
        self._tickets: int = 0
        self._running_checks: dict[int, PasswordCheck] = {}
        # by digest, running and queued
        self._checks: dict[bytes, PasswordCheck] = {}
        # by the address of a check's first login; the addresses with queued checks take turns
        self._address_checks: dict[str, AddressChecks] = {}
        self._queued_hosts: dict[str, None] = {}

    def log_in(self, attempt: LoginAttempt, waiter: LoginWaiter) -> None:
        """Decide a login; `waiter.login_decided` is called within this call, or later."""
        user = self._catalog.users.get(attempt.user)
        if attempt.external:
            # a trusted connection without a user name is the node's own
            self._decide(attempt, waiter, user is not None or (attempt.trusted and not attempt.user))
            return
        algorithm, password_hash = SHA256, NO_QUICK_HASH
        if user is not None and user.password_hash:
            algorithm, password_hash = user.hashing_algorithm, user.password_hash
        if not is_slow(algorithm):
            good = is_password(attempt.password, algorithm, password_hash) and user is not None
            if good or not (self._usually_slow or self._catalog.has_slow_hashes):
                self._decide(attempt, waiter, good)
                return
            algorithm, password_hash = SCRYPT, NO_SLOW_HASH
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
        if good:
            for candidate in check.candidates:
                self._decide(candidate.attempt, candidate.waiter, True)
            check.candidates = []
        self._refuse(check)
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
        if same is not None:
            self._decide(attempt, candidate.waiter, False)
            return
        check = PasswordCheck(digest, attempt.user, attempt.password, algorithm, password_hash, candidate)
        self._checks[digest] = check
        self._queue(check, attempt.user if attempt.user in self._catalog.users else "")
        self._start_queued()

    def _queue(self, check: "PasswordCheck", user: str) -> None:
        at_address = self._address_checks.get(check.host)
        if at_address is None:
            at_address = self._address_checks[check.host] = AddressChecks()
        at_address.add(check, user)
        self._queued_hosts[check.host] = None
        if at_address.queued > QUEUED_CHECKS_MAX:
            dropped = at_address.drop()
            del self._checks[dropped.digest]
            self._refuse(dropped)

    def _start_queued(self) -> None:
        while self._queued_hosts and len(self._running_checks) < RUNNING_CHECKS_MAX:
            check = self._next_queued()
            if not check.wanted():
                del self._checks[check.digest]
                check.candidates = []
                self._refuse(check)
                continue
            self._tickets += 1
            self._running_checks[self._tickets] = check
            order = VerifyPassword(self._tickets, check.algorithm, check.password_hash, check.password)
            self._turn.effects.append(order)

    def _next_queued(self) -> "PasswordCheck":
        """That of the next user of the next address."""
        host = next(iter(self._queued_hosts))
        del self._queued_hosts[host]
        at_address = self._address_checks[host]
        check = at_address.next_queued()
        if at_address.queued:
            self._queued_hosts[host] = None
        return check

    def _refuse(self, check: "PasswordCheck") -> None:
        """Refuse the remaining logins of this check, after those that came before them."""
        check.decided = True
        at_address = self._address_checks[check.host]
        for decided in at_address.take_decided():
            for candidate in decided.candidates:
                self._decide(candidate.attempt, candidate.waiter, False)
        if at_address.is_empty():
            del self._address_checks[check.host]

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
        self.host: str = first.attempt.peer_host
        self.candidates: list[WaitingLogin] = [first]
        self.decided: bool = False

    def wanted(self) -> bool:
        """Whether a waiting client is still connected."""
        return any(candidate.waiter.still_waits() for candidate in self.candidates)


@final
class AddressChecks:
    """The checks of one address: queued by user, and all of them in the order of arrival until they are answered."""

    def __init__(self) -> None:
        self.queued: int = 0
        self._by_user: dict[str, list[PasswordCheck]] = {}
        self._unanswered: list[PasswordCheck] = []

    def add(self, check: PasswordCheck, user: str) -> None:
        """`user` is empty for all unknown users."""
        self._by_user.setdefault(user, []).append(check)
        self._unanswered.append(check)
        self.queued += 1

    def next_queued(self) -> PasswordCheck:
        """The oldest check of the next user."""
        user = next(iter(self._by_user))
        waiting = self._by_user.pop(user)
        oldest = waiting.pop(0)
        if waiting:
            self._by_user[user] = waiting
        self.queued -= 1
        return oldest

    def drop(self) -> PasswordCheck:
        """The newest check of the user with the most."""
        user, longest = "", 0
        for name, waiting in self._by_user.items():
            if len(waiting) > longest:
                user, longest = name, len(waiting)
        newest = self._by_user[user].pop()
        if longest == 1:
            del self._by_user[user]
        self.queued -= 1
        return newest

    def take_decided(self) -> list[PasswordCheck]:
        """The decided checks that no undecided one precedes."""
        count = 0
        while count < len(self._unanswered) and self._unanswered[count].decided:
            count += 1
        decided = self._unanswered[:count]
        del self._unanswered[:count]
        return decided

    def is_empty(self) -> bool:
        return not self._unanswered


@final
class DelayedRefusal(TimerTarget):
    """A refusal that is sent later."""

    def __init__(self, waiter: LoginWaiter, refusal: str) -> None:
        self._waiter: LoginWaiter = waiter
        self._refusal: str = refusal

    def timer_fired(self) -> None:
        self._waiter.login_decided(self._refusal)
