"""The users of this broker: their passwords and permissions, as they stand in the catalogue.

A login is decided at once, unless the user's password hash is slow to compute. Then the shell computes it
(`VerifyPassword`) and answers later (`PasswordVerified`). A verified password is kept as a keyed digest until the user
changes, so that the next login takes microseconds.

The time of a refusal does not tell whether the user exists, or which hash the user has. If there are slow hashes, every
refusal takes the computation of one.

Not here: the hashes (`broker.access.passwords`), which check is next (`broker.access.credential_checks`), the catalogue
(`broker.access.users`).
"""

import hmac
from typing import final

from warren.broker.access.backends import AuthBackend, LoginAttempt, LoginWaiter, shown_name
from warren.broker.access.credential_checks import CredentialCheck, CredentialChecks, WaitingLogin
from warren.broker.access.passwords import NO_QUICK_HASH, NO_SLOW_HASH, SCRYPT, SHA256, is_password, is_slow
from warren.broker.access.rights import CONFIGURE, WRITE, Rights
from warren.broker.access.users import AccessCatalog
from warren.broker.model.effects import Effect, VerifyPassword
from warren.broker.model.identity import Identity
from warren.broker.model.settings import BrokerSettings
from warren.broker.model.turn import Turn


@final
class InternalBackend(AuthBackend):
    """Users, passwords and permissions of this broker."""

    def __init__(self, settings: BrokerSettings, turn: Turn, catalog: AccessCatalog, secret: bytes) -> None:
        self._catalog: AccessCatalog = catalog
        self._secret: bytes = secret
        self._usually_slow: bool = is_slow(settings.password_hashing_module)
        # digests of verified passwords, by user
        self._verified_digests: dict[str, bytes] = {}
        self._checks: CredentialChecks = CredentialChecks(turn)

    # -- authentication

    def authenticate(self, attempt: LoginAttempt, waiter: LoginWaiter) -> None:
        user = self._catalog.users.get(attempt.user)
        if attempt.external:
            self._decide(attempt, waiter, user is not None)
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
        check = self._checks.finished(ticket)
        assert isinstance(check, PasswordCheck)
        user = self._catalog.users.get(check.user)
        # the password may have been changed meanwhile
        if good and user is not None and user.password_hash == check.password_hash:
            self._verified_digests[check.user] = check.digest
            accepted, check.candidates = check.candidates, []
            for candidate in accepted:
                self._decide(candidate.attempt, candidate.waiter, True)
        self._checks.refuse(check)

    def forget(self, user: str) -> None:
        """The user was changed or deleted."""
        self._verified_digests.pop(user, None)

    def _start_check(self, digest: bytes, algorithm: str, password_hash: bytes, candidate: WaitingLogin) -> None:
        attempt = candidate.attempt
        same = self._checks.find(digest)
        if same is None:
            check = PasswordCheck(digest, algorithm, password_hash, candidate)
            self._checks.start(check, attempt.user if attempt.user in self._catalog.users else "")
        elif isinstance(same, PasswordCheck) and same.password_hash == password_hash:
            same.candidates.append(candidate)
        else:
            self._decide(attempt, candidate.waiter, False)

    def _decide(self, attempt: LoginAttempt, waiter: LoginWaiter, good: bool) -> None:
        if good:
            waiter.login_accepted(Identity(attempt.user))
        else:
            waiter.login_refused(_invalid(attempt.user))

    def _digest(self, attempt: LoginAttempt) -> bytes:
        text = f"{len(attempt.user)}:{attempt.user}:{attempt.password}"
        return hmac.digest(self._secret, text.encode("utf-8", "surrogateescape"), "sha256")

    # -- authorisation

    def authorise(self, identity: Identity) -> bool:
        return identity.name in self._catalog.users

    def may_enter(self, identity: Identity, vhost: str) -> bool:
        return (identity.name, vhost) in self._catalog.permissions

    def rights(self, identity: Identity, vhost: str) -> Rights:
        return InternalRights(self._catalog, identity, vhost)

    def tags(self, identity: Identity) -> list[str]:
        user = self._catalog.users.get(identity.name)
        return identity.tags if user is None else [*identity.tags, *user.tags]


def _invalid(user: str) -> str:
    return f"user '{shown_name(user)}' - invalid credentials"


@final
class PasswordCheck(CredentialCheck):
    """The comparison of one password with one hash."""

    def __init__(self, digest: bytes, algorithm: str, password_hash: bytes, first: WaitingLogin) -> None:
        super().__init__(digest, first)
        self.user: str = first.attempt.user
        self.password_hash: bytes = password_hash
        self.refusal = _invalid(self.user)
        self._password: str = first.attempt.password
        self._algorithm: str = algorithm

    def order(self, ticket: int) -> Effect:
        return VerifyPassword(ticket, self._algorithm, self.password_hash, self._password)


@final
class InternalRights(Rights):
    """The permissions of one user in one virtual host, as the catalogue has them."""

    def __init__(self, catalog: AccessCatalog, identity: Identity, vhost: str) -> None:
        super().__init__(identity.name, vhost)
        self._catalog: AccessCatalog = catalog
        self._tags: list[str] = identity.tags
        self._key: tuple[str, str] = (identity.name, vhost)

    def allows(self, permission: str, kind: str, name: str) -> bool:
        granted = self._catalog.permissions.get(self._key)
        if granted is None:
            return False
        if permission == WRITE:
            return granted.writes.matches(name)
        return granted.configures.matches(name) if permission == CONFIGURE else granted.reads.matches(name)

    def allows_topic(self, permission: str, exchange: str, routing_key: str) -> bool:
        """Without a topic permission, every key is allowed."""
        topics = self._catalog.topic_permissions
        granted = topics.get((self._user, self._vhost, exchange)) if topics else None
        if granted is None:
            return True
        return granted.writes.matches(routing_key) if permission == WRITE else granted.reads.matches(routing_key)

    def has_tag(self, tag: str) -> bool:
        user = self._catalog.users.get(self._user)
        return tag in self._tags or (user is not None and tag in user.tags)
