"""Logins: whether a client's credentials are accepted, and by which backend.

The backends are asked in the order of `auth_backends`, one after the other, and the first one that accepts the
credentials decides who the client is. If an entry names two backends, the first one authenticates the client and the
second one authorises it (`auth_backends.1.authn`, `.authz`).

The answer to a failed login is delayed (`LoginThrottle`). Each failure of a user from one address doubles the delay, up
to a bound; a success, or a time without failures, resets it. The first failure is not delayed, because people mistype.
A success is never delayed, so an attacker cannot lock out a user who knows the password. The number of recorded
failures is bounded: the oldest are dropped. So is their size: strangers choose the names, and of a longer one the
beginning counts.

A connected client may renew its login with a new secret (`connection.update-secret`), if the secrets of its backend
expire. It stays the same user.

A trusted connection comes from within the process: a request over HTTP, whose user has logged in there, or a bridge. It
is the identity, or the internal user, that it names; without one it is the node itself.

Not here: the SASL exchange (`broker.sessions.handshake`), the backends (`broker.access.backends`).
"""

import ipaddress
from typing import Final, final

from warren.broker.access.backends import AuthBackend, LoginAttempt, LoginWaiter, shown_name
from warren.broker.access.http_backend import HttpBackend
from warren.broker.access.internal_backend import InternalBackend
from warren.broker.access.rights import AnswerWaiter, NodeRights, Rights
from warren.broker.access.token_backend import TokenBackend
from warren.broker.access.users import AccessCatalog
from warren.broker.model.events import Event, PasswordVerified, SigningKeysFetched, TokenVerified, WebServerAnswered
from warren.broker.model.identity import CACHE, HTTP, INTERNAL, NO_USER, NODE, OAUTH2, Identity
from warren.broker.model.settings import BrokerSettings
from warren.broker.model.turn import TimerTarget, Turn

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
        key = (host, shown_name(user))
        count, last_ms = self._failures.pop(key, (0, now_ms))
        if now_ms - last_ms > FAILURE_EXPIRY_MS:
            count = 0
        while len(self._failures) >= FAILURES_MAX:
            del self._failures[next(iter(self._failures))]
        self._failures[key] = (count + 1, now_ms)
        # the shift is bounded, since the delay is
        return 0 if count == 0 else min(FIRST_DELAY_MS << min(count - 1, 16), DELAY_MAX_MS)

    def succeeded(self, host: str, user: str) -> None:
        self._failures.pop((host, shown_name(user)), None)

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


@final
class Logins:
    """Decides logins."""

    def __init__(self, settings: BrokerSettings, turn: Turn, catalog: AccessCatalog, secret: bytes) -> None:
        self._turn: Turn = turn
        self._loopback_users: list[str] = settings.loopback_users
        self._throttle: LoginThrottle = LoginThrottle()
        self.internal: InternalBackend = InternalBackend(settings, turn, catalog, secret)
        self._backends: dict[str, AuthBackend] = {INTERNAL: self.internal}
        oauth2 = settings.authentication.oauth2
        self.tokens: TokenBackend | None = None if oauth2 is None else TokenBackend(oauth2, turn, secret)
        if self.tokens is not None:
            self._backends[OAUTH2] = self.tokens
        # the names of the backends that authenticate, and authorise, in the order in which they are asked
        self._chain: list[tuple[str, str]] = settings.authentication.backends
        self.http: HttpBackend | None = None
        http = settings.authentication.http
        if http is not None:
            name = CACHE if any(CACHE in place for place in self._chain) else HTTP
            self._backends[name] = self.http = HttpBackend(name, http, turn, secret)

    def log_in(self, attempt: LoginAttempt, waiter: LoginWaiter) -> None:
        """Decide a login; the waiter is called within this call, or later."""
        if attempt.trusted:
            self._log_in_trusted(attempt, waiter)
        else:
            ChainedLogin(self, attempt, waiter).ask(0)

    def _log_in_trusted(self, attempt: LoginAttempt, waiter: LoginWaiter) -> None:
        identity = attempt.identity or Identity(attempt.user or NO_USER, authz=INTERNAL if attempt.user else NODE)
        if identity.has_expired(int(self._turn.now_ms)):
            waiter.login_refused(f"user '{identity.name}' - the credentials have expired")
        elif self._knows(identity):
            waiter.login_accepted(identity)
        else:
            waiter.login_refused(f"user '{identity.name}' - invalid credentials")

    def _knows(self, identity: Identity) -> bool:
        """Whether there is such a user. An identity of another node may have a backend that this node lacks."""
        if identity.is_internal():
            return self.internal.authorise(identity)
        return identity.authz == NODE or identity.authz in self._backends

    def handle(self, event: Event) -> bool:
        """Handle the answer to a check; False if it is another event."""
        if isinstance(event, PasswordVerified):
            self.internal.verified(event.ticket, event.good)
        elif isinstance(event, TokenVerified):
            assert self.tokens is not None, "it verified no token without this backend"
            self.tokens.verified(event)
        elif isinstance(event, SigningKeysFetched):
            if self.tokens is not None:
                self.tokens.keys_fetched(event.changed)
        elif isinstance(event, WebServerAnswered):
            assert self.http is not None, "no web server was asked without this backend"
            self.http.answered(event)
        else:
            return False
        return True

    # -- the chain

    def ask_backend(self, at: int, attempt: LoginAttempt, waiter: LoginWaiter) -> bool:
        """Ask the backend at this place of the chain; False if the chain ends before it."""
        if at >= len(self._chain):
            return False
        self._backends[self._chain[at][0]].authenticate(attempt, waiter)
        return True

    def authorise(self, at: int, attempt: LoginAttempt, identity: Identity, waiter: LoginWaiter) -> None:
        """Ask the backend that authorises at this place, unless it is the one that accepted the login."""
        authn, authz = self._chain[at]
        tags = identity.tags
        if authn != authz:
            # the tags of an internal user that another backend authorises are those it has now
            tags = self._backends[authn].tags(identity)
        chosen = Identity(identity.name, authn, authz, tags, identity.scopes, identity.expires_at_ms)
        if authn == authz:
            waiter.login_accepted(chosen)
        else:
            self._backends[authz].authorise_login(attempt, chosen, waiter)

    def accept(self, attempt: LoginAttempt, identity: Identity, waiter: LoginWaiter) -> None:
        if identity.name in self._loopback_users and not is_loopback(attempt.peer_host):
            self.refuse(attempt, f"user '{identity.name}' can only connect via localhost", waiter)
            return
        self._throttle.succeeded(attempt.address, attempt.user)
        waiter.login_accepted(identity)

    def refuse(self, attempt: LoginAttempt, reason: str, waiter: LoginWaiter) -> None:
        delay_ms = self._throttle.failed(attempt.address, attempt.user, int(self._turn.now_ms))
        if delay_ms:
            self._turn.set_timer(self._turn.now_ms + delay_ms, DelayedRefusal(waiter, reason))
        else:
            waiter.login_refused(reason)

    # -- renewal

    def renew(self, identity: Identity, secret: str, peer_host: str, waiter: LoginWaiter) -> None:
        """A connected client sends a new secret. It has no effect if the secrets of its backend do not expire."""
        backend = self._backends.get(identity.authn)
        if backend is None or not backend.secrets_expire():
            waiter.login_accepted(identity)
        else:
            attempt = LoginAttempt(identity.name, secret, peer_host, "", False)
            backend.authenticate(attempt, RenewedLogin(identity, waiter))

    # -- what an identity may do

    def may_enter(self, identity: Identity, vhost: str) -> bool:
        return identity.authz == NODE or self._backends[identity.authz].may_enter(identity, vhost)

    def ask_to_enter(self, identity: Identity, vhost: str, peer_host: str, waiter: AnswerWaiter) -> None:
        """Decide whether a client may enter a virtual host; the waiter is called within this call, or later."""
        if identity.authz == NODE:
            waiter.answered(True)
        else:
            self._backends[identity.authz].ask_to_enter(identity, vhost, peer_host, waiter)

    def rights(self, identity: Identity, vhost: str) -> Rights:
        if identity.authz == NODE:
            return NodeRights(identity.name, vhost)
        return self._backends[identity.authz].rights(identity, vhost)

    def tags(self, identity: Identity) -> list[str]:
        return self._backends[identity.authz].tags(identity)


@final
class ChainedLogin(LoginWaiter):
    """A login on its way from backend to backend."""

    def __init__(self, logins: Logins, attempt: LoginAttempt, waiter: LoginWaiter) -> None:
        self._logins: Logins = logins
        self._attempt: LoginAttempt = attempt
        self._waiter: LoginWaiter = waiter
        self._at: int = 0
        self._refusal: str = f"user '{attempt.user}' - no backend was asked"

    def ask(self, at: int) -> None:
        self._at = at
        if not self._logins.ask_backend(at, self._attempt, self):
            self._logins.refuse(self._attempt, self._refusal, self._waiter)

    def still_waits(self) -> bool:
        return self._waiter.still_waits()

    def login_accepted(self, identity: Identity) -> None:
        self._logins.authorise(self._at, self._attempt, identity, AuthenticatedLogin(self))

    def authorised(self, identity: Identity) -> None:
        self._logins.accept(self._attempt, identity, self._waiter)

    def login_refused(self, reason: str) -> None:
        self._refusal = reason if self._at == 0 else f"{self._refusal}; {reason}"
        self.ask(self._at + 1)


@final
class AuthenticatedLogin(LoginWaiter):
    """A login that one backend accepted, and that waits for the one that authorises it."""

    def __init__(self, login: ChainedLogin) -> None:
        self._login: ChainedLogin = login

    def still_waits(self) -> bool:
        return self._login.still_waits()

    def login_accepted(self, identity: Identity) -> None:
        self._login.authorised(identity)

    def login_refused(self, reason: str) -> None:
        self._login.login_refused(reason)


@final
class RenewedLogin(LoginWaiter):
    """A login of a client that is connected already, and must stay the same user."""

    def __init__(self, old: Identity, waiter: LoginWaiter) -> None:
        self._old: Identity = old
        self._waiter: LoginWaiter = waiter

    def still_waits(self) -> bool:
        return self._waiter.still_waits()

    def login_accepted(self, identity: Identity) -> None:
        old = self._old
        if identity.name != old.name:
            self.login_refused(f"user '{old.name}' - the new secret is that of user '{identity.name}'")
            return
        renewed = Identity(old.name, old.authn, old.authz, identity.tags, identity.scopes, identity.expires_at_ms)
        self._waiter.login_accepted(renewed)

    def login_refused(self, reason: str) -> None:
        self._waiter.login_refused(reason)


@final
class DelayedRefusal(TimerTarget):
    """A refusal that is sent later."""

    def __init__(self, waiter: LoginWaiter, reason: str) -> None:
        self._waiter: LoginWaiter = waiter
        self._reason: str = reason

    def timer_fired(self) -> None:
        self._waiter.login_refused(self._reason)
