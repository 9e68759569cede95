"""Virtual hosts, users and permissions as metadata.

    vhosts/%2F                                  v, description, tags, limits
    users/alice                                 v, password_hash, hashing_algorithm, tags, limits
    permissions/alice/%2F                       v, configure, write, read
    topic_permissions/alice/%2F/news            v, write, read

Whether a virtual host is traced is not stored: tracing ends with the node.

Not here: keys and values in general (`broker.metadata.store`), users and permissions at work (`broker.access`).
"""

from typing import Final, final

from warren.broker.metadata.store import Definition, DefinitionFields, DefinitionReader, encode_fields, key_path
from warren.wire.field_tables import Table, encode_table

VHOSTS: Final = "vhosts"
USERS: Final = "users"
PERMISSIONS: Final = "permissions"
TOPIC_PERMISSIONS: Final = "topic_permissions"


@final
class VhostDefinition(Definition):
    """A virtual host."""

    def __init__(self, name: str, description: str, tags: list[str], limits: dict[str, int]) -> None:
        self.name: str = name
        self.description: str = description
        self.tags: list[str] = tags
        self.limits: dict[str, int] = limits

    def key(self) -> str:
        return vhost_key(self.name)

    def value(self) -> bytes:
        return encode_fields(
            {"description": self.description, "tags": list(self.tags), "limits": _encode_numbers(self.limits)}
        )


@final
class UserDefinition(Definition):
    """A user."""

    def __init__(
        self, name: str, password_hash: bytes, hashing_algorithm: str, tags: list[str], limits: dict[str, int]
    ) -> None:
        self.name: str = name
        self.password_hash: bytes = password_hash
        self.hashing_algorithm: str = hashing_algorithm
        self.tags: list[str] = tags
        self.limits: dict[str, int] = limits

    def key(self) -> str:
        return user_key(self.name)

    def value(self) -> bytes:
        return encode_fields(
            {
                "password_hash": self.password_hash,
                "hashing_algorithm": self.hashing_algorithm,
                "tags": list(self.tags),
                "limits": _encode_numbers(self.limits),
            }
        )


@final
class PermissionDefinition(Definition):
    """The permissions of a user in a virtual host."""

    def __init__(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        self.user: str = user
        self.vhost: str = vhost
        self.configure: str = configure
        self.write: str = write
        self.read: str = read

    def key(self) -> str:
        return permission_key(self.user, self.vhost)

    def value(self) -> bytes:
        return encode_fields({"configure": self.configure, "write": self.write, "read": self.read})


@final
class TopicPermissionDefinition(Definition):
    """The permissions of a user on routing keys of a topic exchange."""

    def __init__(self, user: str, vhost: str, exchange: str, write: str, read: str) -> None:
        self.user: str = user
        self.vhost: str = vhost
        self.exchange: str = exchange
        self.write: str = write
        self.read: str = read

    def key(self) -> str:
        return topic_permission_key(self.user, self.vhost, self.exchange)

    def value(self) -> bytes:
        return encode_fields({"write": self.write, "read": self.read})


def vhost_key(name: str) -> str:
    return key_path(VHOSTS, [name])


def user_key(name: str) -> str:
    return key_path(USERS, [name])


def permission_key(user: str, vhost: str) -> str:
    return key_path(PERMISSIONS, [user, vhost])


def topic_permission_key(user: str, vhost: str, exchange: str) -> str:
    return key_path(TOPIC_PERMISSIONS, [user, vhost, exchange])


def _read_vhost(parts: list[str], fields: DefinitionFields) -> Definition | None:
    if len(parts) != 2:
        return None
    return VhostDefinition(parts[1], fields.text("description"), fields.texts("tags"), fields.numbers("limits"))


def _read_user(parts: list[str], fields: DefinitionFields) -> Definition | None:
    if len(parts) != 2:
        return None
    return UserDefinition(
        parts[1],
        fields.octets("password_hash"),
        fields.text("hashing_algorithm"),
        fields.texts("tags"),
        fields.numbers("limits"),
    )


def _read_permission(parts: list[str], fields: DefinitionFields) -> Definition | None:
    if len(parts) != 3:
        return None
    return PermissionDefinition(parts[1], parts[2], fields.text("configure"), fields.text("write"), fields.text("read"))


def _read_topic_permission(parts: list[str], fields: DefinitionFields) -> Definition | None:
    if len(parts) != 4:
        return None
    return TopicPermissionDefinition(parts[1], parts[2], parts[3], fields.text("write"), fields.text("read"))


ACCESS_KINDS: Final[dict[str, DefinitionReader]] = {
    VHOSTS: _read_vhost,
    USERS: _read_user,
    PERMISSIONS: _read_permission,
    TOPIC_PERMISSIONS: _read_topic_permission,
}


def _encode_numbers(numbers: dict[str, int]) -> bytes:
    table: Table = dict(numbers)
    return encode_table(table)
