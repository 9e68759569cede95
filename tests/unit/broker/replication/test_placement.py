"""Which nodes are to hold a queue, and which is to be its master, for each mode."""

import pytest

from warren.broker.model.replica_set import ReplicaSet
from warren.broker.replication.mirroring_policy import ALL, EXACTLY, NODES, MirrorSpec, wanted_master, wanted_members

CLUSTER = ["a", "b", "c", "d"]
ALONE = ReplicaSet(1, "a", ["a"], [("a", 1)])
THREE = ReplicaSet(4, "b", ["c", "b", "d"], [("b", 1), ("d", 1), ("c", 1)])
"""Its members stand in the order in which they came."""


def wanted(wish: MirrorSpec, replica_set: ReplicaSet, running: list[str] | None = None, draw: int = 0) -> list[str]:
    return wanted_members(wish, replica_set, CLUSTER, CLUSTER if running is None else running, draw)


# -- all


def test_all_is_every_node_of_the_cluster_running_or_not() -> None:
    assert wanted(MirrorSpec(ALL), ALONE, running=["a"]) == CLUSTER


def test_present_members_keep_their_order_and_new_ones_follow() -> None:
    assert wanted(MirrorSpec(ALL), THREE) == ["c", "b", "d", "a"]


def test_a_node_that_left_the_cluster_holds_nothing_unless_it_is_the_master() -> None:
    assert wanted_members(MirrorSpec(ALL), THREE, ["a", "b", "c"], ["a", "b", "c"], 0) == ["c", "b", "a"]
    assert wanted_members(MirrorSpec(ALL), THREE, ["c", "d"], ["c", "d"], 0) == ["c", "b", "d"]


# -- exactly


def test_exactly_counts_the_master() -> None:
    assert wanted(MirrorSpec(EXACTLY, 1), THREE) == ["b"]
    assert [len(wanted(MirrorSpec(EXACTLY, count), ALONE)) for count in (1, 2, 3, 4)] == [1, 2, 3, 4]


@pytest.mark.parametrize(("draw", "drawn"), [(0, "b"), (1, "c"), (2, "d"), (3, "b")])
def test_missing_mirrors_are_drawn_among_running_nodes(draw: int, drawn: str) -> None:
    assert wanted(MirrorSpec(EXACTLY, 2), ALONE, draw=draw) == ["a", drawn]


def test_several_that_are_lacking_are_different_ones() -> None:
    for draw in range(12):
        assert sorted(wanted(MirrorSpec(EXACTLY, 4), ALONE, draw=draw)) == CLUSTER


def test_of_too_many_the_eldest_mirrors_stay() -> None:
    assert wanted(MirrorSpec(EXACTLY, 2), THREE) == ["c", "b"]
    assert wanted(MirrorSpec(EXACTLY, 3), THREE) == ["c", "b", "d"]


def test_a_stopped_mirror_is_replaced_by_a_running_node() -> None:
    assert wanted(MirrorSpec(EXACTLY, 3), THREE, running=["a", "b", "d"]) == ["b", "d", "a"]


def test_stopped_mirrors_stay_if_no_node_can_replace_them() -> None:
    assert wanted(MirrorSpec(EXACTLY, 3), THREE, running=["b", "d"]) == ["c", "b", "d"]
    assert wanted(MirrorSpec(EXACTLY, 3), THREE, running=["b"]) == ["c", "b", "d"]


def test_a_count_above_the_number_of_nodes_means_all_running_nodes() -> None:
    assert wanted(MirrorSpec(EXACTLY, 9), ALONE) == CLUSTER
    assert wanted(MirrorSpec(EXACTLY, 9), ALONE, running=["a", "c"]) == ["a", "c"]


def test_members_that_satisfy_the_policy_do_not_change_with_the_draw() -> None:
    replica_set = ALONE.with_members(wanted(MirrorSpec(EXACTLY, 3), ALONE, draw=5))
    assert {tuple(wanted(MirrorSpec(EXACTLY, 3), replica_set, draw=draw)) for draw in range(6)} == {
        tuple(replica_set.members)
    }


# -- nodes


def test_nodes_are_the_listed_ones_running_or_not() -> None:
    assert wanted(MirrorSpec(NODES, names=["a", "d"]), ALONE, running=["a"]) == ["a", "d"]


def test_the_master_stays_until_another_is_ready_and_other_mirrors_that_are_not_listed_go() -> None:
    assert wanted(MirrorSpec(NODES, names=["a", "d"]), THREE) == ["b", "d", "a"]


def test_unknown_nodes_are_skipped() -> None:
    assert wanted(MirrorSpec(NODES, names=["x", "c", "y"]), THREE) == ["b", "c"]
    assert wanted(MirrorSpec(NODES, names=["x"]), THREE) == ["b"]


def test_listed_ones_that_hold_it_keep_their_order() -> None:
    assert wanted(MirrorSpec(NODES, names=["a", "b", "c", "d"]), THREE) == ["c", "b", "d", "a"]


# -- the master


@pytest.mark.parametrize(
    "wish", [MirrorSpec(ALL), MirrorSpec(EXACTLY, 2), MirrorSpec(NODES, names=["d", "b"])], ids=lambda one: one.mode
)
def test_a_master_that_may_hold_it_stays(wish: MirrorSpec) -> None:
    assert wanted_master(wish, THREE, CLUSTER) == "b"


def test_an_unlisted_master_hands_over_to_the_first_listed_node_that_runs_in_sync() -> None:
    wish = MirrorSpec(NODES, names=["a", "d", "c"])
    assert wanted_master(wish, THREE, CLUSTER) == "d"
    assert wanted_master(wish, THREE, ["a", "b", "c"]) == "c"


def test_an_unlisted_master_stays_while_no_listed_node_is_in_sync() -> None:
    assert wanted_master(MirrorSpec(NODES, names=["a"]), THREE, CLUSTER) == "b"
    assert wanted_master(MirrorSpec(NODES, names=["c", "d"]), THREE.dropping(["c", "d"]), CLUSTER) == "b"
