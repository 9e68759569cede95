"""The exchanges, bindings and queue names of one virtual host, and the walk that finds where a message goes.

A route is walked from the exchange published to. Each exchange is visited once, so cycles end and a queue gets one
copy whatever the graph. An exchange none of whose bindings match passes the message to its alternate exchange, if
that exists; one whose bindings lead only to other exchanges has matched. The default exchange has no bindings: it
routes by queue name. What leads to a partitioned stream leads to the partition of the published key. Queues that copy
others come last, whatever led to these.

A change here is that one change: what goes with something that goes has been worked out before, and goes first.

Invariants: `version` moves with every change that may alter a route. A bound queue is in `queues`. A binding stands
at both its ends or nowhere (`exchange`), and a matcher holds exactly the outgoing bindings of its exchange.

Not here: what goes with what (`broker.routing.topology`); who may declare, bind or delete what, and whether two
declarations agree (`session`); keeping delayed messages (`broker`).

How long a message asks to be delayed: the header `x-delay`, in milliseconds.

An exchange of type x-delayed-message keeps such a message and routes it by its inner type (`x-delayed-type`) once
due.

Not here: keeping and waking (`broker`); which exchanges delay (`topology`).

What goes when something goes: worked out beforehand, from a topology that stays as it is.

A queue or an exchange takes its bindings along. An auto-delete exchange goes when its last binding as a source is
removed; that removes the bindings that led to it, which may be the last of other auto-delete exchanges, and so on.

Invariants: everything is named once; a binding before its ends, so that what is taken away in this order never leaves a
binding with one end. Several things that go together are asked for one after another, and each finds gone what went
with those before it.

Not here: taking it away (`broker.routing.topology`), writing it down (`broker.routing.topology_transactions`).
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
"""A longer delay is no delay, as in RabbitMQ's plugin: the message is routed at once."""


def delay_of(message: Message) -> i64:
    """The milliseconds a message asks to wait; 0 if none."""
    return delay_in(message.headers())


def delay_in(headers: Table) -> i64:
    """The delay in a message's headers, a number or its decimal text; 0 if none, below zero, or beyond the maximum."""
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
        self.copying: QueueCopies = QueueCopies()
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
        return self._walk(exchange, RoutedMessage(routing_keys, message), True)

    def route_delayed(self, exchange: Exchange, routing_keys: list[str], message: Message) -> Route:
        """Where a message goes that an exchange delayed and that is due: no exchange delays it once more."""
        return self._walk(exchange, RoutedMessage(routing_keys, message), False)

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

    def _onward(self, exchange: Exchange, subject: RoutedMessage, queues: dict[QueuePort, None]) -> list[Exchange]:
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


@final
class TopologyRemoval:
    """What is asked to go, and all that goes along."""

    def __init__(self, topology: Topology) -> None:
        # in the order in which it goes
        self.gone: list[Binding | Exchange | QueuePort] = []
        self._topology: Topology = topology
        self._bindings: dict[Binding, None] = {}
        self._exchanges: dict[Exchange, None] = {}
        # of exchanges: how many bindings they lost as a source
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
        """Everything but the exchanges every virtual host has; these lose their bindings."""
        for queue in self._topology.queues.values():
            self.remove_queue(queue)
        for exchange in self._topology.exchanges.values():
            if exchange.name not in PREDECLARED_NAMES:
                self.remove_exchange(exchange)
            else:
                for binding in self._topology.bindings_from(exchange):
                    self.remove_binding(binding)

    def _unbind_all(self, bindings: list[Binding]) -> list[Exchange]:
        """Let those go that have not gone yet; the exchanges they came from."""
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
        """Let an exchange go; the exchanges that led to it."""
        self._exchanges[exchange] = None
        self._unbind_all(self._topology.bindings_from(exchange))
        sources = self._unbind_all(self._topology.bindings_of(exchange))
        self.gone.append(exchange)
        return sources

    def _auto_delete(self, sources: list[Exchange]) -> None:
        """Of exchanges that lost a binding, and then of those that led to them, the idle auto-delete ones go."""
        at = 0
        while at < len(sources):
            exchange = sources[at]
            at += 1
            idle = self._lost[exchange] == len(exchange.outgoing)
            if exchange.auto_delete and idle and exchange not in self._exchanges:
                sources.extend(self._forget(exchange))
