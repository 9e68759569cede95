"""The interfaces between a session and the node it runs on.

`NodePort` and `VhostPort` are the services that a session uses: logins, virtual hosts, changes of the topology.
`SessionPort` and `ReplyInboxPort` are the parts of a session that the node and other sessions use.

Not here: the interface of one queue (`broker.model.ports`), the node itself (`broker.broker`), the virtual host itself
(`broker.vhost`).
"""

from abc import abstractmethod

from mypy_extensions import i64, mypyc_attr

from warren.broker.access.backends import LoginAttempt, LoginWaiter
from warren.broker.access.rights import AnswerWaiter, Rights
from warren.broker.metadata.topology_definitions import ExchangeDefinition, QueueDefinition
from warren.broker.metadata.transaction import TransactionWaiter
from warren.broker.model.events import ConnectionOpened
from warren.broker.model.identity import Identity
from warren.broker.model.message import Message
from warren.broker.model.ports import OutputPort, QueuePort
from warren.broker.model.settings import BrokerSettings
from warren.broker.model.stats import VhostStats
from warren.broker.model.turn import Turn
from warren.broker.routing.exchanges import Binding, Exchange
from warren.broker.routing.topology import Topology
from warren.errors import ConnectionFault


class VhostPort:
    """One virtual host: its exchanges and queues.

    Methods that change the topology return True if the change is applied when they return. They return False if a
    metadata transaction must be committed first; the waiter is then called with its outcome.
    """

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.topology: Topology = Topology(name)
        self.description: str = ""
        self.tags: list[str] = []
        # copies of all messages go to amq.rabbitmq.trace
        self.tracing: bool = False
        # see `broker.access.limits`
        self.limits: dict[str, int] = {}
        self.stats: VhostStats = VhostStats()

    def queue(self, name: str) -> QueuePort | None:
        """The queue of that name; None if there is none, or if it is being deleted."""
        queue = self.topology.queues.get(name)
        return None if queue is None or queue.deleted else queue

    @abstractmethod
    def applies_immediately(self) -> bool:
        """Whether every change is applied within the call."""

    @abstractmethod
    def declare_queues(self, queues: list[QueueDefinition], waiter: TransactionWaiter | None = None) -> bool:
        """Declare queues that do not exist yet."""

    @abstractmethod
    def delete_queue(self, queue: QueuePort, waiter: TransactionWaiter | None = None) -> bool:
        """Delete a queue and its contents, and cancel its consumers."""

    @abstractmethod
    def delete_checked_queue(self, queue: QueuePort, waiter: TransactionWaiter) -> bool:
        """Delete a queue of this node that was found empty or unused, and keep it so until the delete is decided."""

    @abstractmethod
    def declare_exchange(self, exchange: ExchangeDefinition, waiter: TransactionWaiter | None = None) -> bool:
        """Declare an exchange that does not exist yet; a fault if the arguments do not suit the type."""

    @abstractmethod
    def unbind_some(self, destination: QueuePort | Exchange) -> bool:
        """Before the delete of a queue or an exchange with very many bindings; False if it may take them along."""

    @abstractmethod
    def delete_exchange(self, exchange: Exchange, waiter: TransactionWaiter | None = None) -> bool:
        """Delete an exchange and its bindings."""

    @abstractmethod
    def bind(self, binding: Binding, waiter: TransactionWaiter | None = None) -> bool:
        """Add a binding, unless it exists; a fault if an exchange of this type cannot have it."""

    @abstractmethod
    def unbind(self, binding: Binding, waiter: TransactionWaiter | None = None) -> bool:
        """Remove a binding if it exists, and the source if it is auto-delete and this was its last binding."""

    @abstractmethod
    def delete_queues_of(self, connection_id: int) -> None:
        """Delete the exclusive queues of a connection that ended."""

    @abstractmethod
    def delay(self, exchange: Exchange, message: Message) -> i64:
        """Hold a message at an x-delayed-message exchange for the time in its header: `SETTLED` or `PENDING`."""


class SessionPort(OutputPort):
    """One client's connection, as the node sees it."""

    def __init__(self, opened: ConnectionOpened) -> None:
        self.connection_id: int = opened.connection_id
        self.opened: ConnectionOpened = opened
        # none, and empty, until the login is accepted
        self.identity: Identity | None = None
        self.user: str = ""
        # none before connection.open, and after the connection ended
        self.vhost: VhostPort | None = None

    @abstractmethod
    def channel_count(self) -> int: ...

    @abstractmethod
    def dismiss(self, fault: ConnectionFault, class_id: int, method_id: int) -> None:
        """Send connection.close with this fault, then wait for close-ok."""


@mypyc_attr(allow_interpreted_subclasses=True)
class VhostEntry(AnswerWaiter):
    """Whether a client may enter the virtual host that it opens."""

    def __init__(self) -> None:
        self.decided: bool = False
        self.allowed: bool = False

    def answered(self, allowed: bool) -> None:
        self.decided = True
        self.allowed = allowed


class ReplyInboxPort:
    """A channel's direct-reply consumer, as publishers of replies see it."""

    def __init__(self, name: str, consumer_tag: str) -> None:
        self.name: str = name
        self.consumer_tag: str = consumer_tag

    @abstractmethod
    def deliver(self, message: Message) -> None:
        """Write a reply, unless the client has too much unread."""


@mypyc_attr(allow_interpreted_subclasses=True)
class NodePort:
    """The node, as one connection sees it."""

    def __init__(self, settings: BrokerSettings, turn: Turn) -> None:
        self.settings: BrokerSettings = settings
        self.turn: Turn = turn
        # the reason why publishers are blocked; empty if they are not
        self.alarm: str = ""
        self.reply_inboxes: dict[str, ReplyInboxPort] = {}

    @abstractmethod
    def log_in(self, attempt: LoginAttempt, waiter: LoginWaiter) -> None:
        """Decide a login. The waiter is called within this call, or later."""

    @abstractmethod
    def renew(self, connection: SessionPort, secret: str, waiter: LoginWaiter) -> None:
        """Decide on the new secret of a connected client. The waiter is called within this call, or later."""

    @abstractmethod
    def enter(self, connection: SessionPort, vhost: str, entry: VhostEntry) -> VhostPort | None:
        """The virtual host of that name, with the connection counted in it; a fault if the connection may not enter.

        None if that is not decided: `entry` is answered later.
        """

    @abstractmethod
    def rights(self, identity: Identity, vhost: str) -> Rights:
        """The permissions of the client in the virtual host."""

    @abstractmethod
    def check_channel_room(self, connection: SessionPort) -> None:
        """Raise a fault if the connection's user has reached its limit of channels."""

    def cluster_name(self) -> str:
        """The cluster's name in the server properties."""
        return self.settings.node_name

    @abstractmethod
    def fresh_name(self, prefix: str) -> str:
        """A name that is unique and cannot be guessed."""

    def may_be_behind(self) -> bool:
        """Whether other nodes may know exchanges, queues and bindings that this node does not know yet."""
        return False

    def forward_reply(self, node: str, inbox: str, message: Message) -> None:
        """Send a direct reply to an inbox on another node, if that node can be reached."""
        return

    @abstractmethod
    def metadata_pending(self) -> bool:
        """Whether a change of durable exchanges, queues or bindings is not on disk yet. Any client may have made it."""

    @abstractmethod
    def connection_ended(self, connection: SessionPort) -> None:
        """Delete the exclusive queues of a connection that ended, and count it no more."""
