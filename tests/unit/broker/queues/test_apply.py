"""Queues that get other settings while they are in use, also with messages on disk."""

from tests.unit.broker.queues.scripted_log import ScriptedLog
from tests.unit.broker.queues.world import World
from warren.broker.model.ports import REJECTED, SETTLED
from warren.broker.queues.settings import REJECT_PUBLISH, QueueSettings


def test_heads_on_disk_are_dropped_after_they_are_read() -> None:
    log = ScriptedLog()
    world = World({"x-queue-mode": "lazy"}, log=log)
    world.publish("1", "2", "3", "4", "5")
    world.queue.apply(QueueSettings(max_length=1, dead_letter_exchange="dlx", lazy=True))
    assert world.queue.ready_count() == 5
    while log.fetching is not None:
        log.answer()
        world.end_turn()
    assert world.dead() == [(body, "maxlen") for body in "1234"]
    assert world.queue.ready_count() == 1


def test_a_limit_removed_before_the_read_completes_drops_nothing() -> None:
    log = ScriptedLog()
    world = World({"x-queue-mode": "lazy"}, log=log)
    world.publish("1", "2", "3")
    world.queue.apply(QueueSettings(max_length=1))
    world.queue.apply(QueueSettings())
    log.answer()
    world.end_turn()
    assert world.take_all() == ["1", "2", "3"]


def test_messages_for_a_queue_that_became_lazy_are_on_disk_only_and_last() -> None:
    log = ScriptedLog(prompt=True)
    world = World(log=log)
    world.publish("1")
    world.queue.apply(QueueSettings(lazy=True))
    world.publish("2", "3")
    assert log.positions() == [2, 3]
    world.queue.apply(QueueSettings())
    assert world.take_all() == ["1", "2", "3"]


def test_a_queue_with_reject_publish_drops_nothing_and_accepts_nothing() -> None:
    world = World()
    world.publish("1", "2", "3")
    world.queue.apply(QueueSettings(max_length=2, overflow=REJECT_PUBLISH))
    assert world.publish("4") == [REJECTED]
    world.queue.apply(QueueSettings(max_length=4, overflow=REJECT_PUBLISH))
    assert world.publish("5") == [SETTLED]
    assert world.take_all() == ["1", "2", "3", "5"]


def test_a_consumer_is_served_before_a_new_limit_counts() -> None:
    world = World()
    consumer = world.consumer(credit=2)
    world.publish("1", "2", "3", "4")
    world.queue.apply(QueueSettings(max_length=1, dead_letter_exchange="dlx"))
    assert consumer.bodies() == ["1", "2"]
    assert world.dead() == [("3", "maxlen")]


def test_a_new_ttl_applies_to_later_messages() -> None:
    world = World()
    world.publish("old")
    world.queue.apply(QueueSettings(message_ttl_ms=10))
    world.publish("new")
    world.pass_ms(20)
    assert world.take_all() == ["old"]
    assert world.queue.ready_count() == 0


def test_a_stopped_queue_keeps_its_messages() -> None:
    log = ScriptedLog()
    world = World({"x-queue-mode": "lazy"}, log=log)
    world.publish("1", "2", "3")
    world.queue.stop("damage")
    world.queue.apply(QueueSettings(max_length=1))
    world.end_turn()
    assert world.queue.ready_count() == 3
    assert log.positions() == [1, 2, 3]


def test_a_deleted_queue_ignores_new_settings() -> None:
    world = World()
    world.queue.close()
    world.queue.apply(QueueSettings(expires_ms=1))
    world.pass_ms(10)
    assert world.owner.expired == []
