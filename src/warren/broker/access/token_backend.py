"""OAuth 2: the password is an access token (JWT), which says who the client is and what it may do.

The shell verifies the signature (`VerifyToken`), because it has the keys and the time of day. A good token is kept as a
keyed digest until it expires or the keys change, so that a client that sends it with every request over HTTP costs
microseconds.

A token may be signed with a key that is not known yet. Its login waits for the next fetch of keys, is tried once more,
and is refused if the key is still unknown. Waiting logins take no place among the running checks, and their number is
bounded by address, so that tokens with invented keys delay no other login.

Not here: the claims (`broker.access.token_claims`), scopes (`broker.access.scopes`), keys (`node.signing_keys`).
"""

import hmac
from typing import Final, final

from warren.broker.access.backends import AuthBackend, LoginAttempt, LoginWaiter, shown_name
from warren.broker.access.credential_checks import CredentialCheck, CredentialChecks, WaitingLogin
from warren.broker.access.rights import Rights
from warren.broker.access.scopes import ScopeRights, WildcardPattern, vhost_patterns
from warren.broker.access.token_claims import ClaimsRefused, TokenGrant, grant_of
from warren.broker.model.effects import Effect, VerifyToken
from warren.broker.model.events import TokenVerified
from warren.broker.model.identity import OAUTH2, Identity
from warren.broker.model.settings import OAuth2Settings
from warren.broker.model.turn import Turn

TOKEN_CHARACTERS_MAX: Final = 16 * 1024
KEPT_TOKENS_MAX: Final = 1024
AWAITING_KEYS_MAX: Final = 64
"""Logins of one address that wait for keys."""


@final
class TokenBackend(AuthBackend):
    """Authenticates and authorises by tokens."""

    def __init__(self, settings: OAuth2Settings, turn: Turn, secret: bytes) -> None:
        self._settings: OAuth2Settings = settings
        self._turn: Turn = turn
        self._secret: bytes = secret
        self._checks: CredentialChecks = CredentialChecks(turn)
        # good tokens by digest, oldest first
        self._kept: dict[bytes, GoodToken] = {}
        self._awaiting_keys: list[TokenCheck] = []
        # how many of each address
        self._awaiting_of: dict[str, int] = {}
        # the patterns of virtual hosts in the scopes of a token, by its scopes, oldest first
        self._vhosts: dict[tuple[str, ...], list[WildcardPattern]] = {}

    def secrets_expire(self) -> bool:
        return True

    # -- authentication

    def authenticate(self, attempt: LoginAttempt, waiter: LoginWaiter) -> None:
        token = attempt.password
        if attempt.external or not may_be_token(token):
            waiter.login_refused(f"user '{shown_name(attempt.user)}' - no access token")
            return
        digest = hmac.digest(self._secret, token.encode(), "sha256")
        kept = self._kept.get(digest)
        if kept is not None and not kept.has_expired(int(self._turn.now_ms)):
            self._accept(kept, WaitingLogin(attempt, waiter))
            return
        candidate, same = WaitingLogin(attempt, waiter), self._checks.find(digest)
        if same is None:
            self._checks.start(TokenCheck(digest, candidate), "")
        else:
            same.candidates.append(candidate)

    def verified(self, event: TokenVerified) -> None:
        """The shell has verified a token."""
        check = self._checks.finished(event.ticket)
        assert isinstance(check, TokenCheck)
        if event.awaits_keys and self._awaits_keys(check):
            return
        if event.claims is None:
            check.refusal = event.reason
        else:
            self._judge(check, event)
        self._checks.refuse(check)

    def keys_fetched(self, changed: bool) -> None:
        """The shell has fetched keys, or failed to: try waiting tokens once more."""
        if changed:
            # the key of a kept token may be gone
            self._kept = {}
        awaiting, self._awaiting_keys, self._awaiting_of = self._awaiting_keys, [], {}
        for check in awaiting:
            self._checks.start_again(check)

    def _awaits_keys(self, check: "TokenCheck") -> bool:
        of_address = self._awaiting_of.get(check.host, 0)
        if check.tried_again or of_address >= AWAITING_KEYS_MAX:
            return False
        check.tried_again = True
        self._awaiting_keys.append(check)
        self._awaiting_of[check.host] = of_address + 1
        self._checks.set_aside()
        return True

    def _judge(self, check: "TokenCheck", event: TokenVerified) -> None:
        assert event.claims is not None
        try:
            grant = grant_of(event.claims, self._settings)
        except ClaimsRefused as refused:
            check.refusal = str(refused)
            return
        good = GoodToken(grant, int(self._turn.now_ms) + event.lives_ms if event.lives_ms else 0)
        while len(self._kept) >= KEPT_TOKENS_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[check.digest] = good
        candidates, check.candidates = check.candidates, []
        for candidate in candidates:
            self._accept(good, candidate)

    def _accept(self, good: "GoodToken", candidate: WaitingLogin) -> None:
        # as in RabbitMQ, a token that names no user is that of the user the client names
        user = good.grant.user or candidate.attempt.user
        if user:
            grant = good.grant
            candidate.waiter.login_accepted(
                Identity(user, OAUTH2, OAUTH2, grant.tags, grant.scopes, good.expires_at_ms)
            )
        else:
            # a connection without a user is the node's own
            candidate.waiter.login_refused("the token names no user, and neither does the client")

    # -- authorisation

    def authorise(self, identity: Identity) -> bool:
        """A client that another backend authenticated has no token."""
        return False

    def may_enter(self, identity: Identity, vhost: str) -> bool:
        scopes = tuple(identity.scopes)
        patterns = self._vhosts.get(scopes)
        if patterns is None:
            # a request over HTTP asks about every virtual host
            patterns = vhost_patterns(identity.scopes)
            while len(self._vhosts) >= KEPT_TOKENS_MAX:
                del self._vhosts[next(iter(self._vhosts))]
            self._vhosts[scopes] = patterns
        return any(pattern.matches(vhost) for pattern in patterns)

    def rights(self, identity: Identity, vhost: str) -> Rights:
        return ScopeRights(identity.name, vhost, identity.scopes, identity.tags)

    def tags(self, identity: Identity) -> list[str]:
        return identity.tags


def may_be_token(password: str) -> bool:
    """Whether a password has the form of a signed token: three parts with dots between them."""
    return password.isascii() and len(password) <= TOKEN_CHARACTERS_MAX and password.count(".") == 2


@final
class TokenCheck(CredentialCheck):
    """The verification of one token."""

    def __init__(self, digest: bytes, first: WaitingLogin) -> None:
        super().__init__(digest, first)
        self.tried_again: bool = False
        self._token: str = first.attempt.password

    def order(self, ticket: int) -> Effect:
        return VerifyToken(ticket, self._token)


@final
class GoodToken:
    """A verified token."""

    def __init__(self, grant: TokenGrant, expires_at_ms: int) -> None:
        self.grant: TokenGrant = grant
        self.expires_at_ms: int = expires_at_ms

    def has_expired(self, now_ms: int) -> bool:
        return 0 < self.expires_at_ms <= now_ms
