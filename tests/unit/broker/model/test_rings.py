"""A ring never changes; what is proposed keeps its invariants."""

import pytest

from warren.broker.model.replica_set import ReplicaSet
from warren.errors import InvariantBroken

RING = ReplicaSet(3, "a", ["a", "b", "c"], [("a", 1), ("b", 4)])


def test_whoever_is_admitted_stands_last_and_once() -> None:
    assert RING.admitting([("c", 2)]).in_sync == [("a", 1), ("b", 4), ("c", 2)]
    assert RING.admitting([("b", 5), ("c", 2)]).in_sync == [("a", 1), ("b", 5), ("c", 2)]


def test_whoever_is_dropped_stays_a_member() -> None:
    dropped = RING.dropping(["b"])
    assert (dropped.members, dropped.in_sync, dropped.epoch) == (["a", "b", "c"], [("a", 1)], 3)


def test_whoever_holds_the_queue_no_more_is_not_in_sync() -> None:
    assert RING.with_members(["a", "d"]).in_sync == [("a", 1)]


def test_one_that_was_in_sync_is_promoted_with_the_others_and_without_the_last_master() -> None:
    replica_set = RING.admitting([("c", 2)]).promoting(("b", 4))
    assert (replica_set.epoch, replica_set.master, replica_set.in_sync) == (4, "b", [("b", 4), ("c", 2)])
    replica_set.check()


def test_one_that_was_not_in_sync_is_promoted_alone() -> None:
    for run in [("b", 5), ("c", 1), ("a", 2)]:
        replica_set = RING.promoting(run)
        assert (replica_set.epoch, replica_set.master, replica_set.in_sync) == (4, run[0], [run])
        replica_set.check()


def test_what_cannot_be_a_ring_is_found_out() -> None:
    RING.check()
    for broken in [
        ReplicaSet(1, "a", ["a", "b"], [("b", 1)]),
        ReplicaSet(1, "a", ["a"], [("a", 1), ("b", 1)]),
        ReplicaSet(1, "a", ["a", "b"], [("a", 1), ("a", 2)]),
        ReplicaSet(1, "a", ["a", "a"], [("a", 1)]),
    ]:
        with pytest.raises(InvariantBroken):
            broken.check()
    with pytest.raises(InvariantBroken):
        _ = ReplicaSet(1, "a", ["a", "b"], [("b", 1)]).master_incarnation


def test_a_node_that_is_renamed_has_its_place_under_the_new_name_once() -> None:
    renamed = RING.renaming("b", "d")
    assert (renamed.master, renamed.members, renamed.in_sync) == ("a", ["a", "d", "c"], [("a", 1), ("d", 4)])
    known_by_both = RING.with_members(["a", "b", "d"])
    assert known_by_both.renaming("b", "d").members == ["a", "d"]
    of_master = RING.renaming("a", "d")
    assert of_master.master_incarnation == ("d", 1)
    of_master.check()
