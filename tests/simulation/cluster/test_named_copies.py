"""Queues that copy others, across the nodes of a cluster: confirmed messages are in both when a node is lost.

Clusters drawn by chance have such a queue, too (`warren.sim.cluster.workload`).
"""

import pytest

from tests.simulation.cluster.mirror_plants import Plant, hunt
from tests.simulation.cluster.mirrored import FOREVER_MS, declare, in_sync, mastered, numbers_in, set_policy
from tests.simulation.cluster.scenario import ClusterScenario, QuietPublisher
from warren.sim.cluster.clients import ClusterPublishTarget
from warren.sim.cluster.nodes import SimulatedClusterNode
from warren.wire.field_tables import Table
from warren.wire.methods import QueueDeclare, QueueDeclareOk, QueueDelete, QueueDeleteOk

COPY: Table = {"x-copy-from": "work"}


@pytest.fixture
def scenario() -> ClusterScenario:
    return ClusterScenario()


def place(scenario: ClusterScenario, node: SimulatedClusterNode, name: str, arguments: Table | None = None) -> None:
    """A durable queue that lives on this node alone."""
    answer = scenario.ask(scenario.guest(node), QueueDeclare(name, durable=True, arguments=arguments or {}))
    assert isinstance(answer, QueueDeclareOk)


def published(scenario: ClusterScenario, publisher: QuietPublisher, count: int) -> list[int]:
    """To `work`, which `copy` copies: those that are confirmed."""
    target = ClusterPublishTarget("", "work", ("work", "copy"))
    numbers = [publisher.publish(target, mandatory=True).number for _ in range(count)]
    scenario.until(publisher.done)
    return scenario.confirmed(numbers)


def test_source_and_copy_may_live_anywhere(scenario: ClusterScenario) -> None:
    one, two, three = scenario.nodes
    place(scenario, one, "work")
    place(scenario, two, "copy", COPY)
    confirmed = [number for node in (one, two, three) for number in published(scenario, scenario.publisher(node), 3)]
    assert len(confirmed) == 9
    assert numbers_in(scenario, three) == confirmed
    assert numbers_in(scenario, three, "copy") == confirmed
    scenario.finish()


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_mirrored_copy_outlives_the_loss_of_any_node(scenario: ClusterScenario, lost: int) -> None:
    one, two, three = scenario.nodes
    declare(scenario, one)
    declare(scenario, two, "copy", arguments=COPY)
    confirmed = published(scenario, scenario.publisher(three), 4)
    scenario.nodes[lost].kill(FOREVER_MS)
    others = [node for node in scenario.nodes if node is not scenario.nodes[lost]]
    for name in ("work", "copy"):
        scenario.until(lambda name=name: any(mastered(node, name) for node in others))  # type: ignore[misc]
    confirmed += published(scenario, scenario.publisher(others[0]), 4)
    assert len(confirmed) == 8
    assert numbers_in(scenario, others[1]) == confirmed
    assert numbers_in(scenario, others[1], "copy") == confirmed


def test_a_copy_that_becomes_mirrored_is_a_copy_still(scenario: ClusterScenario) -> None:
    one, two, three = scenario.nodes
    place(scenario, one, "work")
    place(scenario, two, "copy", COPY)
    confirmed = published(scenario, scenario.publisher(three), 2)
    set_policy(scenario, {"ha-mode": "all", "ha-sync-mode": "automatic"})
    for name, home in (("work", one), ("copy", two)):
        scenario.until(lambda name=name, home=home: len(in_sync(home, name)) == 3)  # type: ignore[misc]
    for node in scenario.nodes:
        confirmed += published(scenario, scenario.publisher(node), 2)
    assert len(confirmed) == 8
    assert numbers_in(scenario, three) == confirmed
    assert numbers_in(scenario, three, "copy") == confirmed
    scenario.finish()


def test_a_message_that_cannot_reach_the_source_is_not_copied_and_returns(scenario: ClusterScenario) -> None:
    one, two, three = scenario.nodes
    place(scenario, one, "work")
    place(scenario, two, "copy", COPY)
    publisher = scenario.publisher(three)
    one.kill(FOREVER_MS)
    scenario.elapse(5_000)
    assert published(scenario, publisher, 3) == []
    assert [attempt.returned for attempt in scenario.world.ledger.attempts.values()] == [True] * 3
    assert numbers_in(scenario, three, "copy") == []


def test_a_message_that_cannot_reach_a_copy_is_refused_though_the_source_has_it(scenario: ClusterScenario) -> None:
    one, two, three = scenario.nodes
    place(scenario, one, "work")
    place(scenario, two, "copy", COPY)
    publisher = scenario.publisher(three)
    two.kill(FOREVER_MS)
    scenario.elapse(5_000)
    assert published(scenario, publisher, 3) == []
    assert [attempt.returned for attempt in scenario.world.ledger.attempts.values()] == [False] * 3
    assert numbers_in(scenario, three) == [1, 2, 3]


def test_copying_ends_with_the_source_and_goes_on_with_the_next(scenario: ClusterScenario) -> None:
    one, two, three = scenario.nodes
    place(scenario, two, "copy", COPY)
    place(scenario, one, "work")
    confirmed = published(scenario, scenario.publisher(three), 2)
    guest = scenario.guest(one)
    assert isinstance(scenario.ask(guest, QueueDelete("work")), QueueDeleteOk)
    place(scenario, three, "work")
    confirmed += published(scenario, scenario.publisher(one), 2)
    assert len(confirmed) == 4
    assert numbers_in(scenario, two) == confirmed[2:]
    assert numbers_in(scenario, two, "copy") == confirmed


def test_a_copy_is_known_after_all_nodes_have_restarted(scenario: ClusterScenario) -> None:
    one, two, three = scenario.nodes
    place(scenario, one, "work")
    place(scenario, two, "copy", COPY)
    confirmed = published(scenario, scenario.publisher(three), 2)
    for node in scenario.nodes:
        node.kill(100)
    scenario.until(scenario.world.whole)
    scenario.elapse(2_000)
    confirmed += published(scenario, scenario.publisher(three), 2)
    assert len(confirmed) == 4
    assert numbers_in(scenario, one, "copy") == confirmed


PLANTS = (
    Plant(
        "nothing confirmed is lost",
        "copies are forgotten",
        ("broker.routing.exchanges", "                self.row.append(copy)\n", "                pass\n"),
    ),
    Plant(
        "only published messages are delivered",
        "patterns of copies are not looked at",
        ("broker.routing.copies", "Binding(hub, queue, source.pattern, {})", 'Binding(hub, queue, "#", {})'),
    ),
)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.bug)
def test_a_planted_bug_is_noticed_in_random_clusters(plant: Plant) -> None:
    _seed, rule = hunt(plant)
    assert rule == plant.promise
