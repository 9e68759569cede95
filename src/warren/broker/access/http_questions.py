"""Questions about permissions to the web server of the backend `http`, and the sessions that wait for the answers.

A session asks one question at a time, because its input waits for the answer. The node asks at most
`RUNNING_QUESTIONS_MAX` at a time, at most half of them for one user, and users with waiting questions take turns. So a
user with many connections neither makes the node ask without bound nor delays other users. Sessions that ask the same
share one question.

No answer is a refusal, and so is an answer that is neither `allow` nor `deny`; both are logged. The shell ends every
request after its timeout. A question that waited for longer than that before it was asked is refused as well, so that a
dead web server costs a client twice the timeout at most.

Answers are kept only if `auth_cache.*` says so (`AnswerCache`). What one connection was granted is kept with its rights
(`broker.access.http_backend`).

Not here: logins (`broker.access.credential_checks` has their turns), the request itself (`node.http_auth`).
"""

from typing import Final, final

from warren.broker.access.rights import AnswerWaiter
from warren.broker.model.effects import AskWebServer
from warren.broker.model.events import WebServerAnswered
from warren.broker.model.turn import Turn

ALLOW: Final = "allow"
DENY: Final = "deny"

RUNNING_QUESTIONS_MAX: Final = 32
RUNNING_OF_USER_MAX: Final = RUNNING_QUESTIONS_MAX // 2
CACHED_ANSWERS_MAX: Final = 10_000

LOOK_EVERY: Final = 64
"""After so many, those that have disconnected are forgotten, so that clients that come and go leave nothing behind."""

QuestionKey = tuple[str, ...]


@final
class HttpQuestion:
    """Whether a user may enter a virtual host, or use a queue, an exchange or a routing key."""

    def __init__(self, about: str, user: str, parameters: list[tuple[str, str]]) -> None:
        self.about: str = about
        self.user: str = user
        self.parameters: list[tuple[str, str]] = parameters
        self.key: QuestionKey = (about, *[value for _name, value in parameters])
        self.waiters: list[AnswerWaiter] = []
        self.asked_at_ms: int = 0

    def add_waiter(self, waiter: AnswerWaiter) -> None:
        self.waiters.append(waiter)
        if len(self.waiters) % LOOK_EVERY == 0:
            self.waiters = [one for one in self.waiters if one.still_waits()]

    def wanted(self) -> bool:
        return any(waiter.still_waits() for waiter in self.waiters)


@final
class AnswerCache:
    """Answers of the last milliseconds; the number is bounded, and the oldest are dropped."""

    def __init__(self, ttl_ms: int, keeps_refusals: bool) -> None:
        self._ttl_ms: int = ttl_ms
        self._keeps_refusals: bool = keeps_refusals
        # the answer and the time when it was given, oldest first
        self._answers: dict[QuestionKey, tuple[str, int]] = {}

    def find(self, key: QuestionKey, now_ms: int) -> str:
        """The answer; empty if it is not known."""
        answer, given_at_ms = self._answers.get(key, ("", 0))
        return answer if answer and now_ms - given_at_ms < self._ttl_ms else ""

    def keep(self, key: QuestionKey, answer: str, now_ms: int) -> None:
        if self._ttl_ms == 0 or (answer == DENY and not self._keeps_refusals):
            return
        self._answers.pop(key, None)
        while len(self._answers) >= CACHED_ANSWERS_MAX:
            del self._answers[next(iter(self._answers))]
        self._answers[key] = (answer, now_ms)


@final
class HttpQuestions:
    """The questions of a node, waiting and running."""

    def __init__(self, turn: Turn, timeout_ms: int, cache: AnswerCache) -> None:
        self._turn: Turn = turn
        self._timeout_ms: int = timeout_ms
        self._cache: AnswerCache = cache
        self._tickets: int = 0
        self._running: dict[int, HttpQuestion] = {}
        # by key, running and queued
        self._open: dict[QuestionKey, HttpQuestion] = {}
        self._running_of_user: dict[str, int] = {}
        # by user; the users with queued questions take turns
        self._queued: dict[str, list[HttpQuestion]] = {}

    def cached(self, key: QuestionKey) -> str:
        """The answer, if it is kept; else empty."""
        return self._cache.find(key, int(self._turn.now_ms))

    def ask(self, question: HttpQuestion, waiter: AnswerWaiter) -> None:
        """The waiter is called within this call, or later."""
        cached = self.cached(question.key)
        same = self._open.get(question.key)
        if cached:
            waiter.answered(cached == ALLOW)
        elif same is not None:
            same.add_waiter(waiter)
        else:
            question.add_waiter(waiter)
            question.asked_at_ms = int(self._turn.now_ms)
            self._open[question.key] = question
            self._queue(question)
            self._start_queued()

    def count(self) -> int:
        """How many questions wait or run."""
        return len(self._open)

    def answered(self, event: WebServerAnswered) -> None:
        """The web server answered, or did not."""
        question = self._running.pop(event.ticket)
        self._count_running(question.user, -1)
        fault = event.fault
        if not fault and event.answer not in (ALLOW, DENY):
            fault = f"{event.answer[:60]!r} is neither allow nor deny"
        if not fault:
            self._cache.keep(question.key, event.answer, int(self._turn.now_ms))
        self._decide(question, event.answer == ALLOW, fault)
        self._start_queued()

    def _decide(self, question: HttpQuestion, allowed: bool, fault: str) -> None:
        if fault:
            facts: dict[str, object] = {"about": question.about, "user": question.user, "reason": fault}
            self._turn.note("error", "permission.unanswered", facts)
        del self._open[question.key]
        for waiter in question.waiters:
            waiter.answered(allowed and not fault)

    def _start_queued(self) -> None:
        while len(self._running) < RUNNING_QUESTIONS_MAX:
            question = self._next_queued()
            if question is None:
                return
            if not question.wanted():
                del self._open[question.key]
            elif int(self._turn.now_ms) - question.asked_at_ms > self._timeout_ms:
                self._decide(question, False, "the web server is too slow for the number of questions")
            else:
                self._tickets += 1
                self._running[self._tickets] = question
                self._count_running(question.user, 1)
                self._turn.effects.append(AskWebServer(self._tickets, question.about, question.parameters))

    def _queue(self, question: HttpQuestion) -> None:
        waiting = self._queued.setdefault(question.user, [])
        waiting.append(question)
        if len(waiting) % LOOK_EVERY == 0:
            for unwanted in [one for one in waiting if not one.wanted()]:
                waiting.remove(unwanted)
                del self._open[unwanted.key]

    def _next_queued(self) -> HttpQuestion | None:
        """The oldest question of the next user who may ask another one."""
        for user in self._queued:
            if self._running_of_user.get(user, 0) < RUNNING_OF_USER_MAX:
                waiting = self._queued.pop(user)
                oldest = waiting.pop(0)
                if waiting:
                    self._queued[user] = waiting
                return oldest
        return None

    def _count_running(self, user: str, by: int) -> None:
        count = self._running_of_user.pop(user, 0) + by
        if count:
            self._running_of_user[user] = count
