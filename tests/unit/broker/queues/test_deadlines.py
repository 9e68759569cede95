"""Expiry of messages and of idle queues."""

import pytest

from tests.unit.broker.queues.world import START_MS, World
from warren.broker.queues.settings import QueueSettings
from warren.wire.field_tables import Table

DLX: Table = {"x-dead-letter-exchange": "dlx"}


def test_a_message_expires_at_its_deadline() -> None:
    world = World({"x-message-ttl": 100, **DLX})
    world.publish("1", "2")
    world.end_turn()
    world.pass_ms(99)
    assert world.dead() == []
    world.pass_ms(1)
    assert world.dead() == [("1", "expired"), ("2", "expired")]
    assert (world.queue.ready_count(), world.turn.held_bytes) == (0, 0)


@pytest.mark.parametrize(("ttl_ms", "expiration_ms"), [(100, 50), (50, 100), (50, -1), (-1, 50)])
def test_the_shorter_of_two_ttls_counts(ttl_ms: int, expiration_ms: int) -> None:
    world = World(settings=QueueSettings(message_ttl_ms=ttl_ms, dead_letter_exchange="dlx"))
    world.publish("1", expiration_ms=expiration_ms)
    world.end_turn()
    world.pass_ms(49)
    assert world.queue.ready_count() == 1
    world.pass_ms(1)
    assert world.dead() == [("1", "expired")]


def test_a_message_expires_only_at_the_head() -> None:
    world = World(DLX)
    world.publish("long", expiration_ms=100)
    world.publish("short", expiration_ms=10)
    world.publish("immortal")
    world.publish("late", expiration_ms=10)
    world.end_turn()
    world.pass_ms(99)
    assert world.dead() == []
    world.pass_ms(1)
    assert world.dead() == [("long", "expired"), ("short", "expired")]
    assert world.take_all() == ["immortal"]


def test_each_priority_level_has_a_head_of_its_own() -> None:
    world = World({"x-max-priority": 5, **DLX})
    world.publish("high", priority=5, expiration_ms=100)
    world.publish("low", priority=1, expiration_ms=10)
    world.publish("none", expiration_ms=50)
    world.end_turn()
    world.pass_ms(10)
    assert world.dead() == [("low", "expired")]
    world.pass_ms(40)
    assert world.dead() == [("low", "expired"), ("none", "expired")]
    assert world.take_all() == ["high"]


def test_a_message_with_a_ttl_of_zero_goes_to_a_waiting_consumer() -> None:
    world = World({"x-message-ttl": 0, **DLX})
    consumer = world.consumer(credit=1)
    world.publish("1", "2")
    world.end_turn()
    assert consumer.bodies() == ["1"]
    assert world.dead() == [("2", "expired")]


def test_a_message_with_a_ttl_of_zero_expires_without_a_waiting_consumer() -> None:
    world = World()
    world.publish("1", expiration_ms=0)
    world.end_turn()
    assert (world.queue.ready_count(), world.turn.held_bytes) == (0, 0)


def test_a_get_never_returns_an_expired_message() -> None:
    world = World(DLX)
    world.publish("1", expiration_ms=10)
    world.publish("2")
    world.end_turn()
    # the get comes in the turn in which the timer is due, and before it fires
    world.turn.now_ms += 10
    assert world.take_all() == ["2"]
    assert world.dead() == [("1", "expired")]


def test_a_consumer_never_gets_a_message_that_expired_before_this_millisecond() -> None:
    world = World(DLX)
    world.publish("1", expiration_ms=10)
    world.publish("2")
    world.end_turn()
    world.turn.now_ms += 11
    consumer = world.consumer()
    world.end_turn()
    assert consumer.bodies() == ["2"]


def test_an_unacked_message_does_not_expire_but_keeps_its_deadline() -> None:
    world = World(DLX)
    world.publish("1", expiration_ms=10)
    entry = world.queue.get(False)
    assert entry is not None
    world.end_turn()
    world.pass_ms(1000)
    assert world.dead() == []
    world.queue.requeue([entry])
    world.end_turn()
    assert world.dead() == [("1", "expired")]


def test_a_requeued_head_with_an_earlier_deadline_is_not_forgotten() -> None:
    world = World(DLX)
    consumer = world.consumer(credit=1)
    world.publish("1", expiration_ms=50)
    world.publish("2", expiration_ms=100)
    world.end_turn()
    assert world.turn.next_timer_ms() == START_MS + 100
    world.queue.requeue(consumer.entries)
    world.end_turn()
    assert world.turn.next_timer_ms() == START_MS + 50
    world.pass_ms(50)
    assert world.dead() == [("1", "expired")]
    world.pass_ms(50)
    assert world.dead() == [("1", "expired"), ("2", "expired")]


def test_a_thousand_messages_that_expire_together_take_one_timer() -> None:
    world = World({"x-message-ttl": 1000})
    for _ in range(1000):
        world.publish("1")
        world.end_turn()
    world.turn.now_ms = world.turn.next_timer_ms()
    world.turn.fire_timers()
    assert (world.turn.next_timer_ms(), world.queue.ready_count()) == (0, 0)


def test_messages_that_are_consumed_in_time_set_no_timer_each() -> None:
    world = World({"x-message-ttl": 1000})
    world.consumer(no_ack=True)
    for _ in range(100):
        world.publish("1")
        world.end_turn()
    assert world.turn.next_timer_ms() == 0


def test_an_unused_queue_expires() -> None:
    world = World({"x-expires": 100})
    world.pass_ms(99)
    assert world.owner.expired == []
    world.pass_ms(1)
    assert world.owner.expired == [world.queue]


def test_a_touched_queue_expires_later_and_sets_no_timer_each_time() -> None:
    world = World({"x-expires": 100})
    for _ in range(10):
        world.pass_ms(60)
        world.queue.touch()
    world.pass_ms(99)
    assert world.owner.expired == []
    world.pass_ms(1)
    assert world.owner.expired == [world.queue]


def test_a_get_is_a_use_and_a_publish_is_not() -> None:
    world = World({"x-expires": 100})
    world.pass_ms(60)
    world.queue.get(True)
    world.pass_ms(60)
    world.publish("1")
    world.end_turn()
    assert world.owner.expired == []
    world.pass_ms(40)
    assert world.owner.expired == [world.queue]


def test_a_queue_expires_only_after_its_last_consumer_is_removed() -> None:
    world = World({"x-expires": 100})
    consumer = world.consumer()
    world.pass_ms(1000)
    assert world.owner.expired == []
    world.queue.remove_consumer(consumer)
    world.pass_ms(99)
    assert world.owner.expired == []
    world.pass_ms(1)
    assert world.owner.expired == [world.queue]


def test_removing_the_last_consumer_restarts_the_expiry() -> None:
    world = World({"x-expires": 100})
    consumer = world.consumer()
    world.pass_ms(50)
    world.queue.remove_consumer(consumer)
    world.pass_ms(99)
    assert world.owner.expired == []
    world.pass_ms(1)
    assert world.owner.expired == [world.queue]


def test_an_expiry_set_later_starts_then() -> None:
    world = World({"x-expires": 10})
    world.pass_ms(5)
    world.queue.apply(QueueSettings(expires_ms=100))
    world.pass_ms(99)
    assert world.owner.expired == []
    world.pass_ms(1)
    assert world.owner.expired == [world.queue]


def test_a_removed_expiry_does_not_fire() -> None:
    world = World({"x-expires": 10})
    world.queue.apply(QueueSettings())
    world.pass_ms(1000)
    assert world.owner.expired == []
