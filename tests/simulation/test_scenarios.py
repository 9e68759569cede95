"""Small worlds, each with one fault and one claim about it."""

import pytest

from tests.simulation.scenario import Scenario
from warren.broker.model.events import MemoryMeasured
from warren.sim.clients import CONFIRM, PLAIN, TRANSACTION
from warren.sim.history import QueueSpec

OFFSETS = (0, 1, 6, 7, 8, 20, 61, 99, 150, 400)


@pytest.mark.parametrize("bytes_read", OFFSETS)
def test_a_consumer_that_dies_mid_delivery_loses_nothing(bytes_read: int) -> None:
    spec = QueueSpec("work")
    scenario = Scenario(spec)
    publisher, doomed = scenario.publisher(), scenario.consumer(spec)
    doomed.diligent = False
    scenario.elapse(100)
    assert doomed.link is not None
    doomed.link.break_after(down_bytes=bytes_read)
    scenario.publish(publisher, spec, 10)
    scenario.until(lambda: doomed.connections == 2 and doomed.is_open)
    scenario.finish()
    assert scenario.confirmed_count() == 10
    copies = [attempt.copies["work"] for attempt in scenario.world.history.attempts.values()]
    assert [copy.ending for copy in copies] == ["acked"] * 10
    assert [copy.deliveries for copy in copies] == [2] * 10


@pytest.mark.parametrize("bytes_sent", OFFSETS)
@pytest.mark.parametrize("mode", [CONFIRM, TRANSACTION])
def test_a_publisher_that_is_cut_off_at_any_byte_gets_everything_confirmed_in_the_end(
    bytes_sent: int, mode: str
) -> None:
    spec = QueueSpec("work")
    scenario = Scenario(spec)
    publisher, consumer = scenario.publisher(mode), scenario.consumer(spec)
    scenario.elapse(100)
    assert publisher.link is not None
    publisher.link.break_after(up_bytes=bytes_sent)
    scenario.publish(publisher, spec, 10)
    scenario.until(lambda: publisher.connections == 2)
    scenario.finish()
    assert scenario.confirmed_count() >= 10
    assert consumer.received_count == sum(1 for a in scenario.world.history.attempts.values() if a.copies)


def test_a_reader_that_stops_reading_does_not_hold_up_others() -> None:
    slow_plan, quick_plan = QueueSpec("slow"), QueueSpec("quick")
    scenario = Scenario(slow_plan, quick_plan)
    publisher = scenario.publisher(PLAIN)
    slow, quick = scenario.consumer(slow_plan), scenario.consumer(quick_plan)
    scenario.elapse(50)
    assert slow.link is not None
    slow.link.high_water_bytes, slow.link.low_water_bytes = 5_000, 1_000
    slow.link.client_stalls(3_000)
    for _ in range(20):
        scenario.publish(publisher, slow_plan, 50)
        scenario.publish(publisher, quick_plan, 50)
        scenario.elapse(20)
    scenario.until(lambda: quick.received_count == 1_000)
    assert slow.received_count == 0
    assert scenario.ready_count(slow_plan) > 500
    assert slow.link.buffered_bytes() < 100_000
    scenario.finish()
    assert slow.received_count == 1_000


def test_a_reader_of_the_same_queue_that_stops_reading_leaves_the_rest_to_the_others() -> None:
    spec = QueueSpec("work")
    scenario = Scenario(spec)
    publisher = scenario.publisher(PLAIN)
    slow, quick = scenario.consumer(spec), scenario.consumer(spec)
    scenario.elapse(50)
    assert slow.link is not None
    slow.link.high_water_bytes, slow.link.low_water_bytes = 5_000, 1_000
    slow.link.client_stalls(3_000)
    scenario.publish(publisher, spec, 1_000)
    scenario.until(lambda: scenario.ready_count(spec) == 0 and quick.received_count > 0)
    for _ in range(10):
        scenario.publish(publisher, spec, 100)
        scenario.elapse(20)
    assert scenario.ready_count(spec) == 0
    scenario.finish()
    assert slow.received_count + quick.received_count == 2_000


def test_messages_of_a_silent_consumer_go_to_another_after_two_heartbeats() -> None:
    spec = QueueSpec("work")
    scenario = Scenario(spec)
    publisher, silent = scenario.publisher(), scenario.consumer(spec)
    silent.diligent = False
    scenario.elapse(50)
    scenario.publish(publisher, spec, 5)
    scenario.until(lambda: len(silent.held) == 5)
    other = scenario.consumer(spec)
    assert silent.link is not None
    silent.link.go_silent(patience_ms=60_000)
    began_ms = scenario.world.now_ms
    scenario.until(lambda: other.received_count == 5)
    assert 1_500 < scenario.world.now_ms - began_ms < 4_000
    scenario.finish()


def test_an_alarm_holds_up_publishers_until_it_is_over_and_consumers_never() -> None:
    spec = QueueSpec("work")
    scenario = Scenario(spec)
    publisher = scenario.publisher()
    scenario.publish(publisher, spec, 100)
    scenario.until(lambda: scenario.confirmed_count() == 100)
    scenario.node.add(MemoryMeasured(100_000, 20_000))
    scenario.elapse(10)
    scenario.publish(publisher, spec, 1)
    scenario.elapse(10)
    scenario.publish(publisher, spec, 5)
    scenario.elapse(2_000)
    assert scenario.confirmed_count() == 101
    consumer = scenario.consumer(spec)
    scenario.until(lambda: consumer.received_count == 106)
    scenario.finish()
    assert scenario.confirmed_count() == 106


def test_a_client_that_asks_for_more_than_a_turn_can_give_gets_it_all() -> None:
    spec, other = QueueSpec("work"), QueueSpec("other")
    scenario = Scenario(spec, other)
    publisher, greedy = scenario.publisher(), scenario.consumer(other)
    publisher.large_bodies = 1.0
    scenario.publish(publisher, spec, 300)
    scenario.until(lambda: scenario.confirmed_count() == 300)
    assert greedy.link is not None
    greedy.link.high_water_bytes = 100_000_000
    for _ in range(300):
        greedy.get(spec)
    scenario.until(lambda: scenario.ready_count(spec) < 300)
    assert scenario.ready_count(spec) > 0
    scenario.finish()
    assert scenario.ready_count(spec) == 0


def test_clients_of_a_node_that_restarts_find_their_way_back() -> None:
    spec = QueueSpec("work")
    scenario = Scenario(spec)
    publisher, consumer = scenario.publisher(), scenario.consumer(spec)
    scenario.publish(publisher, spec, 10)
    scenario.elapse(3)
    scenario.node.kill()
    scenario.until(lambda: publisher.connections == 2 and publisher.is_open and consumer.is_open)
    scenario.publish(publisher, spec, 10)
    scenario.finish()
    assert publisher.done()
    assert consumer.received_count >= 10


def test_a_node_that_stood_still_goes_on_where_it_was() -> None:
    spec = QueueSpec("work")
    scenario = Scenario(spec)
    publisher, consumer = scenario.publisher(), scenario.consumer(spec)
    scenario.elapse(20)
    scenario.node.freeze(1_500)
    scenario.publish(publisher, spec, 10)
    scenario.elapse(1_000)
    assert consumer.received_count == 0
    scenario.finish()
    assert consumer.received_count == 10
    assert publisher.connections == 1


def test_a_rejected_message_is_dead_lettered() -> None:
    arguments = {"x-dead-letter-exchange": "dead", "x-delivery-limit": 0}
    spec = QueueSpec("work", dict(arguments), delivery_limit=0, dead_letter_exchange="dead")
    graves = QueueSpec("graves", surprising=True)
    scenario = Scenario(spec, graves)
    publisher, consumer = scenario.publisher(), scenario.consumer(spec)
    consumer.diligent = False
    scenario.publish(publisher, spec, 3)
    scenario.until(lambda: len(consumer.held) == 3)
    assert consumer.link is not None
    consumer.link.reset()
    mourner = scenario.consumer(graves)
    scenario.until(lambda: mourner.received_count == 3)
    scenario.finish()
