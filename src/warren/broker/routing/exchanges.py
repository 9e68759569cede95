"""An exchange, the bindings that hang on it, and the seam behind which each exchange type matches in its own way.

Invariants: a binding stands in the `outgoing` of its source, in its source's matcher, and in the incoming bindings
of its destination, or in none of them; `Topology` alone adds and removes. Bindings are equal when source,
destination, routing key and arguments are; that is what makes a second declaration of one a duplicate.

Not here: the types themselves (`direct`, `fanout`, `topic`, `headers`, `consistent_hash`), the graph of exchanges
(`topology`).

What is routed, and where it turned out to go.

A queue may have copies (`broker.routing.copies`). They follow from it and not from the exchange: a copy is given what a
queue takes that it copies, and nothing that this one refuses at once. So whoever publishes goes through `Recipients`,
and tells which of them took the message.

Invariants: a `Route` names each queue once, in an order that only the history of the topology decides. A cacheable
one depends on nothing but the exchange and the routing keys, and holds until `Topology.version` moves. Copies alone
are no route: without queues there are none.

Not here: how a route is found (`broker.routing.topology`), how long one is remembered (`broker.sessions.publishes`).
"""

from abc import abstractmethod
from typing import final

from mypy_extensions import i64

from warren.broker.model.message import Message
from warren.broker.model.ports import QueuePort
from warren.broker.routing.comparison import digest, identical
from warren.wire.field_tables import Table
from warren.wire.properties import Properties

Copies = dict[QueuePort, list[QueuePort]]
"""Of queues that are copied: by which."""


@final
class Route:
    """The queues a message is for, their copies, and the delaying exchanges that keep it until it is due."""

    def __init__(self, queues: list[QueuePort], delayed: "list[Exchange]", cacheable: bool) -> None:
        self.queues: list[QueuePort] = queues
        self.delayed: list[Exchange] = delayed
        self.cacheable: bool = cacheable
        # None if none of the queues has any
        self.copies: Copies | None = None


@final
class Recipients:
    """The queues that one message is given to, one after the other; `row` grows while it is gone through."""

    def __init__(self, queues: list[QueuePort], copies: Copies | None) -> None:
        self.row: list[QueuePort] = queues if copies is None else list(queues)
        self._copies: Copies | None = copies
        self._known: dict[QueuePort, None] | None = None if copies is None else dict.fromkeys(queues)

    def taken_by(self, queue: QueuePort) -> None:
        """It has the message, or will: its copies are next, those that are not in the row already."""
        if self._copies is None or self._known is None:
            return
        for copy in self._copies.get(queue, []):
            if copy not in self._known:
                self._known[copy] = None
                self.row.append(copy)


@final
class RoutedMessage:
    """What is being routed: its routing keys (the published one first), and its properties, decoded at most once."""

    def __init__(self, routing_keys: list[str], message: Message | None) -> None:
        self.routing_keys: list[str] = routing_keys
        self.message: Message | None = message
        self._properties: Properties | None = None

    def properties(self) -> Properties | None:
        """The content properties; nothing for a route that is asked without a message."""
        if self._properties is None and self.message is not None:
            self._properties = self.message.properties()
        return self._properties

    def headers(self) -> Table:
        properties = self.properties()
        if properties is None or properties.headers is None:
            return {}
        return properties.headers


class Matcher:
    """How one exchange type picks among its bindings."""

    def __init__(self, cacheable: bool) -> None:
        # whether the choice depends on the routing keys alone
        self.cacheable: bool = cacheable

    def check(self, routing_key: str, arguments: Table) -> None:
        """A `ChannelFault` if this type cannot work with such a binding."""

    @abstractmethod
    def add(self, binding: "Binding") -> None: ...

    @abstractmethod
    def remove(self, binding: "Binding") -> None:
        """Forget a binding that was added, leaving no trace of it."""

    @abstractmethod
    def match(self, subject: RoutedMessage, found: "list[Binding]") -> None:
        """Append the bindings the subject follows; one may appear twice, through two routing keys."""


@final
class Exchange:
    """One exchange of a virtual host."""

    def __init__(
        self,
        name: str,
        type: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Table,
        matcher: Matcher,
    ) -> None:
        self.name: str = name
        self.type: str = type
        self.durable: bool = durable
        self.auto_delete: bool = auto_delete
        self.internal: bool = internal
        self.arguments: Table = arguments
        # where a message goes that no binding here wants; empty: nowhere
        self.alternate: str = ""
        # the policy that counts for it, empty for none, and what it says; operators' policies limit queues only
        self.policy: str = ""
        self.operator_policy: str = ""
        self.effective_policy: Table = {}
        self.matcher: Matcher = matcher
        # keeps messages that ask for it before routing them
        self.delays: bool = type == "x-delayed-message"
        self.cacheable: bool = matcher.cacheable and not self.delays
        # bindings with this exchange as their source, and as their destination, in the order of their creation
        self.outgoing: dict[Binding, Binding] = {}
        self.incoming: dict[Binding, Binding] = {}
        self.deleted: bool = False
        # what channels published to it, and into how many queues that went
        self.published_in: i64 = 0
        self.published_out: i64 = 0
        # the revision of the metadata that made it; 0 if it does not outlive the node, or is there in every vhost
        self.exchange_id: int = 0


@final
class Binding:
    """A road from an exchange to a queue or to another exchange."""

    def __init__(self, source: Exchange, destination: QueuePort | Exchange, routing_key: str, arguments: Table) -> None:
        self.source: Exchange = source
        self.destination: QueuePort | Exchange = destination
        self.routing_key: str = routing_key
        self.arguments: Table = arguments
        self._hash: int = hash((source.name, destination.name, routing_key, digest(arguments)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Binding)
            and self.source is other.source
            and self.destination is other.destination
            and self.routing_key == other.routing_key
            and identical(self.arguments, other.arguments)
        )
