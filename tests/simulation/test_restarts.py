"""Nodes that are killed and started again, each with one claim about the remaining data."""

from collections.abc import Callable

import pytest

from tests.simulation.scenario import QuietPublisher, Scenario
from warren.broker.model.settings import BrokerSettings
from warren.sim.clients import CONFIRM, TRANSACTION
from warren.sim.history import QueueSpec
from warren.sim.process import HEARTBEAT_S
from warren.wire.methods import QueueDeclare, QueueDelete

CHANNEL = 1
MEMORY_ALONE = 2.0
DISK_ALONE = 0.0


def settings(segment_bytes: int = 2_000, paging_ratio: float = MEMORY_ALONE) -> BrokerSettings:
    return BrokerSettings(heartbeat_s=HEARTBEAT_S, segment_bytes=segment_bytes, paging_ratio=paging_ratio)


def lasting(name: str = "work", **more: object) -> QueueSpec:
    return QueueSpec(name, durable=True, **more)


def persistent_publisher(scenario: Scenario, mode: str = CONFIRM) -> QuietPublisher:
    publisher = scenario.publisher(mode)
    publisher.persistent = True
    return publisher


def die_at_step(scenario: Scenario, step_no: int, die: Callable[[], None]) -> None:
    """Kill the node when its disk begins the step with this number, counted from now."""
    left = step_no

    def watch(_step: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            scenario.node.disk.watch = None
            scenario.world.schedule(0, die)

    scenario.node.disk.watch = watch


@pytest.mark.parametrize("mode", [CONFIRM, TRANSACTION])
@pytest.mark.parametrize("power", [True, False])
@pytest.mark.parametrize("step_no", range(1, 40, 3))
def test_confirmed_messages_outlive_a_death_at_any_step_of_the_disk(step_no: int, power: bool, mode: str) -> None:
    spec = lasting()
    scenario = Scenario(spec, settings=settings())
    publisher = persistent_publisher(scenario, mode)
    die_at_step(scenario, step_no, scenario.node.lose_power if power else scenario.node.kill)
    for _ in range(8):
        scenario.until(lambda: publisher.is_open)
        scenario.publish(publisher, spec, 5)
        scenario.elapse(4)
    scenario.until(lambda: scenario.node.lives == 2 and publisher.is_open and publisher.done())
    consumer = scenario.consumer(spec)
    scenario.finish()
    assert consumer.received_count >= 40


def test_a_node_that_dies_again_and_again_while_it_starts_keeps_everything() -> None:
    spec = lasting()
    scenario = Scenario(spec, settings=settings())
    publisher = persistent_publisher(scenario)
    scenario.publish(publisher, spec, 50)
    scenario.until(publisher.done)
    for death in range(1, 25):
        die_at_step(scenario, death, scenario.node.lose_power if death % 2 else scenario.node.kill)
        scenario.node.kill()
        scenario.elapse(60)
    scenario.node.disk.watch = None
    consumer = scenario.consumer(spec)
    scenario.finish()
    assert consumer.received_count == 50


def test_transient_messages_and_passing_queues_do_not_outlive_the_node() -> None:
    kept, passing = lasting(), QueueSpec("passing")
    scenario = Scenario(kept, passing, settings=settings())
    publisher = persistent_publisher(scenario)
    scenario.publish(publisher, passing, 3)
    publisher.persistent = False
    scenario.publish(publisher, kept, 3)
    scenario.until(publisher.done)
    scenario.node.kill()
    assert scenario.ready_count(kept) == 0
    assert "passing" not in scenario.node.broker.vhosts["/"].topology.queues
    scenario.finish()


def test_acked_and_flushed_messages_never_come_back() -> None:
    spec = lasting()
    scenario = Scenario(spec, settings=settings())
    publisher, consumer = persistent_publisher(scenario), scenario.consumer(spec)
    scenario.publish(publisher, spec, 20)
    scenario.until(lambda: consumer.received_count == 20 and consumer.done() and scenario.node.disk.idle())
    scenario.node.lose_power()
    assert scenario.ready_count(spec) == 0
    scenario.finish()
    assert consumer.received_count == 20


def test_only_delivered_messages_come_back_marked() -> None:
    spec = lasting()
    scenario = Scenario(spec, settings=settings())
    publisher, consumer = persistent_publisher(scenario), scenario.consumer(spec, prefetch=3)
    consumer.diligent = False
    scenario.publish(publisher, spec, 10)
    scenario.until(lambda: consumer.received_count == 3 and scenario.confirmed_count() == 10)
    scenario.node.stop(down_ms=50)
    scenario.until(lambda: scenario.node.lives == 2)
    scenario.finish()
    assert consumer.received_count == 13
    assert scenario.world.history.seen["redelivery"] == 3


def test_time_passes_for_messages_while_the_node_is_down() -> None:
    spec, graves = lasting(arguments={"x-message-ttl": 500, "x-dead-letter-exchange": "dead"}), lasting("graves")
    spec.ttl_ms, spec.dead_letter_exchange, graves.surprising = 500, "dead", True
    scenario = Scenario(spec, graves, settings=settings())
    publisher = persistent_publisher(scenario)
    scenario.publish(publisher, spec, 3)
    scenario.until(publisher.done)
    scenario.node.kill(down_ms=400)
    scenario.elapse(410)
    scenario.publish(publisher, spec, 2)
    assert scenario.ready_count(spec) == 3
    scenario.until(lambda: scenario.ready_count(graves) >= 3)
    mourner = scenario.consumer(graves)
    scenario.finish()
    assert mourner.received_count == 5


def test_a_queue_that_was_deleted_and_declared_again_does_not_get_its_old_messages_back() -> None:
    spec = lasting()
    scenario = Scenario(spec, settings=settings())
    publisher = persistent_publisher(scenario)
    scenario.publish(publisher, spec, 5)
    scenario.until(publisher.done)
    for copy in list(scenario.world.history.living):
        scenario.world.history.end(copy, "deleted")
    publisher.send(CHANNEL, QueueDelete(spec.name))
    publisher.send(CHANNEL, QueueDeclare(spec.name, durable=True))
    scenario.publish(publisher, spec, 2)
    scenario.until(publisher.done)
    for _ in range(2):
        scenario.node.lose_power()
        assert scenario.ready_count(spec) == 2
        scenario.elapse(100)
    consumer = scenario.consumer(spec)
    scenario.finish()
    assert consumer.received_count == 2


@pytest.mark.parametrize("persistent", [True, False])
def test_a_backlog_beyond_memory_is_delivered_in_order_and_costs_little_memory(persistent: bool) -> None:
    spec = lasting()
    scenario = Scenario(spec, settings=settings(segment_bytes=20_000, paging_ratio=DISK_ALONE))
    publisher = scenario.publisher()
    publisher.persistent = persistent
    publisher.large_bodies = 1.0
    for _ in range(20):
        scenario.publish(publisher, spec, 20)
        scenario.elapse(20)
    scenario.until(lambda: scenario.confirmed_count() == 400 and scenario.node.disk.idle())
    assert scenario.ready_count(spec) == 400
    content_bytes = sum(len(attempt.body) for attempt in scenario.world.history.attempts.values())
    assert scenario.node.broker.turn.held_bytes < content_bytes / 10
    consumer = scenario.consumer(spec, prefetch=5)
    scenario.finish()
    assert consumer.received_count == 400


def test_a_drained_queue_gives_its_space_back() -> None:
    spec, stuck = lasting(), lasting("stuck")
    scenario = Scenario(spec, stuck, settings=settings())
    publisher, consumer = persistent_publisher(scenario), scenario.consumer(spec)
    segments_max = 0
    for _ in range(20):
        # one message of each segment stays, so that segments are compacted
        scenario.publish(publisher, stuck, 1)
        scenario.publish(publisher, spec, 30)
        scenario.elapse(600)
        segments_max = max(segments_max, segment_count(scenario))
    assert consumer.received_count == 600
    assert segments_max < 12
    assert segment_count(scenario) < 12
    scenario.node.lose_power()
    assert scenario.ready_count(stuck) == 20
    reader = scenario.consumer(stuck)
    scenario.finish()
    assert reader.received_count == 20


@pytest.mark.parametrize("step_no", range(1, 60, 4))
def test_a_death_while_segments_are_compacted_and_dropped_loses_nothing(step_no: int) -> None:
    spec, stuck = lasting(), lasting("stuck")
    scenario = Scenario(spec, stuck, settings=settings())
    publisher, consumer = persistent_publisher(scenario), scenario.consumer(spec)
    for _ in range(5):
        scenario.publish(publisher, stuck, 1)
        scenario.publish(publisher, spec, 30)
        scenario.elapse(100)
    die_at_step(scenario, step_no, scenario.node.lose_power if step_no % 8 == 1 else scenario.node.kill)
    scenario.elapse(3_000)
    scenario.node.disk.watch = None
    scenario.node.kill()
    assert scenario.ready_count(stuck) == 5
    reader = scenario.consumer(stuck)
    scenario.finish()
    assert reader.received_count == 5
    assert consumer.received_count >= 150


def test_a_full_disk_holds_up_confirms_until_there_is_room() -> None:
    spec = lasting()
    scenario = Scenario(spec, settings=settings())
    publisher = persistent_publisher(scenario)
    scenario.node.disk.full = True
    scenario.publish(publisher, spec, 10)
    scenario.elapse(2_000)
    assert scenario.confirmed_count() == 0
    assert scenario.node.broker.alarm == "low on disk"
    scenario.node.disk.full = False
    scenario.until(lambda: scenario.confirmed_count() == 10)
    assert scenario.node.broker.alarm == ""
    scenario.consumer(spec)
    scenario.finish()


def segment_count(scenario: Scenario) -> int:
    return sum(name.endswith(".seg") for name in scenario.node.disk.directory.names())
