"""The exchanges, bindings and queue names of one virtual host, and the walk that finds where a message goes.

A route is walked from the exchange published to. Each exchange is visited once, so cycles end and a queue gets one
copy whatever the graph. An exchange none of whose bindings match passes the message to its alternate exchange, if
that exists; one whose bindings lead only to other exchanges has matched. The default exchange has no bindings: it
routes by queue name.

An auto-delete exchange goes when its last binding as a source is removed. Its going removes the bindings that led to
it, which may be the last of other auto-delete exchanges, and so on.

What goes takes other things with it, so whoever must know of bindings and of what goes (the metadata) listens here and
not at the doors that clients knock on.

Invariants: `version` moves with every change that may alter a route. A bound queue is in `queues`. A binding stands
at both its ends or nowhere (`exchange`), and a matcher holds exactly the outgoing bindings of its exchange.

Not here: who may declare, bind or delete what, and whether two declarations agree (`session`); keeping delayed
messages (`broker`).
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64, trait

from warren.model.message import Message
from warren.model.ports import QueuePort
from warren.routing.delayed import delay_in
from warren.routing.exchange import Binding, Exchange
from warren.routing.route import Route, Subject
from warren.routing.types import alternate_of, matcher_for
from warren.wire.values import Table

__all__ = ["PREDECLARED", "Binding", "Topology", "TopologyListener"]

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


@trait
class TopologyListener:
    """Whoever is told what is bound, and what is no more, each once."""

    @abstractmethod
    def bound(self, binding: Binding) -> None: ...

    @abstractmethod
    def unbound(self, binding: Binding) -> None:
        """A binding was removed, by itself or because one of its ends goes, which is told after its bindings."""

    @abstractmethod
    def exchange_gone(self, exchange: Exchange) -> None: ...

    @abstractmethod
    def queue_gone(self, queue: QueuePort) -> None: ...


@final
class Topology:
    """One virtual host's map."""

    def __init__(self, vhost: str = "/") -> None:
        self.vhost: str = vhost
        self.version: i64 = 0
        self.listener: TopologyListener | None = None
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, QueuePort] = {}
        # only of queues that have any: most are reached through the default exchange alone
        self._queue_bindings: dict[QueuePort, dict[Binding, Binding]] = {}
        for name, type, internal in PREDECLARED:
            self.declare_exchange(name, type, True, False, internal, {})
        self.default: Exchange = self.exchanges[""]

    # -- changing the map

    def add_queue(self, queue: QueuePort) -> None:
        self.queues[queue.name] = queue
        self.version += 1

    def remove_queue(self, queue: QueuePort) -> list[Exchange]:
        """Forget a queue and its bindings; the auto-delete exchanges that went with them."""
        self.version += 1
        sources = self._drop_all(self.bindings_of(queue))
        if self.queues.get(queue.name) is queue:
            del self.queues[queue.name]
            if self.listener is not None:
                self.listener.queue_gone(queue)
        return self._auto_delete(sources)

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

    def delete_exchange(self, exchange: Exchange) -> list[Exchange]:
        """Remove an exchange and its bindings both ways; the auto-delete exchanges that went with it."""
        self.version += 1
        return self._auto_delete(self._forget(exchange))

    def bind(self, source: Exchange, destination: QueuePort | Exchange, routing_key: str, arguments: Table) -> bool:
        """Add a binding, or find that it is there already (false); a fault if the source's type cannot take it."""
        source.matcher.check(routing_key, arguments)
        binding = Binding(source, destination, routing_key, arguments)
        if binding in source.outgoing:
            return False
        self._add(binding)
        if self.listener is not None:
            self.listener.bound(binding)
        return True

    def restore_binding(
        self, source: Exchange, destination: QueuePort | Exchange, routing_key: str, arguments: Table
    ) -> None:
        """Add a binding that is known already to whoever listens; a fault if the source's type cannot take it."""
        source.matcher.check(routing_key, arguments)
        self._add(Binding(source, destination, routing_key, arguments))

    def _add(self, binding: Binding) -> None:
        source = binding.source
        destination = binding.destination
        source.outgoing[binding] = binding
        source.matcher.add(binding)
        if isinstance(destination, Exchange):
            destination.incoming[binding] = binding
        else:
            self._queue_bindings.setdefault(destination, {})[binding] = binding
        self.version += 1

    def is_bound(self, source: Exchange, destination: QueuePort | Exchange, routing_key: str, arguments: Table) -> bool:
        return Binding(source, destination, routing_key, arguments) in source.outgoing

    def unbind(self, source: Exchange, destination: QueuePort | Exchange, routing_key: str, arguments: Table) -> bool:
        """Remove a binding, or find that there is none (false). May end an auto-delete source, and others with it."""
        binding = source.outgoing.get(Binding(source, destination, routing_key, arguments))
        if binding is None:
            return False
        self.version += 1
        self._auto_delete(self._drop_all([binding]))
        return True

    def _drop_all(self, bindings: list[Binding]) -> list[Exchange]:
        """Remove bindings from both their ends; the exchanges they came from."""
        for binding in bindings:
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
            if self.listener is not None:
                self.listener.unbound(binding)
        return [binding.source for binding in bindings]

    def _forget(self, exchange: Exchange) -> list[Exchange]:
        """Remove an exchange and its bindings; the exchanges that led to it."""
        del self.exchanges[exchange.name]
        exchange.deleted = True
        self._drop_all(self.bindings_from(exchange))
        sources = self._drop_all(self.bindings_of(exchange))
        if self.listener is not None:
            self.listener.exchange_gone(exchange)
        return sources

    def _auto_delete(self, sources: list[Exchange]) -> list[Exchange]:
        """Of exchanges that lost a binding, and then of those that led to them, remove the idle auto-delete ones."""
        removed: list[Exchange] = []
        at = 0
        while at < len(sources):
            exchange = sources[at]
            at += 1
            if exchange.auto_delete and not exchange.outgoing and not exchange.deleted:
                removed.append(exchange)
                sources.extend(self._forget(exchange))
        return removed

    # -- reading it

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
        return Route(list(queues), [], True)

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
        route.queues.extend(queues)
        return route

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
