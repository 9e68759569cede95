"""The clients of a node, and the door they come in by.

The door is shut while the node stops, and while it is paused because it is cut off from others: whoever is in is told
why and leaves, whoever comes is sent away.

Not here: one client's conversation (`broker.sessions.connection`), who may come in (`broker.broker`), sockets (`node`).

Who is in: the connections of each virtual host and of each user, and whether there is room for more.

Limits count what all nodes of a cluster have, as in RabbitMQ: what this one has, and what the others have told. Two
nodes that let somebody in at the same moment may go beyond a limit by what neither could know of yet.

Links of the node to itself are in, too, so that they end with their user or virtual host, but nobody counts them.

Not here: who may come in at all (`broker.broker`), what a limit is (`broker.access.limits`), what nodes tell each other
of this (`broker.cluster.peer_notices`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.access.limits import MAX_CHANNELS, MAX_CONNECTIONS, UNLIMITED, limit_of
from warren.broker.access.users import AccessCatalog, User
from warren.broker.model.effects import CloseConnection
from warren.broker.model.events import (
    BytesReceived,
    ConnectionDropped,
    ConnectionOpened,
    Event,
    WritesPaused,
    WritesResumed,
)
from warren.broker.sessions import input as session_input
from warren.broker.sessions.connection import RUNNING, Connection
from warren.broker.sessions.ports import NodePort, SessionPort, VhostPort
from warren.errors import CONNECTION_FORCED, NOT_ALLOWED, ConnectionFault


@final
class ClientConnections:
    """Everybody who is connected."""

    def __init__(self, node: NodePort) -> None:
        self.connections: dict[int, Connection] = {}
        self._node: NodePort = node
        self._refusing: bool = False

    def received(self, event: BytesReceived) -> None:
        connection = self.connections.get(event.connection_id)
        if connection is not None:
            session_input.receive(connection, event.data)

    def take(self, event: Event) -> bool:
        """Whether it was about a client."""
        if isinstance(event, ConnectionOpened):
            self._opened(event)
        elif isinstance(event, ConnectionDropped):
            lost = self.connections.pop(event.connection_id, None)
            if lost is not None:
                lost.lost(event.reason)
        elif isinstance(event, WritesPaused):
            paused = self.connections.get(event.connection_id)
            if paused is not None:
                paused.writes_paused()
        elif isinstance(event, WritesResumed):
            resumed = self.connections.get(event.connection_id)
            if resumed is not None:
                resumed.writes_resumed()
        else:
            return False
        return True

    def stop_accepting(self, reason: str) -> None:
        """Tell every client; each hangs up when it answered, or when its patience ends."""
        self._refusing = True
        fault = ConnectionFault(CONNECTION_FORCED, f"broker forced connection closure with reason '{reason}'")
        for connection in list(self.connections.values()):
            if connection.state == RUNNING:
                connection.dismiss(fault, 0, 0)
            else:
                connection.hang_up()

    def start_accepting(self) -> None:
        self._refusing = False

    def _opened(self, event: ConnectionOpened) -> None:
        if self._refusing:
            self._node.turn.effects.append(CloseConnection(event.connection_id))
        else:
            self.connections[event.connection_id] = Connection(event, self._node)


CONNECTIONS_IN: Final = 1
CONNECTIONS_OF: Final = 2
CHANNELS_OF: Final = 3

CountKey = tuple[int, str]
"""What is counted, and of which virtual host (`CONNECTIONS_IN`) or user (the others)."""


@final
class ConnectionLimits:
    """Open connections, by where they are and whose they are."""

    def __init__(self, catalog: AccessCatalog) -> None:
        self.catalog: AccessCatalog = catalog
        self._by_vhost: dict[str, ConnectionGroup] = {}
        self._by_user: dict[str, ConnectionGroup] = {}
        # by node, what the others have of those who have limits
        self.remote_counts: dict[str, dict[CountKey, int]] = {}
        # virtual hosts and users whose connections, or limits, are not what they were; kept if anybody wants to know
        self.changed_vhosts: dict[str, None] = {}
        self.changed_users: dict[str, None] = {}
        self._watched: bool = False

    def watch(self) -> None:
        """Somebody tells others what moves, and begins with what there is."""
        self._watched = True
        self.changed_vhosts = dict.fromkeys(self._by_vhost)
        self.changed_users = dict.fromkeys(self._by_user)

    def add_connection(self, connection: SessionPort, vhost: str) -> None:
        _enter(self._by_vhost, vhost, connection)
        _enter(self._by_user, connection.user, connection)
        self.vhost_changed(vhost)
        self.user_changed(connection.user)

    def remove_connection(self, connection: SessionPort, vhost: str) -> None:
        _leave(self._by_vhost, vhost, connection)
        _leave(self._by_user, connection.user, connection)
        self.vhost_changed(vhost)
        self.user_changed(connection.user)

    # -- counting

    def count(self, what: CountKey) -> int:
        """How many this node has."""
        kind, name = what
        group = (self._by_vhost if kind == CONNECTIONS_IN else self._by_user).get(name)
        if group is None:
            return 0
        return group.channels() if kind == CHANNELS_OF else int(group.clients)

    def _cluster_count(self, what: CountKey) -> int:
        return self.count(what) + sum([counts.get(what, 0) for counts in self.remote_counts.values()])

    # -- room

    def check_room(self, connection: SessionPort, vhost: VhostPort) -> None:
        """Raise a fault if its virtual host or its user has as many connections as it may have."""
        if connection.opened.internal:
            return
        name = connection.user
        limit = limit_of(vhost.limits, MAX_CONNECTIONS)
        if limit != UNLIMITED and self._cluster_count((CONNECTIONS_IN, vhost.name)) >= limit:
            refused = f"access to vhost '{vhost.name}' refused for user '{name}'"
            raise ConnectionFault(NOT_ALLOWED, f"{refused}: connection limit ({limit}) is reached")
        limit = self._limit_of_user(connection, MAX_CONNECTIONS)
        if limit != UNLIMITED and self._cluster_count((CONNECTIONS_OF, name)) >= limit:
            refused = f"connection refused for user '{name}'"
            raise ConnectionFault(NOT_ALLOWED, f"{refused}: user connection limit ({limit}) is reached")

    def check_channel_room(self, connection: SessionPort) -> None:
        """Raise a fault if its user has as many channels as it may have."""
        limit = self._limit_of_user(connection, MAX_CHANNELS)
        if limit != UNLIMITED and self._cluster_count((CHANNELS_OF, connection.user)) >= limit:
            opened = f"number of channels opened for user '{connection.user}'"
            text = f"{opened} has reached the maximum allowed user limit of ({limit})"
            raise ConnectionFault(NOT_ALLOWED, text, blames_method=False)

    def _limit_of_user(self, connection: SessionPort, name: str) -> int:
        user: User | None = self.catalog.users.get(connection.user)
        if user is None or not user.limits or connection.opened.internal:
            return UNLIMITED
        return limit_of(user.limits, name)

    # -- changes of others

    def close_all_in(self, vhost: str) -> None:
        """The virtual host is about to go."""
        _close_all(self._by_vhost.get(vhost), f"vhost '{vhost}' is deleted")

    def close_all_of(self, user: str) -> None:
        """The user is about to go."""
        _close_all(self._by_user.get(user), f"user '{user}' is deleted")

    def vhost_changed(self, name: str) -> None:
        """Its connections, or its limits."""
        if self._watched:
            self.changed_vhosts[name] = None

    def user_changed(self, name: str) -> None:
        if self._watched:
            self.changed_users[name] = None


@final
class ConnectionGroup:
    """The connections of one virtual host or user."""

    def __init__(self) -> None:
        self.connections: dict[int, SessionPort] = {}
        # those that count
        self.clients: i64 = 0

    def channels(self) -> int:
        found = self.connections.values()
        return sum([0 if connection.opened.internal else connection.channel_count() for connection in found])


def _enter(groups: dict[str, ConnectionGroup], name: str, connection: SessionPort) -> None:
    group = groups.get(name)
    if group is None:
        group = groups[name] = ConnectionGroup()
    group.connections[connection.connection_id] = connection
    if not connection.opened.internal:
        group.clients += 1


def _leave(groups: dict[str, ConnectionGroup], name: str, connection: SessionPort) -> None:
    group = groups.get(name)
    if group is None or group.connections.pop(connection.connection_id, None) is None:
        return
    if not connection.opened.internal:
        group.clients -= 1
    if not group.connections:
        del groups[name]


def _close_all(group: ConnectionGroup | None, reason: str) -> None:
    if group is not None:
        for connection in list(group.connections.values()):
            connection.dismiss(ConnectionFault(CONNECTION_FORCED, reason), 0, 0)
