"""A block of seeds: whole worlds, drawn by chance, with every fault there is, in which every rule must hold."""

import pytest

from warren.sim.run import run

SEEDS = 100
STEPS = 2_000
BLOCK = 10


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_every_rule_holds_in_a_world_drawn_by_chance(first: int) -> None:
    outcomes = [run(seed, STEPS) for seed in range(first, first + BLOCK)]
    broken = [outcome.verdict() for outcome in outcomes if not outcome.good]
    assert broken == []
    # a world in which nothing happens proves nothing
    assert sum(outcome.confirmed for outcome in outcomes) > 500
