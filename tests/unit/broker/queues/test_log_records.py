"""The entries that a queue writes to its log, and when it removes them."""

import pytest

from tests.unit.broker.queues.scripted_log import ScriptedLog
from tests.unit.broker.queues.world import Waiter, World
from warren.broker.model.message import Entry
from warren.broker.model.ports import PENDING, REJECTED, SETTLED
from warren.wire.field_tables import Table

DLX: Table = {"x-dead-letter-exchange": "dlx"}


def world_of(arguments: Table | None = None, durable: bool = True) -> tuple[World, ScriptedLog]:
    log = ScriptedLog(durable)
    return World(arguments, log=log), log


def taken(world: World, no_ack: bool = False) -> Entry:
    assert world.queue.can_get()
    entry = world.queue.get(no_ack)
    assert entry is not None
    return entry


# -- storing


def test_a_persistent_message_in_a_durable_queue_is_stored_and_pending() -> None:
    world, log = world_of()
    assert world.publish("1", persistent=True) == [PENDING]
    assert log.positions() == [1]
    assert log.stored[1].expires_at_ms == 0
    entry = taken(world)
    assert entry.extent is log.stored[1].extent


@pytest.mark.parametrize(("durable", "persistent"), [(True, False), (False, True), (False, False)])
def test_other_messages_stay_in_memory_and_are_settled_at_once(durable: bool, persistent: bool) -> None:
    world, log = world_of(durable=durable)
    assert world.publish("1", persistent=persistent) == [SETTLED]
    assert log.positions() == []
    assert taken(world).extent is None


def test_stored_and_other_messages_share_the_positions_of_their_queue() -> None:
    world, log = world_of()
    world.publish("1", persistent=True)
    world.publish("2")
    world.publish("3", persistent=True)
    assert log.positions() == [1, 3]


def test_the_deadline_and_the_level_are_stored() -> None:
    world, log = world_of({"x-message-ttl": 50, "x-max-priority": 3})
    world.publish("1", priority=9, persistent=True)
    world.publish("2", priority=2, persistent=True)
    assert [(stored.level, stored.expires_at_ms - int(world.turn.now_ms)) for stored in log.stored.values()] == [
        (3, 50),
        (2, 50),
    ]


def test_a_refused_message_is_not_stored() -> None:
    world, log = world_of({"x-max-length": 1, "x-overflow": "reject-publish"})
    assert world.publish("1", "2", persistent=True) == [PENDING, REJECTED]
    assert log.positions() == [1]


# -- removing


def test_an_acked_entry_is_removed_from_the_log() -> None:
    world, log = world_of()
    world.publish("1", "2", persistent=True)
    entry = taken(world)
    assert log.positions() == [1, 2]
    world.queue.ack(entry)
    assert (log.positions(), log.live_count()) == ([2], 1)


def test_an_entry_delivered_without_ack_is_removed_from_the_log_at_once() -> None:
    world, log = world_of()
    world.publish("1", "2", persistent=True)
    taken(world, no_ack=True)
    assert log.positions() == [2]
    world.consumer(no_ack=True)
    world.end_turn()
    assert log.positions() == []


def test_a_consumer_that_acks_leaves_its_deliveries_on_disk() -> None:
    world, log = world_of()
    consumer = world.consumer()
    world.publish("1", persistent=True)
    world.end_turn()
    assert (consumer.bodies(), log.positions()) == (["1"], [1])


def test_a_purge_removes_ready_entries_from_the_log_and_not_unacked_ones() -> None:
    world, log = world_of()
    world.publish("1", "2", "3", persistent=True)
    entry = taken(world)
    assert world.queue.purge() == 2
    assert log.positions() == [1]
    world.queue.requeue([entry])
    assert world.queue.purge() == 1
    assert log.positions() == []


def test_a_dropped_message_is_removed_from_the_log_at_once() -> None:
    world, log = world_of({"x-max-length": 2, "x-message-ttl": 10, "x-delivery-limit": 0})
    world.publish("1", "2", "3", persistent=True)
    assert log.positions() == [2, 3]
    world.queue.reject(taken(world))
    assert log.positions() == [3]
    world.queue.requeue([taken(world)])
    assert log.positions() == []
    world.publish("4", persistent=True)
    world.end_turn()
    world.pass_ms(10)
    assert (log.positions(), world.queue.ready_count()) == ([], 0)


def test_a_dead_letter_leaves_the_queue_at_once_and_the_log_when_it_is_published() -> None:
    world, log = world_of({"x-max-length": 3, "x-message-ttl": 10, "x-delivery-limit": 0, **DLX})
    world.publish("1", "2", "3", "4", persistent=True)
    world.queue.reject(taken(world))
    world.queue.requeue([taken(world)])
    world.end_turn()
    world.pass_ms(10)
    reasons = ["maxlen", "rejected", "delivery_limit", "expired"]
    assert world.dead() == list(zip("1234", reasons, strict=True))
    assert (world.queue.ready_count(), world.queue.unacked_count(), world.turn.held_bytes) == (0, 0, 0)
    assert log.positions() == [1, 2, 3, 4]
    for letter in world.turn.dead_letters:
        letter.queue.dead_letter_published(letter.entry)
    assert log.positions() == []


def test_a_refused_message_that_is_dead_lettered_was_never_in_the_log() -> None:
    world, log = world_of({"x-max-length": 0, "x-overflow": "reject-publish-dlx", **DLX})
    assert world.publish("1", persistent=True) == [REJECTED]
    (letter,) = world.turn.dead_letters
    world.queue.dead_letter_published(letter.entry)
    assert log.positions() == []


def test_a_deleted_queue_only_closes_its_log() -> None:
    world, log = world_of(DLX)
    world.publish("1", "2", "3", persistent=True)
    unacked, rejected = taken(world), taken(world)
    world.queue.reject(rejected)
    world.queue.close()
    world.queue.ack(unacked)
    world.queue.dead_letter_published(rejected)
    assert (log.closed, log.positions()) == (True, [1, 2, 3])


def test_delivery_counts_are_logged_for_a_queue_with_a_delivery_limit() -> None:
    world, log = world_of({"x-delivery-limit": 2})
    world.publish("1", persistent=True)
    world.publish("2")
    world.queue.requeue([taken(world), taken(world)])
    world.queue.requeue([taken(world)])
    assert log.returns == [(1, 1), (1, 2)]


def test_delivery_counts_are_not_logged_without_a_limit() -> None:
    world, log = world_of()
    world.publish("1", persistent=True)
    world.queue.requeue([taken(world)])
    assert log.returns == []


# -- permission to deliver


def test_nothing_is_delivered_without_the_logs_permission() -> None:
    world, log = world_of()
    log.deliverable_to = 1
    consumer = world.consumer()
    world.publish("1", "2", "3", persistent=True)
    world.end_turn()
    assert (consumer.bodies(), log.delivery_marks) == (["1"], [1, 2])
    # after a refusal, permission is not requested again until it is given
    world.publish("4")
    world.end_turn()
    assert (consumer.bodies(), log.delivery_marks) == (["1"], [1, 2])
    log.allow_delivery()
    world.end_turn()
    assert consumer.bodies() == ["1", "2", "3", "4"]


def test_consumers_that_take_turns_wait_for_permission() -> None:
    world, log = world_of()
    log.deliverable_to = 0
    first, second = world.consumer("1"), world.consumer("2")
    world.publish("1", "2", persistent=True)
    world.end_turn()
    assert first.bodies() + second.bodies() == []
    log.allow_delivery()
    world.end_turn()
    assert (first.bodies(), second.bodies()) == (["1"], ["2"])


def test_permission_is_not_requested_without_an_able_consumer() -> None:
    world, log = world_of()
    consumers = [world.consumer(tag, credit=0) for tag in "12"]
    world.publish("1", persistent=True)
    world.end_turn()
    assert log.delivery_marks == []
    consumers[0].credit = 1
    world.queue.wake()
    world.end_turn()
    assert log.delivery_marks == [1]


def test_permission_is_requested_for_durable_entries_only() -> None:
    world, log = world_of(durable=False)
    world.turn.memory_low = True
    world.publish("1", "2", persistent=True)
    log.prompt = True
    assert world.take_all() == ["1", "2"]
    assert log.delivery_marks == []


def test_a_get_waits_for_permission() -> None:
    world, log = world_of()
    log.deliverable_to = 0
    world.publish("1", persistent=True)
    assert not world.queue.can_get()
    waiter = Waiter()
    world.queue.await_entry(waiter)
    assert world.turn.inputs == []
    log.allow_delivery()
    assert world.turn.inputs == [waiter]
    assert world.take_all() == ["1"]


def test_a_purge_ends_the_wait_for_permission() -> None:
    world, log = world_of()
    log.deliverable_to = 0
    world.publish("1", persistent=True)
    assert not world.queue.can_get()
    waiter = Waiter()
    world.queue.await_entry(waiter)
    world.queue.purge()
    assert world.turn.inputs == [waiter]
    log.deliverable_to = None
    world.publish("2", persistent=True)
    assert world.take_all() == ["2"]
