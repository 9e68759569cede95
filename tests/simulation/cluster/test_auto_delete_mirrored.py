"""Mirrored auto-delete queues, when consumers and masters change at the same time."""

import pytest

from tests.simulation.cluster.mirrored import ALL, FOREVER_MS, in_sync, mastered, masters
from tests.simulation.cluster.replica_set_lives import EVERYWHERE, set_policy
from tests.simulation.cluster.scenario import ClusterScenario, Guest
from warren.sim.cluster.nodes import SimulatedClusterNode
from warren.wire.methods import BasicCancel, BasicConsume, BasicConsumeOk, QueueDeclare, QueueDeclareOk

STORE_MS = 20
"""How long each way to the store takes: a decision is to take a while."""


def deserted_soon(scenario: ClusterScenario, master: SimulatedClusterNode) -> None:
    declared = QueueDeclare("work", durable=True, auto_delete=True, arguments=ALL)
    assert isinstance(scenario.ask(scenario.guest(master), declared), QueueDeclareOk)
    scenario.until(lambda: in_sync(master) == ["one", "three", "two"])


def consuming(scenario: ClusterScenario, node: SimulatedClusterNode) -> Guest:
    guest = scenario.guest(node)
    assert isinstance(scenario.ask(guest, BasicConsume("work", "c")), BasicConsumeOk)
    return guest


def test_a_queue_whose_last_consumer_leaves_while_there_is_no_master_goes() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    deserted_soon(scenario, one)
    last = consuming(scenario, three)
    one.kill(FOREVER_MS)
    last.send(1, BasicCancel("c"))
    scenario.until(lambda: not scenario.knows(two, "work") and not scenario.knows(three, "work"))


def test_a_queue_whose_removal_was_lost_with_its_master_goes() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    deserted_soon(scenario, one)
    last = consuming(scenario, three)
    one.cut_off_from_store(True)
    assert scenario.ask(last, BasicCancel("c"))
    scenario.elapse(100)
    one.kill(FOREVER_MS)
    scenario.until(lambda: not scenario.knows(two, "work") and not scenario.knows(three, "work"))


def test_a_queue_that_one_of_its_consumers_leaves_while_there_is_no_master_stays() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    deserted_soon(scenario, one)
    leaving = consuming(scenario, two)
    staying = consuming(scenario, three)
    one.kill(FOREVER_MS)
    leaving.send(1, BasicCancel("c"))
    scenario.elapse(6_000)
    assert scenario.knows(two, "work")
    staying.send(1, BasicCancel("c"))
    scenario.until(lambda: not scenario.knows(two, "work"))


def test_a_new_master_waits_for_consumers_of_other_nodes_before_it_takes_a_queue_to_be_deserted() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    deserted_soon(scenario, one)
    near = consuming(scenario, two)
    far = consuming(scenario, three)
    # nothing that node three sends arrives for a while
    wire = scenario.world.peer_links.between("two", "three")
    one.kill(FOREVER_MS)
    scenario.until(lambda: masters(scenario) == ["two"])
    wire.set_cut(wire.members.index(three), True)
    queue = mastered(two)
    assert queue is not None
    scenario.until(lambda: queue.consumer_count() > 0)
    near.send(1, BasicCancel("c"))
    scenario.elapse(1_000)
    wire.mend()
    scenario.elapse(3_000)
    assert scenario.knows(three, "work")
    assert far.faults == []


def slow_scenario() -> ClusterScenario:
    scenario = ClusterScenario()
    scenario.world.store.delay_ms = lambda: STORE_MS
    return scenario


def see_it_go(scenario: ClusterScenario) -> None:
    scenario.until(lambda: not any(scenario.knows(node, "work") for node in scenario.nodes))


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("after_ms", range(0, 5 * STORE_MS, STORE_MS // 2))
def test_a_queue_whose_last_consumer_leaves_while_it_becomes_mirrored_goes(durable: bool, after_ms: int) -> None:
    scenario = slow_scenario()
    declared = QueueDeclare("work", durable=durable, auto_delete=True)
    guests = [scenario.guest(node) for node in scenario.nodes]
    publishers = [scenario.publisher(node) for node in scenario.nodes]
    scenario.ask(guests[0], declared)
    last = consuming(scenario, scenario.nodes[1])
    set_policy(scenario.nodes[2], EVERYWHERE)
    scenario.elapse(after_ms)
    scenario.ask(last, BasicCancel("c"))
    for publisher in publishers:
        scenario.publish(publisher, "work", 1)
    see_it_go(scenario)
    scenario.until(lambda: all(publisher.done() for publisher in publishers))
    # the name is free
    for guest in guests:
        assert isinstance(scenario.ask(guest, declared), QueueDeclareOk)


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("after_ms", range(0, 8 * STORE_MS, STORE_MS))
def test_a_queue_goes_whose_last_consumer_from_before_mirroring_leaves_while_the_master_moves(
    place: int, after_ms: int
) -> None:
    scenario = slow_scenario()
    one = scenario.nodes[0]
    scenario.ask(scenario.guest(one), QueueDeclare("work", durable=True, auto_delete=True))
    last = consuming(scenario, scenario.nodes[place])
    set_policy(one, EVERYWHERE)
    scenario.until(lambda: in_sync(one) == ["one", "three", "two"])
    set_policy(one, {"ha-mode": "nodes", "ha-params": ["two"]})
    scenario.elapse(after_ms)
    last.send(1, BasicCancel("c"))
    see_it_go(scenario)
