"""Committed definitions are made once, and each is removed by itself."""

import pytest

from tests.support.lone_vhosts import lone_vhosts
from warren.broker.appliers import TopologyApplier
from warren.broker.metadata.store import Definition, key_parts
from warren.broker.metadata.topology_definitions import BindingDefinition, ExchangeDefinition, QueueDefinition
from warren.broker.model.turn import Turn
from warren.broker.vhost import Vhost
from warren.wire.field_tables import Table

QUEUE = QueueDefinition("/", "q", False, True, True, {"x-max-length": 5}, owner=7)
EXCHANGE = ExchangeDefinition("/", "e", "topic", False, True, True, {"alternate-exchange": "amq.fanout"})


class World:
    def __init__(self) -> None:
        self.turn = Turn()
        vhosts = lone_vhosts(["/"], self.turn)
        self.vhost: Vhost = vhosts["/"]
        self.applier = TopologyApplier(vhosts, self.turn.stats)

    def put(self, *definitions: Definition) -> None:
        for definition in definitions:
            self.applier.put(definition, -1)

    def delete(self, definition: Definition) -> None:
        self.applier.delete(key_parts(definition.key()))


@pytest.fixture
def world() -> World:
    return World()


def bound(arguments: Table) -> BindingDefinition:
    return BindingDefinition("/", "e", "q", True, "k", arguments, False)


def test_a_queue_is_made_as_it_is_defined(world: World) -> None:
    world.put(QUEUE)
    queue = world.vhost.topology.queues["q"]
    assert (queue.durable, queue.exclusive, queue.auto_delete, queue.owner_id) == (False, True, True, 7)
    assert queue.arguments == {"x-max-length": 5}


def test_an_exchange_is_made_as_it_is_defined(world: World) -> None:
    world.put(EXCHANGE)
    exchange = world.vhost.topology.exchanges["e"]
    assert (exchange.type, exchange.durable, exchange.auto_delete, exchange.internal) == ("topic", False, True, True)
    assert exchange.alternate == "amq.fanout"


def test_an_existing_object_is_not_replaced(world: World) -> None:
    world.put(QUEUE, EXCHANGE, bound({}), bound({"a": 1}))
    topology = world.vhost.topology
    before = topology.queues["q"], topology.exchanges["e"], topology.bindings_of(topology.queues["q"])
    version = topology.version
    world.put(QUEUE, EXCHANGE, bound({}), bound({"a": 1}))
    assert (topology.queues["q"], topology.exchanges["e"], topology.bindings_of(topology.queues["q"])) == before
    assert (topology.version, world.turn.stats.queues_created) == (version, 1)


@pytest.mark.parametrize("arguments", [{}, {"b": 2, "a": 1}])
def test_a_binding_goes_by_its_key(world: World, arguments: Table) -> None:
    others: list[Table] = [one for one in ({}, {"a": 1}, {"a": 1, "b": 2}) if one != arguments]
    world.put(QUEUE, EXCHANGE, bound(arguments), *[bound(other) for other in others])
    world.delete(bound({name: arguments[name] for name in sorted(arguments)}))
    left = world.vhost.topology.bindings_of(world.vhost.topology.queues["q"])
    assert [binding.arguments for binding in left] == others


def test_an_auto_delete_exchange_stays_until_its_delete_is_committed(world: World) -> None:
    world.put(QUEUE, EXCHANGE, bound({}))
    world.delete(bound({}))
    world.delete(QUEUE)
    assert (world.vhost.topology.queues, "e" in world.vhost.topology.exchanges) == ({}, True)
    world.delete(EXCHANGE)
    assert "e" not in world.vhost.topology.exchanges


def test_removing_a_missing_object_changes_nothing(world: World) -> None:
    version = world.vhost.topology.version
    for definition in (bound({}), bound({"a": 1}), QUEUE, EXCHANGE):
        world.delete(definition)
    assert (world.vhost.topology.version, world.turn.stats.queues_deleted) == (version, 0)


def test_a_binding_without_its_ends_is_not_made(world: World) -> None:
    world.put(EXCHANGE, bound({}), bound({"a": 1}))
    assert world.vhost.topology.exchanges["e"].outgoing == {}


def test_definitions_of_a_removed_virtual_host_are_ignored(world: World) -> None:
    elsewhere = QueueDefinition("gone", "q", True, False, False, {})
    world.put(elsewhere)
    world.delete(elsewhere)
    assert world.turn.stats.queues_created == 0
