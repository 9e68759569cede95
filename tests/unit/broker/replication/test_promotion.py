"""Which replicas may be promoted, and in which order."""

from warren.broker.model.replica_set import ReplicaSet
from warren.broker.replication.promotion import PROMOTION_DELAY_MS, promotion_candidates, promotion_delay_ms

REPLICA_SET = ReplicaSet(3, "a", ["a", "b", "c", "d"], [("a", 1), ("c", 1), ("b", 1)])


def test_in_sync_mirrors_that_were_not_restarted_come_first_in_the_order_of_the_replica_set() -> None:
    assert promotion_candidates(REPLICA_SET, {"b": 1, "c": 1, "d": 1}, allow_unsynced=True) == [("c", 1), ("b", 1)]


def test_the_incarnation_of_the_lost_master_is_no_candidate() -> None:
    assert promotion_candidates(REPLICA_SET, {"a": 1, "b": 1}, allow_unsynced=False) == [("b", 1)]
    assert promotion_candidates(REPLICA_SET, {"a": 1}, allow_unsynced=True) == []


def test_a_restarted_member_is_no_candidate_while_one_that_was_not_restarted_lives() -> None:
    assert promotion_candidates(REPLICA_SET, {"a": 2, "b": 1, "c": 2}, allow_unsynced=False) == [("b", 1)]


def test_a_restarted_member_is_no_candidate_while_the_master_lives() -> None:
    assert promotion_candidates(REPLICA_SET, {"a": 1, "b": 2, "c": 2}, allow_unsynced=True) == []
    assert promotion_candidates(REPLICA_SET, {"b": 2, "c": 2}, allow_unsynced=True) == [("c", 2), ("b", 2)]


def test_after_a_full_stop_the_last_master_is_the_first_candidate() -> None:
    assert promotion_candidates(REPLICA_SET, {"a": 2, "b": 2, "c": 2, "d": 2}, allow_unsynced=False) == [
        ("a", 2),
        ("c", 2),
        ("b", 2),
    ]


def test_an_unsynced_mirror_is_a_candidate_only_if_that_is_allowed() -> None:
    assert promotion_candidates(REPLICA_SET, {"d": 1}, allow_unsynced=False) == []
    assert promotion_candidates(REPLICA_SET, {"d": 1}, allow_unsynced=True) == [("d", 1)]


def test_each_candidate_waits_for_those_before_it() -> None:
    order = [("c", 1), ("b", 1)]
    assert [promotion_delay_ms(order, run) for run in [("c", 1), ("b", 1), ("d", 1)]] == [0, PROMOTION_DELAY_MS, -1]


def test_a_restarted_node_is_no_candidate_for_a_transient_queue() -> None:
    assert promotion_candidates(REPLICA_SET, {"a": 2, "b": 2, "d": 1}, allow_unsynced=True, durable=False) == []
    assert promotion_candidates(REPLICA_SET, {"a": 2, "b": 1}, allow_unsynced=False, durable=False) == [("b", 1)]


def test_an_incarnation_before_the_in_sync_one_is_no_candidate() -> None:
    replica_set = ReplicaSet(3, "a", ["a", "b", "c"], [("a", 9), ("b", 4)])
    assert promotion_candidates(replica_set, {"a": 8, "b": 5}, allow_unsynced=False) == [("b", 5)]
    assert promotion_candidates(replica_set, {"a": 8, "b": 3, "c": 1}, allow_unsynced=False) == []
    assert promotion_candidates(replica_set, {"a": 8, "b": 3, "c": 1}, allow_unsynced=True) == [("c", 1)]
