"""The permissions of one client: those of its user in its virtual host.

They are checked for every method that names a queue or exchange. A publish checks them only when it is routed; so a
change of permissions increments the version of the topology.

A refusal is a channel fault, worded as RabbitMQ words it. The default exchange has no name; in permissions it is
`amq.default`.

Not here: which method needs which permission (`broker.sessions`), the permissions themselves (`broker.access.users`).
"""

from typing import Final, final

from warren.broker.access.users import ADMINISTRATOR, IMPERSONATOR, AccessCatalog
from warren.errors import ACCESS_REFUSED, ChannelFault

QUEUE: Final = "queue"
EXCHANGE: Final = "exchange"
DEFAULT_EXCHANGE: Final = "amq.default"


@final
class Rights:
    """The current permissions of one user in one virtual host."""

    def __init__(self, catalog: AccessCatalog, user: str, vhost: str) -> None:
        self._catalog: AccessCatalog = catalog
        self._user: str = user
        self._vhost: str = vhost
        self._key: tuple[str, str] = (user, vhost)
        # for connections of the node itself
        self.unlimited: bool = False
        # for connections of bridges: they pass messages on with the user ids that these have
        self.forwards: bool = False

    def to_configure(self, kind: str, name: str) -> None:
        """Raise a fault unless the user may declare and delete the object."""
        permission = self._catalog.permissions.get(self._key)
        if permission is None or not permission.configures.matches(_called(kind, name)):
            self._refuse(kind, name)

    def to_write(self, kind: str, name: str) -> None:
        """Raise a fault unless the user may publish to the object, or bind it to an exchange."""
        permission = self._catalog.permissions.get(self._key)
        if permission is None or not permission.writes.matches(_called(kind, name)):
            self._refuse(kind, name)

    def to_read(self, kind: str, name: str) -> None:
        """Raise a fault unless the user may take messages from the object, or bind to it."""
        permission = self._catalog.permissions.get(self._key)
        if permission is None or not permission.reads.matches(_called(kind, name)):
            self._refuse(kind, name)

    def to_write_topic(self, exchange: str, routing_key: str) -> None:
        """Raise a fault unless the user may publish to this topic exchange with this key."""
        topics = self._catalog.topic_permissions
        if topics:
            permission = topics.get((self._user, self._vhost, exchange))
            if permission is not None and not permission.writes.matches(routing_key):
                raise self._topic_refused(exchange, routing_key)

    def to_read_topic(self, exchange: str, routing_key: str) -> None:
        """Raise a fault unless the user may bind to this topic exchange with this key."""
        permission = self._catalog.topic_permissions.get((self._user, self._vhost, exchange))
        if permission is not None and not permission.reads.matches(routing_key):
            raise self._topic_refused(exchange, routing_key)

    def to_impersonate(self) -> bool:
        """Whether messages may name another user as their sender. An administrator could grant himself that tag."""
        if self.unlimited:
            return True
        user = self._catalog.users.get(self._user)
        return user is not None and (IMPERSONATOR in user.tags or (self.forwards and ADMINISTRATOR in user.tags))

    def _refuse(self, kind: str, name: str) -> None:
        if not self.unlimited:
            where = f"{kind} '{_called(kind, name)}' in vhost '{self._vhost}'"
            raise ChannelFault(ACCESS_REFUSED, f"access to {where} refused for user '{self._user}'")

    def _topic_refused(self, exchange: str, routing_key: str) -> ChannelFault:
        where = f"topic '{routing_key}' in exchange '{exchange}' in vhost '{self._vhost}'"
        return ChannelFault(ACCESS_REFUSED, f"access to {where} refused for user '{self._user}'")


def _called(kind: str, name: str) -> str:
    return DEFAULT_EXCHANGE if not name and kind == EXCHANGE else name
