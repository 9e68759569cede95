"""A queue that was stopped because its files are damaged."""

from collections.abc import Callable

import pytest

from tests.unit.broker.queues.scripted_log import ScriptedLog
from tests.unit.broker.queues.world import ScriptedConsumer, World
from warren.broker.model.effects import Note
from warren.broker.model.ports import PENDING, REJECTED
from warren.errors import NOT_FOUND, ChannelFault
from warren.wire.field_tables import Table

REASON = "segment 3 of the journal is damaged at byte 640"
DLX: Table = {"x-dead-letter-exchange": "dlx"}


def stopped_world(arguments: Table | None = None) -> tuple[World, ScriptedLog]:
    """A queue with messages in memory, unacked and on disk, that was then stopped."""
    log = ScriptedLog()
    world = World(arguments, log=log, auto_delete=True)
    world.publish("1", "2", persistent=True)
    world.turn.memory_low = True
    world.publish("3", "4", persistent=True)
    assert world.queue.can_get()
    world.queue.stop(REASON)
    return world, log


def test_the_stop_is_logged_once() -> None:
    world, _ = stopped_world()
    world.queue.stop("another reason")
    assert world.turn.effects == [
        Note("error", "queue.stopped", {"vhost": "/", "queue": "q", "reason": REASON}),
    ]


def test_consumers_are_cancelled_and_an_auto_delete_queue_stays() -> None:
    world = World(log=ScriptedLog(), auto_delete=True)
    consumers = [world.consumer(tag) for tag in "ba"]
    world.queue.stop(REASON)
    assert [consumer.was_cancelled for consumer in consumers] == [True, True]
    for consumer in consumers:
        world.queue.remove_consumer(consumer)
    assert (world.queue.consumer_count(), world.owner.unused) == (0, [])


def test_publishes_are_refused() -> None:
    world, log = stopped_world()
    assert world.publish("5", persistent=True) == [REJECTED]
    assert world.queue.ready_count() == 4
    assert log.positions() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "use",
    [
        lambda world: world.queue.can_get(),
        lambda world: world.queue.get(True),
        lambda world: world.queue.purge(),
        lambda world: world.queue.add_consumer(ScriptedConsumer()),
        lambda world: world.queue.check_usable(),
    ],
)
def test_operations_on_a_stopped_queue_get_the_reason(use: Callable[[World], object]) -> None:
    world, _ = stopped_world()
    with pytest.raises(ChannelFault) as caught:
        use(world)
    assert (caught.value.code, caught.value.text) == (NOT_FOUND, f"queue 'q' in vhost '/' is stopped: {REASON}")


def test_a_running_queue_is_usable() -> None:
    World(log=ScriptedLog()).queue.check_usable()


def test_a_stopped_queue_reads_and_expires_nothing() -> None:
    log = ScriptedLog()
    world = World({"x-message-ttl": 5, "x-expires": 50, "x-max-length": 1, **DLX}, log=log)
    world.turn.memory_low = True
    world.publish("1", "2")
    world.queue.stop(REASON)
    assert (log.fetching, log.cancelled) == (None, 1)
    world.queue.wake()
    world.end_turn()
    world.pass_ms(100)
    assert (log.fetches, world.dead(), world.owner.expired) == (1, [], [])
    assert (log.positions(), world.turn.next_timer_ms()) == ([1, 2], 0)


def test_entries_in_memory_of_a_stopped_queue_do_not_expire() -> None:
    world = World({"x-message-ttl": 5, **DLX}, log=ScriptedLog())
    world.publish("1", "2")
    world.queue.stop(REASON)
    world.pass_ms(10)
    world.queue.drain()
    world.pass_ms(10)
    assert (world.queue.ready_count(), world.dead(), world.turn.next_timer_ms()) == (2, [], 0)


@pytest.mark.parametrize("consumers", [1, 2])
def test_damage_found_during_expiry_stops_the_queue(consumers: int) -> None:
    log = ScriptedLog(prompt=True)
    world = World(DLX, log=log)
    world.publish("1", expiration_ms=5)
    world.publish("2", expiration_ms=5, persistent=True)
    world.turn.memory_low = True
    world.publish("3", expiration_ms=5)
    taking = [world.consumer(f"{number}", credit=0) for number in range(consumers)]
    world.turn.now_ms += 10
    for consumer in taking:
        consumer.credit = 5
    log.stored.clear()
    world.end_turn()
    assert world.dead() == [("1", "expired"), ("2", "expired")]
    assert all(consumer.was_cancelled and not consumer.entries for consumer in taking)
    assert world.queue.ready_count() == 1


def test_unacked_entries_of_a_stopped_queue_can_still_be_acked() -> None:
    log = ScriptedLog()
    world = World({"x-message-ttl": 5, "x-max-length": 3, **DLX}, log=log)
    world.publish("1", "2", "3", persistent=True)
    acked, rejected, requeued = [world.queue.get(False) for _ in range(3)]
    assert acked is not None
    assert rejected is not None
    assert requeued is not None
    world.queue.stop(REASON)
    world.turn.now_ms += 10
    world.queue.ack(acked)
    world.queue.reject(rejected)
    world.queue.requeue([requeued])
    world.end_turn()
    assert log.positions() == [2, 3]
    assert world.dead() == [("2", "rejected")]
    assert (world.queue.ready_count(), world.queue.unacked_count()) == (1, 0)


def test_a_stopped_queue_can_be_deleted() -> None:
    world, log = stopped_world()
    world.end_turn()
    world.queue.close()
    assert (log.closed, world.queue.ready_count(), world.turn.held_bytes) == (True, 0, 0)
    world.queue.check()


def test_a_fetch_without_entries_stops_the_queue() -> None:
    log = ScriptedLog()
    world = World(log=log)
    world.turn.memory_low = True
    world.publish("1", "2")
    consumer = world.consumer()
    world.end_turn()
    log.answer_nothing()
    assert consumer.was_cancelled
    with pytest.raises(ChannelFault, match="segment 1 should have 2 entries from 1 to 2 but 0 were read"):
        world.queue.check_usable()


def test_damage_found_during_delivery_stops_the_queue() -> None:
    log = ScriptedLog(prompt=True)
    world = World(log=log)
    world.publish("1")
    world.turn.memory_low = True
    assert world.publish("2", persistent=True) == [PENDING]
    log.stored.clear()
    consumer = world.consumer()
    world.end_turn()
    assert (consumer.bodies(), consumer.was_cancelled) == ([], True)
