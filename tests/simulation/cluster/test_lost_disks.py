"""A node that comes back with an empty or an old disk, and its mirrored queues."""

from tests.simulation.cluster.mirrored import declare, in_sync, numbers_in, published, replica_of, served
from tests.simulation.cluster.scenario import ClusterScenario
from warren.broker.metadata.cluster_definitions import incarnation_key
from warren.broker.model.effects import ProposeTransaction
from warren.sim.cluster.nodes import SimulatedClusterNode
from warren.wire.field_tables import Table
from warren.wire.methods import QueueDeclare

AWHILE_MS = 5_000
LONG_MS = 30_000
STARTED_IN_VAIN = 3


def _held_by_two() -> tuple[ClusterScenario, list[SimulatedClusterNode], list[int]]:
    """A queue on two of three nodes, and its confirmed messages."""
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    arguments: Table = {"x-ha-mode": "nodes", "x-ha-params": ["one", "two"]}
    scenario.ask(scenario.guest(one), QueueDeclare("work", durable=True, arguments=arguments))
    scenario.until(lambda: in_sync(one) == ["one", "two"])
    return scenario, [one, two, three], published(scenario, scenario.publisher(three), 10)


def test_a_node_with_an_empty_disk_does_not_take_the_place_of_one_that_has_everything() -> None:
    scenario, (one, two, _three), confirmed = _held_by_two()
    one.lose_power(LONG_MS)
    two.lose_disk(AWHILE_MS)
    scenario.until(lambda: two.up)
    scenario.elapse(LONG_MS // 2)
    assert not served(scenario, [two]), "it has nothing"
    scenario.until(lambda: served(scenario, [one]))
    scenario.until(lambda: in_sync(one) == ["one", "two"])
    assert numbers_in(scenario, two) == confirmed
    assert scenario.checkers.complaints == []


def test_an_old_state_of_a_disk_is_as_good_as_an_empty_one() -> None:
    scenario, (one, two, _three), confirmed = _held_by_two()
    one.lose_power(LONG_MS)
    identity, earlier = two.disk.identity, two.disk.asked - 1
    two.lose_disk(AWHILE_MS)
    two.disk.identity, two.disk.asked, two.disk.incarnation = identity, earlier, earlier + STARTED_IN_VAIN
    scenario.until(lambda: two.up)
    scenario.elapse(LONG_MS // 2)
    assert not served(scenario, [two])
    scenario.until(lambda: served(scenario, [one]))
    assert numbers_in(scenario, one) == confirmed


def test_a_mirror_with_a_lost_disk_does_not_count_as_the_incarnation_that_was_in_sync() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one)
    confirmed = published(scenario, scenario.publisher(three), 10)
    run = replica_of(one).replica_set.synced_incarnation("two")  # type: ignore[union-attr]
    two.lose_disk(AWHILE_MS)
    scenario.until(lambda: two.up and in_sync(one) == ["one", "three", "two"])
    assert replica_of(one).replica_set.synced_incarnation("two") > run  # type: ignore[union-attr]
    one.lose_power(LONG_MS)
    three.lose_power(LONG_MS)
    assert numbers_in(scenario, two) == confirmed


def test_publishes_of_a_node_that_lost_its_disk_are_not_taken_for_earlier_ones() -> None:
    scenario = ClusterScenario()
    one, _two, three = scenario.nodes
    declare(scenario, one)
    before = published(scenario, scenario.publisher(three), 10)
    three.lose_disk(AWHILE_MS)
    scenario.until(lambda: three.up)
    after = published(scenario, scenario.publisher(three), 15)
    assert numbers_in(scenario, one) == before + after
    assert scenario.checkers.complaints == []


def test_with_every_disk_that_had_it_lost_the_policy_decides() -> None:
    scenario, (one, two, _three), _confirmed = _held_by_two()
    one.lose_disk(AWHILE_MS)
    two.lose_disk(AWHILE_MS)
    scenario.until(lambda: one.up and two.up)
    scenario.elapse(LONG_MS)
    assert not served(scenario, [one, two]), "no node has the confirmed messages, and no operator has given them up"


def test_a_disk_lost_before_incarnations_were_counted_is_not_trusted_either() -> None:
    scenario, (one, two, _three), confirmed = _held_by_two()
    one.lose_power(LONG_MS)
    two.lose_disk(AWHILE_MS)
    store = scenario.world.store
    store.commit(ProposeTransaction(0, [], [(incarnation_key("two"), None)], [], []))
    scenario.until(lambda: two.up)
    scenario.elapse(LONG_MS // 2)
    assert not served(scenario, [two])
    scenario.until(lambda: served(scenario, [one]))
    assert numbers_in(scenario, one) == confirmed
