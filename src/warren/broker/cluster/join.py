"""How a node becomes a member of a cluster: from its start, or while it runs.

::

    started with the shared metadata ───────────────────────────────────────────────► a member
    alone ── JoinCluster ──► transactions are held ──┬── MetadataMigrated ──────────► a member; they are proposed
                                                     └── MetadataMigrationFailed ───► alone; they are proposed again

While transactions are held no stored definition changes. So the metadata on disk when `JoinCluster` is answered is
exactly what migrates. Clients notice only a delay.

In the shared store every node must know the home of a queue, and transient objects too. So stored definitions migrate
with their ids, queues get the name of their node, and transient definitions are added.

Not here: the migration (`node.cluster`, `node.disk.sqlite_store`), a member at work (`broker.cluster.cluster`).
"""

from typing import final

from warren.broker.cluster.cluster import ClientService, ClusterNode
from warren.broker.cluster.peer_notices import ClusterCounts
from warren.broker.commands.control import DeferringHandler
from warren.broker.commands.requests import JoinCluster
from warren.broker.connections import ConnectionLimits
from warren.broker.metadata.backend import CurrentMetadataBackend, LocalMetadataBackend, MetadataAppliers
from warren.broker.metadata.definition_kinds import decode_definition
from warren.broker.metadata.store import Definition, Snapshot
from warren.broker.metadata.topology_definitions import QUEUES, ExchangeDefinition, QueueDefinition, queue_key
from warren.broker.model.effects import CompleteCommand
from warren.broker.model.events import (
    ClusterEvent,
    Command,
    MetadataMigrated,
    MetadataMigrationFailed,
    MetadataSnapshot,
)
from warren.broker.model.local_queue import LocalQueue
from warren.broker.model.names import NameGenerator
from warren.broker.model.stream_partitions import partition_count
from warren.broker.model.turn import FlushWaiter, Turn
from warren.broker.network_partitions import PartitionHandling
from warren.broker.policies.policies import Policies
from warren.broker.queues.queue import Queue
from warren.broker.routing.exchanges import Exchange
from warren.broker.routing.topology_transactions import binding_definition_of
from warren.broker.sessions.ports import NodePort
from warren.broker.storage import Storage
from warren.broker.vhost import Vhost


@final
class TransientDefinitions:
    """The transient definitions, and a revision that leaves an unused id for each of them."""

    def __init__(self, definitions: list[Definition], revision: int) -> None:
        self.definitions: list[Definition] = definitions
        self.revision: int = revision


def shared_snapshot(kept: Snapshot, transient: list[Definition], node: str, revision: int) -> Snapshot:
    """Stored and transient definitions as the shared store has them.

    Transient objects get the ids up to `revision`.
    """
    shared: Snapshot = {}
    for key, (created, value) in kept.items():
        shared[key] = (created, value)
        if key.startswith(f"{QUEUES}/"):
            definition = decode_definition(key, value)
            assert isinstance(definition, QueueDefinition), "the key is a queue's"
            # the logical name of a partitioned stream has no home
            definition.node = "" if partition_count(definition.arguments) else node
            shared[key] = (created, definition.value())
    for place, definition in enumerate(transient):
        shared[definition.key()] = (revision - place, definition.value())
    return shared


def transient_definitions(vhosts: dict[str, Vhost], node: str, incarnation: int) -> list[Definition]:
    """The transient exchanges, queues and bindings."""
    found: list[Definition] = []
    for vhost in vhosts.values():
        topology = vhost.topology
        exchanges = list(topology.exchanges.values())
        found += [_transient_exchange(vhost.name, exchange) for exchange in exchanges if not exchange.durable]
        queues = [queue for queue in topology.queues.values() if isinstance(queue, Queue)]
        found += [_transient_queue(queue, node, incarnation) for queue in queues if not queue.durable]
        for exchange in exchanges:
            bindings = [binding_definition_of(vhost.name, binding) for binding in topology.bindings_from(exchange)]
            found += [binding for binding in bindings if not binding.kept()]
    return found


def _transient_exchange(vhost: str, exchange: Exchange) -> ExchangeDefinition:
    return ExchangeDefinition(
        vhost, exchange.name, exchange.type, False, exchange.auto_delete, exchange.internal, exchange.arguments
    )


def _transient_queue(queue: Queue, node: str, incarnation: int) -> QueueDefinition:
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


@final
class ClusterJoin(DeferringHandler):
    """Makes the node a member, and passes cluster events on to it."""

    def __init__(
        self,
        node: NodePort,
        service: ClientService,
        lone: LocalMetadataBackend,
        backend: CurrentMetadataBackend,
        appliers: MetadataAppliers,
        vhosts: dict[str, Vhost],
        policies: Policies,
        names: NameGenerator,
        connection_limits: ConnectionLimits,
        storage: Storage | None,
    ) -> None:
        # None while the node is alone
        self.cluster: ClusterNode | None = None
        self.incarnation: int = 0
        self._node: NodePort = node
        self._service: ClientService = service
        self._turn: Turn = node.turn
        self._lone: LocalMetadataBackend = lone
        self._backend: CurrentMetadataBackend = backend
        self._appliers: MetadataAppliers = appliers
        self._vhosts: dict[str, Vhost] = vhosts
        self._policies: Policies = policies
        self._names: NameGenerator = names
        self._connection_limits: ConnectionLimits = connection_limits
        self._storage: Storage | None = storage
        self._joining: ClusterNode | None = None

    def start_as_member(self, incarnation: int) -> ClusterNode:
        """Called before any definition is applied."""
        self.incarnation = incarnation
        cluster = self._new_cluster_node()
        self.cluster = cluster
        self._backend.backend = cluster.backend
        return cluster

    def first_node(self) -> str:
        """The member with the lowest rank: a cluster without a name is called after it."""
        members = [] if self.cluster is None else self.cluster.membership.members.names_by_rank()
        return members[0] if members else self._node.settings.node_name

    def take(self, event: ClusterEvent) -> None:
        if isinstance(event, MetadataMigrated):
            self._become_member(event.revision, event.snapshot)
        elif isinstance(event, MetadataMigrationFailed):
            self._stay_alone()
        elif self.cluster is not None:
            self.cluster.take(event)

    # -- joining while the node runs

    def kinds(self) -> list[type[Command]]:
        return [JoinCluster]

    def begin(self, ticket: int, command: Command) -> None:
        self._joining = self._new_cluster_node()
        self._joining.shared.hold()
        self._backend.backend = self._joining.backend
        self._turn.await_flush(PendingJoin(self, ticket))

    def answer(self, ticket: int) -> None:
        """All stored definitions are flushed."""
        own = self._node.settings.node_name
        metadata = self._lone.metadata
        revision = max(0 if metadata is None else metadata.revision, self._lone.transient_count)
        transient = transient_definitions(self._vhosts, own, self.incarnation)
        # the shell adds two keys: the node, and its incarnation
        self._turn.effects.append(
            CompleteCommand(ticket, TransientDefinitions(transient, revision + len(transient) + 2))
        )

    def _become_member(self, revision: int, snapshot: MetadataSnapshot) -> None:
        cluster = self._joining
        if cluster is None:
            return
        self._joining = None
        self.cluster = cluster
        for vhost in self._vhosts.values():
            vhost.queue_locations = cluster
            for queue in vhost.topology.queues.values():
                if isinstance(queue, LocalQueue):
                    queue.queue_id = snapshot[queue_key(vhost.name, queue.name)][0]
        # its clients stay connected, so their queues are not orphaned
        cluster.shared.adopt(revision, snapshot)
        cluster.shared.begin()
        if cluster.replica_sets is not None:
            cluster.replica_sets.begin()

    def _stay_alone(self) -> None:
        cluster = self._joining
        if cluster is not None:
            self._joining = None
            self._backend.backend = self._lone
            cluster.leave()
            cluster.shared.give_up()

    def _new_cluster_node(self) -> ClusterNode:
        settings = self._node.settings
        handling = PartitionHandling(settings.partition_handling, settings.pause_nodes, settings.pause_recovery)
        return ClusterNode(
            self._node,
            self._service,
            self.incarnation,
            handling,
            self._appliers,
            self._vhosts,
            self._policies,
            self._names,
            ClusterCounts(self._connection_limits, self._vhosts, self._turn.stats),
            self._storage,
        )


@final
class PendingJoin(FlushWaiter):
    """A join that waits for the flush."""

    def __init__(self, entry: ClusterJoin, ticket: int) -> None:
        self._entry: ClusterJoin = entry
        self._ticket: int = ticket

    def flushed(self) -> None:
        self._entry.answer(self._ticket)
