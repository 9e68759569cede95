"""Changes of users and permissions: made in the catalog, written down, and told to whoever relies on what was.

Relying on a permission are the routes that publishers remember: they are looked up anew when the topology's version
moves. Relying on a user are the remembered password and its connections.

Not here: whether a change is allowed (`broker.access.user_commands`), the catalog's shape (`access.catalog`).
"""

from typing import final

from warren.access.catalog import Catalog
from warren.access.permissions import Permission, TopicPermission
from warren.access.users import User
from warren.broker.access.logins import Logins
from warren.broker.access.population import Population
from warren.broker.vhost import Vhost
from warren.store.access_definitions import (
    PermissionDefinition,
    TopicPermissionDefinition,
    UserDefinition,
    permission_key,
    topic_permission_key,
    user_key,
    vhost_key,
)
from warren.store.metadata import Definition, Metadata


@final
class Registry:
    """The writer of the catalog."""

    def __init__(self, catalog: Catalog, logins: Logins, population: Population, vhosts: dict[str, Vhost]) -> None:
        self.catalog: Catalog = catalog
        self._logins: Logins = logins
        self._population: Population = population
        self._vhosts: dict[str, Vhost] = vhosts
        # without it nothing outlives the node
        self.metadata: Metadata | None = None

    def put_user(self, user: User) -> bool:
        """Whether there was none of that name."""
        created = user.name not in self.catalog.users
        self.catalog.add_user(user)
        self._logins.forget(user.name)
        self.record(
            UserDefinition(user.name, user.password_hash, user.hashing_algorithm, list(user.tags), dict(user.limits))
        )
        return created

    def limit_user(self, name: str, limits: dict[str, int]) -> None:
        """Replace a user's limits; what it proved of its password stays."""
        old = self.catalog.users[name]
        user = User(name, old.password_hash, old.hashing_algorithm, old.tags, limits)
        self.catalog.add_user(user)
        self.record(UserDefinition(name, user.password_hash, user.hashing_algorithm, list(user.tags), dict(limits)))

    def delete_user(self, name: str) -> None:
        self._population.dismiss_all_of(name)
        for permission in self.catalog.permissions_of_user(name):
            self.clear_permission(name, permission.vhost)
        for topic in self.catalog.topic_permissions_of_user(name):
            self.clear_topic_permission(name, topic.vhost, topic.exchange)
        del self.catalog.users[name]
        self._logins.forget(name)
        self._erase(user_key(name))

    def set_permission(self, permission: Permission) -> bool:
        """Whether there was none for that user in that virtual host."""
        created = (permission.user, permission.vhost) not in self.catalog.permissions
        self.catalog.add_permission(permission)
        self._permissions_changed_in(permission.vhost)
        self.record(
            PermissionDefinition(
                permission.user, permission.vhost, permission.configure, permission.write, permission.read
            )
        )
        return created

    def clear_permission(self, user: str, vhost: str) -> None:
        if self.catalog.permissions.pop((user, vhost), None) is not None:
            self._permissions_changed_in(vhost)
            self._erase(permission_key(user, vhost))

    def set_topic_permission(self, permission: TopicPermission) -> bool:
        """Whether there was none for that user on that exchange."""
        user, vhost, exchange = permission.user, permission.vhost, permission.exchange
        created = (user, vhost, exchange) not in self.catalog.topic_permissions
        self.catalog.add_topic_permission(permission)
        self._permissions_changed_in(vhost)
        self.record(TopicPermissionDefinition(user, vhost, exchange, permission.write, permission.read))
        return created

    def clear_topic_permission(self, user: str, vhost: str, exchange: str) -> None:
        if self.catalog.topic_permissions.pop((user, vhost, exchange), None) is not None:
            self._permissions_changed_in(vhost)
            self._erase(topic_permission_key(user, vhost, exchange))

    def vhost_removed(self, vhost: str) -> None:
        """Nobody has permissions in it any more."""
        self._erase(vhost_key(vhost))
        for permission in self.catalog.permissions_in(vhost):
            self.clear_permission(permission.user, vhost)
        for topic in self.catalog.topic_permissions_in(vhost):
            self.clear_topic_permission(topic.user, vhost, topic.exchange)

    def record(self, definition: Definition) -> None:
        if self.metadata is not None:
            self.metadata.put(definition.key(), definition.value())

    def _erase(self, key: str) -> None:
        if self.metadata is not None:
            self.metadata.delete(key)

    def _permissions_changed_in(self, vhost: str) -> None:
        found = self._vhosts.get(vhost)
        if found is not None:
            found.topology.version += 1
