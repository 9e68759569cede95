"""Incarnations of other nodes: alive by the store, connected by a link, ended by the store or by a closed port."""

from warren.broker.membership import ClusterMembership
from warren.broker.metadata.cluster_definitions import LivenessDefinition, NodeDefinition
from warren.broker.model.turn import Turn
from warren.broker.network_partitions import PartitionHandling
from warren.broker.replication.peers import PeerIncarnations


class Peers:
    """Node `a`, in its third incarnation, and the members `b` and `c`."""

    def __init__(self) -> None:
        self.membership = ClusterMembership("a", 3, PartitionHandling(), Turn())
        for name in ("a", "b", "c"):
            self.membership.put(NodeDefinition(name, "disc", f"{name}:25672"), 1)
        self.peers = PeerIncarnations(self.membership)


def test_a_link_shows_an_incarnation_that_the_store_does_not_know_yet() -> None:
    made = Peers()
    made.peers.connected("b", 7)
    assert (made.peers.reached("b"), made.peers.alive("b")) == (7, 0)
    made.membership.put(LivenessDefinition("b", 7), 2)
    made.peers.lost("b", refused=False)
    assert (made.peers.reached("b"), made.peers.alive("b")) == (0, 7)


def test_the_own_incarnation_is_alive_and_reached_without_a_link() -> None:
    made = Peers()
    assert made.peers.all_alive() == {"a": 3}
    assert [made.peers.reached_or_own(name) for name in ("a", "b")] == [3, 0]


def test_a_lost_link_alone_does_not_end_an_incarnation() -> None:
    made = Peers()
    made.peers.connected("b", 7)
    made.peers.lost("b", refused=False)
    assert not made.peers.has_ended(("b", 7))


def test_an_incarnation_whose_port_refuses_connections_has_ended_and_a_later_one_has_not() -> None:
    made = Peers()
    made.peers.connected("b", 7)
    made.peers.lost("b", refused=True)
    assert [made.peers.has_ended(("b", run)) for run in (6, 7, 8)] == [True, True, False]
    assert not made.peers.has_ended_by_store(("b", 7))


def test_a_node_that_was_never_connected_ends_with_the_incarnation_that_the_store_knows() -> None:
    made = Peers()
    made.membership.put(LivenessDefinition("b", 5), 2)
    made.peers.lost("b", refused=True)
    assert [made.peers.has_ended(("b", run)) for run in (5, 6)] == [True, False]


def test_a_new_link_voids_an_earlier_refusal() -> None:
    made = Peers()
    made.peers.connected("b", 7)
    made.peers.lost("b", refused=True)
    made.peers.connected("b", 7)
    assert not made.peers.has_ended(("b", 7))


def test_an_incarnation_has_ended_when_the_store_says_so() -> None:
    made = Peers()
    made.membership.put(LivenessDefinition("b", 5), 2)
    made.membership.delete(["alive", "b"])
    assert made.peers.has_ended(("b", 5))
    assert made.peers.has_ended_by_store(("b", 5))
