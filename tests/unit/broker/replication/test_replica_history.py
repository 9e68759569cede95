"""The history of a replica set: differences between versions, and the latest events."""

from warren.broker.model.replica_set import ReplicaSet
from warren.broker.replication.replica_history import EVENTS_KEPT, ReplicaHistory, changes_between

REPLICA_SET = ReplicaSet(3, "a", ["a", "b"], [("a", 1), ("b", 1)])


def test_a_promotion_comes_before_the_changes_that_follow_from_it() -> None:
    assert changes_between(REPLICA_SET, REPLICA_SET.promoting(("b", 1))) == [
        ("mirror.promoted", {"node": "b", "epoch": 4}),
        ("mirror.dropped", {"node": "a", "epoch": 4}),
    ]


def test_members_are_added_admitted_dropped_and_removed() -> None:
    larger = REPLICA_SET.with_members(["a", "b", "c"])
    assert changes_between(REPLICA_SET, larger) == [("mirror.added", {"node": "c", "epoch": 3})]
    admitted = larger.admitting([("c", 5)])
    assert changes_between(larger, admitted) == [("mirror.in_sync", {"node": "c", "epoch": 3})]
    assert changes_between(admitted, admitted.dropping(["c"])) == [("mirror.dropped", {"node": "c", "epoch": 3})]
    assert changes_between(admitted, REPLICA_SET) == [
        ("mirror.dropped", {"node": "c", "epoch": 3}),
        ("mirror.removed", {"node": "c", "epoch": 3}),
    ]


def test_the_same_replica_set_has_no_differences() -> None:
    assert changes_between(REPLICA_SET, REPLICA_SET) == []


def test_only_the_latest_events_are_kept() -> None:
    history = ReplicaHistory()
    for number in range(EVENTS_KEPT + 5):
        history.add(number, "mirror.joined", {"node": "b"})
    assert [event.at_ms for event in history.events] == list(range(5, EVENTS_KEPT + 5))
