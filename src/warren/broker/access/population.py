"""Who is in: the connections of each virtual host and of each user, and whether there is room for more.

Limits count what all nodes of a cluster have, as in RabbitMQ: what this one has, and what the others have told. Two
nodes that let somebody in at the same moment may go beyond a limit by what neither could know of yet.

Links of the node to itself are in, too, so that they end with their user or virtual host, but nobody counts them.

Not here: who may come in at all (`broker.broker`), what a limit is (`access.limits`), what nodes tell each other of
this (`broker.access.headcounts`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.access.catalog import Catalog
from warren.access.limits import MAX_CHANNELS, MAX_CONNECTIONS, UNLIMITED, limit_of
from warren.access.users import User
from warren.errors import CONNECTION_FORCED, NOT_ALLOWED, ConnectionFault
from warren.session.connection import Connection
from warren.session.ports import VhostPort

CONNECTIONS_IN: Final = 1
CONNECTIONS_OF: Final = 2
CHANNELS_OF: Final = 3

Count = tuple[int, str]
"""What is counted, and of which virtual host (`CONNECTIONS_IN`) or user (the others)."""


@final
class Population:
    """Open connections, by where they are and whose they are."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog: Catalog = catalog
        self._by_vhost: dict[str, Group] = {}
        self._by_user: dict[str, Group] = {}
        # by node, what the others have of those who have limits
        self.elsewhere: dict[str, dict[Count, int]] = {}
        # virtual hosts and users whose connections, or limits, are not what they were; kept if anybody wants to know
        self.stirred_vhosts: dict[str, None] = {}
        self.stirred_users: dict[str, None] = {}
        self._watched: bool = False

    def watch(self) -> None:
        """Somebody tells others what moves, and begins with what there is."""
        self._watched = True
        self.stirred_vhosts = dict.fromkeys(self._by_vhost)
        self.stirred_users = dict.fromkeys(self._by_user)

    def came(self, connection: Connection, vhost: str) -> None:
        _enter(self._by_vhost, vhost, connection)
        _enter(self._by_user, connection.user, connection)
        self.vhost_changed(vhost)
        self.user_changed(connection.user)

    def went(self, connection: Connection, vhost: str) -> None:
        _leave(self._by_vhost, vhost, connection)
        _leave(self._by_user, connection.user, connection)
        self.vhost_changed(vhost)
        self.user_changed(connection.user)

    # -- counting

    def count(self, what: Count) -> int:
        """How many this node has."""
        kind, name = what
        group = (self._by_vhost if kind == CONNECTIONS_IN else self._by_user).get(name)
        if group is None:
            return 0
        return group.channels() if kind == CHANNELS_OF else int(group.clients)

    def _everywhere(self, what: Count) -> int:
        return self.count(what) + sum([counts.get(what, 0) for counts in self.elsewhere.values()])

    # -- room

    def check_room(self, connection: Connection, vhost: VhostPort) -> None:
        """Raise a fault if its virtual host or its user has as many connections as it may have."""
        if connection.opened.internal:
            return
        name = connection.user
        limit = limit_of(vhost.limits, MAX_CONNECTIONS)
        if limit != UNLIMITED and self._everywhere((CONNECTIONS_IN, vhost.name)) >= limit:
            refused = f"access to vhost '{vhost.name}' refused for user '{name}'"
            raise ConnectionFault(NOT_ALLOWED, f"{refused}: connection limit ({limit}) is reached")
        limit = self._limit_of_user(connection, MAX_CONNECTIONS)
        if limit != UNLIMITED and self._everywhere((CONNECTIONS_OF, name)) >= limit:
            refused = f"connection refused for user '{name}'"
            raise ConnectionFault(NOT_ALLOWED, f"{refused}: user connection limit ({limit}) is reached")

    def check_channel_room(self, connection: Connection) -> None:
        """Raise a fault if its user has as many channels as it may have."""
        limit = self._limit_of_user(connection, MAX_CHANNELS)
        if limit != UNLIMITED and self._everywhere((CHANNELS_OF, connection.user)) >= limit:
            opened = f"number of channels opened for user '{connection.user}'"
            text = f"{opened} has reached the maximum allowed user limit of ({limit})"
            raise ConnectionFault(NOT_ALLOWED, text, blames_method=False)

    def _limit_of_user(self, connection: Connection, name: str) -> int:
        user: User | None = self.catalog.users.get(connection.user)
        if user is None or not user.limits or connection.opened.internal:
            return UNLIMITED
        return limit_of(user.limits, name)

    # -- changes of others

    def dismiss_all_in(self, vhost: str) -> None:
        """The virtual host is about to go."""
        _dismiss(self._by_vhost.get(vhost), f"vhost '{vhost}' is deleted")

    def dismiss_all_of(self, user: str) -> None:
        """The user is about to go."""
        _dismiss(self._by_user.get(user), f"user '{user}' is deleted")

    def vhost_changed(self, name: str) -> None:
        """Its connections, or its limits."""
        if self._watched:
            self.stirred_vhosts[name] = None

    def user_changed(self, name: str) -> None:
        if self._watched:
            self.stirred_users[name] = None


@final
class Group:
    """The connections of one virtual host or user."""

    def __init__(self) -> None:
        self.connections: dict[int, Connection] = {}
        # those that count
        self.clients: i64 = 0

    def channels(self) -> int:
        found = self.connections.values()
        return sum([0 if connection.opened.internal else len(connection.channels) for connection in found])


def _enter(groups: dict[str, Group], name: str, connection: Connection) -> None:
    group = groups.get(name)
    if group is None:
        group = groups[name] = Group()
    group.connections[connection.connection_id] = connection
    if not connection.opened.internal:
        group.clients += 1


def _leave(groups: dict[str, Group], name: str, connection: Connection) -> None:
    group = groups.get(name)
    if group is None or group.connections.pop(connection.connection_id, None) is None:
        return
    if not connection.opened.internal:
        group.clients -= 1
    if not group.connections:
        del groups[name]


def _dismiss(group: Group | None, reason: str) -> None:
    if group is not None:
        for connection in list(group.connections.values()):
            connection.dismiss(ConnectionFault(CONNECTION_FORCED, reason), 0, 0)
