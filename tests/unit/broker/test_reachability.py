"""Reachable, suspected and partitioned members."""

import pytest

from warren.broker.membership import PARTITIONED_AFTER_MS, ClusterMembers, Reachability
from warren.broker.metadata.cluster_definitions import NodeDefinition


@pytest.fixture
def members() -> ClusterMembers:
    members = ClusterMembers()
    for name in ("a", "b", "c"):
        members.put(NodeDefinition(name, "disc", "", "", "", ""))
        members.came_alive(name, 1)
    return members


def test_a_node_reaches_itself_and_connected_nodes(members: ClusterMembers) -> None:
    reachability = Reachability("a")
    reachability.connected("b", 1)
    reachability.connected("stranger", 1)
    assert reachability.reachable(members) == ["a", "b"]
    assert reachability.suspected(members) == ["c"]
    reachability.lost("b")
    assert reachability.reachable(members) == ["a"]
    assert reachability.suspected(members) == ["b", "c"]


def test_a_dead_node_is_not_suspected(members: ClusterMembers) -> None:
    reachability = Reachability("a")
    members.died("b")
    assert reachability.suspected(members) == ["c"]


def test_a_living_node_that_is_unreachable_for_long_is_partitioned(members: ClusterMembers) -> None:
    reachability = Reachability("a")
    reachability.connected("b", 1)
    assert reachability.partitioned(members, 1_000) == []
    assert reachability.partitioned(members, 1_000 + PARTITIONED_AFTER_MS - 1) == []
    assert reachability.partitioned(members, 1_000 + PARTITIONED_AFTER_MS) == ["c"]


def test_suspicion_starts_again_after_a_node_was_reached_or_died(members: ClusterMembers) -> None:
    reachability = Reachability("a")
    reachability.partitioned(members, 0)
    reachability.connected("b", 1)
    members.died("c")
    reachability.partitioned(members, PARTITIONED_AFTER_MS - 1)
    reachability.lost("b")
    members.came_alive("c", 2)
    assert reachability.partitioned(members, PARTITIONED_AFTER_MS) == []
    assert reachability.partitioned(members, PARTITIONED_AFTER_MS * 2) == ["b", "c"]
