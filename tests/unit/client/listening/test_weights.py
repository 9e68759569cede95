"""Weighted picking: fair over any stretch, and never without a turn."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.client.listening.dispatch import FairPicker

WEIGHTS = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 12), min_size=1, max_size=6)


def test_those_that_always_wait_are_picked_by_their_weights() -> None:
    picker = FairPicker({"gold": 5, "silver": 2, "bronze": 1})
    picks = [picker.pick(("gold", "silver", "bronze")) for _ in range(80)]
    assert Counter(picks) == {"gold": 50, "silver": 20, "bronze": 10}


def test_a_queue_that_was_empty_does_not_save_up_its_share() -> None:
    picker = FairPicker({"busy": 1, "quiet": 1})
    for _ in range(100):
        picker.pick(("busy",))
    picks = [picker.pick(("busy", "quiet")) for _ in range(10)]
    assert Counter(picks) == {"busy": 5, "quiet": 5}


@given(WEIGHTS, st.integers(1, 5))
def test_over_whole_rounds_each_source_gets_exactly_its_share(weights: dict[str, int], rounds: int) -> None:
    picker = FairPicker(weights)
    picks = Counter(picker.pick(list(weights)) for _ in range(sum(weights.values()) * rounds))
    assert picks == {name: weight * rounds for name, weight in weights.items()}


@given(WEIGHTS, st.data())
def test_a_waiting_source_is_passed_over_no_more_often_than_the_lemma_says(
    weights: dict[str, int], data: object
) -> None:
    picker = FairPicker(weights)
    names = sorted(weights)
    passed_over: dict[str, Counter[str]] = {name: Counter() for name in names}
    draw = data.draw  # type: ignore[attr-defined]
    for _ in range(draw(st.integers(1, 60))):
        waiting = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
        chosen = picker.pick(waiting)
        assert chosen in waiting
        for name in names:
            if name == chosen or name not in waiting:
                passed_over[name].clear()
            else:
                passed_over[name][chosen] += 1
                assert passed_over[name][chosen] <= weights[chosen] / weights[name] + 1


@pytest.mark.parametrize("weights", [{}, {"a": 0}, {"a": 1, "b": -2}])
def test_weights_begin_at_one(weights: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        FairPicker(weights)
