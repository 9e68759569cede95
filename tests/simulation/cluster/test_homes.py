"""Queues with homes that are lost and come back, and the effect on their clients."""

import pytest

from tests.simulation.cluster.scenario import ClusterScenario
from warren.sim.clients import CONFIRM, TRANSACTION
from warren.sim.cluster.clients import ClusterPublishTarget
from warren.sim.history import CONFIRMED
from warren.wire.methods import BasicGet, BasicGetEmpty, BasicGetOk, QueueDeclare, QueueDeclareOk

PATIENCE_MS = 15_000


@pytest.mark.parametrize("mode", [CONFIRM, TRANSACTION])
@pytest.mark.parametrize("power", [True, False])
def test_a_lost_homes_durable_queue_is_unavailable_and_comes_back_with_everything(power: bool, mode: str) -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    guest = scenario.guest(two)
    scenario.ask(guest, QueueDeclare("work", durable=True))
    publisher = scenario.publisher(one, mode)
    numbers = scenario.publish(publisher, "work", 10)
    scenario.until(publisher.done)
    assert scenario.confirmed(numbers) == numbers
    (two.lose_power if power else two.kill)(down_ms=8_000)
    scenario.elapse(4_000)
    visitor = scenario.guest(three)
    visitor.ask(BasicGet("work"))
    scenario.until(lambda: bool(visitor.faults))
    assert visitor.faults == [
        "NOT_FOUND - home node 'two' of durable queue 'work' in vhost '/' is down or inaccessible"
    ]
    refused = scenario.publish(publisher, "work", 1)
    scenario.elapse(100)
    assert scenario.confirmed(refused) == []
    scenario.until(lambda: two.up and scenario.world.whole())
    scenario.consumer(three, "work")
    scenario.finish()
    assert all(scenario.world.ledger.deliveries[number, "work"].count for number in numbers)


def test_a_lost_homes_transient_queues_vanish() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    guest = scenario.guest(two)
    scenario.ask(guest, QueueDeclare("passing"))
    scenario.ask(guest, QueueDeclare("mine", exclusive=True))
    scenario.ask(guest, QueueDeclare("lasting", durable=True))
    two.lose_power(down_ms=60_000)
    scenario.elapse(PATIENCE_MS)
    for node in (one, three):
        assert [scenario.knows(node, name) for name in ("passing", "mine", "lasting")] == [False, False, True]
    visitor = scenario.guest(three)
    assert isinstance(scenario.ask(visitor, QueueDeclare("passing")), QueueDeclareOk)
    assert scenario.queue_on(three, "passing") is not None


def test_a_firewall_that_refuses_connections_costs_no_queue_of_a_node_that_lives() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    guest = scenario.guest(three)
    scenario.ask(guest, QueueDeclare("passing"))
    scenario.ask(guest, QueueDeclare("mine", exclusive=True))
    scenario.fence(three)
    scenario.elapse(PATIENCE_MS)
    for node in (one, two, three):
        assert [scenario.knows(node, name) for name in ("passing", "mine")] == [True, True]
    assert scenario.world.seen["member.dead"] == 0
    scenario.fence(three, False)
    scenario.until(scenario.world.whole)
    assert isinstance(scenario.ask(scenario.guest(one), BasicGet("passing")), BasicGetEmpty)


def test_transient_queues_of_an_earlier_incarnation_are_gone_when_their_home_is_back() -> None:
    scenario = ClusterScenario()
    _one, two, _three = scenario.nodes
    scenario.ask(scenario.guest(two), QueueDeclare("passing"))
    two.kill()
    scenario.until(lambda: two.up and not any(scenario.knows(node, "passing") for node in scenario.nodes))
    scenario.finish()


def test_a_message_in_the_queue_of_another_node_is_there_for_a_client_of_a_third() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    scenario.ask(scenario.guest(one), QueueDeclare("work"))
    publisher = scenario.publisher(two)
    scenario.publish(publisher, "work", 1)
    scenario.until(publisher.done)
    visitor = scenario.guest(three)
    assert isinstance(scenario.ask(visitor, BasicGet("work", no_ack=True)), BasicGetOk)
    assert isinstance(scenario.ask(visitor, BasicGet("work", no_ack=True)), BasicGetEmpty)


@pytest.mark.parametrize("outage_ms", [1_000, 5_000])
@pytest.mark.parametrize("ways", [(0,), (1,), (0, 1)])
def test_publishers_are_answered_and_consumers_go_on_after_a_cut(ways: tuple[int, ...], outage_ms: int) -> None:
    scenario = ClusterScenario()
    one, two, _three = scenario.nodes
    scenario.ask(scenario.guest(one), QueueDeclare("work", durable=True))
    consumer = scenario.consumer(two, "work")
    publisher = scenario.publisher(two)
    wire = scenario.world.peer_links.between("one", "two")
    for way in ways:
        wire.set_cut(way, True)
    numbers = scenario.publish(publisher, "work", 20)
    scenario.elapse(outage_ms)
    if outage_ms > 4_000:
        # a client that waits for a silent node is refused
        assert publisher.done()
    wire.mend()
    scenario.until(lambda: scenario.world.whole() and publisher.done() and consumer.done())
    numbers += scenario.publish(publisher, "work", 20)
    scenario.finish()
    assert len(scenario.confirmed(numbers)) >= 20


def test_unroutable_publishes_on_a_stale_node_are_nacked() -> None:
    scenario = ClusterScenario()
    one, two, _three = scenario.nodes
    publisher = scenario.publisher(two)
    nowhere = publisher.publish(ClusterPublishTarget("", "work", ()), mandatory=False)
    scenario.until(publisher.done)
    assert nowhere.state == CONFIRMED
    scenario.isolate(two)
    two.cut_off_from_store(True)
    scenario.elapse(8_000)
    # every node that can be asked knows the queue
    assert isinstance(scenario.ask(scenario.guest(one), QueueDeclare("work", durable=True)), QueueDeclareOk)
    numbers = scenario.publish(publisher, "work", 3)
    scenario.until(publisher.done)
    assert scenario.confirmed(numbers) == []
    scenario.isolate(two, False)
    two.cut_off_from_store(False)
    scenario.until(scenario.world.whole)
    scenario.elapse(2_000)
    numbers = scenario.publish(publisher, "work", 3)
    scenario.until(publisher.done)
    assert scenario.confirmed(numbers) == numbers
    scenario.consumer(two, "work")
    scenario.finish()


def test_an_exclusive_queue_is_locked_for_clients_of_all_nodes() -> None:
    scenario = ClusterScenario()
    scenario.ask(scenario.guest(scenario.nodes[1]), QueueDeclare("mine", exclusive=True))
    for node in scenario.nodes:
        visitor = scenario.guest(node)
        visitor.ask(QueueDeclare("mine", passive=True))
        scenario.until(lambda one=visitor: bool(one.faults))
        assert "cannot obtain exclusive access to locked queue" in visitor.faults[0]
