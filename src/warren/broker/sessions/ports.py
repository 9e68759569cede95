"""What a session asks of the node it runs on.

A session knows routing and queues; who may log in, which vhosts there are and how a queue comes to be is the node's
business.

Not here: what a channel asks of one queue (`broker.model.ports`), the node itself (`broker`).
"""

from abc import abstractmethod

from mypy_extensions import i64, mypyc_attr

from warren.broker.access.logins import LoginAttempt, LoginWaiter
from warren.broker.access.rights import Rights
from warren.broker.metadata.topology_definitions import QueueDefinition
from warren.broker.metadata.transaction import TransactionWaiter
from warren.broker.model.events import ConnectionOpened
from warren.broker.model.message import Message
from warren.broker.model.ports import OutputPort, QueuePort
from warren.broker.model.settings import BrokerSettings
from warren.broker.model.stats import VhostStats
from warren.broker.model.turn import Turn
from warren.broker.routing.exchanges import Exchange
from warren.broker.routing.topology import Topology
from warren.errors import ConnectionFault
from warren.wire.field_tables import Table


class VhostPort:
    """One virtual host: its exchanges and queues."""

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.topology: Topology = Topology(name)
        self.description: str = ""
        self.tags: list[str] = []
        # whether copies of all messages go to amq.rabbitmq.trace
        self.tracing: bool = False
        # see `broker.access.limits`
        self.limits: dict[str, int] = {}
        self.stats: VhostStats = VhostStats()

    def queue(self, name: str) -> QueuePort | None:
        """The queue of that name; none if it only waits to be unmade."""
        queue = self.topology.queues.get(name)
        return None if queue is None or queue.deleted else queue

    @abstractmethod
    def applies_immediately(self) -> bool:
        """Whether the answer to everything that follows is True.

        That is: it is done, and to be seen. False: it must be agreed upon first, and the waiter will be answered.
        """

    @abstractmethod
    def declare_queues(self, queues: list[QueueDefinition], waiter: TransactionWaiter | None = None) -> bool:
        """Make queues that do not exist yet."""

    @abstractmethod
    def delete_queue(self, queue: QueuePort, waiter: TransactionWaiter | None = None) -> bool:
        """Delete it and its contents, tell its consumers."""

    @abstractmethod
    def delete_checked_queue(self, queue: QueuePort, waiter: TransactionWaiter) -> bool:
        """The same, for one that lives here and was found to be empty, or unused: so it stays until that is decided."""

    @abstractmethod
    def declare_exchange(
        self,
        name: str,
        kind: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Table,
        waiter: TransactionWaiter | None = None,
    ) -> bool:
        """Make an exchange that does not exist yet; a fault if its arguments do not suit its type."""

    @abstractmethod
    def delete_exchange(self, exchange: Exchange, waiter: TransactionWaiter | None = None) -> bool:
        """Delete it and its bindings."""

    @abstractmethod
    def bind(
        self,
        source: Exchange,
        destination: QueuePort | Exchange,
        routing_key: str,
        arguments: Table,
        waiter: TransactionWaiter | None = None,
    ) -> bool:
        """Make a binding, unless it is there; a fault if the source's type cannot take it."""

    @abstractmethod
    def unbind(
        self,
        source: Exchange,
        destination: QueuePort | Exchange,
        routing_key: str,
        arguments: Table,
        waiter: TransactionWaiter | None = None,
    ) -> bool:
        """Remove a binding, if there is one, and with it perhaps an auto-delete exchange."""

    @abstractmethod
    def delete_queues_of(self, connection_id: int) -> None:
        """A connection ended: its exclusive queues go with it."""

    @abstractmethod
    def delay(self, exchange: Exchange, message: Message) -> i64:
        """Hold a message back at an x-delayed-message exchange as long as its header asks: `SETTLED` or `PENDING`."""


class SessionPort(OutputPort):
    """One client's connection, as the node sees it."""

    def __init__(self, opened: ConnectionOpened) -> None:
        self.connection_id: int = opened.connection_id
        self.opened: ConnectionOpened = opened
        # empty until the login is accepted
        self.user: str = ""
        # none before connection.open, and after the connection ended
        self.vhost: VhostPort | None = None

    @abstractmethod
    def channel_count(self) -> int: ...

    @abstractmethod
    def dismiss(self, fault: ConnectionFault, class_id: int, method_id: int) -> None:
        """Send connection.close with this fault, then wait for close-ok."""


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
        # why publishers are held back; empty when they are not
        self.alarm: str = ""
        self.reply_inboxes: dict[str, ReplyInboxPort] = {}

    @abstractmethod
    def log_in(self, attempt: LoginAttempt, waiter: LoginWaiter) -> None:
        """Judge a login; the waiter is answered within this call, or later."""

    @abstractmethod
    def enter(self, connection: SessionPort, vhost: str) -> VhostPort:
        """The virtual host of that name, which the connection is in from now on; a fault if it may not."""

    @abstractmethod
    def rights(self, user: str, vhost: str) -> Rights:
        """What the user may do there."""

    @abstractmethod
    def check_channel_room(self, connection: SessionPort) -> None:
        """Raise a fault if its user has as many channels as it may have."""

    def cluster_name(self) -> str:
        """What clients are answered that they are connected to."""
        return self.settings.node_name

    @abstractmethod
    def fresh_name(self, prefix: str) -> str:
        """A name nobody else has or can guess."""

    def may_be_behind(self) -> bool:
        """Whether other nodes may know of exchanges, queues and bindings that this one has not heard of yet."""
        return False

    def forward_reply(self, node: str, inbox: str, message: Message) -> None:
        """Carry a direct reply to another node's inbox, if that node is to be reached."""
        return

    @abstractmethod
    def metadata_pending(self) -> bool:
        """Whether changes of durable exchanges, queues or bindings, whoever made them, are not on disk yet."""

    @abstractmethod
    def connection_ended(self, connection: SessionPort) -> None:
        """The connection is over: its exclusive queues go."""
