"""The moves of a rebalance."""

from hypothesis import given
from hypothesis import strategies as st

from warren.broker.cluster.placement import MovableQueue, plan_moves

NODES = ["a", "b", "c"]


def test_a_queue_without_mirrors_stays_and_is_not_counted() -> None:
    balance = plan_moves([MovableQueue(f"q{number}", "a", [], number) for number in range(9)], NODES)
    assert balance.moves == []
    assert balance.counts == {"a": 0, "b": 0, "c": 0}


def test_the_shortest_go_first_to_the_node_with_the_fewest() -> None:
    queues = [MovableQueue(f"q{number}", "a", ["b", "c"], 100 - number) for number in range(6)]
    balance = plan_moves(queues, NODES)
    assert balance.moves == [("q5", "b"), ("q4", "c"), ("q3", "b"), ("q2", "c")]
    assert balance.counts == {"a": 2, "b": 2, "c": 2}


def test_a_queue_moves_only_to_a_reached_node_with_a_mirror() -> None:
    queues = [MovableQueue(f"q{number}", "a", ["b", "gone"], number) for number in range(6)]
    assert plan_moves(queues, NODES).counts == {"a": 4, "b": 2, "c": 0}
    assert plan_moves([MovableQueue("q", "gone", ["a"], 0)], NODES).moves == []


def test_a_node_with_at_most_its_share_keeps_its_queues() -> None:
    queues = [MovableQueue("one", "a", ["c"], 1), MovableQueue("two", "b", ["c"], 2)]
    assert plan_moves(queues, NODES).moves == []
    assert plan_moves([], []).moves == []


@given(st.lists(st.tuples(st.sampled_from(NODES), st.sets(st.sampled_from(NODES), min_size=1), st.integers(0, 9))))
def test_no_node_gets_more_than_its_share_and_no_queue_moves_without_a_mirror(
    rows: list[tuple[str, set[str], int]],
) -> None:
    queues = [
        MovableQueue(f"q{place}", home, sorted(mirrors - {home}), length)
        for place, (home, mirrors, length) in enumerate(rows)
    ]
    balance = plan_moves(queues, NODES)
    by_key = {queue.key: queue for queue in queues}
    spread = [queue for queue in queues if queue.mirrors]
    share = -(-len(spread) // 3)
    homes = {queue.key: queue.home for queue in spread}
    before = {name: list(homes.values()).count(name) for name in NODES}
    for key, target in balance.moves:
        assert target in by_key[key].mirrors
        homes[key] = target
    after = {name: list(homes.values()).count(name) for name in NODES}
    assert after == balance.counts
    for name in NODES:
        assert after[name] <= max(before[name], share)
        # a node gives only its surplus
        assert after[name] >= min(before[name], share)
    assert len({key for key, _target in balance.moves}) == len(balance.moves)
