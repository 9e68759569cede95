"""The backend `http`: a web server decides who a client is and what it may do. `cache` is the same with kept answers.

The web server gets the parameters that RabbitMQ 3.10 sends, and answers `allow`, with the tags of the user if the
question is about a login, or `deny`. Everything else, and no answer, is a refusal.

Sessions check permissions at once, and the answer comes later. So `HttpRights` knows what the web server granted to its
connection. If it does not know a permission, it raises `PermissionUnknown`; the session asks, holds its input, and
handles the frame again when the answer is there. As in RabbitMQ, a permission that was granted is not asked for again
while the channel is open: the web server cannot take it back from an open channel. A channel that is opened asks
afresh. Refusals are not kept.

Invariants: the number of known permissions of a connection is bounded, and is larger than the number that one frame may
ask for (`broker.sessions.input`), so that a frame always ends. Passwords are kept as keyed digests only.

Not here: the turns of questions (`broker.access.http_questions`), HTTP (`node.http_auth`).
"""

import hmac
from typing import Final, final

from warren.broker.access.backends import AuthBackend, LoginAttempt, LoginWaiter
from warren.broker.access.credential_checks import CredentialCheck, CredentialChecks, WaitingLogin
from warren.broker.access.http_questions import ALLOW, DENY, AnswerCache, HttpQuestion, HttpQuestions, QuestionKey
from warren.broker.access.rights import AnswerWaiter, PermissionQuestion, PermissionUnknown, Rights
from warren.broker.model.effects import AskWebServer, Effect
from warren.broker.model.events import WebServerAnswered
from warren.broker.model.identity import Identity
from warren.broker.model.settings import HttpBackendSettings
from warren.broker.model.turn import Turn

USER: Final = "user"
VHOST: Final = "vhost"
RESOURCE: Final = "resource"
TOPIC: Final = "topic"

RUNNING_LOGINS_MAX: Final = 32
SEEN_USERS_MAX: Final = 10_000
GRANTED_MAX: Final = 256
"""The known permissions of one connection."""


@final
class HttpBackend(AuthBackend):
    """Authenticates and authorises by asking a web server."""

    def __init__(self, name: str, settings: HttpBackendSettings, turn: Turn, secret: bytes) -> None:
        self._name: str = name
        self._turn: Turn = turn
        self._secret: bytes = secret
        self._cache: AnswerCache = AnswerCache(settings.cache_ttl_ms, settings.caches_refusals)
        self._questions: HttpQuestions = HttpQuestions(turn, settings.timeout_ms, self._cache)
        self._checks: CredentialChecks = CredentialChecks(turn, RUNNING_LOGINS_MAX)
        # users who have logged in, oldest first: guesses of unknown names do not delay them
        self._seen_users: dict[str, None] = {}

    def answered(self, event: WebServerAnswered) -> None:
        """The web server answered, or did not."""
        if event.about == USER:
            self._login_answered(event)
        else:
            self._questions.answered(event)

    # -- authentication

    def authenticate(self, attempt: LoginAttempt, waiter: LoginWaiter) -> None:
        if not attempt.user:
            waiter.login_refused("the client names no user")
            return
        digest = self._digest(attempt)
        candidate, same = WaitingLogin(attempt, waiter), self._checks.find(digest)
        cached = self._cache.find((USER, digest.hex()), int(self._turn.now_ms))
        if cached:
            self._decide(candidate, cached)
        elif same is not None:
            same.candidates.append(candidate)
        else:
            # all users who never logged in share one place among the users of their address
            self._checks.start(LoginCheck(digest, candidate), attempt.user if attempt.user in self._seen_users else "")

    def _login_answered(self, event: WebServerAnswered) -> None:
        check = self._checks.finished(event.ticket)
        assert isinstance(check, LoginCheck)
        good = tags_in(event.answer) is not None
        if event.fault:
            check.refusal = f"user '{check.user}' - the web server gave no answer: {event.fault}"
        elif good or event.answer == DENY:
            self._cache.keep((USER, check.digest.hex()), event.answer, int(self._turn.now_ms))
            check.refusal = _denied(check.user)
        else:
            check.refusal = f"user '{check.user}' - the web server answered neither allow nor deny"
        if good and not event.fault:
            candidates, check.candidates = check.candidates, []
            self._see(check.user)
            for candidate in candidates:
                self._decide(candidate, event.answer)
        self._checks.refuse(check)

    def _decide(self, candidate: WaitingLogin, answer: str) -> None:
        user, tags = candidate.attempt.user, tags_in(answer)
        if tags is None:
            candidate.waiter.login_refused(_denied(user))
        else:
            candidate.waiter.login_accepted(Identity(user, self._name, self._name, tags))

    def _see(self, user: str) -> None:
        self._seen_users.pop(user, None)
        while len(self._seen_users) >= SEEN_USERS_MAX:
            del self._seen_users[next(iter(self._seen_users))]
        self._seen_users[user] = None

    def _digest(self, attempt: LoginAttempt) -> bytes:
        # a client with a certificate has no password, which is something else than an empty one
        kind = "certificate" if attempt.external else "password"
        text = f"{kind}:{len(attempt.user)}:{attempt.user}:{attempt.password}"
        return hmac.digest(self._secret, text.encode("utf-8", "surrogateescape"), "sha256")

    # -- authorisation

    def authorise(self, identity: Identity) -> bool:
        """Nothing is known without a question."""
        return False

    def authorise_login(self, attempt: LoginAttempt, identity: Identity, waiter: LoginWaiter) -> None:
        """As in RabbitMQ, the web server is asked with the same credentials. The tags of its answer do not count."""
        # a token may name another user than the client
        authenticated = LoginAttempt(
            identity.name, attempt.password, attempt.peer_host, attempt.certificate_name, attempt.external
        )
        self.authenticate(authenticated, AuthorisedElsewhere(identity, waiter))

    def may_enter(self, identity: Identity, vhost: str) -> bool:
        """Nothing is known without a question."""
        return False

    def ask_to_enter(self, identity: Identity, vhost: str, peer_host: str, waiter: AnswerWaiter) -> None:
        tags = " ".join(identity.tags)
        parameters = [("username", identity.name), ("vhost", vhost), ("ip", peer_host), ("tags", tags)]
        self._questions.ask(HttpQuestion(VHOST, identity.name, parameters), waiter)

    def rights(self, identity: Identity, vhost: str) -> Rights:
        return HttpRights(identity, vhost, self._questions)

    def tags(self, identity: Identity) -> list[str]:
        return identity.tags


def tags_in(answer: str) -> list[str] | None:
    """The tags after `allow`; None if the answer is another one."""
    word, *tags = answer.split(" ")
    return [tag for tag in tags if tag] if word == ALLOW else None


def _denied(user: str) -> str:
    return f"user '{user}' - denied by the web server"


@final
class LoginCheck(CredentialCheck):
    """The question whether one user may log in with one password."""

    def __init__(self, digest: bytes, first: WaitingLogin) -> None:
        super().__init__(digest, first)
        attempt = first.attempt
        self.user: str = attempt.user
        self._parameters: list[tuple[str, str]] = [("username", attempt.user)]
        if not attempt.external:
            self._parameters.append(("password", attempt.password))

    def order(self, ticket: int) -> Effect:
        return AskWebServer(ticket, USER, self._parameters)


@final
class AuthorisedElsewhere(LoginWaiter):
    """A login that another backend accepted, and that the web server must accept, too."""

    def __init__(self, identity: Identity, waiter: LoginWaiter) -> None:
        self._identity: Identity = identity
        self._waiter: LoginWaiter = waiter

    def still_waits(self) -> bool:
        return self._waiter.still_waits()

    def login_accepted(self, identity: Identity) -> None:
        self._waiter.login_accepted(self._identity)

    def login_refused(self, reason: str) -> None:
        self._waiter.login_refused(reason)


@final
class HttpRights(Rights):
    """The permissions that the web server granted to one connection."""

    def __init__(self, identity: Identity, vhost: str, questions: HttpQuestions) -> None:
        super().__init__(identity.name, vhost)
        self._tags: list[str] = identity.tags
        self._questions: HttpQuestions = questions
        # least recently used first
        self._granted: dict[QuestionKey, None] = {}
        # the last answer, if it is a refusal that the waiting frame has not seen
        self._refused: QuestionKey = ()

    def channel_opened(self) -> None:
        self._granted = {}
        self._refused = ()

    def allows(self, permission: str, kind: str, name: str) -> bool:
        return self._answer(RESOURCE, self._about(kind, name, permission))

    def allows_topic(self, permission: str, exchange: str, routing_key: str) -> bool:
        parameters = self._about(TOPIC, exchange, permission)
        parameters += [
            ("routing_key", routing_key),
            ("variable_map.username", self._user),
            ("variable_map.vhost", self._vhost),
        ]
        return self._answer(TOPIC, parameters)

    def has_tag(self, tag: str) -> bool:
        return tag in self._tags

    def learn(self, key: QuestionKey, allowed: bool) -> None:
        """The web server answered."""
        if not allowed:
            self._refused = key
            return
        while len(self._granted) >= GRANTED_MAX:
            del self._granted[next(iter(self._granted))]
        self._granted[key] = None

    def _about(self, kind: str, name: str, permission: str) -> list[tuple[str, str]]:
        return [
            ("username", self._user),
            ("vhost", self._vhost),
            ("resource", kind),
            ("name", name),
            ("permission", permission),
            ("tags", " ".join(self._tags)),
        ]

    def _answer(self, about: str, parameters: list[tuple[str, str]]) -> bool:
        question = HttpQuestion(about, self._user, parameters)
        key = question.key
        if key in self._granted:
            self._granted[key] = self._granted.pop(key)
            return True
        refused, self._refused = self._refused, ()
        if key == refused:
            return False
        cached = self._questions.cached(key)
        if not cached:
            raise PermissionUnknown(HttpPermission(self, question, self._questions))
        if cached == ALLOW:
            self.learn(key, True)
        return cached == ALLOW


@final
class HttpPermission(PermissionQuestion):
    """A permission that one session asks for."""

    def __init__(self, rights: HttpRights, question: HttpQuestion, questions: HttpQuestions) -> None:
        self._rights: HttpRights = rights
        self._question: HttpQuestion = question
        self._questions: HttpQuestions = questions
        self._waiter: AnswerWaiter | None = None

    def ask(self, waiter: AnswerWaiter) -> None:
        self._waiter = waiter
        self._questions.ask(self._question, self)

    def still_waits(self) -> bool:
        return self._waiter is not None and self._waiter.still_waits()

    def answered(self, allowed: bool) -> None:
        assert self._waiter is not None, "it was asked"
        self._rights.learn(self._question.key, allowed)
        self._waiter.answered(allowed)
