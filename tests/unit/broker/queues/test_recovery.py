"""A queue after a restart, with all messages on disk; and the checks that compare counters with the disk."""

import pytest

from tests.unit.broker.queues.scripted_log import ScriptedLog
from tests.unit.broker.queues.world import World
from warren.errors import InvariantBroken
from warren.wire.field_tables import Table

DLX: Table = {"x-dead-letter-exchange": "dlx"}
TEN_YEARS_MS = 10 * 365 * 24 * 3_600_000


def world_of(arguments: Table | None = None) -> tuple[World, ScriptedLog]:
    log = ScriptedLog()
    return World(arguments, log=log), log


def test_after_a_restart_everything_is_on_disk() -> None:
    world, log = world_of({"x-max-priority": 2})
    for number in range(9):
        world.publish(f"{number}", priority=number % 3, persistent=True)
    found = log.restart()
    after = World({"x-max-priority": 2}, log=found)
    after.queue.recover(found.position_ranges(), 20)
    after.queue.check()
    assert (after.queue.ready_count(), after.queue.ready_bytes(), after.turn.held_bytes) == (9, 9, 0)
    after.publish("9", priority=2, persistent=True)
    assert found.positions() == [*range(1, 10), 20]
    found.prompt = True
    assert after.take_all() == list("2589147036")


def test_deadlines_survive_a_restart() -> None:
    world, log = world_of()
    world.publish("1", expiration_ms=5, persistent=True)
    found = log.restart()
    after = World(DLX, log=found)
    after.queue.recover(found.position_ranges(), 2)
    found.prompt = True
    after.end_turn()
    after.pass_ms(5)
    assert after.dead() == [("1", "expired")]


@pytest.mark.parametrize("arguments", [DLX, {"x-message-ttl": 9, **DLX}], ids=["own expiration", "TTL of the queue"])
def test_a_clock_that_was_set_back_keeps_no_message_for_years(arguments: Table) -> None:
    world, log = world_of(arguments)
    world.turn.now_ms += TEN_YEARS_MS
    world.publish("1", **({} if "x-message-ttl" in arguments else {"expiration_ms": 9}), persistent=True)
    found = log.restart()
    after = World(arguments, log=found)
    after.queue.recover(found.position_ranges(), 2)
    found.prompt = True
    after.end_turn()
    after.pass_ms(8)
    assert after.dead() == []
    after.pass_ms(1)
    assert after.dead() == [("1", "expired")]


def test_delivery_counts_survive_a_restart() -> None:
    limited: Table = {"x-delivery-limit": 1, **DLX}
    world, log = world_of(limited)
    world.publish("1", persistent=True)
    entry = world.queue.get(False)
    assert entry is not None
    world.queue.requeue([entry])
    found = log.restart()
    found.prompt = True
    after = World(limited, log=found)
    after.queue.recover(found.position_ranges(), 2)
    assert after.queue.can_get()
    again = after.queue.get(False)
    assert again is not None
    after.queue.requeue([again])
    assert after.dead() == [("1", "delivery_limit")]


def test_estimated_bytes_are_corrected_when_all_is_read() -> None:
    world, log = world_of()
    world.publish("123", "4", persistent=True)
    found = log.restart()
    ranges = found.position_ranges()
    ranges[0].body_bytes = 11
    after = World(log=found)
    after.queue.recover(ranges, 3)
    assert after.queue.ready_bytes() == 11
    found.prompt = True
    assert after.queue.can_get()
    assert after.queue.ready_bytes() == 4
    after.queue.check()


# -- the checks


def test_counters_that_contradict_the_disk_fail_the_check() -> None:
    world, log = world_of()
    world.publish("1", "2", persistent=True)
    found = log.restart()
    ranges = found.position_ranges()
    after = World(log=found)
    after.queue.recover(ranges, 3)
    ranges[0].count = 1
    with pytest.raises(InvariantBroken):
        after.queue.check()


def test_ranges_out_of_order_fail_the_check() -> None:
    world, log = world_of()
    world.publish(*"12345", persistent=True)
    found = log.restart()
    ranges = found.position_ranges()
    after = World(log=found)
    after.queue.recover(ranges, 6)
    ranges[1].first = ranges[0].first
    with pytest.raises(InvariantBroken):
        after.queue.check()
