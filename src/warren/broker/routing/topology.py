"""The exchanges, bindings and queue names of one virtual host: routing, changes, and the effects of removals.

**Routing** starts at the exchange that was published to. Each exchange is visited once, so cycles end, and a queue
receives one copy in any graph. An exchange with no matching binding passes the message to its alternate exchange, if
that exists; an exchange with matching bindings to other exchanges has matched. The default exchange has no bindings: it
routes by queue name. A partitioned stream in a route is replaced by the partition of the routing key. Queues that copy
other queues come last. An exchange of type x-delayed-message keeps a message with an `x-delay` header, in milliseconds,
and routes it by its inner type when it is due.

**Changes** to a `Topology` are single: a removal takes nothing along. `TopologyRemoval` computes beforehand what a
removal takes along, and in which order. A queue or an exchange takes its bindings along. An auto-delete exchange is
deleted when its last binding as a source is removed; this removes the bindings that lead to it, which may be the last
ones of other auto-delete exchanges, and so on. Its result lists every object once, and a binding before its source and
destination, so the order never leaves a binding with one end. Several removals share one `TopologyRemoval`, so that
each knows what the ones before it removed.

Invariants: `version` changes with every change that may alter a route. A bound queue is in `queues`. A binding is at
both its ends or at none, and a matcher holds exactly the outgoing bindings of its exchange.

Not here: metadata transactions (`broker.routing.topology_transactions`); permissions and the equivalence of
declarations (`broker.sessions.declares`); keeping delayed messages (`broker.delays`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.message import Message
from warren.broker.model.ports import QueuePort
from warren.broker.model.queue_copies import COPY_FROM
from warren.broker.model.stream_partitions import index_for, partition_count, partition_name
from warren.broker.routing.copies import QueueCopies
from warren.broker.routing.exchange_types import alternate_of, matcher_for
from warren.broker.routing.exchanges import Binding, Exchange, Route, RoutedMessage
from warren.errors import InvariantBroken
from warren.wire.field_tables import Table

DELAY_MS_MAX: Final = 4294967295
"""A message with a longer delay is routed at once, as in RabbitMQ's plugin."""


def delay_of(message: Message) -> i64:
    """The delay of a message in milliseconds; 0 for none."""
    return delay_in(message.headers())


def delay_in(headers: Table) -> i64:
    """The delay in headers, a number or its decimal text; 0 if it is absent, negative or above the maximum."""
    value = headers.get("x-delay")
    delay_ms = 0
    if isinstance(value, bool):
        return 0
    if isinstance(value, int):
        delay_ms = value
    elif isinstance(value, float):
        delay_ms = int(value) if 0.0 < value <= 4294967295.0 else 0
    elif isinstance(value, str):
        delay_ms = int(value) if value.isascii() and value.isdigit() and len(value) < 32 else 0
    return delay_ms if 0 < delay_ms <= DELAY_MS_MAX else 0


PREDECLARED: Final = (
    ("", "direct", False),
    ("amq.direct", "direct", False),
    ("amq.fanout", "fanout", False),
    ("amq.topic", "topic", False),
    ("amq.headers", "headers", False),
    ("amq.match", "headers", False),
    ("amq.rabbitmq.trace", "topic", True),
)
"""The exchanges of every virtual host: name, type, and whether internal. All are durable."""

PREDECLARED_NAMES: Final = tuple([name for name, _type, _internal in PREDECLARED])


@final
class Topology:
    """The exchanges, bindings and queues of one virtual host."""

    def __init__(self, vhost: str = "/") -> None:
        self.vhost: str = vhost
        self.version: i64 = 0
        # of matchers, for all routes that were found so far
        self.steps: i64 = 0
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, QueuePort] = {}
        # only for bound queues: most queues are used through the default exchange alone
        self._queue_bindings: dict[QueuePort, dict[Binding, Binding]] = {}
        self.copying: QueueCopies = QueueCopies()
        # the logical names of partitioned streams
        self._partitioned: dict[QueuePort, None] = {}
        for name, type, internal in PREDECLARED:
            self.declare_exchange(name, type, True, False, internal, {})
        self.default: Exchange = self.exchanges[""]

    # -- changes

    def add_queue(self, queue: QueuePort) -> None:
        self.queues[queue.name] = queue
        if COPY_FROM in queue.arguments:
            self.copying.add(queue)
        if partition_count(queue.arguments):
            self._partitioned[queue] = None
        self.version += 1

    def remove_queue(self, queue: QueuePort) -> None:
        """Remove a queue that has no bindings left."""
        if queue in self._queue_bindings:
            raise InvariantBroken(f"queue '{queue.name}' is removed before its bindings")
        del self.queues[queue.name]
        self.copying.remove(queue)
        self._partitioned.pop(queue, None)
        self.version += 1

    def declare_exchange(
        self, name: str, type: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> Exchange:
        """Create an exchange with a free name; a fault if its arguments do not suit its type."""
        alternate = alternate_of(self.vhost, name, arguments)
        exchange = Exchange(name, type, durable, auto_delete, internal, arguments, matcher_for(type, arguments))
        exchange.alternate = alternate
        self.exchanges[name] = exchange
        self.version += 1
        return exchange

    def set_alternate(self, exchange: Exchange, name: str) -> None:
        """Set the alternate exchange, for messages that match no binding; empty for none."""
        if exchange.alternate != name:
            exchange.alternate = name
            self.version += 1

    def remove_exchange(self, exchange: Exchange) -> None:
        """Remove an exchange that has no bindings left."""
        if exchange.outgoing or exchange.incoming:
            raise InvariantBroken(f"exchange '{exchange.name}' is removed before its bindings")
        del self.exchanges[exchange.name]
        exchange.deleted = True
        self.version += 1

    def bind(self, source: Exchange, destination: QueuePort | Exchange, routing_key: str, arguments: Table) -> bool:
        """Add a binding; False if it exists already. A fault if the exchange type does not allow it."""
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
        """Remove an existing binding from both its ends."""
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

    # -- queries

    def binding(
        self, source: Exchange, destination: QueuePort | Exchange, routing_key: str, arguments: Table
    ) -> Binding | None:
        """The binding with these values, if it exists."""
        return source.outgoing.get(Binding(source, destination, routing_key, arguments))

    def bindings_of(self, destination: QueuePort | Exchange) -> list[Binding]:
        """The bindings to a queue or exchange, oldest first, without the implicit binding to the default exchange."""
        if isinstance(destination, Exchange):
            return list(destination.incoming)
        bindings = self._queue_bindings.get(destination)
        return [] if bindings is None else list(bindings)

    def bindings_from(self, source: Exchange) -> list[Binding]:
        """The bindings from an exchange, oldest first."""
        return list(source.outgoing)

    def size(self) -> int:
        """How many queues and bindings there are."""
        return len(self.queues) + sum([len(exchange.outgoing) for exchange in self.exchanges.values()])

    def some_bindings(self, most: int) -> list[Binding]:
        """Bindings from any exchange, not more than `most`."""
        found: list[Binding] = []
        for exchange in self.exchanges.values():
            if len(found) < most:
                found += list(exchange.outgoing)[: most - len(found)]
        return found

    def bound_queue_count(self) -> int:
        """How many queues have bindings, without the implicit ones."""
        return len(self._queue_bindings)

    def route(self, exchange: Exchange, routing_key: str, message: Message | None) -> Route:
        """The route of a message from an exchange; without a message, that of a message without properties."""
        return self.route_keys(exchange, [routing_key], message)

    def route_keys(self, exchange: Exchange, routing_keys: list[str], message: Message | None) -> Route:
        """The route for several routing keys, the published one before those of CC and BCC: one copy for each queue."""
        return self.route_subject(exchange, RoutedMessage(routing_keys, message))

    def route_subject(self, exchange: Exchange, subject: RoutedMessage) -> Route:
        """The same; if the subject is `unfinished` afterwards, the route is incomplete."""
        subject.unfinished = False
        if exchange is self.default:
            return self._route_by_name(subject.routing_keys)
        before = subject.steps
        route = self._walk(exchange, subject, True)
        self.steps += subject.steps - before
        return route

    def route_delayed(self, exchange: Exchange, routing_keys: list[str], message: Message) -> Route:
        """The route of a delayed message that is due: no exchange delays it again."""
        subject = RoutedMessage(routing_keys, message)
        route = self._walk(exchange, subject, False)
        self.steps += subject.steps
        return route

    def _route_by_name(self, routing_keys: list[str]) -> Route:
        queues: dict[QueuePort, None] = {}
        for routing_key in routing_keys:
            queue = self.queues.get(routing_key)
            if queue is not None:
                queues[queue] = None
        route = Route(self._placed(queues, routing_keys), [], True)
        if self.copying.any():
            route.copies = self.copying.copies_of(route.queues, RoutedMessage(routing_keys, None))
        return route

    def _walk(self, exchange: Exchange, subject: RoutedMessage, may_delay: bool) -> Route:
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
            for following in self._follow_bindings(visited, subject, queues):
                if following not in seen:
                    seen[following] = None
                    exchanges.append(following)
            if subject.unfinished:
                return route
        route.queues.extend(self._placed(queues, subject.routing_keys))
        if self.copying.any():
            route.copies = self.copying.copies_of(route.queues, subject)
        return route

    def _placed(self, queues: dict[QueuePort, None], routing_keys: list[str]) -> list[QueuePort]:
        """These queues, with each partitioned stream replaced by the partition of the first routing key."""
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

    def _follow_bindings(
        self, exchange: Exchange, subject: RoutedMessage, queues: dict[QueuePort, None]
    ) -> list[Exchange]:
        """Add the queues of the matching bindings, and return the exchanges."""
        found: list[Binding] = []
        exchange.matcher.match(subject, found)
        # a few exchanges can be bound to each other by thousands of bindings
        subject.steps += len(found)
        exchanges: list[Exchange] = []
        for binding in found:
            destination = binding.destination
            if isinstance(destination, Exchange):
                exchanges.append(destination)
            else:
                queues[destination] = None
        if not found and exchange.alternate:
            alternate = self.exchanges.get(exchange.alternate)
            if alternate is not None:
                exchanges.append(alternate)
        return exchanges


@final
class TopologyRemoval:
    """Computes what the removal of queues, exchanges and bindings takes along."""

    def __init__(self, topology: Topology) -> None:
        # in the order of removal
        self.gone: list[Binding | Exchange | QueuePort] = []
        self._topology: Topology = topology
        self._bindings: dict[Binding, None] = {}
        self._exchanges: dict[Exchange, None] = {}
        # by exchange: how many outgoing bindings it lost
        self._lost: dict[Exchange, int] = {}

    def remove_queue(self, queue: QueuePort) -> None:
        sources = self._unbind_all(self._topology.bindings_of(queue))
        self.gone.append(queue)
        self._auto_delete(sources)

    def remove_exchange(self, exchange: Exchange) -> None:
        if exchange not in self._exchanges:
            self._auto_delete(self._forget(exchange))

    def remove_binding(self, binding: Binding) -> None:
        self._auto_delete(self._unbind_all([binding]))

    def remove_all(self) -> None:
        """Remove everything but the predeclared exchanges, which lose their bindings."""
        for queue in self._topology.queues.values():
            self.remove_queue(queue)
        for exchange in self._topology.exchanges.values():
            if exchange.name not in PREDECLARED_NAMES:
                self.remove_exchange(exchange)
            else:
                for binding in self._topology.bindings_from(exchange):
                    self.remove_binding(binding)

    def _unbind_all(self, bindings: list[Binding]) -> list[Exchange]:
        """Remove the bindings that are not removed yet, and return their sources."""
        sources: list[Exchange] = []
        for binding in bindings:
            if binding not in self._bindings:
                source = binding.source
                self._bindings[binding] = None
                self._lost[source] = self._lost.get(source, 0) + 1
                self.gone.append(binding)
                sources.append(source)
        return sources

    def _forget(self, exchange: Exchange) -> list[Exchange]:
        """Remove an exchange and its bindings, and return the exchanges that led to it."""
        self._exchanges[exchange] = None
        self._unbind_all(self._topology.bindings_from(exchange))
        sources = self._unbind_all(self._topology.bindings_of(exchange))
        self.gone.append(exchange)
        return sources

    def _auto_delete(self, sources: list[Exchange]) -> None:
        """Remove the auto-delete exchanges among these that have no outgoing binding left, and so on recursively."""
        at = 0
        while at < len(sources):
            exchange = sources[at]
            at += 1
            idle = self._lost[exchange] == len(exchange.outgoing)
            if exchange.auto_delete and idle and exchange not in self._exchanges:
                sources.extend(self._forget(exchange))
