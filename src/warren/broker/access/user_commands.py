"""Operators' commands about users, permissions and users' limits.

Not here: what a change entails (`broker.access.registry`), virtual hosts (`broker.access.vhost_commands`).
"""

from typing import final

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
from warren.access.limits import checked_user_limits
from warren.access.permissions import Permission, Sieve, TopicPermission
from warren.access.users import User
from warren.broker.access.logins import Logins
from warren.broker.access.registry import Registry
from warren.broker.control import CommandHandler, DeferringHandler, Planned
from warren.broker.vhost import Vhost
from warren.errors import InvariantBroken, Refused
from warren.model.commands import Command
from warren.model.effects import Answered
from warren.model.turn import Turn
from warren.session.ports import LoginAttempt, LoginWaiter


@final
class UserCommands(CommandHandler):
    """Checks them and carries them out."""

    def __init__(self, registry: Registry, vhosts: dict[str, Vhost]) -> None:
        self._registry: Registry = registry
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
        catalog = self._registry.catalog
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

    def carry_out(self, command: Command) -> object:
        registry = self._registry
        if isinstance(command, PutUser):
            old = registry.catalog.users.get(command.name)
            limits: dict[str, int] = {} if old is None else old.limits
            tags = list(command.tags)
            return registry.put_user(User(command.name, command.password_hash, command.hashing_algorithm, tags, limits))
        if isinstance(command, DeleteUser):
            registry.delete_user(command.name)
            return None
        if isinstance(command, SetPermission):
            return registry.set_permission(
                Permission(command.user, command.vhost, command.configure, command.write, command.read)
            )
        if isinstance(command, ClearPermission):
            registry.clear_permission(command.user, command.vhost)
            return None
        if isinstance(command, SetTopicPermission):
            return registry.set_topic_permission(_topic_permission_of(command))
        if isinstance(command, ClearTopicPermission):
            self._clear_topic_permission(command)
            return None
        self._change_limits(command)
        return None

    def _clear_topic_permission(self, command: ClearTopicPermission) -> None:
        for topic in self._registry.catalog.topic_permissions_of_user(command.user):
            if topic.vhost == command.vhost and command.exchange in (None, topic.exchange):
                self._registry.clear_topic_permission(command.user, command.vhost, topic.exchange)

    def _change_limits(self, command: Command) -> None:
        if isinstance(command, SetUserLimits):
            old = self._registry.catalog.users[command.user].limits
            self._registry.limit_user(command.user, {**old, **checked_user_limits(command.limits)})
        elif isinstance(command, ClearUserLimits):
            names = command.names
            old = self._registry.catalog.users[command.user].limits
            kept = {} if names is None else {name: limit for name, limit in old.items() if name not in names}
            self._registry.limit_user(command.user, kept)
        else:
            raise InvariantBroken(f"{type(command).__name__} is not about users")

    def _check_both(self, user: str, vhost: str, planned: Planned) -> None:
        known_user = user in self._registry.catalog.users or user in planned.users
        if not known_user or (vhost not in self._vhosts and vhost not in planned.vhosts):
            raise Refused("bad_request", "vhost_or_user_not_found")

    def _check_user(self, name: str, planned: Planned) -> None:
        if name not in self._registry.catalog.users and name not in planned.users:
            raise Refused("bad_request", f"no_such_user: {name}")


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


def _not_found() -> Refused:
    return Refused("not_found", "Not Found")
