"""A block of seeds: every rule holds in random clusters with all kinds of faults."""

from collections import Counter

import pytest

from warren.sim.cluster.run import run_cluster

STEPS = 4_000
BLOCK = 6
BLOCKS = [(3, 0), (3, 10), (3, 20), (3, 30), (4, 40), (4, 50), (5, 60), (5, 70)]
"""How many nodes, and the first seed."""

CORNERS = (
    "node lost its power",
    "node was killed",
    "node stopped",
    "node paused",
    "member.dead",
    "mirror.dropped",
    "mirror.in_sync",
    "mirror.promoted",
    "policy changed",
    "channel.failed",
    "fault 404",
    "fault 405",
    "fault 406",
    "fault ambush",
    "fault cut",
    "fault forget",
    "fault freeze",
    "fault isolate",
    "fault majority",
    "fault mute",
    "fault unstore",
    "fault waning",
    "node says basic.cancel",
    "node says basic.get-ok",
    "node says basic.nack",
    "node says basic.return",
    "node says queue.delete-ok",
    "node says queue.purge-ok",
    "node says queue.unbind-ok",
    "node says tx.commit-ok",
    "node says tx.rollback-ok",
)
"""Situations that the seeds must reach."""


@pytest.mark.parametrize(("nodes", "first"), BLOCKS)
def test_every_rule_holds_in_a_random_cluster(nodes: int, first: int) -> None:
    outcomes = [run_cluster(seed, STEPS, nodes) for seed in range(first, first + BLOCK)]
    broken = [outcome.verdict() for outcome in outcomes if not outcome.good]
    assert broken == []
    # a world in which nothing happens proves nothing
    assert sum(outcome.confirmed for outcome in outcomes) > 400


def test_random_clusters_reach_every_situation() -> None:
    seen: Counter[str] = Counter()
    for seed in range(10, 32):
        seen.update(run_cluster(seed, STEPS, 3).seen)
    assert [corner for corner in CORNERS if not seen[corner]] == []


def test_one_seed_gives_one_trace() -> None:
    told: list[list[str]] = [[], []]
    for lines in told:
        run_cluster(7, 1_500, 3, sink=lines.append)
    assert told[0] == told[1]
    assert len(told[0]) > 400


def test_a_good_run_of_a_cluster_prints_its_trace_and_exits_with_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cluster(1, 200, 3, sink=print).print_verdict() == 0
    printed = capsys.readouterr().out
    assert "founds a cluster" in printed
    assert "heals" in printed
    assert printed.splitlines()[-1].startswith("seed 1: good (")


def test_the_verdict_of_a_cluster_says_how_to_replay_it() -> None:
    outcome = run_cluster(1, 200, 4)
    assert outcome.options == "--nodes 4"
