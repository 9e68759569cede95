"""Apply committed definitions: topology, users and virtual hosts, policies and parameters.

A change of permissions increments the version of the topology, so that publishers check them again when they route. A
changed or deleted user loses its cached password digest; a deleted user or virtual host loses its connections.

A recorded pattern may be one that this node cannot use (`broker.model.name_pattern`): then it matches nothing, and the
log says so.

A policy takes effect at once. It may come before its virtual host and be cleared after it: a new virtual host looks up
the policies that exist.

Not here: making and removing queues (`broker.vhost`), definitions at startup (`broker.startup`), which definitions a
command changes (`broker.commands.access`), which queues a policy applies to (`broker.policy_enforcer`).
"""

from abc import abstractmethod
from typing import final

from mypy_extensions import trait

from warren.broker.access.internal_backend import InternalBackend
from warren.broker.access.users import AccessCatalog, Permission, TopicPermission
from warren.broker.connections import ConnectionLimits
from warren.broker.metadata.access_definitions import (
    PERMISSIONS,
    TOPIC_PERMISSIONS,
    USERS,
    VHOSTS,
    PermissionDefinition,
    TopicPermissionDefinition,
    UserDefinition,
    VhostDefinition,
)
from warren.broker.metadata.backend import MetadataApplier
from warren.broker.metadata.policy_definitions import (
    GLOBAL_PARAMETERS,
    OPERATOR_POLICIES,
    PARAMETERS,
    POLICIES,
    GlobalParameterDefinition,
    ParameterDefinition,
    PolicyDefinition,
)
from warren.broker.metadata.store import Definition, key_path
from warren.broker.metadata.topology_definitions import (
    BINDINGS,
    EXCHANGES,
    NO_ARGUMENTS,
    QUEUES,
    TO_QUEUE,
    BindingDefinition,
    ExchangeDefinition,
    QueueDefinition,
)
from warren.broker.model.stats import NodeStats
from warren.broker.model.turn import Turn
from warren.broker.policies.parameters import Parameter
from warren.broker.policies.policies import Policies, Policy
from warren.broker.replication.mirroring_policy import mirrors_bound_queues
from warren.broker.vhost import Vhost
from warren.errors import InvariantBroken


@final
class TopologyApplier(MetadataApplier):
    """Queues, exchanges and bindings. Those of removed virtual hosts are ignored."""

    def __init__(self, vhosts: dict[str, Vhost], stats: NodeStats) -> None:
        self._vhosts: dict[str, Vhost] = vhosts
        self._stats: NodeStats = stats

    def kinds(self) -> list[str]:
        return [QUEUES, EXCHANGES, BINDINGS]

    def put(self, definition: Definition, revision: int) -> None:
        if isinstance(definition, QueueDefinition):
            self._put_queue(definition, revision)
        elif isinstance(definition, ExchangeDefinition):
            self._put_exchange(definition, revision)
        elif isinstance(definition, BindingDefinition):
            vhost = self._vhosts.get(definition.vhost)
            if vhost is not None:
                vhost.bindings.make(definition)
                self._update_mirrors(vhost, definition.source)

    def _put_queue(self, definition: QueueDefinition, revision: int) -> None:
        vhost = self._vhosts.get(definition.vhost)
        if vhost is None:
            return
        queue = vhost.topology.queues.get(definition.name)
        if queue is None:
            vhost.make_queue(definition, revision)
            self._stats.queues_created += 1
        elif vhost.queue_locations is not None:
            vhost.queue_locations.changed(queue, definition)

    def _put_exchange(self, definition: ExchangeDefinition, revision: int) -> None:
        vhost = self._vhosts.get(definition.vhost)
        if vhost is not None and definition.name not in vhost.topology.exchanges:
            vhost.make_exchange(definition, revision)

    def delete(self, parts: list[str]) -> None:
        vhost = self._vhosts.get(parts[1])
        if vhost is None:
            return
        if parts[0] == QUEUES:
            vhost.remove_queue(parts[2])
        elif parts[0] == EXCHANGES:
            vhost.remove_exchange(parts[2])
        else:
            self._delete_binding(vhost, parts)

    def _delete_binding(self, vhost: Vhost, parts: list[str]) -> None:
        if parts[6] == NO_ARGUMENTS:
            vhost.bindings.unmake(parts[2], parts[4], parts[3] == TO_QUEUE, parts[5])
        else:
            vhost.bindings.unmake_with_arguments(key_path(BINDINGS, parts[1:]))
        self._update_mirrors(vhost, parts[2])

    def _update_mirrors(self, vhost: Vhost, source: str) -> None:
        """Some exchanges have a policy that mirrors the queues bound to them."""
        exchange = vhost.topology.exchanges.get(source)
        if exchange is not None and mirrors_bound_queues(exchange) and vhost.queue_locations is not None:
            vhost.queue_locations.policies_changed(vhost.name)


@trait
class VhostOwner:
    """Adds and removes virtual hosts."""

    @abstractmethod
    def add_vhost(self, name: str) -> Vhost:
        """Add an empty virtual host."""

    @abstractmethod
    def remove_vhost(self, name: str) -> None:
        """Remove a virtual host with everything in it."""


@final
class AccessApplier(MetadataApplier):
    """Virtual hosts, users and permissions."""

    def __init__(
        self,
        catalog: AccessCatalog,
        backend: InternalBackend,
        connection_limits: ConnectionLimits,
        owner: VhostOwner,
        vhosts: dict[str, Vhost],
        turn: Turn,
    ) -> None:
        self._catalog: AccessCatalog = catalog
        self._backend: InternalBackend = backend
        self._connection_limits: ConnectionLimits = connection_limits
        self._owner: VhostOwner = owner
        self._vhosts: dict[str, Vhost] = vhosts
        self._turn: Turn = turn

    def kinds(self) -> list[str]:
        return [VHOSTS, USERS, PERMISSIONS, TOPIC_PERMISSIONS]

    def put(self, definition: Definition, revision: int) -> None:
        if isinstance(definition, VhostDefinition):
            self._put_vhost(definition)
        elif isinstance(definition, UserDefinition):
            self._put_user(definition)
        elif isinstance(definition, PermissionDefinition):
            self._put_permission(definition)
        elif isinstance(definition, TopicPermissionDefinition):
            self._put_topic_permission(definition)
        else:
            raise InvariantBroken(f"{definition.key()} is not about access")

    def delete(self, parts: list[str]) -> None:
        kind = parts[0]
        if kind == VHOSTS:
            self._delete_vhost(parts[1])
        elif kind == USERS:
            self._delete_user(parts[1])
        elif kind == PERMISSIONS:
            if self._catalog.permissions.pop((parts[1], parts[2]), None) is not None:
                self._permissions_changed_in(parts[2])
        elif self._catalog.topic_permissions.pop((parts[1], parts[2], parts[3]), None) is not None:
            self._permissions_changed_in(parts[2])

    def _put_permission(self, definition: PermissionDefinition) -> None:
        permission = Permission(
            definition.user, definition.vhost, definition.configure, definition.write, definition.read
        )
        self._catalog.add_permission(permission)
        self._permissions_changed_in(definition.vhost)
        _note_fault(self._turn, definition, permission.fault())

    def _put_topic_permission(self, definition: TopicPermissionDefinition) -> None:
        permission = TopicPermission(
            definition.user, definition.vhost, definition.exchange, definition.write, definition.read
        )
        self._catalog.add_topic_permission(permission)
        self._permissions_changed_in(definition.vhost)
        _note_fault(self._turn, definition, permission.fault())

    def _put_vhost(self, definition: VhostDefinition) -> None:
        vhost = self._vhosts.get(definition.name)
        if vhost is None:
            vhost = self._owner.add_vhost(definition.name)
        vhost.description = definition.description
        vhost.tags = definition.tags
        vhost.limits = definition.limits
        self._connection_limits.vhost_changed(definition.name)

    def _delete_vhost(self, name: str) -> None:
        if name in self._vhosts:
            self._connection_limits.close_all_in(name)
            self._owner.remove_vhost(name)
            self._connection_limits.vhost_changed(name)

    def _put_user(self, definition: UserDefinition) -> None:
        name = definition.name
        old = self._catalog.users.get(name)
        if old is None or old.password_hash != definition.password_hash:
            self._backend.forget(name)
        self._catalog.add_user(definition)
        self._connection_limits.user_changed(name)

    def _delete_user(self, name: str) -> None:
        self._connection_limits.close_all_of(name)
        self._catalog.users.pop(name, None)
        self._backend.forget(name)
        self._connection_limits.user_changed(name)

    def _permissions_changed_in(self, vhost: str) -> None:
        found = self._vhosts.get(vhost)
        if found is not None:
            found.topology.version += 1


@final
class PolicyApplier(MetadataApplier):
    """Policies and parameters."""

    def __init__(self, policies: Policies, vhosts: dict[str, Vhost], turn: Turn) -> None:
        self._policies: Policies = policies
        self._vhosts: dict[str, Vhost] = vhosts
        self._turn: Turn = turn

    def kinds(self) -> list[str]:
        return [POLICIES, OPERATOR_POLICIES, PARAMETERS, GLOBAL_PARAMETERS]

    def put(self, definition: Definition, revision: int) -> None:
        if isinstance(definition, PolicyDefinition):
            self._set_policy(definition)
        elif isinstance(definition, ParameterDefinition):
            self._policies.set_parameter(
                Parameter(
                    definition.vhost, definition.component, definition.name, definition.content, definition.definer
                )
            )
        elif isinstance(definition, GlobalParameterDefinition):
            self._policies.set_global_parameter(definition.name, definition.content)
        else:
            raise InvariantBroken(f"{definition.key()} is neither a policy nor a parameter")

    def delete(self, parts: list[str]) -> None:
        kind = parts[0]
        if kind == PARAMETERS:
            self._policies.clear_parameter(parts[1], parts[2], parts[3])
        elif kind == GLOBAL_PARAMETERS:
            self._policies.clear_global_parameter(parts[1])
        else:
            self._clear_policy(parts[1], parts[2], kind == OPERATOR_POLICIES)

    def _set_policy(self, definition: PolicyDefinition) -> None:
        policy = Policy(
            definition.vhost,
            definition.name,
            definition.pattern,
            definition.apply_to,
            definition.definition,
            definition.priority,
        )
        self._policies.set_policy(policy, definition.operator)
        vhost = self._vhosts.get(policy.vhost)
        if vhost is not None:
            vhost.policy_changed(policy.name, policy, definition.operator)
        _note_fault(self._turn, definition, policy.compiled.sentence())

    def _clear_policy(self, vhost_name: str, name: str, operator: bool) -> None:
        self._policies.clear_policy(vhost_name, name, operator)
        vhost = self._vhosts.get(vhost_name)
        if vhost is not None:
            vhost.policy_changed(name, None, operator)


def _note_fault(turn: Turn, definition: Definition, fault: str) -> None:
    """Log that a recorded pattern matches nothing."""
    if fault:
        turn.note("warning", "pattern.unusable", {"key": definition.key(), "reason": fault})
