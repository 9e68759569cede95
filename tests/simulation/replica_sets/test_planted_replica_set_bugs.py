"""Each bug that is planted into a replica set is noticed in the run, and by the rule, that the documentation names.

`python -m tests.simulation.replica_sets.plants` prints the table as it should be.
"""

import pytest

from tests.docs.pages import DOCS, read_page
from tests.simulation.replica_sets.plants import PLANTS, STEPS, Catch, Plant, hunt
from warren.sim.replica_sets import invariants
from warren.sim.replica_sets.run import run_replica_sets

ROWS = read_page(DOCS / "reliability.md").rows("rule", "mistake", "seed", "noticed because it broke")
CATCHES = {bug: Catch(int(seed), by) for _rule, bug, seed, by in ROWS}

NOT_OF_MACHINES = {11}
"""Rules about clocks: simulated replica sets have none (`tests.simulation.cluster.mirror_plants`)."""


def test_the_documentation_names_every_mistake_and_its_rule() -> None:
    assert [(rule, bug) for rule, bug, _seed, _by in ROWS] == [(str(one.rule or "–"), one.bug) for one in PLANTS]


def test_every_rule_of_the_theory_is_broken_by_a_mistake() -> None:
    assert {plant.rule for plant in PLANTS} | NOT_OF_MACHINES == set(range(16))


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.bug)
def test_a_planted_mistake_is_noticed(plant: Plant) -> None:
    catch = CATCHES[plant.bug]
    assert hunt(plant, [catch.seed]) == catch
    assert run_replica_sets(catch.seed, STEPS).good


def test_the_rules_that_notice_are_those_of_the_simulator() -> None:
    known = {value for name, value in vars(invariants).items() if name.isupper()}
    assert {catch.by for catch in CATCHES.values()} <= known
