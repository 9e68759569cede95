"""A block of seeds: every rule holds in random replica sets with all kinds of faults."""

from collections import Counter

import pytest

from warren.sim.replica_sets.run import run_replica_sets

SEEDS = 2_000
STEPS = 400
BLOCK = 100

CORNERS = (
    "promotion",
    "another line",
    "redelivery",
    "agreed",
    "feed",
    "give up",
    "vanish",
    "crash",
    "restart",
    "lose",
    "cut",
    "mend",
    "halt store",
    "cut store",
    "expire",
    "register",
    "timer",
    "watch anew",
    "deliver and notify",
    "want",
    "taken in",
    "taken out",
    "handing over",
    "retreat",
    "sync",
    "cancel sync",
)
"""Situations that the seeds must reach."""


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_every_rule_holds_in_a_random_replica_set(first: int) -> None:
    outcomes = [run_replica_sets(seed, STEPS) for seed in range(first, first + BLOCK)]
    assert [outcome.verdict() for outcome in outcomes if not outcome.good] == []
    seen: Counter[str] = Counter()
    for outcome in outcomes:
        seen.update(outcome.seen)
    # replica sets in which nothing happens prove nothing
    assert sum(outcome.confirmed for outcome in outcomes) > 2_000
    assert [corner for corner in CORNERS if seen[corner] < 3] == []


def test_a_seed_is_the_same_run_every_time(capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for _ in range(2):
        assert run_replica_sets(7, STEPS, sink=print).print_verdict() == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]
    assert told[0].splitlines()[-1].startswith("seed 7: good (")
