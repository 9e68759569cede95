"""Users, their permissions in virtual hosts, and their topic permissions.

A user without a password hash cannot log in with a password, but with a certificate.

A permission has three regular expressions for the names of objects that a user may configure (declare, delete), write
to (publish, bind to) and read from (consume, get, purge, bind from). A topic permission has two, for the routing keys
of one topic exchange. An expression may match anywhere in a name. An empty one matches only the empty name, which no
object has.

Results of matching are cached, so that a check is usually one lookup. The cache is bounded, because clients invent
names.

Invariants: every permission belongs to a user in `users`. Users and permissions are never changed, only replaced, so
cached results stay valid.

Not here: when a permission is checked (`broker.access.rights`), regular expressions (`broker.model.name_pattern`),
password hashes (`broker.access.passwords`), changes (`broker.appliers`).
"""

import re
from typing import Final, final

from warren.broker.access.passwords import is_slow
from warren.broker.metadata.access_definitions import UserDefinition
from warren.broker.model.name_pattern import NamePattern

ADMINISTRATOR: Final = "administrator"
IMPERSONATOR: Final = "impersonator"
"""A user with this tag may publish messages with another user's user-id."""


CACHED_NAMES_MAX: Final = 4096
NOTHING: Final = "^$"
NO_CLIENT: Final = ""


@final
class CachedPattern:
    """A regular expression with a cache of its results."""

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

    def sentence(self) -> str:
        return self.pattern.sentence()


@final
class Permission:
    """The permissions of one user in one virtual host."""

    def __init__(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        self.user: str = user
        self.vhost: str = vhost
        self.configure: str = configure
        self.write: str = write
        self.read: str = read
        self.configures: CachedPattern = CachedPattern(configure)
        self.writes: CachedPattern = CachedPattern(write)
        self.reads: CachedPattern = CachedPattern(read)

    def fault(self) -> str:
        """Why an expression matches nothing; empty if all can be used."""
        return self.configures.sentence() or self.writes.sentence() or self.reads.sentence()


@final
class TopicPermission:
    """The routing keys that one user may publish with and bind with on one topic exchange.

    `{username}` and `{vhost}` are replaced. AMQP 0-9-1 has no client id, so `{client_id}` is not.
    """

    def __init__(self, user: str, vhost: str, exchange: str, write: str, read: str) -> None:
        self.user: str = user
        self.vhost: str = vhost
        self.exchange: str = exchange
        self.write: str = write
        self.read: str = read
        self.writes: CachedPattern = CachedPattern(self._filled_in(write))
        self.reads: CachedPattern = CachedPattern(self._filled_in(read))

    def fault(self) -> str:
        """Why an expression matches nothing; empty if both can be used."""
        return self.writes.sentence() or self.reads.sentence()

    def _filled_in(self, expression: str) -> str:
        # names are inserted literally
        named = expression.replace("{username}", re.escape(self.user))
        return named.replace("{vhost}", re.escape(self.vhost))


@final
class AccessCatalog:
    """Users by name, permissions by user and virtual host, topic permissions by user, virtual host and exchange."""

    def __init__(self) -> None:
        self.users: dict[str, UserDefinition] = {}
        self.permissions: dict[tuple[str, str], Permission] = {}
        self.topic_permissions: dict[tuple[str, str, str], TopicPermission] = {}
        # whether any user has had a slow password hash
        self.has_slow_hashes: bool = False

    def add_user(self, user: UserDefinition) -> None:
        self.users[user.name] = user
        if is_slow(user.hashing_algorithm):
            self.has_slow_hashes = True

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
