"""The permissions of one client in its virtual host.

They are checked for every method that names a queue or exchange. A publish checks them only when it is routed; so a
change of permissions increments the version of the topology, or clears the routes that the connection cached.

Most backends know every permission. One that must ask for it first raises `PermissionUnknown`: the session asks, and
handles its frame again when the answer is there. So a check comes before every effect of a frame.

A refusal is a channel fault, worded as RabbitMQ words it. The default exchange has no name; in permissions it is
`amq.default`.

Not here: which method needs which permission (`broker.sessions`), the permissions of internal users
(`broker.access.internal_backend`), of tokens (`broker.access.scopes`), and of web servers
(`broker.access.http_backend`).
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import mypyc_attr

from warren.broker.access.users import ADMINISTRATOR, IMPERSONATOR
from warren.errors import ACCESS_REFUSED, ChannelFault

QUEUE: Final = "queue"
EXCHANGE: Final = "exchange"
DEFAULT_EXCHANGE: Final = "amq.default"

CONFIGURE: Final = "configure"
WRITE: Final = "write"
READ: Final = "read"


@mypyc_attr(allow_interpreted_subclasses=True)
class AnswerWaiter:
    """A client or operator that waits for the answer of a backend."""

    @abstractmethod
    def still_waits(self) -> bool:
        """Whether the answer is of use."""

    @abstractmethod
    def answered(self, allowed: bool) -> None:
        """Called once."""


@mypyc_attr(allow_interpreted_subclasses=True)
class PermissionQuestion(AnswerWaiter):
    """A permission that is not known yet."""

    @abstractmethod
    def ask(self, waiter: AnswerWaiter) -> None:
        """Ask for it; the waiter is called when the rights know the answer."""


class PermissionUnknown(Exception):
    """A frame needs a permission that must be asked for."""

    def __init__(self, question: PermissionQuestion) -> None:
        super().__init__()
        self.question = question


@mypyc_attr(allow_interpreted_subclasses=True)
class Rights:
    """The current permissions of one client in one virtual host."""

    def __init__(self, user: str, vhost: str) -> None:
        self._user: str = user
        self._vhost: str = vhost
        # for connections of bridges: they pass messages on with the user ids that these have
        self.forwards: bool = False

    @abstractmethod
    def allows(self, permission: str, kind: str, name: str) -> bool:
        """Whether the client has this permission on the queue or exchange (`kind`) of this name."""

    @abstractmethod
    def allows_topic(self, permission: str, exchange: str, routing_key: str) -> bool:
        """Whether the client has this permission for this routing key of a topic exchange."""

    @abstractmethod
    def has_tag(self, tag: str) -> bool: ...

    def channel_opened(self) -> None:
        """The connection opened a channel."""
        return

    def to_configure(self, kind: str, name: str) -> None:
        """Raise a fault unless the user may declare and delete the object."""
        self._check(CONFIGURE, kind, name)

    def to_write(self, kind: str, name: str) -> None:
        """Raise a fault unless the user may publish to the object, or bind it to an exchange."""
        self._check(WRITE, kind, name)

    def to_read(self, kind: str, name: str) -> None:
        """Raise a fault unless the user may take messages from the object, or bind to it."""
        self._check(READ, kind, name)

    def to_write_topic(self, exchange: str, routing_key: str) -> None:
        """Raise a fault unless the user may publish to this topic exchange with this key."""
        self._check_topic(WRITE, exchange, routing_key)

    def to_read_topic(self, exchange: str, routing_key: str) -> None:
        """Raise a fault unless the user may bind to this topic exchange with this key."""
        self._check_topic(READ, exchange, routing_key)

    def to_impersonate(self) -> bool:
        """Whether messages may name another user as their sender. An administrator could grant himself that tag."""
        return self.has_tag(IMPERSONATOR) or (self.forwards and self.has_tag(ADMINISTRATOR))

    def _check(self, permission: str, kind: str, name: str) -> None:
        called = DEFAULT_EXCHANGE if not name and kind == EXCHANGE else name
        if not self.allows(permission, kind, called):
            where = f"{kind} '{called}' in vhost '{self._vhost}'"
            raise ChannelFault(ACCESS_REFUSED, f"access to {where} refused for user '{self._user}'")

    def _check_topic(self, permission: str, exchange: str, routing_key: str) -> None:
        if not self.allows_topic(permission, exchange, routing_key):
            where = f"topic '{routing_key}' in exchange '{exchange}' in vhost '{self._vhost}'"
            raise ChannelFault(ACCESS_REFUSED, f"access to {where} refused for user '{self._user}'")


@final
class NodeRights(Rights):
    """Those of the node itself: everything."""

    def allows(self, permission: str, kind: str, name: str) -> bool:
        return True

    def allows_topic(self, permission: str, exchange: str, routing_key: str) -> bool:
        return True

    def has_tag(self, tag: str) -> bool:
        return True
