"""Users, permissions and virtual hosts as they were agreed upon, and whoever relied on what was.

Relying on a permission are the routes that publishers remember: they are looked up anew when the topology's version
moves. Relying on a user are the remembered password and its connections, on a virtual host its connections.

Not here: what goes with what (`broker.access.planning`), the catalog's shape (`access.catalog`).
"""

from abc import abstractmethod
from typing import final

from mypy_extensions import trait

from warren.access.catalog import Catalog
from warren.access.permissions import Permission, TopicPermission
from warren.access.users import User
from warren.broker.access.logins import Logins
from warren.broker.access.population import Population
from warren.broker.applying import Applier
from warren.broker.vhost import Vhost
from warren.errors import InvariantBroken
from warren.store.access_definitions import (
    PERMISSIONS,
    TOPIC_PERMISSIONS,
    USERS,
    VHOSTS,
    PermissionDefinition,
    TopicPermissionDefinition,
    UserDefinition,
    VhostDefinition,
)
from warren.store.metadata import Definition


@trait
class VhostOwner:
    """Makes and unmakes virtual hosts."""

    @abstractmethod
    def add_vhost(self, name: str) -> Vhost:
        """Make an empty one."""

    @abstractmethod
    def remove_vhost(self, name: str) -> None:
        """Unmake one that is there, with all there is in it."""


@final
class AccessApplier(Applier):
    """The writer of the catalog."""

    def __init__(
        self, catalog: Catalog, logins: Logins, population: Population, owner: VhostOwner, vhosts: dict[str, Vhost]
    ) -> None:
        self._catalog: Catalog = catalog
        self._logins: Logins = logins
        self._population: Population = population
        self._owner: VhostOwner = owner
        self._vhosts: dict[str, Vhost] = vhosts

    def kinds(self) -> list[str]:
        return [VHOSTS, USERS, PERMISSIONS, TOPIC_PERMISSIONS]

    def put(self, definition: Definition, revision: int) -> None:
        if isinstance(definition, VhostDefinition):
            self._put_vhost(definition)
        elif isinstance(definition, UserDefinition):
            self._put_user(definition)
        elif isinstance(definition, PermissionDefinition):
            self._catalog.add_permission(
                Permission(definition.user, definition.vhost, definition.configure, definition.write, definition.read)
            )
            self._permissions_changed_in(definition.vhost)
        elif isinstance(definition, TopicPermissionDefinition):
            self._catalog.add_topic_permission(
                TopicPermission(
                    definition.user, definition.vhost, definition.exchange, definition.write, definition.read
                )
            )
            self._permissions_changed_in(definition.vhost)
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

    def _put_vhost(self, definition: VhostDefinition) -> None:
        vhost = self._vhosts.get(definition.name)
        if vhost is None:
            vhost = self._owner.add_vhost(definition.name)
        vhost.description = definition.description
        vhost.tags = definition.tags
        vhost.limits = definition.limits
        self._population.vhost_changed(definition.name)

    def _delete_vhost(self, name: str) -> None:
        if name in self._vhosts:
            self._population.dismiss_all_in(name)
            self._owner.remove_vhost(name)
            self._population.vhost_changed(name)

    def _put_user(self, definition: UserDefinition) -> None:
        name = definition.name
        old = self._catalog.users.get(name)
        if old is None or old.password_hash != definition.password_hash:
            self._logins.forget(name)
        self._catalog.add_user(
            User(name, definition.password_hash, definition.hashing_algorithm, definition.tags, definition.limits)
        )
        self._population.user_changed(name)

    def _delete_user(self, name: str) -> None:
        self._population.dismiss_all_of(name)
        self._catalog.users.pop(name, None)
        self._logins.forget(name)
        self._population.user_changed(name)

    def _permissions_changed_in(self, vhost: str) -> None:
        found = self._vhosts.get(vhost)
        if found is not None:
            found.topology.version += 1
