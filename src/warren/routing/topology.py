"""The exchanges, bindings and queue names of one virtual host, and the walk that finds where a message goes.

A route is walked from the exchange published to. Each exchange is visited once, so cycles end and a queue gets one
copy whatever the graph. An exchange none of whose bindings match passes the message to its alternate exchange, if
that exists; one whose bindings lead only to other exchanges has matched. The default exchange has no bindings: it
routes by queue name. What leads to a partitioned stream leads to the partition of the published key. Queues that copy
others come last, whatever led to these.

A change here is that one change: what goes with something that goes has been worked out before, and goes first.

Invariants: `version` moves with every change that may alter a route. A bound queue is in `queues`. A binding stands
at both its ends or nowhere (`exchange`), and a matcher holds exactly the outgoing bindings of its exchange.

Not here: what goes with what (`routing.removal`); who may declare, bind or delete what, and whether two declarations
agree (`session`); keeping delayed messages (`broker`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.errors import InvariantBroken
from warren.model.message import Message
from warren.model.named_copies import COPY_FROM
from warren.model.partitions import index_for, partition_count, partition_name
from warren.model.ports import QueuePort
from warren.routing.copying import Copying
from warren.routing.delayed import delay_in
from warren.routing.exchange import Binding, Exchange
from warren.routing.route import Route, Subject
from warren.routing.types import alternate_of, matcher_for
from warren.wire.values import Table

PREDECLARED: Final = (
    ("", "direct", False),
    ("amq.direct", "direct", False),
    ("amq.fanout", "fanout", False),
    ("amq.topic", "topic", False),
    ("amq.headers", "headers", False),
    ("amq.match", "headers", False),
    ("amq.rabbitmq.trace", "topic", True),
)
"""Name, type and whether internal, of the exchanges every virtual host starts with; all are durable."""

PREDECLARED_NAMES: Final = tuple([name for name, _type, _internal in PREDECLARED])


@final
class Topology:
    """One virtual host's map."""

    def __init__(self, vhost: str = "/") -> None:
        self.vhost: str = vhost
        self.version: i64 = 0
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, QueuePort] = {}
        # only of queues that have any: most are reached through the default exchange alone
        self._queue_bindings: dict[QueuePort, dict[Binding, Binding]] = {}
        self.copying: Copying = Copying()
        # the logical names of partitioned streams
        self._partitioned: dict[QueuePort, None] = {}
        for name, type, internal in PREDECLARED:
            self.declare_exchange(name, type, True, False, internal, {})
        self.default: Exchange = self.exchanges[""]

    # -- changing the map

    def add_queue(self, queue: QueuePort) -> None:
        self.queues[queue.name] = queue
        if COPY_FROM in queue.arguments:
            self.copying.add(queue)
        if partition_count(queue.arguments):
            self._partitioned[queue] = None
        self.version += 1

    def remove_queue(self, queue: QueuePort) -> None:
        """Forget a queue that has no bindings any more."""
        if queue in self._queue_bindings:
            raise InvariantBroken(f"queue '{queue.name}' goes before its bindings")
        del self.queues[queue.name]
        self.copying.remove(queue)
        self._partitioned.pop(queue, None)
        self.version += 1

    def declare_exchange(
        self, name: str, type: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> Exchange:
        """Create an exchange under a name that is free; a fault if its type and arguments do not agree."""
        alternate = alternate_of(self.vhost, name, arguments)
        exchange = Exchange(name, type, durable, auto_delete, internal, arguments, matcher_for(type, arguments))
        exchange.alternate = alternate
        self.exchanges[name] = exchange
        self.version += 1
        return exchange

    def set_alternate(self, exchange: Exchange, name: str) -> None:
        """From here on, what no binding of the exchange wants goes to the exchange of that name; empty: nowhere."""
        if exchange.alternate != name:
            exchange.alternate = name
            self.version += 1

    def remove_exchange(self, exchange: Exchange) -> None:
        """Forget an exchange that has no bindings any more."""
        if exchange.outgoing or exchange.incoming:
            raise InvariantBroken(f"exchange '{exchange.name}' goes before its bindings")
        del self.exchanges[exchange.name]
        exchange.deleted = True
        self.version += 1

    def bind(self, source: Exchange, destination: QueuePort | Exchange, routing_key: str, arguments: Table) -> bool:
        """Add a binding, or find that it is there already (false); a fault if the source's type cannot take it."""
        source.matcher.check(routing_key, arguments)
        binding = Binding(source, destination, routing_key, arguments)
        if binding in source.outgoing:
            return False
        source.outgoing[binding] = binding
        source.matcher.add(binding)
        if isinstance(destination, Exchange):
            destination.incoming[binding] = binding
        else:
            self._queue_bindings.setdefault(destination, {})[binding] = binding
        self.version += 1
        return True

    def unbind(self, binding: Binding) -> None:
        """Remove a binding that is there from both its ends."""
        source = binding.source
        destination = binding.destination
        del source.outgoing[binding]
        source.matcher.remove(binding)
        if isinstance(destination, Exchange):
            del destination.incoming[binding]
        else:
            remaining = self._queue_bindings[destination]
            del remaining[binding]
            if not remaining:
                del self._queue_bindings[destination]
        self.version += 1

    # -- reading it

    def is_bound(self, source: Exchange, destination: QueuePort | Exchange, routing_key: str, arguments: Table) -> bool:
        return self.binding(source, destination, routing_key, arguments) is not None

    def binding(
        self, source: Exchange, destination: QueuePort | Exchange, routing_key: str, arguments: Table
    ) -> Binding | None:
        """The binding that was made like this, if there is one."""
        return source.outgoing.get(Binding(source, destination, routing_key, arguments))

    def bindings_of(self, destination: QueuePort | Exchange) -> list[Binding]:
        """The bindings that lead to a queue or exchange, oldest first; without the default exchange's implicit one."""
        if isinstance(destination, Exchange):
            return list(destination.incoming)
        bindings = self._queue_bindings.get(destination)
        return [] if bindings is None else list(bindings)

    def bindings_from(self, source: Exchange) -> list[Binding]:
        """The bindings that lead away from an exchange, oldest first."""
        return list(source.outgoing)

    def bound_queue_count(self) -> int:
        """How many queues have bindings besides the implicit one."""
        return len(self._queue_bindings)

    def route(self, exchange: Exchange, routing_key: str, message: Message | None) -> Route:
        """Where a message published to an exchange goes; without a message, where one without properties would."""
        return self.route_keys(exchange, [routing_key], message)

    def route_keys(self, exchange: Exchange, routing_keys: list[str], message: Message | None) -> Route:
        """The same for a message with further keys (CC, BCC) after the published one: one walk, one copy per queue."""
        if exchange is self.default:
            return self._route_by_name(routing_keys)
        return self._walk(exchange, Subject(routing_keys, message), True)

    def route_delayed(self, exchange: Exchange, routing_keys: list[str], message: Message) -> Route:
        """Where a message goes that an exchange delayed and that is due: no exchange delays it once more."""
        return self._walk(exchange, Subject(routing_keys, message), False)

    def _route_by_name(self, routing_keys: list[str]) -> Route:
        queues: dict[QueuePort, None] = {}
        for routing_key in routing_keys:
            queue = self.queues.get(routing_key)
            if queue is not None:
                queues[queue] = None
        route = Route(self._placed(queues, routing_keys), [], True)
        if self.copying.any():
            route.copies = self.copying.copies_of(route.queues, Subject(routing_keys, None))
        return route

    def _walk(self, exchange: Exchange, subject: Subject, may_delay: bool) -> Route:
        route = Route([], [], True)
        queues: dict[QueuePort, None] = {}
        exchanges = [exchange]
        seen: dict[Exchange, None] = {exchange: None}
        at = 0
        while at < len(exchanges):
            visited = exchanges[at]
            at += 1
            route.cacheable = route.cacheable and visited.cacheable
            if may_delay and visited.delays and delay_in(subject.headers()) > 0:
                route.delayed.append(visited)
                continue
            for following in self._onward(visited, subject, queues):
                if following not in seen:
                    seen[following] = None
                    exchanges.append(following)
        route.queues.extend(self._placed(queues, subject.routing_keys))
        if self.copying.any():
            route.copies = self.copying.copies_of(route.queues, subject)
        return route

    def _placed(self, queues: dict[QueuePort, None], routing_keys: list[str]) -> list[QueuePort]:
        """These queues, with the partition of the first key in the place of every partitioned stream among them."""
        if not self._partitioned or not queues:
            return list(queues)
        placed: dict[QueuePort, None] = {}
        for queue in queues:
            chosen: QueuePort | None = queue
            if queue in self._partitioned:
                index = index_for(routing_keys[0], partition_count(queue.arguments))
                chosen = self.queues.get(partition_name(queue.name, index))
            if chosen is not None:
                placed[chosen] = None
        return list(placed)

    def _onward(self, exchange: Exchange, subject: Subject, queues: dict[QueuePort, None]) -> list[Exchange]:
        """Add the queues an exchange leads to, and return the exchanges."""
        found: list[Binding] = []
        exchange.matcher.match(subject, found)
        onward: list[Exchange] = []
        for binding in found:
            destination = binding.destination
            if isinstance(destination, Exchange):
                onward.append(destination)
            else:
                queues[destination] = None
        if not found and exchange.alternate:
            alternate = self.exchanges.get(exchange.alternate)
            if alternate is not None:
                onward.append(alternate)
        return onward
