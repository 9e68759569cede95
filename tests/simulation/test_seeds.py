"""A block of seeds: every rule holds in random worlds with all kinds of faults."""

from collections import Counter

import pytest

from warren.sim.run import run_node

SEEDS = 300
STEPS = 2_000
BLOCK = 20

CORNERS = (
    "redelivery",
    "WritesPaused",
    "WritesResumed",
    "alarm.raised",
    "alarm.cleared",
    "channel.failed",
    "connection.lost",
    "connection.silent",
    "copy acked",
    "copy auto-acked",
    "copy rejected",
    "copy refused",
    "copy dropped by a rule, and dead-lettered",
    "copy the node restarted",
    "copy never written down",
    "node was killed",
    "node lost its power",
    "node stopped",
    "died at write",
    "died at flush",
    "died at name new segment",
    "died at flush sealed segment",
    "died at flush checkpoint",
    "died at name checkpoint",
    "died at drop segment",
    "died at sync directory",
    "disk.full",
    "disk.writable",
    "SealSegment",
    "WriteCheckpoint",
    "DropSegments",
    "ReadIndex",
    "ReadJournal",
    "node says basic.return",
    "node says basic.nack",
    "node says basic.get-ok",
    "node says basic.recover-ok",
    "node says basic.cancel",
    "node says basic.cancel-ok",
    "node says tx.commit-ok",
    "node says tx.rollback-ok",
    "node says queue.unbind-ok",
    "node says connection.blocked",
)
"""Situations that the seeds must reach."""


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_every_rule_holds_in_a_random_world(first: int) -> None:
    outcomes = [run_node(seed, STEPS) for seed in range(first, first + BLOCK)]
    broken = [outcome.verdict() for outcome in outcomes if not outcome.good]
    assert broken == []
    # a world in which nothing happens proves nothing
    assert sum(outcome.confirmed for outcome in outcomes) > 500


def test_random_worlds_reach_every_situation() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS, SEEDS + 60):
        seen.update(run_node(seed, STEPS).seen)
    assert [corner for corner in CORNERS if not seen[corner]] == []
