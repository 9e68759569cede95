"""Writes down what of one virtual host outlives the node, as it comes and as it goes.

Durable queues and exchanges do, but for the exchanges every virtual host has; and a binding does if both its ends do.
What comes is told by the virtual host that makes it, which needs the id it gets; what goes, and every binding, by the
topology, because an exchange may go with a binding and a binding with a queue.

Not here: keys and values (`store.topology_definitions`), the way back (`broker.definitions`).
"""

from typing import final

from warren.model.ports import QueuePort
from warren.routing.exchange import Binding, Exchange
from warren.routing.topology import TopologyListener
from warren.store.metadata import Metadata
from warren.store.topology_definitions import (
    BindingDefinition,
    ExchangeDefinition,
    QueueDefinition,
    exchange_key,
    queue_key,
)
from warren.wire.values import Table


@final
class Recorder(TopologyListener):
    """One virtual host's writer of metadata."""

    def __init__(self, vhost: str, metadata: Metadata) -> None:
        self._vhost: str = vhost
        self._metadata: Metadata = metadata

    def queue_declared(self, name: str, durable: bool, auto_delete: bool, arguments: Table) -> int:
        """The new queue's id: negative if it does not outlive the node."""
        if not durable:
            return self._metadata.passing_id()
        definition = QueueDefinition(self._vhost, name, auto_delete, arguments)
        return self._metadata.put(definition.key(), definition.value())

    def exchange_declared(self, exchange: Exchange) -> None:
        if not exchange.durable:
            return
        definition = ExchangeDefinition(
            self._vhost, exchange.name, exchange.type, exchange.auto_delete, exchange.internal, exchange.arguments
        )
        exchange.exchange_id = self._metadata.put(definition.key(), definition.value())

    def bound(self, binding: Binding) -> None:
        if binding.source.durable and binding.destination.durable:
            definition = self._definition(binding)
            self._metadata.put(definition.key(), definition.value())

    def unbound(self, binding: Binding) -> None:
        if binding.source.durable and binding.destination.durable:
            self._metadata.delete(self._definition(binding).key())

    def exchange_gone(self, exchange: Exchange) -> None:
        if exchange.durable:
            self._metadata.delete(exchange_key(self._vhost, exchange.name))

    def queue_gone(self, queue: QueuePort) -> None:
        if queue.durable:
            self._metadata.delete(queue_key(self._vhost, queue.name))

    def _definition(self, binding: Binding) -> BindingDefinition:
        destination = binding.destination
        return BindingDefinition(
            self._vhost,
            binding.source.name,
            destination.name,
            not isinstance(destination, Exchange),
            binding.routing_key,
            binding.arguments,
        )
