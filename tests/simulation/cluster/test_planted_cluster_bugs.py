"""The rules of a cluster catch planted bugs.

A bug is planted in one node, or in all of them, and clusters are run until a rule breaks: it must be one of the named
rules. The seeds show that no rule breaks without a bug (`test_cluster_seeds`).
"""

from collections.abc import Callable

import pytest

from tests.simulation import plants
from tests.simulation.cluster.plants import AlwaysSwapped, MadeUp, MissedChange
from tests.simulation.disk_plants import EarlyReports
from tests.simulation.plants import OutputPlant
from warren.sim.cluster.run import run_cluster
from warren.sim.process import Interceptor
from warren.wire.methods import BasicDeliver

SEEDS = 60
STEPS = 4_000

AGREED = "declared objects are in the store"
KNOWN = "declared objects are known on every node"
SAME = "all nodes end up the same"
STUCK = "no client waits for ever"
LOST = "nothing confirmed is lost"
MARKED = "a second delivery is marked"
LEFT = "a node holds the replicas that it should, and no others"


def swallowed() -> Interceptor:
    return OutputPlant(plants.without_first(BasicDeliver))


def doubled() -> Interceptor:
    return OutputPlant(plants.first_twice)


def unmarked() -> Interceptor:
    return OutputPlant(plants.mark_cleared)


def changed() -> Interceptor:
    return OutputPlant(plants.body_changed)


PLANTS: list[tuple[Callable[[], Interceptor], str, tuple[str, ...]]] = [
    (MissedChange, "two", (SAME, KNOWN, STUCK, "the node lives")),
    (MadeUp, "two", (AGREED, KNOWN, SAME, STUCK, LEFT)),
    (EarlyReports, "", (LOST, MARKED, "the node starts")),
    (swallowed, "two", (LOST,)),
    (doubled, "two", (MARKED, "unacked within prefetch", "no fault without cause")),
    (unmarked, "", (MARKED,)),
    (AlwaysSwapped, "", ("order kept", MARKED)),
    (changed, "two", ("only published messages are delivered",)),
]


@pytest.mark.parametrize(("plant", "node", "rules"), PLANTS)
def test_a_planted_bug_is_caught(plant: Callable[[], Interceptor], node: str, rules: tuple[str, ...]) -> None:
    def make_interceptor(name: str) -> Interceptor:
        return plant() if node in ("", name) else Interceptor()

    for seed in range(SEEDS):
        outcome = run_cluster(seed, STEPS, 3, make_interceptor=make_interceptor)
        if not outcome.good:
            break
    assert outcome.complaints
    assert outcome.complaints[0].rule in rules
