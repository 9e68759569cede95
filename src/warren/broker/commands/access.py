"""Commands about users, permissions, virtual hosts and their limits.

Several commands may share one transaction, so each is built against the state after those before it: the proposed
change of a key if there is one, else the current definition.

A user is deleted with its permissions, a virtual host with everything in it. The transaction relies on those keys, so
that nothing can be added meanwhile. The user or virtual host comes first in the transaction: its connections are then
closed with that reason, and not because of a lost permission.

Not here: committed definitions (`broker.appliers`), hashing of passwords (`broker.access.passwords`).
"""

from typing import Final, final

from warren.broker.access.backends import LoginAttempt, LoginWaiter
from warren.broker.access.limits import checked_user_limits, checked_vhost_limits, limits_without
from warren.broker.access.logins import Logins
from warren.broker.access.rights import AnswerWaiter
from warren.broker.access.users import AccessCatalog, CachedPattern, Permission, TopicPermission
from warren.broker.commands.control import CommandHandler, DeferringHandler, ProposedNames
from warren.broker.commands.policies import add_policies_removal
from warren.broker.commands.requests import (
    Authenticate,
    ClearPermission,
    ClearTopicPermission,
    ClearUserLimits,
    ClearVhostLimits,
    DeleteUser,
    DeleteVhost,
    EmptyVhost,
    ListVhostsOf,
    PutUser,
    PutVhost,
    SetPermission,
    SetTopicPermission,
    SetUserLimits,
    SetVhostLimits,
)
from warren.broker.metadata.access_definitions import (
    PERMISSIONS,
    TOPIC_PERMISSIONS,
    PermissionDefinition,
    TopicPermissionDefinition,
    UserDefinition,
    VhostDefinition,
    permission_key,
    topic_permission_key,
    user_key,
    vhost_key,
)
from warren.broker.metadata.policy_definitions import OPERATOR_POLICIES, PARAMETERS, POLICIES
from warren.broker.metadata.store import key_prefix
from warren.broker.metadata.topology_definitions import BINDINGS, EXCHANGES, QUEUES
from warren.broker.metadata.transaction import MetadataTransaction
from warren.broker.model.effects import CompleteCommand
from warren.broker.model.events import Command
from warren.broker.model.identity import Identity
from warren.broker.model.turn import Turn
from warren.broker.policies.policies import Policies
from warren.broker.routing.topology_transactions import add_removal_of_all, add_removal_of_some
from warren.broker.vhost import Vhost
from warren.errors import CommandRefused, InvariantBroken

IN_VHOSTS: Final = (POLICIES, OPERATOR_POLICIES, PARAMETERS, EXCHANGES, QUEUES, BINDINGS)
"""Kinds of definitions with the virtual host first in their keys."""


def is_new(transaction: MetadataTransaction, key: str, known: bool) -> bool:
    """Whether a key has no definition after the proposed changes; `known`: it has one now."""
    change = transaction.change_of(key)
    return not known if change is None else change.definition is None


def proposed_user(transaction: MetadataTransaction, catalog: AccessCatalog, name: str) -> UserDefinition | None:
    """The user after the proposed changes."""
    change = transaction.change_of(user_key(name))
    if change is not None:
        return change.definition if isinstance(change.definition, UserDefinition) else None
    return catalog.users.get(name)


def proposed_vhost(transaction: MetadataTransaction, vhosts: dict[str, Vhost], name: str) -> VhostDefinition | None:
    """The virtual host after the proposed changes."""
    change = transaction.change_of(vhost_key(name))
    if change is not None:
        return change.definition if isinstance(change.definition, VhostDefinition) else None
    vhost = vhosts.get(name)
    return None if vhost is None else VhostDefinition(name, vhost.description, vhost.tags, vhost.limits)


def require_user_and_vhost(transaction: MetadataTransaction, user: str, vhost: str) -> None:
    """Make the transaction outdated if the user or the virtual host is deleted meanwhile."""
    transaction.rely_on(user_key(user))
    transaction.rely_on(vhost_key(vhost))


def add_user_removal(transaction: MetadataTransaction, catalog: AccessCatalog, name: str) -> None:
    transaction.delete(user_key(name))
    transaction.rely_on_all(key_prefix(PERMISSIONS, [name]))
    transaction.rely_on_all(key_prefix(TOPIC_PERMISSIONS, [name]))
    for permission in catalog.permissions_of_user(name):
        transaction.delete(permission_key(name, permission.vhost))
    for topic in catalog.topic_permissions_of_user(name):
        transaction.delete(topic_permission_key(name, topic.vhost, topic.exchange))


def add_vhost_removal(
    transaction: MetadataTransaction, catalog: AccessCatalog, policies: Policies, vhost: Vhost
) -> None:
    name = vhost.name
    transaction.delete(vhost_key(name))
    transaction.rely_on_all(key_prefix(PERMISSIONS, []))
    transaction.rely_on_all(key_prefix(TOPIC_PERMISSIONS, []))
    for kind in IN_VHOSTS:
        transaction.rely_on_all(key_prefix(kind, [name]))
    for permission in catalog.permissions_in(name):
        transaction.delete(permission_key(permission.user, name))
    for topic in catalog.topic_permissions_in(name):
        transaction.delete(topic_permission_key(topic.user, name, topic.exchange))
    add_policies_removal(transaction, policies, name)
    add_removal_of_all(transaction, vhost.topology)


@final
class UserCommands(CommandHandler):
    """Commands about users, permissions and limits of users."""

    def __init__(self, catalog: AccessCatalog, vhosts: dict[str, Vhost]) -> None:
        self._catalog: AccessCatalog = catalog
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

    def check(self, command: Command, proposed: ProposedNames) -> None:
        catalog = self._catalog
        if isinstance(command, PutUser):
            if not command.name:
                raise CommandRefused("bad_request", "user name must not be empty")
            proposed.users[command.name] = None
        elif isinstance(command, DeleteUser):
            if command.name not in catalog.users:
                raise _not_found()
        elif isinstance(command, SetPermission):
            self._check_both(command.user, command.vhost, proposed)
            _check_permission(Permission(command.user, command.vhost, command.configure, command.write, command.read))
        elif isinstance(command, ClearPermission):
            if (command.user, command.vhost) not in catalog.permissions:
                raise _not_found()
        elif isinstance(command, SetTopicPermission):
            self._check_both(command.user, command.vhost, proposed)
            _check_topic_permission(_topic_permission_of(command))
        elif isinstance(command, ClearTopicPermission):
            if command.user not in catalog.users or command.vhost not in self._vhosts:
                raise _not_found()
        elif isinstance(command, SetUserLimits):
            self._check_user(command.user, proposed)
            checked_user_limits(command.limits)
        elif isinstance(command, ClearUserLimits):
            self._check_user(command.user, proposed)

    def add_changes(self, command: Command, transaction: MetadataTransaction) -> object:
        if isinstance(command, PutUser):
            return self._add_user(command, transaction)
        if isinstance(command, DeleteUser):
            add_user_removal(transaction, self._catalog, command.name)
        elif isinstance(command, SetPermission):
            return self._add_permission(command, transaction)
        elif isinstance(command, ClearPermission):
            transaction.delete(permission_key(command.user, command.vhost))
        elif isinstance(command, SetTopicPermission):
            return self._add_topic_permission(command, transaction)
        elif isinstance(command, ClearTopicPermission):
            for topic in self._catalog.topic_permissions_of_user(command.user):
                if topic.vhost == command.vhost and command.exchange in (None, topic.exchange):
                    transaction.delete(topic_permission_key(command.user, command.vhost, topic.exchange))
        elif isinstance(command, SetUserLimits):
            old = self._user_to_be(transaction, command.user)
            _add_user_limits(transaction, old, {**old.limits, **checked_user_limits(command.limits)})
        elif isinstance(command, ClearUserLimits):
            old = self._user_to_be(transaction, command.user)
            _add_user_limits(transaction, old, limits_without(old.limits, command.names))
        else:
            raise InvariantBroken(f"{type(command).__name__} is not about users")
        return None

    def _add_user(self, command: PutUser, transaction: MetadataTransaction) -> bool:
        old = proposed_user(transaction, self._catalog, command.name)
        limits: dict[str, int] = {} if old is None else old.limits
        transaction.put(
            UserDefinition(command.name, command.password_hash, command.hashing_algorithm, list(command.tags), limits)
        )
        return old is None

    def _add_permission(self, command: SetPermission, transaction: MetadataTransaction) -> bool:
        user, vhost = command.user, command.vhost
        require_user_and_vhost(transaction, user, vhost)
        permission = PermissionDefinition(user, vhost, command.configure, command.write, command.read)
        created = is_new(transaction, permission.key(), (user, vhost) in self._catalog.permissions)
        transaction.put(permission)
        return created

    def _add_topic_permission(self, command: SetTopicPermission, transaction: MetadataTransaction) -> bool:
        user, vhost, exchange = command.user, command.vhost, command.exchange
        require_user_and_vhost(transaction, user, vhost)
        permission = TopicPermissionDefinition(user, vhost, exchange, command.write, command.read)
        created = is_new(transaction, permission.key(), (user, vhost, exchange) in self._catalog.topic_permissions)
        transaction.put(permission)
        return created

    def _user_to_be(self, transaction: MetadataTransaction, name: str) -> UserDefinition:
        user = proposed_user(transaction, self._catalog, name)
        if user is None:
            raise _no_such_user(name)
        return user

    def _check_both(self, user: str, vhost: str, proposed: ProposedNames) -> None:
        known_user = user in self._catalog.users or user in proposed.users
        if not known_user or (vhost not in self._vhosts and vhost not in proposed.vhosts):
            raise CommandRefused("bad_request", "vhost_or_user_not_found")

    def _check_user(self, name: str, proposed: ProposedNames) -> None:
        if name not in self._catalog.users and name not in proposed.users:
            raise _no_such_user(name)


@final
class LoginCommands(DeferringHandler):
    """`Authenticate` and `ListVhostsOf`, answered when the login and the last virtual host are decided."""

    def __init__(self, logins: Logins, vhosts: dict[str, Vhost], turn: Turn) -> None:
        self._logins: Logins = logins
        self._vhosts: dict[str, Vhost] = vhosts
        self._turn: Turn = turn

    def kinds(self) -> list[type[Command]]:
        return [Authenticate, ListVhostsOf]

    def begin(self, ticket: int, command: Command) -> None:
        if isinstance(command, ListVhostsOf):
            VhostListing(ticket, command, sorted(self._vhosts), self._logins, self._turn).ask_next()
            return
        assert isinstance(command, Authenticate)
        attempt = LoginAttempt(command.user, command.password, command.peer_host, "", False)
        self._logins.log_in(attempt, CommandLogin(ticket, command, self._turn))


VHOSTS_ASKED_AT_ONCE: Final = 8
"""So that one request over HTTP does not take all questions that the node may ask at a time."""


@final
class VhostListing:
    """The virtual hosts that a client may enter, while a backend decides about them."""

    def __init__(self, ticket: int, command: ListVhostsOf, names: list[str], logins: Logins, turn: Turn) -> None:
        self._ticket: int = ticket
        self._command: ListVhostsOf = command
        self._left: list[str] = names
        self._logins: Logins = logins
        self._turn: Turn = turn
        self._entered: list[str] = []
        self._asked: int = 0
        self._asking: bool = False

    def ask_next(self) -> None:
        """Ask about more virtual hosts; the answer of the command follows the last one."""
        if self._asking:
            # an answer within the call: the loop below goes on
            return
        self._asking = True
        while self._left and self._asked < VHOSTS_ASKED_AT_ONCE:
            name = self._left.pop(0)
            self._asked += 1
            identity, peer_host = self._command.identity, self._command.peer_host
            self._logins.ask_to_enter(identity, name, peer_host, ListedVhost(self, name))
        self._asking = False
        if not self._asked:
            self._turn.effects.append(CompleteCommand(self._ticket, sorted(self._entered)))

    def decided(self, name: str, allowed: bool) -> None:
        self._asked -= 1
        if allowed:
            self._entered.append(name)
        self.ask_next()


@final
class ListedVhost(AnswerWaiter):
    """One of them."""

    def __init__(self, listing: VhostListing, name: str) -> None:
        self._listing: VhostListing = listing
        self._name: str = name

    def still_waits(self) -> bool:
        return True

    def answered(self, allowed: bool) -> None:
        self._listing.decided(self._name, allowed)


@final
class CommandLogin(LoginWaiter):
    """A login of an operator."""

    def __init__(self, ticket: int, command: Authenticate, turn: Turn) -> None:
        self._ticket: int = ticket
        self._peer_host: str = command.peer_host
        self._turn: Turn = turn

    def still_waits(self) -> bool:
        # an answer to an HTTP client that has disconnected does no harm
        return True

    def login_accepted(self, identity: Identity) -> None:
        self._turn.effects.append(CompleteCommand(self._ticket, identity))

    def login_refused(self, reason: str) -> None:
        self._turn.note("warning", "login.refused", {"peer": self._peer_host, "reason": reason})
        self._turn.effects.append(CompleteCommand(self._ticket, None, "not_authorised", reason))


def _add_user_limits(transaction: MetadataTransaction, user: UserDefinition, limits: dict[str, int]) -> None:
    transaction.put(UserDefinition(user.name, user.password_hash, user.hashing_algorithm, user.tags, limits))


def _topic_permission_of(command: SetTopicPermission) -> TopicPermission:
    return TopicPermission(command.user, command.vhost, command.exchange, command.write, command.read)


def _check_permission(permission: Permission) -> None:
    for sieve in (permission.configures, permission.writes, permission.reads):
        _check_pattern(sieve)


def _check_topic_permission(permission: TopicPermission) -> None:
    for sieve in (permission.writes, permission.reads):
        _check_pattern(sieve)


def _check_pattern(sieve: CachedPattern) -> None:
    pattern = sieve.pattern
    if pattern.unsupported:
        raise CommandRefused("bad_request", f"invalid_regexp: '{pattern.text}' cannot be used: {pattern.fault}")
    if pattern.fault:
        reason = f"invalid_regexp: '{pattern.text}' is no regular expression: {pattern.fault} at {pattern.fault_at}"
        raise CommandRefused("bad_request", reason)


def _no_such_user(name: str) -> CommandRefused:
    return CommandRefused("bad_request", f"no_such_user: {name}")


def _not_found() -> CommandRefused:
    return CommandRefused("not_found", "Not Found")


@final
class VhostCommands(CommandHandler):
    """Commands about virtual hosts and their limits."""

    def __init__(self, vhosts: dict[str, Vhost], catalog: AccessCatalog, policies: Policies) -> None:
        self._vhosts: dict[str, Vhost] = vhosts
        self._catalog: AccessCatalog = catalog
        self._policies: Policies = policies

    def kinds(self) -> list[type[Command]]:
        return [PutVhost, EmptyVhost, DeleteVhost, SetVhostLimits, ClearVhostLimits]

    def check(self, command: Command, proposed: ProposedNames) -> None:
        if isinstance(command, PutVhost):
            if not command.name:
                raise CommandRefused("bad_request", "vhost name must not be empty")
            proposed.vhosts[command.name] = None
        elif isinstance(command, EmptyVhost | DeleteVhost):
            if command.name not in self._vhosts:
                raise CommandRefused("not_found", "Not Found")
        elif isinstance(command, SetVhostLimits):
            self._check_known(command.vhost, proposed)
            checked_vhost_limits(command.limits)
        elif isinstance(command, ClearVhostLimits):
            self._check_known(command.vhost, proposed)

    def add_changes(self, command: Command, transaction: MetadataTransaction) -> object:
        if isinstance(command, PutVhost):
            old = proposed_vhost(transaction, self._vhosts, command.name)
            limits: dict[str, int] = {} if old is None else old.limits
            transaction.put(VhostDefinition(command.name, command.description, list(command.tags), limits))
            return old is None
        if isinstance(command, EmptyVhost):
            return add_removal_of_some(transaction, self._vhosts[command.name].topology)
        if isinstance(command, DeleteVhost):
            add_vhost_removal(transaction, self._catalog, self._policies, self._vhosts[command.name])
        elif isinstance(command, SetVhostLimits):
            old = self._vhost_to_be(transaction, command.vhost)
            _add_vhost_limits(transaction, old, {**old.limits, **checked_vhost_limits(command.limits)})
        elif isinstance(command, ClearVhostLimits):
            old = self._vhost_to_be(transaction, command.vhost)
            _add_vhost_limits(transaction, old, limits_without(old.limits, command.names))
        else:
            raise InvariantBroken(f"{type(command).__name__} is not about virtual hosts")
        return None

    def follow_up(self, command: Command) -> None:
        """Tracing is a setting of each node."""
        if isinstance(command, PutVhost) and command.tracing is not None:
            vhost = self._vhosts.get(command.name)
            if vhost is not None:
                vhost.set_tracing(command.tracing)

    def _vhost_to_be(self, transaction: MetadataTransaction, name: str) -> VhostDefinition:
        vhost = proposed_vhost(transaction, self._vhosts, name)
        if vhost is None:
            raise _no_such_vhost()
        return vhost

    def _check_known(self, name: str, proposed: ProposedNames) -> None:
        if name not in self._vhosts and name not in proposed.vhosts:
            raise _no_such_vhost()


def _add_vhost_limits(transaction: MetadataTransaction, vhost: VhostDefinition, limits: dict[str, int]) -> None:
    transaction.put(VhostDefinition(vhost.name, vhost.description, vhost.tags, limits))


def _no_such_vhost() -> CommandRefused:
    return CommandRefused("not_found", "vhost_not_found")
