"""Everything the node knows of its users and what they may do.

Invariant: every permission is of a user in `users`.

Not here: which virtual hosts there are, what is on disk, and changes (`broker.access`); a client's view of it
(`access.rights`).
"""

from typing import final

from warren.access.permissions import Permission, TopicPermission
from warren.access.users import User


@final
class Catalog:
    """Users by name, permissions by user and virtual host, topic permissions by user, virtual host and exchange."""

    def __init__(self) -> None:
        self.users: dict[str, User] = {}
        self.permissions: dict[tuple[str, str], Permission] = {}
        self.topic_permissions: dict[tuple[str, str, str], TopicPermission] = {}

    def add_user(self, user: User) -> None:
        self.users[user.name] = user

    def add_permission(self, permission: Permission) -> None:
        self.permissions[permission.user, permission.vhost] = permission

    def add_topic_permission(self, permission: TopicPermission) -> None:
        self.topic_permissions[permission.user, permission.vhost, permission.exchange] = permission

    def permissions_of_user(self, name: str) -> list[Permission]:
        return [permission for permission in self.permissions.values() if permission.user == name]

    def permissions_in(self, vhost: str) -> list[Permission]:
        return [permission for permission in self.permissions.values() if permission.vhost == vhost]

    def topic_permissions_of_user(self, name: str) -> list[TopicPermission]:
        return [permission for permission in self.topic_permissions.values() if permission.user == name]

    def topic_permissions_in(self, vhost: str) -> list[TopicPermission]:
        return [permission for permission in self.topic_permissions.values() if permission.vhost == vhost]
