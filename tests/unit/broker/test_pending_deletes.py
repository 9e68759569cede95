"""Deletes of unused queues: clients find them gone at once, and they are removed when the delete commits."""

from collections.abc import Callable

import pytest

from tests.support.slow_agreement import SlowAgreement
from tests.unit.broker.queues.world import START_MS, ScriptedConsumer, message_of
from warren.broker.appliers import TopologyApplier
from warren.broker.metadata.backend import MetadataAppliers
from warren.broker.metadata.topology_definitions import QueueDefinition
from warren.broker.model.ports import AWAITED, REJECTED, SETTLED, QueuePort
from warren.broker.model.turn import Turn
from warren.broker.pending_deletes import RETRY_MS
from warren.broker.routing.exchanges import Binding
from warren.broker.vhost import Vhost
from warren.wire.field_tables import Table


class World:
    """A virtual host whose changes wait for the test."""

    def __init__(self) -> None:
        self.turn = Turn()
        self.turn.now_ms = START_MS
        appliers = MetadataAppliers()
        self.backend = SlowAgreement(appliers)
        self.vhost = Vhost("/", self.turn, self.backend)
        appliers.add(TopologyApplier({"/": self.vhost}, self.turn.stats))

    def queue(self, auto_delete: bool = False, arguments: Table | None = None, owner: int = 0) -> QueuePort:
        self.vhost.declare_queues(
            [QueueDefinition(self.vhost.name, "q", False, owner != 0, auto_delete, arguments or {}, owner=owner)]
        )
        self.backend.grant()
        return self.vhost.topology.queues["q"]

    def pass_ms(self, milliseconds: int) -> None:
        self.turn.now_ms += milliseconds
        self.turn.fire_timers()


def unused(world: World) -> QueuePort:
    queue, consumer = world.queue(auto_delete=True), ScriptedConsumer()
    queue.add_consumer(consumer)
    queue.remove_consumer(consumer)
    return queue


def expired(world: World) -> QueuePort:
    queue = world.queue(arguments={"x-expires": 1000})
    world.pass_ms(1000)
    return queue


def orphaned(world: World) -> QueuePort:
    queue = world.queue(owner=7)
    world.vhost.delete_queues_of(7)
    return queue


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("departing", [unused, expired, orphaned])
def test_an_unused_queue_is_gone_before_its_delete_is_committed(
    world: World, departing: Callable[[World], QueuePort]
) -> None:
    queue = departing(world)
    assert (queue.deleted, world.vhost.queue("q")) == (True, None)
    assert world.backend.keys() == [["queues/%2F/q"]]
    world.backend.grant()
    assert (world.vhost.topology.queues, world.backend.waiting) == ({}, [])
    assert world.turn.stats.queues_deleted == 1


@pytest.mark.parametrize(("departing", "outcome"), [(unused, SETTLED), (expired, REJECTED), (orphaned, SETTLED)])
def test_publishes_to_an_unused_queue_wait_until_it_is_removed(
    world: World, departing: Callable[[World], QueuePort], outcome: int
) -> None:
    queue = departing(world)
    assert queue.publish(message_of("late")) == AWAITED
    world.backend.fail("no majority")
    world.pass_ms(int(RETRY_MS))
    assert queue.publish(message_of("late")) == AWAITED
    world.backend.grant()
    assert (queue.ready_count(), world.turn.held_bytes) == (0, 0)
    assert queue.publish(message_of("later")) == outcome


def test_a_delete_is_proposed_again_if_another_change_came_first(world: World) -> None:
    queue = world.queue(owner=7)
    world.vhost.delete_queues_of(7)
    world.vhost.bind(Binding(world.vhost.topology.exchanges["amq.fanout"], queue, "", {}))
    world.backend.waiting.reverse()
    world.backend.grant()
    world.backend.outdate()
    assert world.backend.keys() == [["bindings/%2F/amq.fanout/q/q//-", "queues/%2F/q"]]
    world.backend.grant()
    assert world.vhost.topology.queues == {}


def test_a_failed_delete_is_proposed_again_after_a_pause(world: World) -> None:
    orphaned(world)
    world.backend.fail("no majority")
    world.pass_ms(int(RETRY_MS) - 1)
    assert world.backend.waiting == []
    world.pass_ms(1)
    assert world.backend.keys() == [["queues/%2F/q"]]


def test_a_delete_is_not_proposed_again_once_the_queue_is_removed(world: World) -> None:
    orphaned(world)
    world.backend.fail("nobody knows")
    world.vhost.remove_queue("q")
    world.queue()
    world.pass_ms(int(RETRY_MS))
    assert (world.backend.waiting, list(world.vhost.topology.queues)) == ([], ["q"])
