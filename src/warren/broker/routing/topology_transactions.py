"""Plans for exchanges, queues and bindings: what else goes with them, and what else they rely on.

Whatever comes into a virtual host relies on that being there. A binding that comes or goes touches both its ends, so
that of two plans for the bindings of one queue or exchange, made at the same time, only one comes about: else a queue
could go and leave a binding behind, or an auto-delete exchange stay without any. The exchanges every virtual host has
are no definitions and cannot go, so there is nothing to touch.

Not here: what goes with what (`broker.routing.topology`), whether it may (`broker.sessions.declares`, `broker.orders`).
"""

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


def plan_queue(plan: MetadataTransaction, queue: QueueDefinition) -> None:
    """There is this queue; there is none of its name."""
    plan.rely_on(vhost_key(queue.vhost))
    plan.put(queue)


def plan_exchange(plan: MetadataTransaction, exchange: ExchangeDefinition) -> None:
    """There is this exchange; there is none of its name."""
    plan.rely_on(vhost_key(exchange.vhost))
    plan.put(exchange)


def plan_binding(plan: MetadataTransaction, binding: BindingDefinition) -> None:
    """There is this binding; its ends are there, or will be."""
    plan.rely_on(vhost_key(binding.vhost))
    plan.put(binding)
    _touch_ends(plan, binding)


def plan_unbinding(plan: MetadataTransaction, topology: Topology, binding: Binding) -> None:
    removal = TopologyRemoval(topology)
    removal.remove_binding(binding)
    _plan_removal(plan, topology, removal)


def plan_queue_removal(plan: MetadataTransaction, topology: Topology, queue: QueuePort) -> None:
    """A partitioned stream takes its partitions along."""
    removal = TopologyRemoval(topology)
    removal.remove_queue(queue)
    for name in partition_names(queue.name, queue.arguments):
        partition = topology.queues.get(name)
        if partition is not None and logical_name(partition.arguments) == queue.name:
            removal.remove_queue(partition)
    _plan_removal(plan, topology, removal)


def with_partitions(queue: QueueDefinition, queues: dict[str, QueuePort]) -> list[QueueDefinition]:
    """What there has to be for this queue to be there: before a partitioned stream its partitions, those that are not
    there already."""
    arguments = partition_arguments(queue.name, queue.arguments)
    missing = [name for name in partition_names(queue.name, queue.arguments) if name not in queues]
    return [QueueDefinition(queue.vhost, name, True, False, False, arguments) for name in missing] + [queue]


def plan_exchange_removal(plan: MetadataTransaction, topology: Topology, exchange: Exchange) -> None:
    removal = TopologyRemoval(topology)
    removal.remove_exchange(exchange)
    _plan_removal(plan, topology, removal)


def plan_removal_of(
    plan: MetadataTransaction, topology: Topology, queues: list[QueuePort], exchanges: list[Exchange]
) -> None:
    """Several go together."""
    removal = TopologyRemoval(topology)
    for queue in queues:
        removal.remove_queue(queue)
    for exchange in exchanges:
        removal.remove_exchange(exchange)
    _plan_removal(plan, topology, removal)


def plan_all_removal(plan: MetadataTransaction, topology: Topology) -> None:
    """Everything in a virtual host goes."""
    removal = TopologyRemoval(topology)
    removal.remove_all()
    _plan_removal(plan, topology, removal)


def binding_definition_of(vhost: str, binding: Binding) -> BindingDefinition:
    """A binding of that virtual host as it is written down."""
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


def _plan_removal(plan: MetadataTransaction, topology: Topology, removal: TopologyRemoval) -> None:
    vhost = topology.vhost
    for thing in removal.gone:
        if isinstance(thing, Binding):
            binding = binding_definition_of(vhost, thing)
            plan.delete(binding.key(), binding.durable)
            _touch_ends(plan, binding)
        elif isinstance(thing, Exchange):
            plan.delete(exchange_key(vhost, thing.name), thing.durable)
        else:
            plan.delete(queue_key(vhost, thing.name), thing.durable)


def _touch_ends(plan: MetadataTransaction, binding: BindingDefinition) -> None:
    if binding.source not in PREDECLARED_NAMES:
        plan.touch(exchange_key(binding.vhost, binding.source))
    if binding.destination_is_queue:
        plan.touch(queue_key(binding.vhost, binding.destination))
    elif binding.destination not in PREDECLARED_NAMES:
        plan.touch(exchange_key(binding.vhost, binding.destination))
