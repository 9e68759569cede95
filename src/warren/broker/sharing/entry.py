"""How a node comes to be part of a cluster: from its start, or while it runs.

::

    started with what nodes share ──────────────────────────────────────────► a member
    alone ── BeginSharing ──► plans are kept back ──┬── SharingReady ────────► a member, and the plans are proposed
                                                    └── SharingGivenUp ──────► alone: they are made anew

While plans are kept back nothing that outlives the node changes, so what is on its disk when `BeginSharing` is answered
is what moves. Whoever waits for a plan notices nothing but the time it takes.

Not here: the move (`node.cluster`), a member's life (`broker.clustering`).
"""

from typing import final

from warren.broker.access.headcounts import Headcounts
from warren.broker.access.population import Population
from warren.broker.agreement import Charter, LoneAgreement
from warren.broker.applying import Appliers
from warren.broker.clustering import Clustering, Service
from warren.broker.commands import BeginSharing
from warren.broker.control import DeferringHandler
from warren.broker.names import FreshNames
from warren.broker.sharing.moving_in import PassingDefinitions, passing_definitions
from warren.broker.storage import Storage
from warren.broker.vhost import Vhost
from warren.cluster.partitions import PartitionHandling
from warren.model.commands import Command
from warren.model.effects import Answered
from warren.model.events import ClusterEvent, SharedSnapshot, SharingGivenUp, SharingReady
from warren.model.own_queue import OwnQueue
from warren.model.turn import FlushWaiter, Turn
from warren.policy.policies import Policies
from warren.session.ports import NodePort
from warren.store.topology_definitions import queue_key


@final
class ClusterEntry(DeferringHandler):
    """One node's, with what it needs to be a member."""

    def __init__(
        self,
        node: NodePort,
        service: Service,
        lone: LoneAgreement,
        charter: Charter,
        appliers: Appliers,
        vhosts: dict[str, Vhost],
        policies: Policies,
        names: FreshNames,
        population: Population,
        storage: Storage | None,
    ) -> None:
        # there while the node is a member
        self.clustering: Clustering | None = None
        self.incarnation: int = 0
        self._node: NodePort = node
        self._service: Service = service
        self._turn: Turn = node.turn
        self._lone: LoneAgreement = lone
        self._charter: Charter = charter
        self._appliers: Appliers = appliers
        self._vhosts: dict[str, Vhost] = vhosts
        self._policies: Policies = policies
        self._names: FreshNames = names
        self._population: Population = population
        self._storage: Storage | None = storage
        self._moving: Clustering | None = None

    def start_as_member(self, incarnation: int) -> Clustering:
        """Before anything is made."""
        self.incarnation = incarnation
        clustering = self._new_clustering()
        self.clustering = clustering
        self._charter.agreement = clustering.agreement
        return clustering

    def first_node(self) -> str:
        """The member that everybody finds first: a cluster that nobody named is called like it."""
        members = [] if self.clustering is None else self.clustering.membership.members.names_by_rank()
        return members[0] if members else self._node.settings.node_name

    def take(self, event: ClusterEvent) -> None:
        if isinstance(event, SharingReady):
            self._become_member(event.revision, event.snapshot)
        elif isinstance(event, SharingGivenUp):
            self._stay_alone()
        elif self.clustering is not None:
            self.clustering.take(event)

    # -- while it runs

    def kinds(self) -> list[type[Command]]:
        return [BeginSharing]

    def begin(self, ticket: int, command: Command) -> None:
        self._moving = self._new_clustering()
        self._moving.shared.hold()
        self._charter.agreement = self._moving.agreement
        self._turn.await_flush(PendingMove(self, ticket))

    def answer(self, ticket: int) -> None:
        """Everything that outlives the node is on its disk."""
        own = self._node.settings.node_name
        metadata = self._lone.metadata
        revision = max(0 if metadata is None else metadata.revision, self._lone.passing_count)
        passing = passing_definitions(self._vhosts, own, self.incarnation)
        # and of what the shell adds: the node, and its run
        self._turn.effects.append(Answered(ticket, PassingDefinitions(passing, revision + len(passing) + 2)))

    def _become_member(self, revision: int, snapshot: SharedSnapshot) -> None:
        clustering = self._moving
        if clustering is None:
            return
        self._moving = None
        self.clustering = clustering
        for vhost in self._vhosts.values():
            vhost.whereabouts = clustering
            for queue in vhost.topology.queues.values():
                if isinstance(queue, OwnQueue):
                    queue.queue_id = snapshot[queue_key(vhost.name, queue.name)][0]
        # its clients are served all the while: nothing of theirs is a leftover
        clustering.shared.adopt(revision, snapshot)
        clustering.shared.begin()
        if clustering.rings is not None:
            clustering.rings.begin()

    def _stay_alone(self) -> None:
        clustering = self._moving
        if clustering is not None:
            self._moving = None
            self._charter.agreement = self._lone
            clustering.leave()
            clustering.shared.give_up()

    def _new_clustering(self) -> Clustering:
        settings = self._node.settings
        handling = PartitionHandling(settings.partition_handling, settings.pause_nodes, settings.pause_recovery)
        return Clustering(
            self._node,
            self._service,
            self.incarnation,
            handling,
            self._appliers,
            self._vhosts,
            self._policies,
            self._names,
            Headcounts(self._population, self._vhosts, self._turn.figures),
            self._storage,
        )


@final
class PendingMove(FlushWaiter):
    """A move that waits for the disk."""

    def __init__(self, entry: ClusterEntry, ticket: int) -> None:
        self._entry: ClusterEntry = entry
        self._ticket: int = ticket

    def flushed(self) -> None:
        self._entry.answer(self._ticket)
