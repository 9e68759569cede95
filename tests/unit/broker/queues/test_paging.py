"""Messages that are on disk only: which ones, and how they return to memory in order."""

import pytest

from tests.unit.broker.queues.scripted_log import SEGMENT_ENTRIES, ScriptedLog
from tests.unit.broker.queues.world import Waiter, World
from warren.broker.model.ports import PENDING, SETTLED
from warren.wire.field_tables import Table

LAZY: Table = {"x-queue-mode": "lazy"}
DLX: Table = {"x-dead-letter-exchange": "dlx"}
COST_BYTES = 257
"""The memory of a message of one octet."""


def world_of(arguments: Table | None = None, durable: bool = True, prompt: bool = False) -> tuple[World, ScriptedLog]:
    log = ScriptedLog(durable, prompt)
    return World(arguments, log=log), log


def tight_world(arguments: Table | None = None, prompt: bool = False) -> tuple[World, ScriptedLog]:
    world, log = world_of(arguments, prompt=prompt)
    world.turn.memory_low = True
    return world, log


# -- which messages are paged


def test_nothing_is_paged_while_memory_is_free() -> None:
    world, log = world_of()
    world.publish("1", "2")
    assert (log.positions(), world.turn.held_bytes) == ([], 2 * COST_BYTES)


def test_messages_that_arrive_when_memory_is_short_are_on_disk_only() -> None:
    world, log = tight_world()
    assert world.publish("1", "23") == [SETTLED, SETTLED]
    assert world.publish("4", persistent=True) == [PENDING]
    assert log.positions() == [1, 2, 3]
    assert (world.queue.ready_count(), world.queue.ready_bytes(), world.turn.held_bytes) == (3, 4, 0)


def test_a_lazy_queue_pages_while_memory_is_free() -> None:
    world, log = world_of(LAZY)
    world.publish("1")
    assert (log.positions(), world.turn.held_bytes) == ([1], 0)


def test_the_default_mode_is_not_lazy() -> None:
    world, log = world_of({"x-queue-mode": "default"})
    world.publish("1")
    assert log.positions() == []


def test_a_queue_without_a_log_ignores_lazy_mode() -> None:
    world = World(LAZY)
    world.turn.memory_low = True
    world.publish("1", "2")
    assert world.queue.can_get()
    assert world.take_all() == ["1", "2"]


def test_messages_after_a_paged_one_are_paged_until_the_disk_is_read() -> None:
    world, log = tight_world()
    world.publish("1")
    world.turn.memory_low = False
    world.publish("2")
    assert log.positions() == [1, 2]
    assert not world.queue.can_get()
    log.answer()
    # transient messages are in memory again, and there is nothing left to be behind
    world.publish("3")
    assert log.positions() == []
    assert world.take_all() == ["1", "2", "3"]


def test_only_the_level_with_a_backlog_pages() -> None:
    world, log = tight_world({"x-max-priority": 5})
    world.publish("low")
    world.turn.memory_low = False
    world.publish("high", priority=5)
    world.publish("later")
    assert log.positions() == [1, 3]


def test_an_able_consumer_gets_its_messages_without_the_disk() -> None:
    world, log = tight_world(LAZY)
    consumer = world.consumer()
    world.publish("1", "2", "3")
    world.end_turn()
    assert (consumer.bodies(), log.positions()) == (["1", "2", "3"], [])


def test_messages_that_no_consumer_can_take_are_paged() -> None:
    world, log = tight_world()
    consumer = world.consumer(credit=2)
    world.publish("1", "2", "3", "4", "5")
    world.end_turn()
    assert consumer.bodies() == ["1", "2"]
    # a single message stays in memory, because it may be delivered at once
    assert log.positions() == [4, 5]


# -- paging in


def test_paged_in_entries_count_as_memory() -> None:
    world, log = tight_world()
    world.publish("1", "2", "3", "4")
    assert not world.queue.can_get()
    assert log.answer() == [1, 2, 3]
    world.end_turn()
    assert (world.queue.ready_count(), world.turn.held_bytes) == (4, 3 * COST_BYTES)


def test_a_consumer_gets_everything_in_order_across_segments() -> None:
    world, log = tight_world()
    bodies = [f"{number:02}" for number in range(3 * SEGMENT_ENTRIES + 1)]
    world.publish(*bodies)
    consumer = world.consumer()
    world.end_turn()
    while log.fetching is not None:
        log.answer()
        world.end_turn()
    assert consumer.bodies() == bodies
    assert world.queue.ready_count() == 0


def test_entries_that_are_read_within_the_call_are_delivered_at_once() -> None:
    world, log = tight_world(prompt=True)
    world.publish(*"123456789")
    consumer = world.consumer(no_ack=True)
    world.end_turn()
    assert consumer.bodies() == list("123456789")
    assert (log.positions(), log.live_count(), world.turn.held_bytes) == ([], 0, 0)


def test_entries_in_memory_go_before_those_on_disk() -> None:
    world, log = world_of()
    world.publish("1", "2")
    world.turn.memory_low = True
    world.publish("3", "4")
    consumer = world.consumer(credit=1)
    world.end_turn()
    log.answer()
    world.queue.requeue(consumer.entries)
    assert world.take_all() == ["1", "2", "3", "4"]


def test_there_is_one_fetch_at_a_time() -> None:
    world, log = tight_world()
    world.publish(*"123456")
    consumer = world.consumer()
    for _ in range(3):
        world.queue.wake()
        world.end_turn()
        assert not world.queue.can_get()
    assert log.fetches == 1
    log.answer()
    world.end_turn()
    assert (log.fetches, consumer.bodies()) == (2, ["1", "2", "3"])


def test_nothing_is_read_without_a_consumer() -> None:
    world, log = tight_world()
    world.publish("1")
    idle = [world.consumer(tag, credit=0) for tag in "12"]
    world.queue.wake()
    world.end_turn()
    assert log.fetches == 0
    idle[1].credit = 1
    world.queue.wake()
    world.end_turn()
    assert log.fetches == 1


def test_the_queue_reads_ahead() -> None:
    world, log = tight_world()
    log.batch_entries = 4
    world.publish(*(f"{number:02}" for number in range(5 * SEGMENT_ENTRIES)))
    consumer = world.consumer(credit=1)
    world.end_turn()
    log.answer()
    world.end_turn()
    assert (len(consumer.entries), log.fetching) == (1, None)
    for credit in (1, 1):
        consumer.credit = credit
        world.queue.wake()
        world.end_turn()
    # two of four are left
    assert log.fetching is not None
    log.answer()
    world.end_turn()
    # six are there: that is enough
    assert (log.fetches, log.fetching) == (2, None)


def test_a_large_entry_is_read_ahead_alone() -> None:
    world, log = tight_world()
    log.batch_entries = 1
    world.publish("1", "2", "3")
    consumer = world.consumer(credit=1)
    world.end_turn()
    log.answer()
    world.end_turn()
    log.answer()
    consumer.credit = 1
    world.queue.wake()
    world.end_turn()
    assert consumer.bodies() == ["1", "2"]


# -- basic.get


def test_a_get_waits_for_its_entry() -> None:
    world, log = tight_world()
    world.publish("1")
    assert not world.queue.can_get()
    waiter = Waiter()
    world.queue.await_entry(waiter)
    assert (log.fetches, world.turn.inputs) == (1, [])
    log.answer()
    assert world.turn.inputs == [waiter]
    assert world.take_all() == ["1"]
    assert world.queue.can_get()


def test_a_waiter_is_woken_once() -> None:
    world, log = tight_world()
    log.batch_entries = 1
    world.publish("1", "2")
    assert not world.queue.can_get()
    world.queue.await_entry(Waiter())
    log.answer()
    assert world.queue.can_get()
    log.answer()
    assert len(world.turn.inputs) == 1


@pytest.mark.parametrize("end", ["purge", "close", "stop"])
def test_a_waiter_is_woken_when_the_queue_becomes_empty(end: str) -> None:
    world, _ = tight_world()
    world.publish("1")
    assert not world.queue.can_get()
    waiter = Waiter()
    world.queue.await_entry(waiter)
    if end == "purge":
        world.queue.purge()
    elif end == "close":
        world.queue.close()
    else:
        world.queue.stop("damaged")
    assert world.turn.inputs == [waiter]


# -- purging


def test_a_purge_removes_entries_in_memory_on_disk_and_in_a_fetch() -> None:
    world, log = world_of()
    world.publish("1", persistent=True)
    world.turn.memory_low = True
    world.publish(*"2345678")
    assert world.queue.can_get()
    assert log.fetching is not None
    assert world.queue.purge() == 8
    assert (log.positions(), log.live_count(), log.cancelled) == ([], 0, 1)
    assert (world.queue.ready_count(), world.queue.ready_bytes(), world.turn.held_bytes) == (0, 0, 0)
    world.queue.check()
    world.publish("9")
    assert not world.queue.can_get()
    log.answer()
    assert world.take_all() == ["9"]


def test_a_deleted_queue_ignores_fetched_entries() -> None:
    world, log = tight_world()
    world.publish("1")
    world.consumer()
    world.end_turn()
    world.queue.close()
    assert (log.fetching, log.cancelled, log.closed) == (None, 0, True)
    world.queue.paged_in([])
    world.end_turn()
    assert (world.queue.ready_count(), world.turn.held_bytes, world.turn.effects) == (0, 0, [])


# -- priorities


def test_the_highest_level_goes_next_even_if_it_is_on_disk() -> None:
    world, log = world_of({"x-max-priority": 5})
    world.publish("low")
    world.turn.memory_low = True
    world.publish("high", priority=5)
    consumer = world.consumer()
    world.end_turn()
    assert consumer.bodies() == []
    log.answer()
    world.end_turn()
    assert consumer.bodies() == ["high", "low"]


def test_levels_are_paged_in_one_after_another() -> None:
    world, log = tight_world({"x-max-priority": 2})
    for number in range(9):
        world.publish(f"{number}", priority=number % 3)
    log.prompt = True
    consumer = world.consumer(no_ack=True)
    world.end_turn()
    assert consumer.bodies() == list("258147036")
    assert log.positions() == []


# -- limits and deadlines


def test_a_head_on_disk_is_dropped_after_it_is_read() -> None:
    world, log = tight_world({"x-max-length": 2, **DLX})
    world.publish("1", "2", "3", "4")
    assert (world.queue.ready_count(), world.dead()) == (4, [])
    log.answer()
    world.end_turn()
    assert world.queue.ready_count() == 2
    assert world.dead() == [("1", "maxlen"), ("2", "maxlen")]


def test_a_limit_may_take_several_reads() -> None:
    world, log = tight_world({"x-max-length": 1})
    log.batch_entries = 1
    world.publish("1", "2", "3", "4")
    while log.fetching is not None:
        log.answer()
        world.end_turn()
    # one more is in memory, as the next one to drop
    assert (world.queue.ready_count(), log.positions()) == (1, [])


def test_a_head_on_disk_is_read_to_expire() -> None:
    world, log = tight_world(DLX)
    world.publish("1", expiration_ms=5)
    world.publish("2")
    world.end_turn()
    assert log.fetches == 1
    log.answer()
    world.end_turn()
    world.pass_ms(5)
    assert world.dead() == [("1", "expired")]
    assert (world.queue.ready_count(), log.fetches) == (1, 1)


def test_a_head_that_is_read_late_expires_late() -> None:
    world, log = tight_world(DLX)
    world.publish("1", "2", expiration_ms=5)
    consumer = world.consumer()
    world.end_turn()
    world.pass_ms(20)
    log.answer()
    world.end_turn()
    assert world.dead() == [("1", "expired"), ("2", "expired")]
    assert (consumer.bodies(), world.queue.ready_count()) == ([], 0)


def test_every_level_that_may_have_a_deadline_is_read() -> None:
    world, log = tight_world({"x-max-priority": 2, **DLX})
    for priority in (0, 1, 2):
        world.publish(f"{priority}", priority=priority, expiration_ms=5)
    world.end_turn()
    while log.fetching is not None:
        log.answer()
        world.end_turn()
    world.pass_ms(5)
    assert world.dead() == [("2", "expired"), ("1", "expired"), ("0", "expired")]


def test_a_range_without_deadlines_is_not_read_for_them() -> None:
    world, log = tight_world()
    for _ in range(SEGMENT_ENTRIES):
        world.publish("1")
    world.publish("2", expiration_ms=5)
    world.end_turn()
    world.pass_ms(10)
    assert log.fetches == 0


def test_a_get_does_not_return_an_entry_that_expired_on_disk() -> None:
    world, log = tight_world(DLX)
    log.batch_entries = 1
    world.publish("1", "2", expiration_ms=5)
    world.publish("3")
    world.turn.now_ms += 10
    log.prompt = True
    assert world.take_all() == ["3"]
    assert world.dead() == [("1", "expired"), ("2", "expired")]
