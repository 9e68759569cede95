"""How a node comes to be part of a cluster: from its start, or while it runs.

::

    started with what nodes share ──────────────────────────────────────────► a member
    alone ── BeginSharing ──► plans are kept back ──┬── SharingReady ────────► a member, and the plans are proposed
                                                    └── SharingGivenUp ──────► alone: they are made anew

While plans are kept back nothing that outlives the node changes, so what is on its disk when `JoinCluster` is answered
is what moves. Whoever waits for a plan notices nothing but the time it takes.

Not here: the move (`node.cluster`), a member's life (`broker.cluster.cluster`).

What the definitions of a node that was alone look like in the store that nodes share.

What outlives the node is taken as it is recorded, with the revisions that name it. In a cluster everybody has to know
where a queue lives, and transient things are known to all: so queues get their node's name, and what was in memory
alone is added.

Not here: moving them (`node.cluster`), making the snapshot certain (`node.disk.sqlite_store`).
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


def transient_definitions(vhosts: dict[str, Vhost], node: str, incarnation: int) -> list[Definition]:
    """Whatever of exchanges, queues and bindings does not outlive the node."""
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
    """One node's, with what it needs to be a member."""

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
        # there while the node is a member
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
        self._moving: ClusterNode | None = None

    def start_as_member(self, incarnation: int) -> ClusterNode:
        """Before anything is made."""
        self.incarnation = incarnation
        cluster = self._new_clustering()
        self.cluster = cluster
        self._backend.backend = cluster.backend
        return cluster

    def first_node(self) -> str:
        """The member that everybody finds first: a cluster that nobody named is called like it."""
        members = [] if self.cluster is None else self.cluster.membership.members.names_by_rank()
        return members[0] if members else self._node.settings.node_name

    def take(self, event: ClusterEvent) -> None:
        if isinstance(event, MetadataMigrated):
            self._become_member(event.revision, event.snapshot)
        elif isinstance(event, MetadataMigrationFailed):
            self._stay_alone()
        elif self.cluster is not None:
            self.cluster.take(event)

    # -- while it runs

    def kinds(self) -> list[type[Command]]:
        return [JoinCluster]

    def begin(self, ticket: int, command: Command) -> None:
        self._moving = self._new_clustering()
        self._moving.shared.hold()
        self._backend.backend = self._moving.backend
        self._turn.await_flush(PendingJoin(self, ticket))

    def answer(self, ticket: int) -> None:
        """Everything that outlives the node is on its disk."""
        own = self._node.settings.node_name
        metadata = self._lone.metadata
        revision = max(0 if metadata is None else metadata.revision, self._lone.passing_count)
        passing = transient_definitions(self._vhosts, own, self.incarnation)
        # and of what the shell adds: the node, and its run
        self._turn.effects.append(CompleteCommand(ticket, TransientDefinitions(passing, revision + len(passing) + 2)))

    def _become_member(self, revision: int, snapshot: MetadataSnapshot) -> None:
        cluster = self._moving
        if cluster is None:
            return
        self._moving = None
        self.cluster = cluster
        for vhost in self._vhosts.values():
            vhost.queue_locations = cluster
            for queue in vhost.topology.queues.values():
                if isinstance(queue, LocalQueue):
                    queue.queue_id = snapshot[queue_key(vhost.name, queue.name)][0]
        # its clients are served all the while: nothing of theirs is a leftover
        cluster.shared.adopt(revision, snapshot)
        cluster.shared.begin()
        if cluster.replica_sets is not None:
            cluster.replica_sets.begin()

    def _stay_alone(self) -> None:
        cluster = self._moving
        if cluster is not None:
            self._moving = None
            self._backend.backend = self._lone
            cluster.leave()
            cluster.shared.give_up()

    def _new_clustering(self) -> ClusterNode:
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
    """A move that waits for the disk."""

    def __init__(self, entry: ClusterJoin, ticket: int) -> None:
        self._entry: ClusterJoin = entry
        self._ticket: int = ticket

    def flushed(self) -> None:
        self._entry.answer(self._ticket)
