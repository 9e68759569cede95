"""A replica set never changes; each proposal keeps its invariants."""

import pytest

from warren.broker.model.replica_set import ReplicaSet
from warren.errors import InvariantBroken

REPLICA_SET = ReplicaSet(3, "a", ["a", "b", "c"], [("a", 1), ("b", 4)])


def test_an_admitted_replica_is_listed_last_and_once() -> None:
    assert REPLICA_SET.admitting([("c", 2)]).in_sync == [("a", 1), ("b", 4), ("c", 2)]
    assert REPLICA_SET.admitting([("b", 5), ("c", 2)]).in_sync == [("a", 1), ("b", 5), ("c", 2)]


def test_a_replica_dropped_from_the_in_sync_set_stays_a_member() -> None:
    dropped = REPLICA_SET.dropping(["b"])
    assert (dropped.members, dropped.in_sync, dropped.epoch) == (["a", "b", "c"], [("a", 1)], 3)


def test_a_removed_member_is_not_in_sync() -> None:
    assert REPLICA_SET.with_members(["a", "d"]).in_sync == [("a", 1)]


def test_a_promoted_replica_in_sync_keeps_the_other_mirrors_in_sync_but_not_the_old_master() -> None:
    replica_set = REPLICA_SET.admitting([("c", 2)]).promoting(("b", 4))
    assert (replica_set.epoch, replica_set.master, replica_set.in_sync) == (4, "b", [("b", 4), ("c", 2)])
    replica_set.check()


def test_a_promoted_replica_that_was_not_in_sync_is_in_sync_alone() -> None:
    for replica in [("b", 5), ("c", 1), ("a", 2)]:
        replica_set = REPLICA_SET.promoting(replica)
        assert (replica_set.epoch, replica_set.master, replica_set.in_sync) == (4, replica[0], [replica])
        replica_set.check()


def test_an_invalid_replica_set_fails_its_check() -> None:
    REPLICA_SET.check()
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


def test_a_renamed_node_is_listed_once_under_its_new_name() -> None:
    renamed = REPLICA_SET.renaming("b", "d")
    assert (renamed.master, renamed.members, renamed.in_sync) == ("a", ["a", "d", "c"], [("a", 1), ("d", 4)])
    known_by_both = REPLICA_SET.with_members(["a", "b", "d"])
    assert known_by_both.renaming("b", "d").members == ["a", "d"]
    of_master = REPLICA_SET.renaming("a", "d")
    assert of_master.master_incarnation == ("d", 1)
    of_master.check()
