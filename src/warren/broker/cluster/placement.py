"""Placement of queues: the node that a queue is created on, and the moves that spread masters evenly.

The locator of a queue is its `x-queue-master-locator`, else its policy's `queue-master-locator`, else the setting
`queue_master_locator`:

- `client-local`: the node that the client is connected to.
- `min-masters`: the node with the fewest queues; among equals the client's node if it is one of them, else the first.
- `random`: any node.

Only nodes that this node reaches are considered, and no witness. If a policy lists nodes for mirrors (`ha-mode` =
`nodes`), only those are; if none of them is reached, the client's node is used. If the client's node is a witness, the
node with the fewest queues takes its place, and if none is reached the queue is refused. An exclusive queue always
lives on the client's node.

Rebalancing moves a queue by promoting one of its mirrors. A queue without mirrors stays where it is and is not
counted, as in RabbitMQ. On a node with more than its share, the shortest queue goes first, to the node with the fewest
queues among those that have a mirror and less than their share. Every move makes a surplus smaller, so the plan ends,
and no node gets more than its share.

Not here: which values are allowed (`broker.queues.arguments`, `broker.policies.keys`), the command that rebalances
(`broker.cluster.mirror_commands`), promotion (`broker.replication.promotion`).
"""

from typing import Final, final

from warren.broker.membership import ClusterMembership
from warren.broker.metadata.backend import MetadataBackend
from warren.broker.metadata.shared_definitions import Home, QueueHomes
from warren.broker.metadata.topology_definitions import QueueDefinition
from warren.broker.metadata.transaction import MetadataTransaction, TransactionWaiter
from warren.broker.model.names import NameGenerator
from warren.broker.model.stream_partitions import PARTITION_OF, partition_count
from warren.broker.model.turn import TimerTarget, Turn
from warren.broker.policies.keys import MASTER_LOCATOR, MASTER_LOCATORS, MODE, PARAMS
from warren.broker.policies.policies import Policies
from warren.broker.replication.replica_sets import ReplicaSets
from warren.wire.field_tables import Table

CLIENT_LOCAL: Final = "client-local"
MIN_MASTERS: Final = "min-masters"
RANDOM: Final = "random"

PARTITION_WEIGHT: Final = 1_000_000
"""The partitions of a stream are spread over the nodes, however many queues each has."""

NO_HOME: Final = "this node is a witness, and reaches no node that holds queues"


@final
class NodeLoad:
    """A reachable node, and how many queues it has."""

    def __init__(self, name: str, queues: int) -> None:
        self.name: str = name
        self.queues: int = queues


def locator_of(argument: object, policy: object, setting: str) -> str:
    """The locator in force. Values that are no locators are skipped."""
    for wanted in (argument, policy):
        if isinstance(wanted, str) and wanted in MASTER_LOCATORS:
            return wanted
    return setting if setting in MASTER_LOCATORS else CLIENT_LOCAL


def choose_node(locator: str, own: str, candidates: list[NodeLoad], wanted: list[str], draw: int) -> str:
    """The node's name, empty if there is none. `wanted`: the nodes a policy lists; `draw`: a random number."""
    reached = [one.name for one in candidates]
    listed = [name for name in wanted if name in reached]
    considered = [one for one in candidates if one.name in listed] if listed else candidates
    here = own in listed or not listed
    if not considered:
        return ""
    if locator == CLIENT_LOCAL and not here:
        # a node that is to have a mirror comes before the client's node
        return listed[0]
    if (locator == CLIENT_LOCAL or (wanted and not listed)) and own in reached:
        return own
    if locator == RANDOM:
        names = sorted([one.name for one in considered])
        return names[draw % len(names)]
    fewest = min([one.queues for one in considered])
    least = sorted([one.name for one in considered if one.queues == fewest])
    return own if own in least else least[0]


@final
class QueuePlacer:
    """Chooses the home of a queue that a client of this node declares."""

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
        """The node of the queue, empty if no node can have it, and the incarnation of that node it ends with, if any.

        `planned`: how many queues of the same transaction were placed on each node.
        """
        node = self._membership.own
        if not exclusive:
            policy = self._policies.for_queue(vhost, name).definition
            is_partition = PARTITION_OF in arguments
            setting = MIN_MASTERS if is_partition else self._setting
            locator = locator_of(arguments.get("x-queue-master-locator"), policy.get(MASTER_LOCATOR), setting)
            draw = 0 if locator == CLIENT_LOCAL else self._names.draw()
            weight = PARTITION_WEIGHT if is_partition else 1
            node = choose_node(locator, node, self._candidates(planned or {}, weight), _listed(policy, arguments), draw)
        return node, 0 if durable and not exclusive else self._incarnation_of(node)

    def _candidates(self, planned: dict[str, int], weight: int) -> list[NodeLoad]:
        """The nodes that are reached, alive, and no witness. A paused node does not say that it is alive.

        Planned queues count `weight` times.
        """
        members, own = self._membership.members, self._membership.own
        reached = [name for name in members.alive_names() if self._membership.reachability.is_connected(name)]
        names = [name for name in reached if name != own] + [own]
        return [
            NodeLoad(name, self._homes.count(name) + planned.get(name, 0) * weight)
            for name in names
            if not members.is_witness(name)
        ]

    def _incarnation_of(self, node: str) -> int:
        if node == self._membership.own:
            return self._membership.incarnation
        return self._membership.members.incarnation(node) or 0


@final
class PlacingMetadataBackend(MetadataBackend):
    """Gives new queues their homes and their mirrors before a transaction is proposed."""

    def __init__(
        self, turn: Turn, shared: MetadataBackend, placer: QueuePlacer, replica_sets: ReplicaSets | None
    ) -> None:
        self._turn: Turn = turn
        self._shared: MetadataBackend = shared
        self._placer: QueuePlacer = placer
        self._replica_sets: ReplicaSets | None = replica_sets

    def is_immediate(self) -> bool:
        return False

    def submit(self, transaction: MetadataTransaction, waiter: TransactionWaiter | None) -> bool:
        planned: dict[str, int] = {}
        for change in transaction.changes.values():
            new = change.definition
            if isinstance(new, QueueDefinition) and not new.node and not partition_count(new.arguments):
                home = self._placer.home_for(new.vhost, new.name, new.durable, new.exclusive, new.arguments, planned)
                if not home[0]:
                    self._turn.set_timer(self._turn.now_ms, RefusedPlacement(waiter))
                    return False
                new.node, new.incarnation = home
                planned[new.node] = planned.get(new.node, 0) + 1
                if self._replica_sets is not None:
                    self._replica_sets.placement.mirror_new(new)
        return self._shared.submit(transaction, waiter)


@final
class RefusedPlacement(TimerTarget):
    """A transaction with a queue that no node can have. Its waiter is told so in another turn."""

    def __init__(self, waiter: TransactionWaiter | None) -> None:
        self._waiter: TransactionWaiter | None = waiter

    def timer_fired(self) -> None:
        if self._waiter is not None:
            self._waiter.failed(NO_HOME)


def _listed(policy: Table, arguments: Table) -> list[str]:
    """The nodes that a policy, or the queue's own arguments, list for mirrors."""
    mode, params = policy.get(MODE), policy.get(PARAMS)
    if MODE not in policy:
        mode, params = arguments.get("x-" + MODE), arguments.get("x-" + PARAMS)
    if mode != "nodes" or not isinstance(params, list):
        return []
    return [name for name in params if isinstance(name, str)]


@final
class MovableQueue:
    """A queue, the node of its master, the nodes of its mirrors, and its length."""

    def __init__(self, key: str, home: str, mirrors: list[str], length: int) -> None:
        self.key: str = key
        self.home: str = home
        self.mirrors: list[str] = mirrors
        self.length: int = length


@final
class BalancePlan:
    """The moves in order, each a key and its target node; and how many queues each node then has."""

    def __init__(self, nodes: list[str]) -> None:
        self.moves: list[tuple[str, str]] = []
        self.counts: dict[str, int] = dict.fromkeys(sorted(nodes), 0)


def plan_moves(queues: list[MovableQueue], nodes: list[str]) -> BalancePlan:
    """The moves for these queues. All nodes are reached."""
    balance = BalancePlan(nodes)
    counts = balance.counts
    movable = [queue for queue in queues if queue.mirrors and queue.home in counts]
    for queue in movable:
        counts[queue.home] += 1
    share = -(-len(movable) // max(1, len(counts)))
    for queue in sorted(movable, key=_by_length):
        if counts[queue.home] > share:
            target = _target(queue, counts, share)
            if target:
                counts[queue.home] -= 1
                counts[target] += 1
                balance.moves.append((queue.key, target))
    return balance


def _by_length(queue: MovableQueue) -> tuple[int, str]:
    return queue.length, queue.key


def _target(queue: MovableQueue, counts: dict[str, int], share: int) -> str:
    fitting = [(counts[name], name) for name in queue.mirrors if name in counts and counts[name] < share]
    return min(fitting)[1] if fitting else ""
