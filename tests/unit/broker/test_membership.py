"""Cluster membership: how a node tracks members, and when it pauses, resumes or restarts."""

import pytest

from warren.broker.membership import PARTITIONED_AFTER_MS, ClusterMembership
from warren.broker.metadata.cluster_definitions import LivenessDefinition, NodeDefinition
from warren.broker.model.effects import Note
from warren.broker.model.turn import Turn
from warren.broker.network_partitions import (
    AUTOHEAL,
    CONTINUE,
    PAUSE,
    PAUSE_MINORITY,
    RESTART,
    RESUME,
    PartitionHandling,
)


def membership(mode: str = PAUSE_MINORITY, own: str = "a") -> ClusterMembership:
    """The membership of one of three disc nodes, all alive, each in its first incarnation."""
    made = ClusterMembership(own, 1, PartitionHandling(mode), Turn())
    for name in ("a", "b", "c"):
        made.put(NodeDefinition(name, "disc", f"{name}:25672"), 2)
        made.put(LivenessDefinition(name, 1), 3)
    return made


def test_members_and_liveness_are_logged_as_they_are_committed() -> None:
    made = membership()
    assert made.members.names() == made.members.alive_names() == ["a", "b", "c"]
    made.delete(["alive", "b"])
    made.delete(["nodes", "c"])
    assert (made.members.names(), made.members.alive_names()) == (["a", "b"], ["a"])
    known = made.members.get("b")
    assert known is not None
    assert (known.kind, known.peer) == ("disc", "b:25672")


def test_comings_and_goings_are_noted() -> None:
    turn = Turn()
    made = ClusterMembership("a", 1, PartitionHandling(), turn)
    made.put(NodeDefinition("b", "ram", "b:1"), 1)
    made.put(NodeDefinition("b", "disc", "b:1"), 2)
    made.put(LivenessDefinition("b", 4), 3)
    made.delete(["alive", "b"])
    made.delete(["nodes", "b"])
    assert turn.effects == [
        Note("info", "member.joined", {"node": "b", "kind": "ram"}),
        Note("info", "member.alive", {"node": "b", "incarnation": 4}),
        Note("info", "member.dead", {"node": "b"}),
        Note("info", "member.left", {"node": "b"}),
    ]


def test_an_incarnation_ends_when_the_store_says_so_and_not_when_a_link_is_lost() -> None:
    made = membership()
    made.peer_connected("b", 1)
    made.peer_lost("b")
    # a link may show an incarnation before the store does
    assert [made.has_ended("b", incarnation) for incarnation in (1, 2)] == [False, False]
    made.delete(["alive", "b"])
    assert [made.has_ended("b", incarnation) for incarnation in (1, 2)] == [True, False]
    # the node had only paused
    made.put(LivenessDefinition("b", 1), 9)
    assert not made.has_ended("b", 1)
    made.put(LivenessDefinition("b", 3), 10)
    assert [made.has_ended("b", incarnation) for incarnation in (1, 2, 3)] == [True, True, False]


def test_a_node_that_loses_its_peers_pauses_and_resumes() -> None:
    made = membership()
    made.peer_connected("b", 1)
    assert made.look(True) == CONTINUE
    made.peer_lost("b")
    assert (made.look(True), made.paused) == (PAUSE, True)
    made.peer_connected("c", 1)
    assert (made.look(True), made.paused) == (RESUME, False)


def test_a_node_that_is_partitioned_from_an_earlier_one_pauses() -> None:
    turn = Turn()
    made = ClusterMembership("b", 1, PartitionHandling(PAUSE_MINORITY), turn)
    for name in ("a", "b", "c"):
        made.put(NodeDefinition(name, "disc", ""), 2)
        made.put(LivenessDefinition(name, 1), 3)
    made.peer_connected("c", 1)
    assert made.look(True) == CONTINUE
    turn.now_ms += PARTITIONED_AFTER_MS
    assert made.look(True) == PAUSE
    made.delete(["alive", "a"])
    assert made.look(True) == RESUME


@pytest.mark.parametrize("again", [1, 2])
def test_a_node_whose_incarnation_ended_has_lost_its_lease_even_if_it_is_alive_again(again: int) -> None:
    made = membership(AUTOHEAL)
    made.peer_connected("b", 1)
    assert (made.look(True), made.lease_lost) == (CONTINUE, False)
    made.delete(["alive", "a"])
    made.put(LivenessDefinition("a", again), 9)
    assert made.lease_lost
    assert made.look(False) == CONTINUE
    assert made.look(True) == RESTART


def test_the_end_of_an_earlier_incarnation_loses_no_lease() -> None:
    made = ClusterMembership("a", 2, PartitionHandling(AUTOHEAL), Turn())
    made.put(NodeDefinition("a", "disc", ""), 1)
    made.put(LivenessDefinition("a", 1), 2)
    made.delete(["alive", "a"])
    made.put(LivenessDefinition("a", 2), 4)
    assert not made.lease_lost
