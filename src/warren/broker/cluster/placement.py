"""Gives a new queue its home: the node it lives on, and the run of that node it ends with, if it does.

Not here: the rules (`broker.cluster.locators`).
"""

from typing import TYPE_CHECKING, Final, final

from warren.broker.cluster.locators import CLIENT_LOCAL, MIN_MASTERS, NodeLoad, choose_node, locator_of
from warren.broker.membership import ClusterMembership
from warren.broker.metadata.backend import MetadataBackend
from warren.broker.metadata.shared_definitions import Home, QueueHomes
from warren.broker.metadata.topology_definitions import QueueDefinition
from warren.broker.metadata.transaction import MetadataTransaction, TransactionWaiter
from warren.broker.model.names import NameGenerator
from warren.broker.model.stream_partitions import PARTITION_OF, partition_count
from warren.broker.model.turn import TimerTarget, Turn
from warren.broker.policies.keys import MASTER_LOCATOR, MODE, PARAMS
from warren.broker.policies.policies import Policies
from warren.wire.field_tables import Table

if TYPE_CHECKING:
    from warren.broker.replication.replica_sets import ReplicaSets


PARTITION_WEIGHT: Final = 1_000_000
"""The partitions of a stream are spread over the nodes, however many queues each has."""

NO_HOME: Final = "this node is a witness, and reaches no node that holds queues"


@final
class QueuePlacer:
    """Knows what counts for a queue that a client of this node declares."""

    def __init__(
        self, setting: str, membership: ClusterMembership, homes: QueueHomes, policies: Policies, names: NameGenerator
    ) -> None:
        self._setting: str = setting
        self._membership: ClusterMembership = membership
        self._homes: QueueHomes = homes
        self._policies: Policies = policies
        self._names: NameGenerator = names

    def home_for(
        self,
        vhost: str,
        name: str,
        durable: bool,
        exclusive: bool,
        arguments: Table,
        planned: dict[str, int] | None = None,
    ) -> Home:
        """Where the queue is to live, on no node if none can have it; so many are planned along with it, by their
        nodes."""
        node = self._membership.own
        if not exclusive:
            policy = self._policies.for_queue(vhost, name).definition
            is_partition = PARTITION_OF in arguments
            setting = MIN_MASTERS if is_partition else self._setting
            locator = locator_of(arguments.get("x-queue-master-locator"), policy.get(MASTER_LOCATOR), setting)
            draw = 0 if locator == CLIENT_LOCAL else self._names.draw()
            weight = PARTITION_WEIGHT if is_partition else 1
            node = choose_node(locator, node, self._candidates(planned or {}, weight), _listed(policy, arguments), draw)
        return node, 0 if durable and not exclusive else self._run_of(node)

    def _candidates(self, planned: dict[str, int], weight: int) -> list[NodeLoad]:
        """Nodes that are reached, live, and hold queues; one that is paused does not claim to live.

        What is planned counts `weight` times.
        """
        members, own = self._membership.members, self._membership.own
        reached = [name for name in members.alive_names() if self._membership.reachability.is_connected(name)]
        names = [name for name in reached if name != own] + [own]
        extent = [name for name in names if not members.is_witness(name)]
        return [NodeLoad(name, self._homes.count(name) + planned.get(name, 0) * weight) for name in extent]

    def _run_of(self, node: str) -> int:
        if node == self._membership.own:
            return self._membership.incarnation
        return self._membership.members.incarnation(node) or 0


@final
class PlacingMetadataBackend(MetadataBackend):
    """Gives new queues their homes, and their mirrors, before anything is proposed."""

    def __init__(
        self, turn: Turn, shared: MetadataBackend, placer: QueuePlacer, replica_sets: "ReplicaSets | None"
    ) -> None:
        self._turn: Turn = turn
        self._shared: MetadataBackend = shared
        self._placer: QueuePlacer = placer
        self._replica_sets: ReplicaSets | None = replica_sets

    def is_immediate(self) -> bool:
        return False

    def submit(self, plan: MetadataTransaction, waiter: TransactionWaiter | None) -> bool:
        planned: dict[str, int] = {}
        for change in plan.changes.values():
            new = change.definition
            if isinstance(new, QueueDefinition) and not new.node and not partition_count(new.arguments):
                home = self._placer.home_for(new.vhost, new.name, new.durable, new.exclusive, new.arguments, planned)
                if not home[0]:
                    self._turn.set_timer(self._turn.now_ms, RefusedPlacement(waiter))
                    return False
                new.node, new.incarnation = home
                planned[new.node] = planned.get(new.node, 0) + 1
                if self._replica_sets is not None:
                    self._replica_sets.placing.mirror_new(new)
        return self._shared.submit(plan, waiter)


@final
class RefusedPlacement(TimerTarget):
    """A plan with a queue that no node can have; whoever planned it is told so in another turn."""

    def __init__(self, waiter: TransactionWaiter | None) -> None:
        self._waiter: TransactionWaiter | None = waiter

    def timer_fired(self) -> None:
        if self._waiter is not None:
            self._waiter.failed(NO_HOME)


def _listed(policy: Table, arguments: Table) -> list[str]:
    """The nodes on which a policy, or the queue's own arguments, want copies, if any are named."""
    mode, params = policy.get(MODE), policy.get(PARAMS)
    if MODE not in policy:
        mode, params = arguments.get("x-" + MODE), arguments.get("x-" + PARAMS)
    if mode != "nodes" or not isinstance(params, list):
        return []
    return [name for name in params if isinstance(name, str)]
