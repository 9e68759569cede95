"""Operators' commands about users, permissions and users' limits.

Not here: what a change entails (`broker.access.planning`), virtual hosts (`broker.access.vhost_commands`).
"""

from typing import final

from warren.access.catalog import Catalog
from warren.access.commands import (
    Authenticate,
    ClearPermission,
    ClearTopicPermission,
    ClearUserLimits,
    DeleteUser,
    PutUser,
    SetPermission,
    SetTopicPermission,
    SetUserLimits,
)
from warren.access.limits import checked_user_limits, limits_without
from warren.access.permissions import Permission, Sieve, TopicPermission
from warren.broker.access.logins import Logins
from warren.broker.access.planning import is_new, plan_user_removal, rely_on_both, user_to_be
from warren.broker.control import CommandHandler, DeferringHandler, Planned
from warren.broker.vhost import Vhost
from warren.errors import InvariantBroken, Refused
from warren.model.commands import Command
from warren.model.effects import Answered
from warren.model.turn import Turn
from warren.session.ports import LoginAttempt, LoginWaiter
from warren.store.access_definitions import (
    PermissionDefinition,
    TopicPermissionDefinition,
    UserDefinition,
    permission_key,
    topic_permission_key,
)
from warren.store.plan import Plan


@final
class UserCommands(CommandHandler):
    """Checks and plans them."""

    def __init__(self, catalog: Catalog, vhosts: dict[str, Vhost]) -> None:
        self._catalog: Catalog = catalog
        self._vhosts: dict[str, Vhost] = vhosts

    def kinds(self) -> list[type[Command]]:
        return [
            PutUser,
            DeleteUser,
            SetPermission,
            ClearPermission,
            SetTopicPermission,
            ClearTopicPermission,
            SetUserLimits,
            ClearUserLimits,
        ]

    def check(self, command: Command, planned: Planned) -> None:
        catalog = self._catalog
        if isinstance(command, PutUser):
            if not command.name:
                raise Refused("bad_request", "user name must not be empty")
            planned.users[command.name] = None
        elif isinstance(command, DeleteUser):
            if command.name not in catalog.users:
                raise _not_found()
        elif isinstance(command, SetPermission):
            self._check_both(command.user, command.vhost, planned)
            _check_permission(Permission(command.user, command.vhost, command.configure, command.write, command.read))
        elif isinstance(command, ClearPermission):
            if (command.user, command.vhost) not in catalog.permissions:
                raise _not_found()
        elif isinstance(command, SetTopicPermission):
            self._check_both(command.user, command.vhost, planned)
            _check_topic_permission(_topic_permission_of(command))
        elif isinstance(command, ClearTopicPermission):
            if command.user not in catalog.users or command.vhost not in self._vhosts:
                raise _not_found()
        elif isinstance(command, SetUserLimits):
            self._check_user(command.user, planned)
            checked_user_limits(command.limits)
        elif isinstance(command, ClearUserLimits):
            self._check_user(command.user, planned)

    def plan(self, command: Command, plan: Plan) -> object:
        if isinstance(command, PutUser):
            return self._plan_user(command, plan)
        if isinstance(command, DeleteUser):
            plan_user_removal(plan, self._catalog, command.name)
        elif isinstance(command, SetPermission):
            return self._plan_permission(command, plan)
        elif isinstance(command, ClearPermission):
            plan.delete(permission_key(command.user, command.vhost))
        elif isinstance(command, SetTopicPermission):
            return self._plan_topic_permission(command, plan)
        elif isinstance(command, ClearTopicPermission):
            for topic in self._catalog.topic_permissions_of_user(command.user):
                if topic.vhost == command.vhost and command.exchange in (None, topic.exchange):
                    plan.delete(topic_permission_key(command.user, command.vhost, topic.exchange))
        elif isinstance(command, SetUserLimits):
            old = self._user_to_be(plan, command.user)
            _plan_limits(plan, old, {**old.limits, **checked_user_limits(command.limits)})
        elif isinstance(command, ClearUserLimits):
            old = self._user_to_be(plan, command.user)
            _plan_limits(plan, old, limits_without(old.limits, command.names))
        else:
            raise InvariantBroken(f"{type(command).__name__} is not about users")
        return None

    def _plan_user(self, command: PutUser, plan: Plan) -> bool:
        old = user_to_be(plan, self._catalog, command.name)
        limits: dict[str, int] = {} if old is None else old.limits
        plan.put(
            UserDefinition(command.name, command.password_hash, command.hashing_algorithm, list(command.tags), limits)
        )
        return old is None

    def _plan_permission(self, command: SetPermission, plan: Plan) -> bool:
        user, vhost = command.user, command.vhost
        rely_on_both(plan, user, vhost)
        permission = PermissionDefinition(user, vhost, command.configure, command.write, command.read)
        created = is_new(plan, permission.key(), (user, vhost) in self._catalog.permissions)
        plan.put(permission)
        return created

    def _plan_topic_permission(self, command: SetTopicPermission, plan: Plan) -> bool:
        user, vhost, exchange = command.user, command.vhost, command.exchange
        rely_on_both(plan, user, vhost)
        permission = TopicPermissionDefinition(user, vhost, exchange, command.write, command.read)
        created = is_new(plan, permission.key(), (user, vhost, exchange) in self._catalog.topic_permissions)
        plan.put(permission)
        return created

    def _user_to_be(self, plan: Plan, name: str) -> UserDefinition:
        user = user_to_be(plan, self._catalog, name)
        if user is None:
            raise _no_such_user(name)
        return user

    def _check_both(self, user: str, vhost: str, planned: Planned) -> None:
        known_user = user in self._catalog.users or user in planned.users
        if not known_user or (vhost not in self._vhosts and vhost not in planned.vhosts):
            raise Refused("bad_request", "vhost_or_user_not_found")

    def _check_user(self, name: str, planned: Planned) -> None:
        if name not in self._catalog.users and name not in planned.users:
            raise _no_such_user(name)


@final
class LoginCommands(DeferringHandler):
    """`Authenticate`: answered when the password is."""

    def __init__(self, logins: Logins, turn: Turn) -> None:
        self._logins: Logins = logins
        self._turn: Turn = turn

    def kinds(self) -> list[type[Command]]:
        return [Authenticate]

    def begin(self, ticket: int, command: Command) -> None:
        assert isinstance(command, Authenticate)
        attempt = LoginAttempt(command.user, command.password, command.peer_host, "", False)
        self._logins.log_in(attempt, PendingLogin(ticket, command, self._turn))


@final
class PendingLogin(LoginWaiter):
    """An operator who waits to be let in."""

    def __init__(self, ticket: int, command: Authenticate, turn: Turn) -> None:
        self._ticket: int = ticket
        self._peer_host: str = command.peer_host
        self._turn: Turn = turn

    def still_waits(self) -> bool:
        # whoever asked over HTTP may be gone, and nobody minds
        return True

    def login_decided(self, refusal: str) -> None:
        if refusal:
            self._turn.note("warning", "login.refused", {"peer": self._peer_host, "reason": refusal})
        self._turn.effects.append(Answered(self._ticket, None, "not_authorised" if refusal else "", refusal))


def _plan_limits(plan: Plan, user: UserDefinition, limits: dict[str, int]) -> None:
    plan.put(UserDefinition(user.name, user.password_hash, user.hashing_algorithm, user.tags, limits))


def _topic_permission_of(command: SetTopicPermission) -> TopicPermission:
    return TopicPermission(command.user, command.vhost, command.exchange, command.write, command.read)


def _check_permission(permission: Permission) -> None:
    for sieve in (permission.configures, permission.writes, permission.reads):
        _check_pattern(sieve)


def _check_topic_permission(permission: TopicPermission) -> None:
    for sieve in (permission.writes, permission.reads):
        _check_pattern(sieve)


def _check_pattern(sieve: Sieve) -> None:
    pattern = sieve.pattern
    if pattern.fault:
        reason = f"invalid_regexp: '{pattern.text}' is no regular expression: {pattern.fault} at {pattern.fault_at}"
        raise Refused("bad_request", reason)


def _no_such_user(name: str) -> Refused:
    return Refused("bad_request", f"no_such_user: {name}")


def _not_found() -> Refused:
    return Refused("not_found", "Not Found")
