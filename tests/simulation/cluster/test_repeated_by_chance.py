"""Publishers that repeat messages while nodes are killed, frozen and cut off at random."""

import random

import pytest

from tests.simulation.cluster.mirrored import AUTOMATIC, declare, in_sync, set_policy
from tests.simulation.cluster.repeating import Repeating, drain, harm, publish
from tests.simulation.cluster.scenario import ClusterScenario


@pytest.mark.parametrize("seed", range(10))
def test_each_message_is_there_once_after_any_faults(seed: int) -> None:
    chance = random.Random(seed)
    scenario = ClusterScenario()
    set_policy(scenario, AUTOMATIC)
    declare(scenario, scenario.nodes[0])
    repeating = Repeating(scenario)
    taken: list[bytes] = []
    for _ in range(4):
        for _ in range(chance.randrange(1, 4)):
            repeating.publish(chance.choice(scenario.nodes), chance.randrange(1, 12))
            scenario.elapse(chance.randrange(12))
        harm(scenario, chance)
        scenario.until(lambda: all(node.up for node in scenario.nodes) and scenario.world.whole())
        scenario.until(lambda: all(in_sync(node) == ["one", "three", "two"] for node in scenario.nodes))
        if chance.random() < 0.5:
            taken += drain(scenario, chance.choice(scenario.nodes))
            scenario.elapse(1_000)
    repeating.hear()
    publish(scenario, chance.choice(scenario.nodes), [*repeating.unsure, b"last"])
    taken += drain(scenario, chance.choice(scenario.nodes))
    assert sorted(taken) == sorted([*repeating.all, b"last"])
