"""What the definitions of a node that was alone look like in the store that nodes share.

What outlives the node is taken as it is recorded, with the revisions that name it. In a cluster everybody has to know
where a queue lives, and transient things are known to all: so queues get their node's name, and what was in memory
alone is added.

Not here: moving them (`node.cluster`), making the snapshot certain (`node.sqlite_store`).
"""

from typing import final

from warren.broker.topology_plans import definition_of
from warren.broker.vhost import Vhost
from warren.model.partitions import partition_count
from warren.queue.queue import Queue
from warren.routing.exchange import Exchange
from warren.store.definition_kinds import decode_definition
from warren.store.metadata import Definition, Snapshot
from warren.store.topology_definitions import QUEUES, ExchangeDefinition, QueueDefinition


@final
class PassingDefinitions:
    """Whatever does not outlive the node, and a revision that leaves each of it a name that the node has not used."""

    def __init__(self, definitions: list[Definition], revision: int) -> None:
        self.definitions: list[Definition] = definitions
        self.revision: int = revision


def shared_snapshot(kept: Snapshot, passing: list[Definition], node: str, revision: int) -> Snapshot:
    """What is recorded and what is not, as all nodes of a cluster may read it.

    The numbers up to `revision` name what was not, each thing by one of its own.
    """
    shared: Snapshot = {}
    for key, (created, value) in kept.items():
        shared[key] = (created, value)
        if key.startswith(f"{QUEUES}/"):
            definition = decode_definition(key, value)
            assert isinstance(definition, QueueDefinition), "its key says so"
            # the name of a partitioned stream is at home everywhere
            definition.node = "" if partition_count(definition.arguments) else node
            shared[key] = (created, definition.value())
    for place, definition in enumerate(passing):
        shared[definition.key()] = (revision - place, definition.value())
    return shared


def passing_definitions(vhosts: dict[str, Vhost], node: str, incarnation: int) -> list[Definition]:
    """Whatever of exchanges, queues and bindings does not outlive the node."""
    found: list[Definition] = []
    for vhost in vhosts.values():
        topology = vhost.topology
        exchanges = list(topology.exchanges.values())
        found += [_passing_exchange(vhost.name, exchange) for exchange in exchanges if not exchange.durable]
        queues = [queue for queue in topology.queues.values() if isinstance(queue, Queue)]
        found += [_passing_queue(queue, node, incarnation) for queue in queues if not queue.durable]
        for exchange in exchanges:
            bindings = [definition_of(vhost.name, binding) for binding in topology.bindings_from(exchange)]
            found += [binding for binding in bindings if not binding.kept()]
    return found


def _passing_exchange(vhost: str, exchange: Exchange) -> ExchangeDefinition:
    return ExchangeDefinition(
        vhost, exchange.name, exchange.type, False, exchange.auto_delete, exchange.internal, exchange.arguments
    )


def _passing_queue(queue: Queue, node: str, incarnation: int) -> QueueDefinition:
    return QueueDefinition(
        queue.vhost,
        queue.name,
        False,
        queue.exclusive,
        queue.auto_delete,
        queue.arguments,
        node,
        queue.owner_id,
        incarnation,
    )
