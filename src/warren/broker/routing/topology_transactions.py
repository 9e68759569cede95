"""Metadata transactions for exchanges, queues and bindings: their changes, and the keys that they depend on.

Every new object depends on its virtual host. A binding that is added or removed touches its source and its destination,
so of two concurrent transactions for the bindings of one queue or exchange only one commits. Otherwise a deleted queue
could leave a binding behind, or an auto-delete exchange could stay without bindings. Predeclared exchanges have no
definitions and cannot be deleted, so they are not touched.

Not here: which objects a removal takes along (`broker.routing.topology.TopologyRemoval`), whether a client may do it
(`broker.sessions.declares`, `broker.commands`).
"""

from itertools import islice
from typing import Final

from warren.broker.metadata.access_definitions import vhost_key
from warren.broker.metadata.topology_definitions import (
    BindingDefinition,
    ExchangeDefinition,
    QueueDefinition,
    exchange_key,
    queue_key,
)
from warren.broker.metadata.transaction import MetadataTransaction
from warren.broker.model.ports import QueuePort
from warren.broker.model.stream_partitions import logical_name, partition_arguments, partition_names
from warren.broker.routing.exchanges import Binding, Exchange
from warren.broker.routing.topology import PREDECLARED_NAMES, Topology, TopologyRemoval

REMOVED_AT_ONCE: Final = 1_000
"""The most bindings or queues that one turn removes, where a removal may take several turns."""


def add_queue_definition(transaction: MetadataTransaction, queue: QueueDefinition) -> None:
    """Create a queue, if its name is free."""
    transaction.rely_on(vhost_key(queue.vhost))
    transaction.put(queue)


def add_exchange_definition(transaction: MetadataTransaction, exchange: ExchangeDefinition) -> None:
    """Create an exchange, if its name is free."""
    transaction.rely_on(vhost_key(exchange.vhost))
    transaction.put(exchange)


def add_binding_definition(transaction: MetadataTransaction, binding: BindingDefinition) -> None:
    """Create a binding; its source and destination exist, or are created by the same transaction."""
    transaction.rely_on(vhost_key(binding.vhost))
    transaction.put(binding)
    _touch_ends(transaction, binding)


def add_binding_removal(transaction: MetadataTransaction, topology: Topology, binding: Binding) -> None:
    removal = TopologyRemoval(topology)
    removal.remove_binding(binding)
    _add_removal(transaction, topology, removal)


def add_queue_removal(transaction: MetadataTransaction, topology: Topology, queue: QueuePort) -> None:
    """Delete a queue; a partitioned stream with its partitions."""
    removal = TopologyRemoval(topology)
    removal.remove_queue(queue)
    for name in partition_names(queue.name, queue.arguments):
        partition = topology.queues.get(name)
        if partition is not None and logical_name(partition.arguments) == queue.name:
            removal.remove_queue(partition)
    _add_removal(transaction, topology, removal)


def with_partitions(queue: QueueDefinition, queues: dict[str, QueuePort]) -> list[QueueDefinition]:
    """The definitions to create for this queue: for a partitioned stream, its missing partitions come first."""
    arguments = partition_arguments(queue.name, queue.arguments)
    missing = [name for name in partition_names(queue.name, queue.arguments) if name not in queues]
    return [QueueDefinition(queue.vhost, name, True, False, False, arguments) for name in missing] + [queue]


def add_exchange_removal(transaction: MetadataTransaction, topology: Topology, exchange: Exchange) -> None:
    removal = TopologyRemoval(topology)
    removal.remove_exchange(exchange)
    _add_removal(transaction, topology, removal)


def add_removal_of(
    transaction: MetadataTransaction, topology: Topology, queues: list[QueuePort], exchanges: list[Exchange]
) -> None:
    """Delete several queues and exchanges."""
    removal = TopologyRemoval(topology)
    for queue in queues:
        removal.remove_queue(queue)
    for exchange in exchanges:
        removal.remove_exchange(exchange)
    _add_removal(transaction, topology, removal)


def add_removal_of_some(transaction: MetadataTransaction, topology: Topology) -> int:
    """Delete some bindings of a virtual host or, if it has none, some queues; how many."""
    removal = TopologyRemoval(topology)
    bindings = topology.some_bindings(REMOVED_AT_ONCE)
    for binding in bindings:
        removal.remove_binding(binding)
    queues = [] if bindings else list(islice(topology.queues.values(), REMOVED_AT_ONCE))
    for queue in queues:
        removal.remove_queue(queue)
    _add_removal(transaction, topology, removal)
    return len(bindings) + len(queues)


def add_removal_of_bindings(transaction: MetadataTransaction, topology: Topology, bindings: list[Binding]) -> None:
    removal = TopologyRemoval(topology)
    for binding in bindings:
        removal.remove_binding(binding)
    _add_removal(transaction, topology, removal)


def add_removal_of_all(transaction: MetadataTransaction, topology: Topology) -> None:
    """Delete everything in a virtual host."""
    removal = TopologyRemoval(topology)
    removal.remove_all()
    _add_removal(transaction, topology, removal)


def binding_definition_of(vhost: str, binding: Binding) -> BindingDefinition:
    """The definition of a binding."""
    source, destination = binding.source, binding.destination
    return BindingDefinition(
        vhost,
        source.name,
        destination.name,
        not isinstance(destination, Exchange),
        binding.routing_key,
        binding.arguments,
        source.durable and destination.durable,
    )


def _add_removal(transaction: MetadataTransaction, topology: Topology, removal: TopologyRemoval) -> None:
    vhost = topology.vhost
    for thing in removal.gone:
        if isinstance(thing, Binding):
            binding = binding_definition_of(vhost, thing)
            transaction.delete(binding.key(), binding.durable)
            _touch_ends(transaction, binding)
        elif isinstance(thing, Exchange):
            transaction.delete(exchange_key(vhost, thing.name), thing.durable)
        else:
            transaction.delete(queue_key(vhost, thing.name), thing.durable)


def _touch_ends(transaction: MetadataTransaction, binding: BindingDefinition) -> None:
    if binding.source not in PREDECLARED_NAMES:
        transaction.touch(exchange_key(binding.vhost, binding.source))
    if binding.destination_is_queue:
        transaction.touch(queue_key(binding.vhost, binding.destination))
    elif binding.destination not in PREDECLARED_NAMES:
        transaction.touch(exchange_key(binding.vhost, binding.destination))
