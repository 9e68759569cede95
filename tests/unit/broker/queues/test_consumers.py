"""Which consumer gets the next message, and which consumer may subscribe."""

import pytest

from tests.unit.broker.queues.world import ScriptedConsumer, World
from warren.errors import ACCESS_REFUSED, ChannelFault

IN_EXCLUSIVE_USE = "queue 'q' in vhost '/' in exclusive use"


def test_a_queue_is_drained_once_a_turn_for_any_number_of_messages() -> None:
    world = World()
    consumer = world.consumer()
    world.publish("1", "2", "3")
    assert world.turn.drains == [world.queue]
    assert consumer.entries == []
    world.end_turn()
    assert consumer.bodies() == ["1", "2", "3"]


def test_a_queue_without_work_requests_no_drain() -> None:
    world = World()
    world.publish("1")
    assert world.turn.drains == []
    world.take_all()
    world.consumer()
    world.queue.wake()
    assert world.turn.drains == []


def test_a_consumer_gets_no_more_than_it_is_able_to_take() -> None:
    world = World()
    world.publish("1", "2", "3")
    consumer = world.consumer(credit=2)
    world.end_turn()
    assert consumer.bodies() == ["1", "2"]
    assert (world.queue.ready_count(), world.queue.unacked_count()) == (1, 2)


def test_an_ack_lets_the_consumer_take_more() -> None:
    world = World()
    world.publish("1", "2")
    consumer = world.consumer(credit=1)
    world.end_turn()
    consumer.credit = 1
    world.queue.ack(consumer.entries[0])
    world.end_turn()
    assert consumer.bodies() == ["1", "2"]


def test_a_consumer_without_acks_leaves_nothing_unacked() -> None:
    world = World()
    world.publish("1")
    world.consumer(no_ack=True)
    world.end_turn()
    assert (world.queue.ready_count(), world.queue.unacked_count(), world.turn.held_bytes) == (0, 0, 0)


def test_consumers_take_turns() -> None:
    world = World()
    first, second, third = world.consumer("1"), world.consumer("2"), world.consumer("3")
    world.publish("a", "b", "c", "d")
    world.end_turn()
    world.publish("e")
    world.end_turn()
    assert [first.bodies(), second.bodies(), third.bodies()] == [["a", "d"], ["b", "e"], ["c"]]


def test_a_consumer_that_is_not_able_is_passed_over() -> None:
    world = World()
    first, second = world.consumer("1", credit=1), world.consumer("2")
    world.publish("a", "b", "c", "d")
    world.end_turn()
    assert [first.bodies(), second.bodies()] == [["a"], ["b", "c", "d"]]


def test_higher_priorities_are_served_first_while_they_are_able() -> None:
    world = World()
    low = world.consumer("low", priority=-1)
    plain = world.consumer("plain", credit=1)
    high = world.consumer("high", credit=2, priority=10)
    high_too = world.consumer("high too", credit=1, priority=10)
    world.publish("a", "b", "c", "d", "e")
    world.end_turn()
    assert [high.bodies(), high_too.bodies(), plain.bodies(), low.bodies()] == [["a", "c"], ["b"], ["d"], ["e"]]


def test_the_round_robin_continues_when_a_consumer_is_removed() -> None:
    world = World()
    first, second, third = world.consumer("1"), world.consumer("2"), world.consumer("3")
    world.publish("a", "b")
    world.end_turn()
    world.queue.remove_consumer(first)
    world.publish("c", "d")
    world.end_turn()
    assert [second.bodies(), third.bodies()] == [["b", "d"], ["c"]]


def test_the_last_consumer_of_a_priority_removes_its_level() -> None:
    world = World()
    high, low = world.consumer("high", priority=1), world.consumer("low")
    lower = world.consumer("lower", priority=-1)
    world.queue.remove_consumer(high)
    world.queue.check()
    world.publish("a")
    world.end_turn()
    assert [low.bodies(), lower.bodies()] == [["a"], []]


def test_a_delivery_that_cancels_its_consumer_is_its_last() -> None:
    world = World()

    class Quitter(ScriptedConsumer):
        def deliver(self, entry: object) -> None:
            world.queue.remove_consumer(self)

    world.queue.add_consumer(Quitter("quitter"))
    world.publish("1", "2")
    world.end_turn()
    assert world.take_all() == ["2"]


def test_an_exclusive_consumer_keeps_others_out() -> None:
    world = World()
    exclusive = world.consumer("1", exclusive=True)
    assert world.queue.has_exclusive_consumer()
    for wish in (False, True):
        with pytest.raises(ChannelFault) as refusal:
            world.consumer("2", exclusive=wish)
        assert (refusal.value.code, refusal.value.text) == (ACCESS_REFUSED, IN_EXCLUSIVE_USE)
    world.queue.remove_consumer(exclusive)
    world.consumer("2")
    assert not world.queue.has_exclusive_consumer()


def test_an_exclusive_consumer_cannot_join_others() -> None:
    world = World()
    world.consumer("1")
    with pytest.raises(ChannelFault, match=IN_EXCLUSIVE_USE):
        world.consumer("2", exclusive=True)
    assert world.queue.consumer_count() == 1


def test_a_get_needs_no_subscription_even_where_one_is_exclusive() -> None:
    world = World()
    world.consumer(exclusive=True, credit=0)
    world.publish("1")
    assert world.take_all() == ["1"]


def test_only_the_first_of_single_active_consumers_is_served_regardless_of_priorities() -> None:
    world = World({"x-single-active-consumer": True})
    first, second = world.consumer("1", credit=1), world.consumer("2", priority=10)
    world.publish("a", "b")
    world.end_turn()
    assert [first.bodies(), second.bodies()] == [["a"], []]
    assert world.queue.consumers() == [(first, True), (second, False)]


def test_the_next_single_active_consumer_in_order_follows_the_one_that_leaves() -> None:
    world = World({"x-single-active-consumer": True})
    first, second, third = world.consumer("1", credit=0), world.consumer("2"), world.consumer("3")
    world.publish("a")
    world.end_turn()
    world.queue.remove_consumer(first)
    world.end_turn()
    assert [second.bodies(), third.bodies()] == [["a"], []]
    assert world.queue.consumers() == [(second, True), (third, False)]
    world.queue.remove_consumer(third)
    world.publish("b")
    world.end_turn()
    assert second.bodies() == ["a", "b"]


def test_a_single_active_consumer_cannot_be_exclusive() -> None:
    world = World({"x-single-active-consumer": True})
    with pytest.raises(ChannelFault, match=IN_EXCLUSIVE_USE):
        world.consumer(exclusive=True)


def test_all_consumers_are_active_where_many_may_be() -> None:
    world = World()
    first, second = world.consumer("1"), world.consumer("2")
    assert world.queue.consumers() == [(first, True), (second, True)]
    assert world.queue.consumer_count() == 2


def test_an_auto_delete_queue_is_unused_when_its_last_consumer_leaves() -> None:
    world = World(auto_delete=True)
    first, second = world.consumer("1"), world.consumer("2")
    world.queue.remove_consumer(first)
    assert world.owner.unused == []
    world.queue.remove_consumer(second)
    assert world.owner.unused == [world.queue]


def test_a_consumer_that_is_not_there_cannot_leave() -> None:
    world = World(auto_delete=True)
    world.queue.remove_consumer(ScriptedConsumer())
    assert world.owner.unused == []


def test_other_queues_outlive_their_consumers() -> None:
    world = World()
    world.queue.remove_consumer(world.consumer())
    assert world.owner.unused == []
