"""Queues with a length limit: which messages are dropped, and which are refused."""

import pytest

from tests.unit.broker.queues.world import World, body_of
from warren.broker.model.ports import REJECTED, SETTLED
from warren.broker.queues.settings import QueueSettings
from warren.wire.field_tables import Table

DLX: Table = {"x-dead-letter-exchange": "dlx"}


def test_a_full_queue_drops_its_head() -> None:
    world = World({"x-max-length": 2, **DLX})
    assert world.publish("1", "2", "3", "4") == [SETTLED] * 4
    assert world.dead() == [("1", "maxlen"), ("2", "maxlen")]
    assert world.turn.held_bytes == 2 * 257
    assert world.take_all() == ["3", "4"]


def test_a_size_counts_bodies_and_drops_as_many_as_it_takes() -> None:
    world = World({"x-max-length-bytes": 10, **DLX})
    world.publish("1234", "5678", "90")
    assert world.dead() == []
    world.publish("abcdef")
    assert world.dead() == [("1234", "maxlen"), ("5678", "maxlen")]
    assert world.take_all() == ["90", "abcdef"]


def test_a_message_larger_than_its_queue_is_dropped_itself() -> None:
    world = World({"x-max-length-bytes": 3})
    world.publish("1234")
    assert (world.queue.ready_count(), world.turn.held_bytes) == (0, 0)


def test_a_batch_for_a_waiting_consumer_is_not_dropped() -> None:
    world = World({"x-max-length": 1, **DLX})
    consumer = world.consumer(credit=3)
    world.publish("1", "2", "3", "4", "5")
    world.end_turn()
    assert consumer.bodies() == ["1", "2", "3"]
    assert world.dead() == [("4", "maxlen")]


def test_a_queue_of_no_length_still_serves_a_waiting_consumer() -> None:
    world = World({"x-max-length": 0})
    world.publish("1")
    consumer = world.consumer()
    world.publish("2")
    world.end_turn()
    assert consumer.bodies() == ["2"]


def test_unacked_messages_do_not_count() -> None:
    world = World({"x-max-length": 1})
    consumer = world.consumer(credit=1)
    world.publish("1")
    world.end_turn()
    world.publish("2")
    world.end_turn()
    assert (consumer.bodies(), world.queue.ready_count(), world.queue.unacked_count()) == (["1"], 1, 1)


def test_a_requeue_into_a_full_queue_drops_the_head_again() -> None:
    world = World({"x-max-length": 2, **DLX})
    world.publish("1", "2")
    entry = world.queue.get(False)
    assert entry is not None
    world.publish("3")
    world.queue.requeue([entry])
    assert world.dead() == [("1", "maxlen")]
    assert world.take_all() == ["2", "3"]


def test_the_head_of_a_queue_with_priorities_is_the_highest() -> None:
    world = World({"x-max-length": 2, "x-max-priority": 5})
    world.publish("high", priority=5)
    world.publish("low", "low too", priority=1)
    assert world.take_all() == ["low", "low too"]


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_a_full_queue_may_refuse_instead(overflow: str) -> None:
    world = World({"x-max-length": 1, "x-overflow": overflow})
    assert world.publish("1", "2") == [SETTLED, REJECTED]
    assert world.take_all() == ["1"]
    assert world.publish("3") == [SETTLED]


def test_a_refused_message_may_be_dead_lettered_and_is_refused_all_the_same() -> None:
    world = World({"x-max-length": 1, "x-overflow": "reject-publish-dlx", **DLX})
    assert world.publish("1", "2") == [SETTLED, REJECTED]
    assert world.dead() == [("2", "maxlen")]
    assert world.turn.held_bytes == 257


def test_a_message_refused_plainly_is_not_dead_lettered() -> None:
    world = World({"x-max-length": 1, "x-overflow": "reject-publish", **DLX})
    world.publish("1", "2")
    assert world.dead() == []


def test_a_size_limit_rejects_messages_that_do_not_fit() -> None:
    world = World({"x-max-length-bytes": 10, "x-overflow": "reject-publish"})
    assert world.publish("123456", "12345", "1234") == [SETTLED, REJECTED, SETTLED]


def test_a_batch_for_a_waiting_consumer_is_not_refused() -> None:
    world = World({"x-max-length": 1, "x-overflow": "reject-publish"})
    consumer = world.consumer(credit=2)
    assert world.publish("1", "2", "3", "4") == [SETTLED, SETTLED, SETTLED, REJECTED]
    world.end_turn()
    assert consumer.bodies() == ["1", "2"]


def test_a_queue_that_refuses_takes_back_more_than_its_length() -> None:
    world = World({"x-max-length": 1, "x-overflow": "reject-publish", **DLX})
    world.publish("1")
    entry = world.queue.get(False)
    assert entry is not None
    world.publish("2")
    world.queue.requeue([entry])
    assert world.dead() == []
    assert world.take_all() == ["1", "2"]


def test_expired_messages_make_room_for_others() -> None:
    world = World({"x-max-length": 1, "x-overflow": "reject-publish", "x-message-ttl": 5})
    world.publish("1")
    # the queue is asked in the same turn in which its timer is due, before the timer
    world.turn.now_ms += 5
    assert world.publish("2") == [SETTLED]


def test_a_limit_set_later_applies_at_once() -> None:
    world = World()
    world.publish("1", "2", "3")
    world.queue.apply(QueueSettings(max_length=1, dead_letter_exchange="dlx"))
    assert world.dead() == [("1", "maxlen"), ("2", "maxlen")]
    entry = world.queue.get(True)
    assert entry is not None
    assert body_of(entry) == "3"
