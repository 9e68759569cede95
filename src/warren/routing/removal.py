"""What goes when something goes: worked out beforehand, from a topology that stays as it is.

A queue or an exchange takes its bindings along. An auto-delete exchange goes when its last binding as a source is
removed; that removes the bindings that led to it, which may be the last of other auto-delete exchanges, and so on.

Invariants: everything is named once; a binding before its ends, so that what is taken away in this order never leaves a
binding with one end. Several things that go together are asked for one after another, and each finds gone what went
with those before it.

Not here: taking it away (`routing.topology`), writing it down (`broker.topology_plans`).
"""

from typing import final

from warren.model.ports import QueuePort
from warren.routing.exchange import Binding, Exchange
from warren.routing.topology import PREDECLARED_NAMES, Topology


@final
class Removal:
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
