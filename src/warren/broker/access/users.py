"""Everything the node knows of its users and what they may do.

Invariant: every permission is of a user in `users`.

Not here: which virtual hosts there are, what is on disk, and changes (`broker.access`); a client's view of it
(`broker.access.rights`).

A user as the node knows it.

A user without a password hash cannot log in by password; a certificate may still name it.

Not here: how a password becomes a hash (`broker.access.passwords`), what a user may do (`broker.access.users`), who is
let in (`broker.access`).

What a user may do in a virtual host, by the names of things.

Three expressions say what it may configure (declare, delete), write to (publish, bind to) and read from (consume, get,
purge, bind from). On topic exchanges two more may look at routing keys. An expression is searched anywhere in a name;
an empty one matches the empty name alone, which nothing has that matters.

Judgements are remembered, so that a name costs one lookup, the most part of the time. What is remembered is bounded:
names may be invented by clients.

Invariant: a permission is never changed, only replaced, so what it remembers stays true.

Not here: when which of them is asked for (`broker.access.rights`), expressions themselves
(`broker.model.name_pattern`).
"""

import re
from typing import Final, final

from warren.broker.model.name_pattern import NamePattern

ADMINISTRATOR: Final = "administrator"
IMPERSONATOR: Final = "impersonator"
"""Who bears it may say in a message's user-id that it comes from somebody else."""


@final
class User:
    """One user; never changed, only replaced."""

    def __init__(
        self, name: str, password_hash: bytes, hashing_algorithm: str, tags: list[str], limits: dict[str, int]
    ) -> None:
        self.name: str = name
        self.password_hash: bytes = password_hash
        self.hashing_algorithm: str = hashing_algorithm
        self.tags: list[str] = tags
        self.limits: dict[str, int] = limits


CACHED_NAMES_MAX: Final = 4096
NOTHING: Final = "^$"
NO_CLIENT: Final = ""


@final
class CachedPattern:
    """One expression, and which names it was found to match."""

    def __init__(self, expression: str) -> None:
        self.pattern: NamePattern = NamePattern(expression or NOTHING)
        self._judged: dict[str, bool] = {}

    def matches(self, name: str) -> bool:
        judged = self._judged.get(name)
        if judged is not None:
            return judged
        judged = self.pattern.matches(name)
        if len(self._judged) >= CACHED_NAMES_MAX:
            self._judged.clear()
        self._judged[name] = judged
        return judged


@final
class Permission:
    """One user's in one virtual host."""

    def __init__(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        self.user: str = user
        self.vhost: str = vhost
        self.configure: str = configure
        self.write: str = write
        self.read: str = read
        self.configures: CachedPattern = CachedPattern(configure)
        self.writes: CachedPattern = CachedPattern(write)
        self.reads: CachedPattern = CachedPattern(read)


@final
class TopicPermission:
    """One user's on one topic exchange: which keys it may publish with and bind with.

    `{username}` and `{vhost}` stand for its own; a client has no other names in this protocol, so `{client_id}` stays.
    """

    def __init__(self, user: str, vhost: str, exchange: str, write: str, read: str) -> None:
        self.user: str = user
        self.vhost: str = vhost
        self.exchange: str = exchange
        self.write: str = write
        self.read: str = read
        self.writes: CachedPattern = CachedPattern(self._filled_in(write))
        self.reads: CachedPattern = CachedPattern(self._filled_in(read))

    def _filled_in(self, expression: str) -> str:
        # a name is a name here, whatever it would mean as an expression
        named = expression.replace("{username}", re.escape(self.user))
        return named.replace("{vhost}", re.escape(self.vhost))


@final
class AccessCatalog:
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
