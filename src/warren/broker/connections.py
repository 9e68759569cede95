"""The client connections of a node, and their limits.

No connection is accepted while the node stops, or is paused because of a partition. Clients that are connected then
get connection.close with the reason.

Limits count the connections of all nodes of a cluster, as in RabbitMQ: those of this node, and the counts that other
nodes sent. Two nodes that accept a connection at the same moment may exceed a limit.

Internal connections belong to their user and virtual host, so that they are closed with them, but are not counted.

Not here: one connection (`broker.sessions.connection`), permissions (`broker.access.rights`), the limits
(`broker.access.limits`), counts between nodes (`broker.cluster.peer_notices`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.access.limits import MAX_CHANNELS, MAX_CONNECTIONS, UNLIMITED, limit_of
from warren.broker.access.users import AccessCatalog
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
from warren.broker.sessions.connection import IGNORING, RUNNING, Connection
from warren.broker.sessions.ports import NodePort, SessionPort, VhostPort
from warren.errors import CONNECTION_FORCED, NOT_ALLOWED, ConnectionFault


@final
class ClientConnections:
    """All connections of a node."""

    def __init__(self, node: NodePort) -> None:
        self.connections: dict[int, Connection] = {}
        self._node: NodePort = node
        self._refusing: bool = False

    def received(self, event: BytesReceived) -> None:
        connection = self.connections.get(event.connection_id)
        if connection is not None:
            session_input.receive(connection, event.data)

    def handle(self, event: Event) -> bool:
        """Handle an event of a connection; False if it is another event."""
        if isinstance(event, ConnectionOpened):
            self._opened(event)
        elif isinstance(event, ConnectionDropped):
            lost = self.connections.get(event.connection_id)
            if lost is not None and self._ends_later(lost):
                lost.leave(event.reason)
            elif lost is not None:
                del self.connections[event.connection_id]
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

    def _ends_later(self, lost: Connection) -> bool:
        """Whether a lost connection ends in the next turn: after its input, or because this turn used its budget."""
        if lost.held:
            return lost.waits_for_budget and not lost.blocked
        turn = self._node.turn
        return turn.work >= turn.work_max

    def resume(self, connection: Connection) -> None:
        """Handle input that was held."""
        session_input.resume(connection)
        if connection.leaving and (connection.state >= IGNORING or not connection.waits_for_budget):
            self.connections.pop(connection.connection_id, None)
            connection.left()

    def stop_accepting(self, reason: str) -> None:
        """Close every connection with this reason. Each ends with close-ok or a timeout."""
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
"""The kind of count, and the virtual host (`CONNECTIONS_IN`) or user (the others)."""


@final
class ConnectionLimits:
    """Open connections by virtual host and user."""

    def __init__(self, catalog: AccessCatalog) -> None:
        self.catalog: AccessCatalog = catalog
        self._by_vhost: dict[str, ConnectionGroup] = {}
        self._by_user: dict[str, ConnectionGroup] = {}
        # by node: the counts of other nodes, for users and virtual hosts with limits
        self.remote_counts: dict[str, dict[CountKey, int]] = {}
        # virtual hosts and users with changed connections or limits; kept only after `watch`
        self.changed_vhosts: dict[str, None] = {}
        self.changed_users: dict[str, None] = {}
        self._watched: bool = False

    def watch(self) -> None:
        """Record changes from here on, beginning with all that exist."""
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
        """The count of this node."""
        kind, name = what
        group = (self._by_vhost if kind == CONNECTIONS_IN else self._by_user).get(name)
        if group is None:
            return 0
        return group.channels() if kind == CHANNELS_OF else int(group.clients)

    def _cluster_count(self, what: CountKey) -> int:
        return self.count(what) + sum([counts.get(what, 0) for counts in self.remote_counts.values()])

    # -- limits

    def check_room(self, connection: SessionPort, vhost: VhostPort) -> None:
        """Raise a fault if the virtual host or the user has reached its limit of connections."""
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
        """Raise a fault if the user has reached its limit of channels."""
        limit = self._limit_of_user(connection, MAX_CHANNELS)
        if limit != UNLIMITED and self._cluster_count((CHANNELS_OF, connection.user)) >= limit:
            opened = f"number of channels opened for user '{connection.user}'"
            text = f"{opened} has reached the maximum allowed user limit of ({limit})"
            raise ConnectionFault(NOT_ALLOWED, text, blames_method=False)

    def _limit_of_user(self, connection: SessionPort, name: str) -> int:
        user = self.catalog.users.get(connection.user)
        if user is None or not user.limits or connection.opened.internal:
            return UNLIMITED
        return limit_of(user.limits, name)

    # -- deleted virtual hosts and users

    def close_all_in(self, vhost: str) -> None:
        """Before the virtual host is removed."""
        _close_all(self._by_vhost.get(vhost), f"vhost '{vhost}' is deleted")

    def close_all_of(self, user: str) -> None:
        """Before the user is removed."""
        _close_all(self._by_user.get(user), f"user '{user}' is deleted")

    def vhost_changed(self, name: str) -> None:
        """The connections or limits of a virtual host changed."""
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
        # connections that count
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
