"""Queues that are given other settings while they are in use; what is on disk included."""

from tests.unit.broker.queues.scripted_log import ScriptedLog
from tests.unit.broker.queues.world import World
from warren.broker.model.ports import REJECTED, SETTLED
from warren.broker.queues.settings import REJECT_PUBLISH, QueueSettings


def test_heads_on_disk_go_when_they_were_read() -> None:
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


def test_a_limit_that_is_gone_before_the_disk_answers_drops_nothing() -> None:
    log = ScriptedLog()
    world = World({"x-queue-mode": "lazy"}, log=log)
    world.publish("1", "2", "3")
    world.queue.apply(QueueSettings(max_length=1))
    world.queue.apply(QueueSettings())
    log.answer()
    world.end_turn()
    assert world.take_all() == ["1", "2", "3"]


def test_what_comes_to_a_queue_made_lazy_is_on_disk_only_behind_what_was_there() -> None:
    log = ScriptedLog(prompt=True)
    world = World(log=log)
    world.publish("1")
    world.queue.apply(QueueSettings(lazy=True))
    world.publish("2", "3")
    assert log.positions() == [2, 3]
    world.queue.apply(QueueSettings())
    assert world.take_all() == ["1", "2", "3"]


def test_a_queue_that_is_to_refuse_drops_nothing_and_takes_nothing() -> None:
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


def test_a_lifetime_counts_from_here_on() -> None:
    world = World()
    world.publish("old")
    world.queue.apply(QueueSettings(message_ttl_ms=10))
    world.publish("new")
    world.pass_ms(20)
    assert world.take_all() == ["old"]
    assert world.queue.ready_count() == 0


def test_a_stopped_queue_keeps_what_it_has() -> None:
    log = ScriptedLog()
    world = World({"x-queue-mode": "lazy"}, log=log)
    world.publish("1", "2", "3")
    world.queue.stop("damage")
    world.queue.apply(QueueSettings(max_length=1))
    world.end_turn()
    assert world.queue.ready_count() == 3
    assert log.positions() == [1, 2, 3]


def test_a_deleted_queue_is_past_caring() -> None:
    world = World()
    world.queue.close()
    world.queue.apply(QueueSettings(expires_ms=1))
    world.pass_ms(10)
    assert world.keeper.expired == []
