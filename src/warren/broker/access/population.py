"""Who is in: the connections of each virtual host and of each user, and whether there is room for more.

Links of the node to itself are in, too, so that they end with their user or virtual host, but nobody counts them.

Not here: who may come in at all (`broker.broker`), what a limit is (`access.limits`).
"""

from typing import final

from warren.access.limits import MAX_CHANNELS, MAX_CONNECTIONS, UNLIMITED, limit_of
from warren.access.users import User
from warren.errors import CONNECTION_FORCED, NOT_ALLOWED, ConnectionFault
from warren.session.connection import Connection
from warren.session.ports import VhostPort


@final
class Population:
    """Open connections, by where they are and whose they are."""

    def __init__(self) -> None:
        self._by_vhost: dict[str, dict[int, Connection]] = {}
        self._by_user: dict[str, dict[int, Connection]] = {}

    def came(self, connection: Connection, vhost: str) -> None:
        self._by_vhost.setdefault(vhost, {})[connection.connection_id] = connection
        self._by_user.setdefault(connection.user, {})[connection.connection_id] = connection

    def went(self, connection: Connection, vhost: str) -> None:
        _leave(self._by_vhost, vhost, connection)
        _leave(self._by_user, connection.user, connection)

    def check_room_in(self, vhost: VhostPort, user: str) -> None:
        """Raise a fault if the virtual host has as many connections as it may have."""
        limit = limit_of(vhost.limits, MAX_CONNECTIONS)
        if limit != UNLIMITED and _counted(self._by_vhost.get(vhost.name)) >= limit:
            refused = f"access to vhost '{vhost.name}' refused for user '{user}'"
            raise ConnectionFault(NOT_ALLOWED, f"{refused}: connection limit ({limit}) is reached")

    def check_room_for(self, user: User) -> None:
        """Raise a fault if the user has as many connections as it may have."""
        limit = limit_of(user.limits, MAX_CONNECTIONS)
        if limit != UNLIMITED and _counted(self._by_user.get(user.name)) >= limit:
            refused = f"connection refused for user '{user.name}'"
            raise ConnectionFault(NOT_ALLOWED, f"{refused}: user connection limit ({limit}) is reached")

    def check_channel_room_for(self, user: User) -> None:
        """Raise a fault if the user has as many channels as it may have."""
        limit = limit_of(user.limits, MAX_CHANNELS)
        if limit == UNLIMITED:
            return
        if sum([len(connection.channels) for connection in self._by_user.get(user.name, {}).values()]) >= limit:
            opened = f"number of channels opened for user '{user.name}'"
            text = f"{opened} has reached the maximum allowed user limit of ({limit})"
            raise ConnectionFault(NOT_ALLOWED, text, blames_method=False)

    def dismiss_all_in(self, vhost: str) -> None:
        """The virtual host is about to go."""
        _dismiss(self._by_vhost.get(vhost, {}), f"vhost '{vhost}' is deleted")

    def dismiss_all_of(self, user: str) -> None:
        """The user is about to go."""
        _dismiss(self._by_user.get(user, {}), f"user '{user}' is deleted")


def _leave(groups: dict[str, dict[int, Connection]], name: str, connection: Connection) -> None:
    group = groups.get(name)
    if group is not None:
        group.pop(connection.connection_id, None)
        if not group:
            del groups[name]


def _counted(group: dict[int, Connection] | None) -> int:
    if group is None:
        return 0
    return sum([0 if connection.opened.internal else 1 for connection in group.values()])


def _dismiss(group: dict[int, Connection], reason: str) -> None:
    for connection in list(group.values()):
        connection.dismiss(ConnectionFault(CONNECTION_FORCED, reason), 0, 0)
