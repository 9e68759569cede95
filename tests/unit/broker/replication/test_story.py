"""What is told of a ring: what is different from one version to the next, and the last things that happened."""

from warren.broker.model.replica_set import ReplicaSet
from warren.broker.replication.replica_history import EVENTS_KEPT, ReplicaHistory, changes_between

RING = ReplicaSet(3, "a", ["a", "b"], [("a", 1), ("b", 1)])


def test_another_master_is_told_before_what_follows_from_it() -> None:
    assert changes_between(RING, RING.promoting(("b", 1))) == [
        ("mirror.promoted", {"node": "b", "epoch": 4}),
        ("mirror.dropped", {"node": "a", "epoch": 4}),
    ]


def test_members_come_are_admitted_are_dropped_and_go() -> None:
    larger = RING.with_members(["a", "b", "c"])
    assert changes_between(RING, larger) == [("mirror.added", {"node": "c", "epoch": 3})]
    admitted = larger.admitting([("c", 5)])
    assert changes_between(larger, admitted) == [("mirror.in_sync", {"node": "c", "epoch": 3})]
    assert changes_between(admitted, admitted.dropping(["c"])) == [("mirror.dropped", {"node": "c", "epoch": 3})]
    assert changes_between(admitted, RING) == [
        ("mirror.dropped", {"node": "c", "epoch": 3}),
        ("mirror.removed", {"node": "c", "epoch": 3}),
    ]


def test_the_same_ring_again_tells_nothing() -> None:
    assert changes_between(RING, RING) == []


def test_only_the_last_things_are_kept() -> None:
    story = ReplicaHistory()
    for number in range(EVENTS_KEPT + 5):
        story.add(number, "mirror.joined", {"node": "b"})
    assert [happening.at_ms for happening in story.events] == list(range(5, EVENTS_KEPT + 5))
