"""The replica set of a new queue, and the master that follows a node which stops.

Not here: the members of each mode (`test_placement`).
"""

from warren.broker.membership import ClusterMembership
from warren.broker.metadata.cluster_definitions import NodeDefinition
from warren.broker.metadata.topology_definitions import QueueDefinition
from warren.broker.model.names import NameGenerator
from warren.broker.model.replica_set import ReplicaSet
from warren.broker.model.turn import Turn
from warren.broker.network_partitions import PartitionHandling
from warren.broker.policies.policies import Policies, Policy
from warren.broker.replication.mirroring_policy import ALL, MirroringPolicies, MirrorSpec
from warren.broker.replication.peers import PeerIncarnations
from warren.broker.replication.placement import ReplicaPlacement
from warren.wire.field_tables import Table

SYNCED = ReplicaSet(4, "a", ["a", "b", "c"], [("a", 1), ("c", 2), ("b", 2)])
"""Of the mirrors, `c` has been in sync longer."""


class Placement:
    """Node `a` places queues; `b` and `c` are members, and connected if they are named."""

    def __init__(self, *connected: str, policy: Table | None = None) -> None:
        membership = ClusterMembership("a", 1, PartitionHandling(), Turn())
        for name in ("a", "b", "c"):
            membership.put(NodeDefinition(name, "disc", f"{name}:25672"), 1)
        self.peers = PeerIncarnations(membership)
        for name in connected:
            self.peers.connected(name, 2)
        policies = Policies()
        if policy is not None:
            policies.set_policy(Policy("/", "ha", "^m", "queues", policy, 0), False)
        self.placement = ReplicaPlacement(self.peers, MirroringPolicies(policies, {}, 64), NameGenerator(b"seed"))

    def successor(self, replica_set: ReplicaSet = SYNCED) -> str:
        return self.placement.successor(queue("mirrored"), replica_set)


def queue(name: str, node: str = "a") -> QueueDefinition:
    return QueueDefinition("/", name, True, False, False, {}, node)


def test_the_mirror_that_was_in_sync_longest_follows_a_master_that_stops() -> None:
    assert Placement("b", "c").successor() == "c"


def test_a_mirror_without_a_link_does_not_follow() -> None:
    assert [Placement("b").successor(), Placement().successor()] == ["b", ""]


def test_another_incarnation_of_a_mirror_in_sync_does_not_follow() -> None:
    restarted = ReplicaSet(4, "a", ["a", "b"], [("a", 1), ("b", 1)])
    assert Placement("b").successor(restarted) == ""


def test_a_mirror_that_is_not_in_sync_follows_only_if_the_policy_allows_it() -> None:
    joining = ReplicaSet(4, "a", ["a", "b"], [("a", 1)])
    allowed = Placement("b", policy={"ha-mode": "all", "ha-promote-on-shutdown": "always"})
    assert [Placement("b").successor(joining), allowed.successor(joining)] == ["", "b"]


def test_a_new_queue_gets_the_mirrors_of_its_policy() -> None:
    made = Placement("b", policy={"ha-mode": "all"})
    mirrored, plain = queue("mirrored", "b"), queue("plain", "b")
    made.placement.mirror_new(mirrored)
    made.placement.mirror_new(plain)
    assert mirrored.replica_set == ReplicaSet(1, "b", ["b", "a", "c"], [("b", 2)])
    assert plain.replica_set is None


def test_a_new_queue_on_a_node_without_a_link_is_not_mirrored_yet() -> None:
    made = Placement(policy={"ha-mode": "all"})
    definition = queue("mirrored", "b")
    made.placement.mirror_new(definition)
    assert definition.replica_set is None


def test_a_master_that_is_wanted_stays() -> None:
    assert Placement("b").placement.other_master(MirrorSpec(ALL), SYNCED) == ""
    assert Placement("c").placement.other_master(MirrorSpec("nodes", 0, ["c", "b"]), SYNCED) == "c"
