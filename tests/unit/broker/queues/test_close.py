"""A deleted queue."""

from tests.unit.broker.queues.world import World
from warren.broker.model.ports import SETTLED


def closed_world() -> World:
    """A queue with ready, unacked and dead-lettered messages, a consumer and timers, then deleted."""
    world = World({"x-message-ttl": 1000, "x-expires": 500, "x-dead-letter-exchange": "dlx"}, auto_delete=True)
    world.publish("1", "2", "3")
    world.end_turn()
    return world


def test_consumers_are_cancelled() -> None:
    world = closed_world()
    first, second = world.consumer("1"), world.consumer("2")
    world.queue.close()
    assert (first.was_cancelled, second.was_cancelled) == (True, True)
    assert world.queue.consumer_count() == 0
    assert world.queue.deleted


def test_contents_are_dropped_and_not_dead_lettered() -> None:
    world = closed_world()
    world.queue.get(False)
    world.queue.close()
    assert (world.queue.ready_count(), world.queue.unacked_count(), world.turn.held_bytes) == (0, 0, 0)
    assert world.dead() == []
    world.queue.check()


def test_timers_are_cancelled() -> None:
    world = closed_world()
    world.queue.close()
    assert world.turn.next_timer_ms() == 0
    assert world.owner.expired == []


def test_acks_and_requeues_of_unacked_entries_have_no_effect() -> None:
    world = closed_world()
    acked, requeued, rejected = [world.queue.get(False) for _ in range(3)]
    assert acked is not None
    assert requeued is not None
    assert rejected is not None
    world.queue.close()
    world.queue.ack(acked)
    world.queue.requeue([requeued])
    world.queue.reject(rejected)
    assert (world.queue.ready_count(), world.queue.unacked_count(), world.turn.held_bytes) == (0, 0, 0)
    assert world.dead() == []


def test_publishes_and_gets_have_no_effect() -> None:
    world = closed_world()
    consumer = world.consumer()
    world.queue.close()
    assert world.publish("4") == [SETTLED]
    assert world.queue.get(True) is None
    assert world.queue.purge() == 0
    world.queue.remove_consumer(consumer)
    world.queue.touch()
    world.end_turn()
    assert (consumer.entries, world.owner.unused, world.turn.held_bytes) == ([], [], 0)
    assert world.turn.next_timer_ms() == 0


def test_a_pending_drain_delivers_nothing() -> None:
    world = closed_world()
    consumer = world.consumer()
    assert world.turn.drains == [world.queue]
    world.queue.close()
    world.end_turn()
    assert consumer.entries == []


def test_closing_twice_has_no_effect() -> None:
    world = closed_world()
    world.queue.close()
    world.queue.close()
    assert world.turn.held_bytes == 0
