"""Exchanges, bindings, the `Matcher` port of the exchange types, and routes.

A queue may have copies (`broker.routing.copies`). A copy receives the messages that its source accepts, and none that
the source refuses at once. So publishers iterate over `Recipients` and report which queues accepted the message.

Invariants: a binding is in the `outgoing` of its source, in its source's matcher, and in the incoming bindings of its
destination, or in none of them; only `Topology` adds and removes bindings. Bindings are equal when source, destination,
routing key and arguments are: binding again with the same values adds nothing. A `Route` lists each queue once, in an
order that depends only on the history of the topology. A cacheable route depends only on the exchange and the routing
keys, and is valid until `Topology.version` changes. A route without queues has no copies.

Not here: the exchange types (`broker.routing.exchange_types`), finding a route (`broker.routing.topology`), caching
routes (`broker.sessions.publishes`).
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.message import Message
from warren.broker.model.ports import QueuePort
from warren.broker.routing.comparison import digest, identical
from warren.wire.field_tables import Table
from warren.wire.properties import Properties

Copies = dict[QueuePort, list[QueuePort]]
"""The copying queues of each source queue."""


@final
class Route:
    """The queues for a message, their copies, and the delaying exchanges that keep it until it is due."""

    def __init__(self, queues: list[QueuePort], delayed: "list[Exchange]", cacheable: bool) -> None:
        self.queues: list[QueuePort] = queues
        self.delayed: list[Exchange] = delayed
        self.cacheable: bool = cacheable
        # None if none of the queues is copied
        self.copies: Copies | None = None


@final
class Recipients:
    """The queues that receive one message, in order; `row` grows during the iteration."""

    def __init__(self, queues: list[QueuePort], copies: Copies | None) -> None:
        self.row: list[QueuePort] = queues if copies is None else list(queues)
        self._copies: Copies | None = copies
        self._known: dict[QueuePort, None] | None = None if copies is None else dict.fromkeys(queues)

    def taken_by(self, queue: QueuePort) -> None:
        """The queue accepted the message: append its copies that are not in the row yet."""
        if self._copies is None or self._known is None:
            return
        for copy in self._copies.get(queue, []):
            if copy not in self._known:
                self._known[copy] = None
                self.row.append(copy)


STEPS_UNLIMITED: Final = 1 << 62


@final
class MatchProgress:
    """The routing keys that a matcher has compared, and the bindings that match them."""

    def __init__(self) -> None:
        self.key_count: int = 0
        self.found: dict[Binding, None] = {}


@final
class RoutedMessage:
    """The message to route: its routing keys, the published one first, and its properties, decoded at most once.

    Matchers count their `steps`. Above `steps_max` a matcher may stop between two routing keys and set `unfinished`.
    Then there is no route yet; routing the same object again, with a higher maximum, continues.
    """

    def __init__(self, routing_keys: list[str], message: Message | None) -> None:
        self.routing_keys: list[str] = routing_keys
        self.message: Message | None = message
        self.steps: i64 = 0
        self.steps_max: i64 = STEPS_UNLIMITED
        self.unfinished: bool = False
        # only of messages with several routing keys
        self._progress: dict[Matcher, MatchProgress] | None = None
        self._properties: Properties | None = None

    def progress_of(self, matcher: "Matcher") -> MatchProgress:
        if self._progress is None:
            self._progress = {}
        progress = self._progress.get(matcher)
        if progress is None:
            progress = MatchProgress()
            self._progress[matcher] = progress
        return progress

    def properties(self) -> Properties | None:
        """The content properties; None for a route without a message."""
        if self._properties is None and self.message is not None:
            self._properties = self.message.properties()
        return self._properties

    def headers(self) -> Table:
        properties = self.properties()
        if properties is None or properties.headers is None:
            return {}
        return properties.headers


class Matcher:
    """Selects bindings as one exchange type does."""

    def __init__(self, cacheable: bool) -> None:
        # whether the selection depends only on the routing keys
        self.cacheable: bool = cacheable

    def check(self, routing_key: str, arguments: Table) -> None:
        """Raise a `ChannelFault` if the exchange type does not allow such a binding."""

    @abstractmethod
    def add(self, binding: "Binding") -> None: ...

    @abstractmethod
    def remove(self, binding: "Binding") -> None:
        """Remove a binding that was added, and everything that was created for it."""

    @abstractmethod
    def match(self, subject: RoutedMessage, found: "list[Binding]") -> None:
        """Append the matching bindings; two routing keys may append the same binding twice."""


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
        # the alternate exchange, for messages that match no binding; empty for none
        self.alternate: str = ""
        # the name of its policy, empty for none, and its definition; operator policies apply to queues only
        self.policy: str = ""
        self.operator_policy: str = ""
        self.effective_policy: Table = {}
        self.matcher: Matcher = matcher
        # delays messages that have an `x-delay` header
        self.delays: bool = type == "x-delayed-message"
        self.cacheable: bool = matcher.cacheable and not self.delays
        # bindings with this exchange as source, and as destination, in the order of creation
        self.outgoing: dict[Binding, Binding] = {}
        self.incoming: dict[Binding, Binding] = {}
        self.deleted: bool = False
        # messages that channels published to it, and copies routed from it into queues
        self.published_in: i64 = 0
        self.published_out: i64 = 0
        # the metadata revision that created it; 0 for a transient or a predeclared exchange
        self.exchange_id: int = 0


@final
class Binding:
    """A binding from an exchange to a queue or to another exchange."""

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
