"""Positions that one replica has and another lacks."""

from warren.broker.model.replica_contents import PositionSpan
from warren.broker.replication.backfill import span_difference

EVERYTHING = 1 << 62


def test_common_positions_are_left_out() -> None:
    ours = [PositionSpan(1, 10), PositionSpan(20, 30)]
    assert span_difference(ours, [PositionSpan(3, 4), PositionSpan(9, 22), PositionSpan(30, 40)], EVERYTHING) == [
        PositionSpan(1, 2),
        PositionSpan(5, 8),
        PositionSpan(23, 29),
    ]
    assert span_difference(ours, ours, EVERYTHING) == []
    assert span_difference(ours, [], EVERYTHING) == ours


def test_one_span_of_theirs_may_reach_over_several_of_ours() -> None:
    assert span_difference(
        [PositionSpan(1, 2), PositionSpan(4, 5), PositionSpan(7, 9)], [PositionSpan(0, 7)], EVERYTHING
    ) == [PositionSpan(8, 9)]


def test_positions_above_the_limit_are_left_out() -> None:
    assert span_difference([PositionSpan(1, 10), PositionSpan(20, 30)], [PositionSpan(2, 3)], 8) == [
        PositionSpan(1, 1),
        PositionSpan(4, 7),
    ]
    assert span_difference([PositionSpan(10, 12)], [], 10) == []
