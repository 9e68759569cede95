"""Messages in, entries out: order, counters, acks, requeues, priorities."""

import pytest

from tests.unit.broker.queues.world import World, body_of
from warren.broker.model.ports import SETTLED


def test_messages_come_out_in_the_order_they_went_in() -> None:
    world = World()
    assert world.publish("1", "2", "3") == [SETTLED] * 3
    assert world.take_all() == ["1", "2", "3"]


def test_an_empty_queue_answers_a_get_with_nothing() -> None:
    assert World().queue.get(False) is None


def test_counters_follow_a_message_from_ready_to_unacked_to_removed() -> None:
    world = World()
    queue = world.queue
    world.publish("abc")
    assert (queue.ready_count(), queue.ready_bytes(), queue.unacked_count(), queue.unacked_bytes()) == (1, 3, 0, 0)
    entry = queue.get(False)
    assert entry is not None
    assert (queue.ready_count(), queue.ready_bytes(), queue.unacked_count(), queue.unacked_bytes()) == (0, 0, 1, 3)
    queue.ack(entry)
    assert (queue.ready_count(), queue.ready_bytes(), queue.unacked_count(), queue.unacked_bytes()) == (0, 0, 0, 0)


def test_memory_is_counted_until_an_entry_is_removed() -> None:
    world = World()
    world.publish("abc", "defg", "x")
    assert world.turn.held_bytes == 8 + 3 * 256
    entry = world.queue.get(False)
    assert entry is not None
    assert world.turn.held_bytes == 8 + 3 * 256
    world.queue.ack(entry)
    assert world.turn.held_bytes == 5 + 2 * 256
    world.queue.get(True)
    assert world.turn.held_bytes == 1 + 256
    assert world.queue.purge() == 1
    assert world.turn.held_bytes == 0


def test_a_requeued_entry_returns_to_its_position_marked_redelivered() -> None:
    world = World()
    world.publish("1", "2", "3")
    first = world.queue.get(False)
    assert first is not None
    assert not first.redelivered
    world.queue.requeue([first])
    again = world.queue.get(False)
    assert again is first
    assert again.redelivered
    assert world.take_all() == ["2", "3"]


def test_entries_requeued_in_any_grouping_come_out_in_their_first_order() -> None:
    world = World()
    world.publish(*[str(number) for number in range(8)])
    taken = [world.queue.get(False) for _ in range(6)]
    entries = {body_of(entry): entry for entry in taken if entry is not None}
    world.queue.requeue([entries["4"], entries["1"]])
    world.queue.requeue([entries["5"]])
    world.queue.requeue([entries["0"]])
    assert world.queue.ready_count() == 6
    head = world.queue.get(True)
    assert head is not None
    assert body_of(head) == "0"
    # single requeues are merged with earlier ones: after them, between them, before them
    world.queue.requeue([entries["3"]])
    world.queue.check()
    one = world.queue.get(True)
    assert one is not None
    assert body_of(one) == "1"
    world.queue.requeue([entries["2"]])
    world.queue.check()
    assert world.take_all() == ["2", "3", "4", "5", "6", "7"]


def test_a_purge_removes_ready_messages_and_no_unacked_ones() -> None:
    world = World()
    world.publish("1", "2", "3")
    entry = world.queue.get(False)
    assert entry is not None
    assert world.queue.purge() == 2
    assert (world.queue.ready_count(), world.queue.unacked_count()) == (0, 1)
    world.queue.requeue([entry])
    assert world.take_all() == ["1"]


def test_a_purge_spares_messages_that_a_waiting_consumer_can_take() -> None:
    world = World()
    consumer = world.consumer()
    world.publish("1")
    assert world.queue.purge() == 0
    assert consumer.bodies() == ["1"]


def test_a_long_queue_stays_in_order_while_it_is_compacted() -> None:
    world = World()
    numbers = [str(number) for number in range(1000)]
    world.publish(*numbers)
    out = []
    for _ in range(500):
        entry = world.queue.get(True)
        assert entry is not None
        out.append(body_of(entry))
    world.publish("last")
    world.queue.check()
    assert out + world.take_all() == [*numbers, "last"]


def test_many_returned_entries_stay_in_order_while_they_are_compacted() -> None:
    world = World()
    numbers = [str(number) for number in range(500)]
    world.publish(*numbers)
    taken = [entry for _ in range(400) if (entry := world.queue.get(False)) is not None]
    world.queue.requeue(list(reversed(taken)))
    out = []
    for _ in range(300):
        entry = world.queue.get(True)
        assert entry is not None
        out.append(body_of(entry))
        world.queue.check()
    assert out + world.take_all() == numbers


@pytest.mark.parametrize(("priority", "level"), [(0, 0), (1, 1), (5, 5), (9, 5), (255, 5)])
def test_a_priority_above_the_maximum_is_the_maximum(priority: int, level: int) -> None:
    world = World({"x-max-priority": 5})
    world.publish("known", priority=level)
    world.publish("asked", priority=priority)
    world.publish("below", priority=level - 1 if level else 0)
    assert world.take_all() == ["known", "asked", "below"]


def test_higher_priorities_go_first_and_requeued_entries_keep_theirs() -> None:
    world = World({"x-max-priority": 10})
    for body, priority in (("low", 1), ("high", 7), ("none", 0), ("top", 10), ("high too", 7)):
        world.publish(body, priority=priority)
    top, high = world.queue.get(False), world.queue.get(False)
    assert top is not None
    assert high is not None
    world.queue.requeue([high])
    world.queue.check()
    assert world.take_all() == ["high", "high too", "low", "none"]
    world.queue.requeue([top])
    assert world.take_all() == ["top"]


def test_priorities_mean_nothing_to_a_queue_without_them() -> None:
    world = World()
    world.publish("1")
    world.publish("2", priority=9)
    assert world.take_all() == ["1", "2"]


def test_a_delivery_limit_counts_requeues_and_then_dead_letters() -> None:
    world = World({"x-delivery-limit": 2, "x-dead-letter-exchange": "dlx"})
    world.publish("1")
    for _ in range(3):
        assert world.dead() == []
        entry = world.queue.get(False)
        assert entry is not None
        world.queue.requeue([entry])
    assert world.dead() == [("1", "delivery_limit")]
    assert (world.queue.ready_count(), world.queue.unacked_count(), world.turn.held_bytes) == (0, 0, 0)


def test_a_delivery_limit_of_zero_allows_one_delivery() -> None:
    world = World({"x-delivery-limit": 0})
    world.publish("1")
    entry = world.queue.get(False)
    assert entry is not None
    world.queue.requeue([entry])
    assert world.take_all() == []


def test_a_rejected_entry_is_dead_lettered_with_the_queues_own_key() -> None:
    world = World({"x-dead-letter-exchange": "dlx", "x-dead-letter-routing-key": "k"})
    world.publish("1")
    entry = world.queue.get(False)
    assert entry is not None
    world.queue.reject(entry)
    (letter,) = world.turn.dead_letters
    assert (letter.queue, letter.entry, letter.reason) == (world.queue, entry, "rejected")
    assert (letter.exchange, letter.routing_key) == ("dlx", "k")
    assert (world.queue.unacked_count(), world.turn.held_bytes) == (0, 0)


def test_a_dead_letter_exchange_may_be_the_default_one_and_the_key_the_messages_own() -> None:
    world = World({"x-dead-letter-exchange": ""})
    world.publish("1")
    entry = world.queue.get(False)
    assert entry is not None
    world.queue.reject(entry)
    (letter,) = world.turn.dead_letters
    assert (letter.exchange, letter.routing_key) == ("", None)


def test_a_rejected_entry_of_a_queue_without_dead_letter_exchange_is_dropped() -> None:
    world = World()
    world.publish("1")
    entry = world.queue.get(False)
    assert entry is not None
    world.queue.reject(entry)
    assert (world.turn.dead_letters, world.queue.unacked_count(), world.turn.held_bytes) == ([], 0, 0)
