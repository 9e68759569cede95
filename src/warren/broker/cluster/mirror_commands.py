"""Operators' commands about the mirrors of queues.

Only a queue's master can let its mirrors catch up; whoever is asked elsewhere asks there (`admin`). Any node can have
masters spread evenly.

Not here: catching up (`broker.replication.backfill`), spreading masters (`broker.cluster.mirror_commands`).

Masters of mirrored queues are spread evenly over the nodes that hold them.

Only members that are in sync, alive and reached become masters, and no witness. The plan says who; whoever was master
hears of it as of any change of a ring.

Not here: which queues move where (`broker.cluster.balance`).
"""

from typing import TYPE_CHECKING, Final, final

from warren.broker.cluster.balance import MovableQueue, plan_moves
from warren.broker.cluster.join import ClusterJoin
from warren.broker.commands.control import CommandHandler, PlannedNames
from warren.broker.commands.requests import CancelSync, RebalanceQueues, SyncMirrors
from warren.broker.metadata.topology_definitions import QueueDefinition, queue_key
from warren.broker.metadata.transaction import MetadataTransaction
from warren.broker.model.events import Command
from warren.broker.model.local_queue import LocalQueue
from warren.broker.replication.master_replica import MasterReplica
from warren.broker.vhost import Vhost
from warren.errors import InvariantBroken, Refused

if TYPE_CHECKING:
    from warren.broker.cluster.cluster import ClusterNode
    from warren.broker.metadata.shared_definitions import MirroredQueueHome


def plan_rebalance(plan: MetadataTransaction, cluster: "ClusterNode", vhosts: dict[str, Vhost]) -> int:
    """Let others be masters where that is fair; how many move."""
    holds, alive = cluster.membership.members.holding_names(), cluster.membership.members.alive_names()
    ready = [name for name in holds if name in alive and _is_reached(cluster, name)]
    found: dict[str, MirroredQueueHome] = {}
    spreads: list[MovableQueue] = []
    for mirrored in cluster.shared.homes.mirrored():
        vhost, name = mirrored.queue
        replica_set = mirrored.replica_set
        copies = [run[0] for run in replica_set.in_sync if run[0] != replica_set.master and _lives(cluster, run)]
        if vhost in vhosts and name in vhosts[vhost].topology.queues:
            key = queue_key(vhost, name)
            found[key] = mirrored
            spreads.append(MovableQueue(key, replica_set.master, copies, _length(vhosts[vhost], name)))
    moves = plan_moves(spreads, ready).moves
    for key, node in moves:
        mirrored = found[key]
        replica_set = mirrored.replica_set
        definition = _definition_of(vhosts[mirrored.queue[0]], mirrored.queue[1])
        # a master whose epoch is not open yet is not whole, and nobody else knows of that: it catches up
        plan.put(definition.with_replica_set(replica_set.promoting((node, replica_set.synced_incarnation(node)))))
    return len(moves)


def _is_reached(cluster: "ClusterNode", name: str) -> bool:
    return name == cluster.membership.own or cluster.membership.reachability.is_connected(name)


def _lives(cluster: "ClusterNode", run: tuple[str, int]) -> bool:
    return cluster.membership.members.incarnation(run[0]) == run[1] and _is_reached(cluster, run[0])


def _length(vhost: Vhost, name: str) -> int:
    """Known of those whose master is here; of others what was told last."""
    queue = vhost.own_queue(name) or vhost.topology.queues[name]
    return queue.ready_count() + queue.unacked_count() if isinstance(queue, LocalQueue) else queue.ready_count()


def _definition_of(vhost: Vhost, name: str) -> QueueDefinition:
    queue = vhost.topology.queues[name]
    return QueueDefinition(vhost.name, name, queue.durable, False, queue.auto_delete, queue.arguments)


NO_MASTER_HERE: Final = "not_master"


@final
class MirrorCommands(CommandHandler):
    """Checks them; some it carries out on its own: no definition tells of who may catch up."""

    def __init__(self, entry: ClusterJoin, vhosts: dict[str, Vhost]) -> None:
        self._entry: ClusterJoin = entry
        self._vhosts: dict[str, Vhost] = vhosts

    def kinds(self) -> list[type[Command]]:
        return [SyncMirrors, CancelSync, RebalanceQueues]

    def check(self, command: Command, planned: PlannedNames) -> None:
        if not isinstance(command, RebalanceQueues) and self._master_replica(command) is None:
            raise Refused("not_found", NO_MASTER_HERE)

    def plan(self, command: Command, plan: MetadataTransaction) -> object:
        cluster = self._entry.cluster
        if not isinstance(command, RebalanceQueues):
            return None
        return 0 if cluster is None else plan_rebalance(plan, cluster, self._vhosts)

    def follow_up(self, command: Command) -> None:
        if isinstance(command, RebalanceQueues):
            return
        master_replica = self._master_replica(command)
        if master_replica is None:
            return
        if isinstance(command, SyncMirrors):
            master_replica.joining_mirrors.let_all()
        else:
            master_replica.joining_mirrors.stop_all()

    def _master_replica(self, command: Command) -> MasterReplica | None:
        if not isinstance(command, (SyncMirrors, CancelSync)):
            raise InvariantBroken(f"{type(command).__name__} is not about mirrors")
        cluster = self._entry.cluster
        if cluster is None or cluster.replica_sets is None:
            return None
        replica = cluster.replica_sets.named(command.vhost, command.name)
        return None if replica is None else replica.master_replica
