"""What one copy has and another has not."""

from warren.mirroring.difference import difference
from warren.model.copies import Span

EVERYTHING = 1 << 62


def test_what_both_have_is_left_out() -> None:
    ours = [Span(1, 10), Span(20, 30)]
    assert difference(ours, [Span(3, 4), Span(9, 22), Span(30, 40)], EVERYTHING) == [
        Span(1, 2),
        Span(5, 8),
        Span(23, 29),
    ]
    assert difference(ours, ours, EVERYTHING) == []
    assert difference(ours, [], EVERYTHING) == ours


def test_one_span_of_theirs_may_reach_over_several_of_ours() -> None:
    assert difference([Span(1, 2), Span(4, 5), Span(7, 9)], [Span(0, 7)], EVERYTHING) == [Span(8, 9)]


def test_what_is_not_below_the_limit_does_not_matter() -> None:
    assert difference([Span(1, 10), Span(20, 30)], [Span(2, 3)], 8) == [Span(1, 1), Span(4, 7)]
    assert difference([Span(10, 12)], [], 10) == []
