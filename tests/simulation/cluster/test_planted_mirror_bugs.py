"""Each bug that is planted in the replicas of a node, or in its proxies, is noticed as the documentation says.

`python -m tests.simulation.cluster.mirror_plants` prints the table as it should be. The scenarios and the seeds
themselves show that nothing is noticed without a bug.
"""

import pytest

from tests.docs.pages import DOCS, read_page
from tests.simulation.cluster.mirror_plants import PLANTS, Plant, hunt, named, play

ROWS = read_page(DOCS / "reliability.md").rows("what must hold", "mistake in a node", "noticed by")
NOTICED = {bug: by for _promise, bug, by in ROWS}


def test_the_documentation_names_every_mistake_and_what_it_breaks() -> None:
    assert [(promise, bug) for promise, bug, _by in ROWS] == [(plant.promise, plant.bug) for plant in PLANTS]


@pytest.mark.parametrize("plant", [plant for plant in PLANTS if plant.scenario], ids=lambda plant: plant.bug)
def test_a_planted_bug_is_noticed_by_its_scenario(plant: Plant) -> None:
    assert NOTICED[plant.bug] == named(plant)
    with pytest.raises(AssertionError):
        play(plant)


@pytest.mark.parametrize("plant", [plant for plant in PLANTS if not plant.scenario], ids=lambda plant: plant.bug)
def test_a_planted_bug_is_noticed_in_random_clusters(plant: Plant) -> None:
    seed, _colon, rule = NOTICED[plant.bug].removeprefix("seed ").partition(": ")
    assert hunt(plant, [int(seed)]) == (int(seed), rule)
