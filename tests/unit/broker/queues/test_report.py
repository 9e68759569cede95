"""The report of a queue's state."""

from tests.unit.broker.queues.scripted_log import ScriptedLog
from tests.unit.broker.queues.world import START_MS, World
from warren.broker.model.local_queue import QUEUE_BYTES
from warren.broker.model.message import Envelope, Message
from warren.wire.frames import content_frames
from warren.wire.properties import Properties, encode_header_payload


def paged_world() -> tuple[World, ScriptedLog]:
    log = ScriptedLog()
    world = World({"x-queue-mode": "lazy"}, log=log)
    return world, log


def test_an_empty_queue_reports_zeros() -> None:
    report = World().queue.report()
    assert (report.ready, report.unacked, report.paged, report.persistent, report.in_memory) == (0, 0, 0, 0, 0)
    assert (report.state, report.memory_bytes, report.capacity) == ("running", QUEUE_BYTES, 0.0)
    assert report.head_timestamp() is None


def test_ready_and_unacked_are_counted_separately() -> None:
    world = World()
    world.publish("12", "345")
    world.consumer(credit=1)
    world.end_turn()
    report = world.queue.report()
    assert (report.ready, report.ready_bytes, report.unacked, report.unacked_bytes) == (1, 3, 1, 2)
    assert (report.in_memory, report.in_memory_bytes) == (2, 5)
    assert report.memory_bytes > QUEUE_BYTES + 5


def test_entries_on_disk_only_take_hardly_any_memory() -> None:
    world, _ = paged_world()
    world.publish(*["m" * 1000] * 100)
    report = world.queue.report()
    assert (report.ready, report.paged, report.paged_bytes) == (100, 100, 100_000)
    assert (report.in_memory, report.in_memory_bytes) == (0, 0)
    assert report.memory_bytes < QUEUE_BYTES + 10_000


def test_entries_read_from_disk_are_in_memory_and_counted() -> None:
    world, log = paged_world()
    world.publish("1", "2", "3")
    world.consumer(credit=1)
    world.end_turn()
    log.answer()
    world.end_turn()
    report = world.queue.report()
    assert (report.ready, report.unacked, report.paged) == (2, 1, 0)
    assert world.queue.stats.disk_reads == 3


def test_a_queue_with_damaged_files_is_stopped() -> None:
    world, _ = paged_world()
    world.queue.stop("damaged")
    assert world.queue.report().state == "stopped"


def test_the_timestamp_is_that_of_the_next_message() -> None:
    world = World()
    for properties in (Properties(timestamp=1_600_000_000), Properties()):
        content = content_frames(encode_header_payload(properties, 1), b"m", 1, 4096)
        world.queue.publish(Message(Envelope("", "q"), content, 1, 1, 4096))
    assert world.queue.report().head_timestamp() == 1_600_000_000
    assert world.queue.get(True) is not None
    assert world.queue.report().head_timestamp() is None


def test_refused_messages_count_as_published_and_uncounted_ones_do_not() -> None:
    world = World({"x-max-length": 1, "x-overflow": "reject-publish"})
    world.publish("1", "2", "3")
    assert world.queue.stats.published == 3
    world.queue.uncounted += 1
    assert world.queue.stats.published == 2


# -- consumer capacity


def test_a_queue_whose_consumers_take_everything_at_once_has_full_capacity() -> None:
    world = World()
    world.consumer()
    world.publish("1")
    world.end_turn()
    world.pass_ms(60_000)
    assert world.queue.report().capacity == 1.0


def test_capacity_falls_while_consumers_are_behind_and_rises_when_they_caught_up() -> None:
    world = World()
    consumer = world.consumer(credit=1)
    world.publish("1", "2")
    world.end_turn()
    world.pass_ms(1000)
    half = world.queue.report().capacity
    world.pass_ms(9000)
    behind = world.queue.report().capacity
    assert 0.4 < half < 0.6
    assert behind < 0.1
    consumer.credit = 10
    world.queue.wake()
    world.end_turn()
    assert world.queue.report().capacity == behind
    world.pass_ms(10_000)
    assert world.queue.report().capacity > 0.9


def test_waiting_for_the_disk_does_not_lower_the_capacity() -> None:
    world, _ = paged_world()
    world.publish("1")
    world.consumer()
    world.end_turn()
    world.pass_ms(10_000)
    assert world.queue.report().capacity == 1.0


def test_without_consumers_the_capacity_is_zero() -> None:
    world = World()
    world.publish("1")
    world.end_turn()
    assert world.queue.report().capacity == 0.0


def test_a_queue_reports_when_the_last_message_arrived() -> None:
    world = World()
    world.pass_ms(500)
    world.publish("1")
    world.pass_ms(500)
    assert world.queue.report().used_at_ms == START_MS + 500
