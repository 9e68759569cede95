"""Nodes that read slowly, or not at all for some time: the output that waits for them is bounded, and arrives."""

from tests.simulation.cluster.scenario import ClusterScenario
from warren.wire.methods import BasicConsume, QueueDeclare

HIGH_WATER_BYTES = 10_000
MESSAGES = 400


def test_bytes_that_wait_for_a_node_that_does_not_read_are_bounded_and_no_message_is_lost() -> None:
    scenario = ClusterScenario()
    one, two, _three = scenario.nodes
    scenario.ask(scenario.guest(two), QueueDeclare("work", durable=True))
    wire = scenario.world.peer_links.between("one", "two")
    wire.high_water_bytes = HIGH_WATER_BYTES
    publishers = [scenario.publisher(one) for _ in range(3)]
    # the bytes of one do not arrive, and no node has noticed yet
    wire.set_cut(0, True)
    numbers: list[int] = []
    most = 0
    for _ in range(MESSAGES):
        for publisher in publishers:
            numbers += scenario.publish(publisher, "work", 1)
        scenario.elapse(2)
        assert wire.run is not None
        most = max(most, wire.run[1].coming_bytes())
    assert HIGH_WATER_BYTES < most < 3 * HIGH_WATER_BYTES
    wire.mend()
    scenario.until(lambda: all(publisher.done() for publisher in publishers))
    assert scenario.confirmed(numbers) == numbers
    scenario.consumer(two, "work")
    scenario.finish()


def test_deliveries_to_a_node_that_does_not_read_wait_in_their_queue() -> None:
    scenario = ClusterScenario()
    one, two, _three = scenario.nodes
    scenario.ask(scenario.guest(one), QueueDeclare("work", durable=True))
    wire = scenario.world.peer_links.between("one", "two")
    wire.high_water_bytes = HIGH_WATER_BYTES
    publisher, taker = scenario.publisher(one), scenario.guest(two)
    scenario.ask(taker, BasicConsume("work", "c", no_ack=True))
    taker.answers.clear()
    wire.set_cut(0, True)
    most = 0
    for _ in range(MESSAGES):
        scenario.publish(publisher, "work", 3)
        scenario.elapse(2)
        assert wire.run is not None
        most = max(most, wire.run[1].coming_bytes())
    assert HIGH_WATER_BYTES < most < 3 * HIGH_WATER_BYTES
    wire.mend()
    scenario.until(lambda: len(taker.answers) == 3 * MESSAGES)
