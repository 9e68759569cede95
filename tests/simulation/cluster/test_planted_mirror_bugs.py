"""Each bug that is planted in the parts nodes play in rings, or in their seats, is noticed.

That nothing is noticed without a bug is what the scenarios themselves and the seeds say.
"""

import pytest

from tests.simulation.cluster.mirror_plants import PLANTS, Plant, hunt, play


@pytest.mark.parametrize("plant", [plant for plant in PLANTS if plant.scenario], ids=lambda plant: plant.bug)
def test_a_planted_bug_is_noticed_by_its_scenario(plant: Plant) -> None:
    with pytest.raises(AssertionError):
        play(plant)


@pytest.mark.parametrize("plant", [plant for plant in PLANTS if not plant.scenario], ids=lambda plant: plant.bug)
def test_a_planted_bug_is_noticed_in_clusters_drawn_by_chance(plant: Plant) -> None:
    seed, rule = hunt(plant)
    assert seed >= 0
    assert rule in plant.rules
