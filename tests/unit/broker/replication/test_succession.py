"""Who may be master when there is none, and in which order."""

from warren.broker.model.replica_set import ReplicaSet
from warren.broker.replication.promotion import PROMOTION_DELAY_MS, promotion_candidates, promotion_delay_ms

RING = ReplicaSet(3, "a", ["a", "b", "c", "d"], [("a", 1), ("c", 1), ("b", 1)])


def test_those_in_sync_who_run_without_a_break_come_first_the_eldest_before_the_others() -> None:
    assert promotion_candidates(RING, {"b": 1, "c": 1, "d": 1}, allow_unsynced=True) == [("c", 1), ("b", 1)]


def test_the_masters_own_run_is_over_though_it_seems_to_live() -> None:
    assert promotion_candidates(RING, {"a": 1, "b": 1}, allow_unsynced=False) == [("b", 1)]
    assert promotion_candidates(RING, {"a": 1}, allow_unsynced=True) == []


def test_a_restarted_member_is_not_taken_as_long_as_an_unbroken_one_lives() -> None:
    assert promotion_candidates(RING, {"a": 2, "b": 1, "c": 2}, allow_unsynced=False) == [("b", 1)]


def test_a_restarted_member_does_not_take_the_place_of_a_master_that_lives() -> None:
    assert promotion_candidates(RING, {"a": 1, "b": 2, "c": 2}, allow_unsynced=True) == []
    assert promotion_candidates(RING, {"b": 2, "c": 2}, allow_unsynced=True) == [("c", 2), ("b", 2)]


def test_after_a_full_stop_the_last_master_comes_before_the_others() -> None:
    assert promotion_candidates(RING, {"a": 2, "b": 2, "c": 2, "d": 2}, allow_unsynced=False) == [
        ("a", 2),
        ("c", 2),
        ("b", 2),
    ]


def test_one_that_was_not_in_sync_is_taken_only_if_that_is_allowed() -> None:
    assert promotion_candidates(RING, {"d": 1}, allow_unsynced=False) == []
    assert promotion_candidates(RING, {"d": 1}, allow_unsynced=True) == [("d", 1)]


def test_each_leaves_it_to_those_before_it_for_a_while() -> None:
    order = [("c", 1), ("b", 1)]
    assert [promotion_delay_ms(order, run) for run in [("c", 1), ("b", 1), ("d", 1)]] == [0, PROMOTION_DELAY_MS, -1]


def test_who_was_restarted_has_nothing_of_a_queue_that_is_not_durable() -> None:
    assert promotion_candidates(RING, {"a": 2, "b": 2, "d": 1}, allow_unsynced=True, durable=False) == []
    assert promotion_candidates(RING, {"a": 2, "b": 1}, allow_unsynced=False, durable=False) == [("b", 1)]


def test_a_run_from_before_the_one_that_was_in_sync_is_over() -> None:
    replica_set = ReplicaSet(3, "a", ["a", "b", "c"], [("a", 9), ("b", 4)])
    assert promotion_candidates(replica_set, {"a": 8, "b": 5}, allow_unsynced=False) == [("b", 5)]
    assert promotion_candidates(replica_set, {"a": 8, "b": 3, "c": 1}, allow_unsynced=False) == []
    assert promotion_candidates(replica_set, {"a": 8, "b": 3, "c": 1}, allow_unsynced=True) == [("c", 1)]
