"""From the metadata back to virtual hosts, users and permissions; and what a node has that never started before.

A node on whose disk no virtual host, user or permission is recorded gets the default ones, unless definitions are about
to be imported, and they are recorded: from then on the settings that name them have no effect. A virtual host that only
its queues tell of, as versions without users left it, is recorded as well.

Not here: queues, exchanges and bindings (`broker.definitions`).
"""

import hashlib
from typing import final

from warren.access.catalog import Catalog
from warren.access.hashing import SALT_OCTETS, hash_password
from warren.access.permissions import Permission, TopicPermission
from warren.access.users import User
from warren.broker.access.registry import Registry
from warren.broker.access.vhost_commands import VhostOwner, definition_of
from warren.broker.vhost import Vhost
from warren.model.settings import BrokerSettings
from warren.store.access_definitions import (
    PermissionDefinition,
    TopicPermissionDefinition,
    UserDefinition,
    VhostDefinition,
)
from warren.store.metadata import Definition


@final
class AccessLoader:
    """What a snapshot says of access."""

    def __init__(self, definitions: list[Definition]) -> None:
        self._vhosts: list[VhostDefinition] = [one for one in definitions if isinstance(one, VhostDefinition)]
        self._users: list[UserDefinition] = [one for one in definitions if isinstance(one, UserDefinition)]
        self._permissions: list[PermissionDefinition] = [
            one for one in definitions if isinstance(one, PermissionDefinition)
        ]
        self._topic_permissions: list[TopicPermissionDefinition] = [
            one for one in definitions if isinstance(one, TopicPermissionDefinition)
        ]

    def load_vhosts(self, owner: VhostOwner, others: list[str]) -> None:
        """Make those that are recorded, then others that something belongs to."""
        recorded: dict[str, None] = {}
        for definition in self._vhosts:
            vhost = owner.add_vhost(definition.name)
            vhost.description = definition.description
            vhost.tags = definition.tags
            vhost.limits = definition.limits
            recorded[definition.name] = None
        for name in others:
            if name not in recorded:
                owner.add_vhost(name)

    def load_catalog(self, catalog: Catalog) -> None:
        for user in self._users:
            catalog.add_user(User(user.name, user.password_hash, user.hashing_algorithm, user.tags, user.limits))
        for one in self._permissions:
            catalog.add_permission(Permission(one.user, one.vhost, one.configure, one.write, one.read))
        for topic in self._topic_permissions:
            catalog.add_topic_permission(
                TopicPermission(topic.user, topic.vhost, topic.exchange, topic.write, topic.read)
            )

    def complete(
        self, settings: BrokerSettings, seed: bytes, owner: VhostOwner, vhosts: dict[str, Vhost], registry: Registry
    ) -> None:
        """Record what is not recorded, after everything was loaded."""
        if not self._vhosts and not self._users and not self._permissions and not settings.starts_empty:
            if settings.default_vhost not in vhosts:
                owner.add_vhost(settings.default_vhost)
            _add_default_user(settings, seed, registry, list(vhosts))
        recorded = [definition.name for definition in self._vhosts]
        for vhost in vhosts.values():
            if vhost.name not in recorded:
                registry.record(definition_of(vhost))


def _add_default_user(settings: BrokerSettings, seed: bytes, registry: Registry, vhosts: list[str]) -> None:
    salt = hashlib.blake2b(b"salt of the default user", key=seed[:64], digest_size=SALT_OCTETS).digest()
    algorithm = settings.password_hashing_module
    name = settings.default_user
    password_hash = hash_password(algorithm, settings.default_pass, salt) if settings.default_pass else b""
    registry.put_user(User(name, password_hash, algorithm, list(settings.default_user_tags), {}))
    for vhost in vhosts:
        registry.set_permission(
            Permission(name, vhost, settings.default_configure, settings.default_write, settings.default_read)
        )
