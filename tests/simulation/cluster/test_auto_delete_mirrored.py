"""Mirrored queues that go with their last consumer, when consumers and masters come and go at once."""

from tests.simulation.cluster.mirrored import ALL, FOREVER_MS, in_sync, mastered, masters
from tests.simulation.cluster.scenario import ClusterScenario, Guest
from warren.sim.cluster.nodes import SimulatedClusterNode
from warren.wire.methods import BasicCancel, BasicConsume, BasicConsumeOk, QueueDeclare, QueueDeclareOk


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
