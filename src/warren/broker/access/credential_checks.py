"""Checks of credentials that the shell computes, and the logins that wait for them.

Logins with the same credentials share one check. Few checks run at a time, and none for clients that have disconnected.
Addresses with waiting checks take turns; so do the users of one address, where all unknown users count as one. The
number of waiting checks of one address is bounded: the newest one of the user with the most is refused. So a flood of
guesses delays neither other addresses nor other users of the same address.

The refusals of one address are given in the order of the logins, although the turns of users decide them in another
order. Only a login that succeeds overtakes.

Not here: what is checked (`broker.access.internal_backend`, `broker.access.token_backend`).
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import mypyc_attr

from warren.broker.access.backends import LoginAttempt, LoginWaiter
from warren.broker.model.effects import Effect
from warren.broker.model.turn import Turn

RUNNING_CHECKS_MAX: Final = 4
QUEUED_CHECKS_MAX: Final = 1024
"""For one address; as many as can be decided before the clients time out."""


@final
class WaitingLogin:
    """A login that waits for a check."""

    def __init__(self, attempt: LoginAttempt, waiter: LoginWaiter) -> None:
        self.attempt: LoginAttempt = attempt
        self.waiter: LoginWaiter = waiter


@mypyc_attr(allow_interpreted_subclasses=True)
class CredentialCheck:
    """The check of one client's credentials, and the logins that wait for it."""

    def __init__(self, digest: bytes, first: WaitingLogin) -> None:
        self.digest: bytes = digest
        self.host: str = first.attempt.address
        self.candidates: list[WaitingLogin] = [first]
        # the reason of the refusal
        self.refusal: str = ""
        self.decided: bool = False

    @abstractmethod
    def order(self, ticket: int) -> Effect:
        """The order to the shell."""

    def wanted(self) -> bool:
        """Whether a waiting client is still connected."""
        return any(candidate.waiter.still_waits() for candidate in self.candidates)


@final
class CredentialChecks:
    """The checks of one backend, waiting and running."""

    def __init__(self, turn: Turn, running_max: int = RUNNING_CHECKS_MAX) -> None:
        self._turn: Turn = turn
        self._running_max: int = running_max
        self._tickets: int = 0
        self._running: dict[int, CredentialCheck] = {}
        # by digest, running and queued
        self._checks: dict[bytes, CredentialCheck] = {}
        # by the address of a check's first login; the addresses with queued checks take turns
        self._address_checks: dict[str, AddressChecks] = {}
        self._queued_hosts: dict[str, None] = {}

    def find(self, digest: bytes) -> CredentialCheck | None:
        """The check of the same credentials, if there is one."""
        return self._checks.get(digest)

    def start(self, check: CredentialCheck, user: str) -> None:
        """Run a check when it is its turn; `user` is empty for all unknown users."""
        self._checks[check.digest] = check
        at_address = self._address_checks.get(check.host)
        if at_address is None:
            at_address = self._address_checks[check.host] = AddressChecks()
        at_address.add(check, user)
        self._queued_hosts[check.host] = None
        if at_address.queued > QUEUED_CHECKS_MAX:
            dropped = at_address.drop()
            dropped.refusal = "too many logins of this address wait"
            self._refuse(dropped)
        self._start_queued()

    def start_again(self, check: CredentialCheck) -> None:
        """Run a check that was set aside once more when it is its turn."""
        self._address_checks[check.host].add_again(check)
        self._queued_hosts[check.host] = None
        self._start_queued()

    def set_aside(self) -> None:
        """A finished check waits for something else than its turn, and `start_again` follows. Start what waits."""
        self._start_queued()

    def finished(self, ticket: int) -> CredentialCheck:
        """The check with this ticket, which runs no more. `refuse` or `set_aside` must follow.

        Accepted logins are taken out of it before.
        """
        return self._running.pop(ticket)

    def refuse(self, check: CredentialCheck) -> None:
        """Refuse the remaining logins of a finished check, after those that came before them. Start what waits."""
        self._refuse(check)
        self._start_queued()

    def _refuse(self, check: CredentialCheck) -> None:
        del self._checks[check.digest]
        check.decided = True
        at_address = self._address_checks[check.host]
        for decided in at_address.take_decided():
            for candidate in decided.candidates:
                candidate.waiter.login_refused(decided.refusal)
        if at_address.is_empty():
            # a refused login may have gone on to another backend and back
            self._address_checks.pop(check.host, None)

    def _start_queued(self) -> None:
        while self._queued_hosts and len(self._running) < self._running_max:
            check = self._next_queued()
            if not check.wanted():
                check.candidates = []
                self._refuse(check)
                continue
            self._tickets += 1
            self._running[self._tickets] = check
            self._turn.effects.append(check.order(self._tickets))

    def _next_queued(self) -> CredentialCheck:
        """That of the next user of the next address."""
        host = next(iter(self._queued_hosts))
        del self._queued_hosts[host]
        at_address = self._address_checks[host]
        check = at_address.next_queued()
        if at_address.queued:
            self._queued_hosts[host] = None
        return check


@final
class AddressChecks:
    """The checks of one address: queued by user, and all of them in the order of arrival until they are answered."""

    def __init__(self) -> None:
        self.queued: int = 0
        self._by_user: dict[str, list[CredentialCheck]] = {}
        self._unanswered: list[CredentialCheck] = []

    def add(self, check: CredentialCheck, user: str) -> None:
        """`user` is empty for all unknown users."""
        self._by_user.setdefault(user, []).append(check)
        self._unanswered.append(check)
        self.queued += 1

    def add_again(self, check: CredentialCheck) -> None:
        """Queue a check that is not answered yet."""
        self._by_user.setdefault("", []).append(check)
        self.queued += 1

    def next_queued(self) -> CredentialCheck:
        """The oldest check of the next user."""
        user = next(iter(self._by_user))
        waiting = self._by_user.pop(user)
        oldest = waiting.pop(0)
        if waiting:
            self._by_user[user] = waiting
        self.queued -= 1
        return oldest

    def drop(self) -> CredentialCheck:
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

    def take_decided(self) -> list[CredentialCheck]:
        """The decided checks that no undecided one precedes."""
        count = 0
        while count < len(self._unanswered) and self._unanswered[count].decided:
            count += 1
        decided = self._unanswered[:count]
        del self._unanswered[:count]
        return decided

    def is_empty(self) -> bool:
        return not self._unanswered
