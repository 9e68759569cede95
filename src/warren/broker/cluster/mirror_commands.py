"""Operators' commands about mirrors: synchronise the mirrors of a queue, and spread masters evenly over the nodes.

Only a queue's master can synchronise its mirrors, so the other nodes pass the command on (`admin`). Any node can
rebalance. Only nodes that are in sync, alive, reached and no witness become masters. A rebalance is a metadata
transaction: the old master hears of it as of any change of its replica set.

Not here: synchronising (`broker.replication.backfill`), which queues move where (`broker.cluster.placement`).
"""

from typing import Final, final

from warren.broker.cluster.cluster import ClusterNode
from warren.broker.cluster.join import ClusterJoin
from warren.broker.cluster.placement import MovableQueue, plan_moves
from warren.broker.commands.control import CommandHandler, ProposedNames
from warren.broker.commands.requests import CancelSync, RebalanceQueues, SyncMirrors
from warren.broker.metadata.shared_definitions import MirroredQueueHome
from warren.broker.metadata.topology_definitions import QueueDefinition, queue_key
from warren.broker.metadata.transaction import MetadataTransaction
from warren.broker.model.events import Command
from warren.broker.model.local_queue import LocalQueue
from warren.broker.replication.master_replica import MasterReplica
from warren.broker.vhost import Vhost
from warren.errors import CommandRefused, InvariantBroken


def add_rebalance(transaction: MetadataTransaction, cluster: ClusterNode, vhosts: dict[str, Vhost]) -> int:
    """Add promotions that spread the masters; how many queues move."""
    holds, alive = cluster.membership.members.holding_names(), cluster.membership.members.alive_names()
    ready = [name for name in holds if name in alive and _is_reached(cluster, name)]
    found: dict[str, MirroredQueueHome] = {}
    movable: list[MovableQueue] = []
    for mirrored in cluster.shared.homes.mirrored():
        vhost, name = mirrored.queue
        replica_set = mirrored.replica_set
        mirrors = [one[0] for one in replica_set.in_sync if one[0] != replica_set.master and _lives(cluster, one)]
        if vhost in vhosts and name in vhosts[vhost].topology.queues:
            key = queue_key(vhost, name)
            found[key] = mirrored
            movable.append(MovableQueue(key, replica_set.master, mirrors, _length(vhosts[vhost], name)))
    moves = plan_moves(movable, ready).moves
    for key, node in moves:
        mirrored = found[key]
        replica_set = mirrored.replica_set
        definition = _definition_of(vhosts[mirrored.queue[0]], mirrored.queue[1])
        # a master whose epoch is not open yet may lack messages; as a mirror it is synchronised again
        transaction.put(
            definition.with_replica_set(replica_set.promoting((node, replica_set.synced_incarnation(node))))
        )
    return len(moves)


def _is_reached(cluster: ClusterNode, name: str) -> bool:
    return name == cluster.membership.own or cluster.membership.reachability.is_connected(name)


def _lives(cluster: ClusterNode, incarnation: tuple[str, int]) -> bool:
    return cluster.membership.members.incarnation(incarnation[0]) == incarnation[1] and _is_reached(
        cluster, incarnation[0]
    )


def _length(vhost: Vhost, name: str) -> int:
    """Exact if the master is on this node; else as the master last reported it."""
    queue = vhost.own_queue(name) or vhost.topology.queues[name]
    return queue.ready_count() + queue.unacked_count() if isinstance(queue, LocalQueue) else queue.ready_count()


def _definition_of(vhost: Vhost, name: str) -> QueueDefinition:
    queue = vhost.topology.queues[name]
    return QueueDefinition(vhost.name, name, queue.durable, False, queue.auto_delete, queue.arguments)


NO_MASTER_HERE: Final = "not_master"


@final
class MirrorCommands(CommandHandler):
    """Checks and carries out the commands. Synchronising changes no definition, so it needs no transaction."""

    def __init__(self, entry: ClusterJoin, vhosts: dict[str, Vhost]) -> None:
        self._entry: ClusterJoin = entry
        self._vhosts: dict[str, Vhost] = vhosts

    def kinds(self) -> list[type[Command]]:
        return [SyncMirrors, CancelSync, RebalanceQueues]

    def check(self, command: Command, proposed: ProposedNames) -> None:
        if not isinstance(command, RebalanceQueues) and self._master_replica(command) is None:
            raise CommandRefused("not_found", NO_MASTER_HERE)

    def add_changes(self, command: Command, transaction: MetadataTransaction) -> object:
        cluster = self._entry.cluster
        if not isinstance(command, RebalanceQueues):
            return None
        return 0 if cluster is None else add_rebalance(transaction, cluster, self._vhosts)

    def follow_up(self, command: Command) -> None:
        if isinstance(command, RebalanceQueues):
            return
        master_replica = self._master_replica(command)
        if master_replica is None:
            return
        if isinstance(command, SyncMirrors):
            master_replica.joining_mirrors.allow_all()
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
