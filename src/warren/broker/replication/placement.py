"""The nodes that should hold a mirrored queue, and the one that should be its master, from policies and running nodes.

The answer is computed when a queue is declared, and again when policies, members or links change.

A node that is about to stop (`stopping`) wants another master for each of its queues. That is the mirror that was in
sync longest and can be reached. If no mirror is in sync, a policy may allow another one (`ha-promote-on-shutdown`);
otherwise the queue waits until the node is back.

Not here: the rules of each mode (`broker.replication.mirroring_policy`), carrying the answer out
(`broker.replication.master`).
"""

from typing import final

from warren.broker.metadata.topology_definitions import QueueDefinition
from warren.broker.model.names import NameGenerator
from warren.broker.model.replica_set import FIRST_EPOCH, NodeIncarnation, ReplicaSet
from warren.broker.replication.mirroring_policy import MirroringPolicies, MirrorSpec, wanted_master, wanted_members
from warren.broker.replication.peers import PeerIncarnations


@final
class ReplicaPlacement:
    """Computes the members and masters of queues, as one node sees the cluster."""

    def __init__(self, peers: PeerIncarnations, mirroring_policies: MirroringPolicies, names: NameGenerator) -> None:
        # this node is about to stop, and hands over its masters
        self.stopping: bool = False
        self._peers: PeerIncarnations = peers
        self._mirroring_policies: MirroringPolicies = mirroring_policies
        self._names: NameGenerator = names

    def members(self, spec: MirrorSpec, replica_set: ReplicaSet) -> list[str]:
        nodes = self._peers.may_hold_queues()
        return wanted_members(spec, replica_set, nodes, self._running(nodes), self._names.draw())

    def other_master(self, spec: MirrorSpec, replica_set: ReplicaSet) -> str:
        """The node that should be master instead of the current one; empty if that should stay."""
        wanted = wanted_master(spec, replica_set, self._running(self._peers.may_hold_queues()))
        return "" if wanted == replica_set.master else wanted

    def successor(self, definition: QueueDefinition, replica_set: ReplicaSet) -> str:
        """The master after this node has stopped; empty if there is no candidate."""
        peers = self._peers
        holds = peers.may_hold_queues()
        synced = [
            name for name, incarnation in replica_set.in_sync if name in holds and peers.reached(name) == incarnation
        ]
        if synced:
            return synced[0]
        if not self._mirroring_policies.promotes_on_shutdown(definition):
            return ""
        others = [name for name in replica_set.members if name in holds and peers.reached(name)]
        return others[0] if others else ""

    def mirror_new(self, definition: QueueDefinition) -> None:
        """Give a queue that is about to be declared its replica set, if it should have one."""
        spec, node = self._mirroring_policies.of(definition), definition.node
        incarnation = self._peers.reached_or_own(node)
        if spec is not None and incarnation != 0:
            definition.replica_set = self.first_replica_set(spec, (node, incarnation))
            definition.incarnation = 0

    def first_replica_set(self, spec: MirrorSpec, master: NodeIncarnation) -> ReplicaSet:
        alone = ReplicaSet(FIRST_EPOCH, master[0], [master[0]], [master])
        return alone.with_members(self.members(spec, alone))

    def _running(self, nodes: list[str]) -> list[str]:
        return [name for name in nodes if name == self._peers.own[0] or self._peers.reached(name)]
