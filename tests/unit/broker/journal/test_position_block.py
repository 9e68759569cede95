"""A block of positions against a dictionary of sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.broker.journal.position_index import POSITIONS_PER_BLOCK, PositionBlock
from warren.errors import InvariantBroken

PLACES = st.integers(0, int(POSITIONS_PER_BLOCK) - 1)


@given(
    sizes=st.dictionaries(PLACES, st.sampled_from([0, 7, 7, 7, 4_000_000_000]), max_size=40),
    cuts=st.lists(st.tuples(PLACES, st.integers(0, 5000)), max_size=5),
    more=st.dictionaries(PLACES, st.integers(0, 9), max_size=10),
)
def test_a_block_knows_its_positions_and_their_sizes(
    sizes: dict[int, int], cuts: list[tuple[int, int]], more: dict[int, int]
) -> None:
    block = PositionBlock()
    model: dict[int, int] = {}
    for part in (sizes, more):
        for at, size in part.items():
            if not block.has(at):
                block.add(at, size)
                model[at] = size
        for first, width in cuts:
            end = min(first + width, int(POSITIONS_PER_BLOCK))
            gone = [model.pop(at) for at in sorted(model) if first <= at < end]
            assert block.sums(first, end) == (len(gone), sum(gone))
            assert block.take_range(first, end) == (len(gone), sum(gone))
        assert (block.count, block.body_bytes) == (len(model), sum(model.values()))
        assert block.held(0, POSITIONS_PER_BLOCK) == sorted(model)
        assert {at: block.size_of(at) for at in model} == model
    for at in (0, 1, int(POSITIONS_PER_BLOCK) - 1, *model):
        above = [one for one in model if one >= at]
        below = [one for one in model if one < at]
        assert block.lowest_from(at) == min(above, default=-1)
        assert block.highest_below(at) == max(below, default=-1)
    for at in (5, *list(model)):
        assert block.take(at) == model.pop(at, -1)
    assert (block.count, block.body_bytes) == (0, 0)


def test_a_whole_block_is_removed_at_once() -> None:
    block = PositionBlock()
    for at in range(int(POSITIONS_PER_BLOCK)):
        block.add(at, at)
    assert block.take_range(0, POSITIONS_PER_BLOCK) == (POSITIONS_PER_BLOCK, sum(range(int(POSITIONS_PER_BLOCK))))
    block.add(3, 5)
    assert (block.held(0, POSITIONS_PER_BLOCK), block.size_of(3), block.body_bytes) == ([3], 5, 5)


def test_a_block_that_counts_a_position_it_does_not_have_is_broken() -> None:
    block = PositionBlock()
    block.add(3, 7)
    block.add(4, 9)
    block.check()
    block.bits[0] = 0
    with pytest.raises(InvariantBroken, match="counts 2"):
        block.check()
