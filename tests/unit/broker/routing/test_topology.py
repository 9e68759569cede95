"""The graph of exchanges: bindings, alternate exchanges, cycles, and the version."""

import pytest

from tests.unit.broker.routing.factories import a_queue, an_exchange, queues_in, reached, unbind
from warren.broker.routing.exchange_types import EXCHANGE_TYPES, validate_exchange_type
from warren.broker.routing.topology import Topology
from warren.errors import COMMAND_INVALID, PRECONDITION_FAILED, ChannelFault, ConnectionFault, InvariantBroken


def test_a_virtual_host_starts_with_the_predeclared_exchanges() -> None:
    exchanges = Topology().exchanges.values()
    assert [(exchange.name, exchange.type, exchange.internal) for exchange in exchanges] == [
        ("", "direct", False),
        ("amq.direct", "direct", False),
        ("amq.fanout", "fanout", False),
        ("amq.topic", "topic", False),
        ("amq.headers", "headers", False),
        ("amq.match", "headers", False),
        ("amq.rabbitmq.trace", "topic", True),
    ]
    assert all(exchange.durable and not exchange.auto_delete for exchange in exchanges)


def test_a_second_declaration_of_a_binding_changes_nothing() -> None:
    topology = Topology()
    (queue,) = queues_in(topology, "queue")
    direct = topology.exchanges["amq.direct"]
    assert topology.bind(direct, queue, "key", {"a": 1, "b": [2]})
    version = topology.version
    assert not topology.bind(direct, queue, "key", {"b": [2], "a": 1})
    assert (len(topology.bindings_of(queue)), topology.version) == (1, version)


@pytest.mark.parametrize("arguments", [{}, {"a": 2}, {"a": True}, {"a": 1.0}, {"b": 1}, {"a": 1, "b": 1}])
def test_bindings_that_differ_in_arguments_alone_are_two(arguments: dict[str, object]) -> None:
    topology = Topology()
    (queue,) = queues_in(topology, "queue")
    direct = topology.exchanges["amq.direct"]
    assert topology.bind(direct, queue, "key", {"a": 1})
    assert topology.bind(direct, queue, "key", arguments)
    unbind(topology, direct, queue, "key", {"a": 1})
    assert [binding.arguments for binding in topology.bindings_of(queue)] == [arguments]
    assert reached(topology, direct, "key") == ["queue"]


def test_bindings_are_listed_in_the_order_they_were_made() -> None:
    topology = Topology()
    first, second = queues_in(topology, "first", "second")
    direct, topic = topology.exchanges["amq.direct"], topology.exchanges["amq.topic"]
    topology.bind(direct, first, "b", {})
    topology.bind(topic, first, "a", {})
    topology.bind(direct, second, "a", {})
    topology.bind(direct, topic, "c", {})
    assert [(binding.source.name, binding.routing_key) for binding in topology.bindings_of(first)] == [
        ("amq.direct", "b"),
        ("amq.topic", "a"),
    ]
    assert [(binding.destination.name, binding.routing_key) for binding in topology.bindings_from(direct)] == [
        ("first", "b"),
        ("second", "a"),
        ("amq.topic", "c"),
    ]
    assert [binding.source.name for binding in topology.bindings_of(topic)] == ["amq.direct"]


def test_a_binding_is_found_by_its_fields() -> None:
    topology = Topology()
    (queue,) = queues_in(topology, "queue")
    direct = topology.exchanges["amq.direct"]
    topology.bind(direct, queue, "key", {"a": 1, "b": 2})
    (made,) = topology.bindings_of(queue)
    assert topology.binding(direct, queue, "key", {"b": 2, "a": 1}) is made
    assert topology.binding(direct, queue, "other", {"a": 1, "b": 2}) is None
    assert topology.binding(topology.exchanges["amq.fanout"], queue, "key", {"a": 1, "b": 2}) is None


def test_a_queue_and_an_exchange_of_one_name_are_two_destinations() -> None:
    topology = Topology()
    (queue,) = queues_in(topology, "same")
    exchange = an_exchange(topology, "same", "fanout")
    direct = topology.exchanges["amq.direct"]
    assert topology.bind(direct, queue, "key", {})
    assert topology.bind(direct, exchange, "key", {})
    assert reached(topology, direct, "key") == ["same"]


def test_a_queue_reached_on_two_ways_gets_one_copy() -> None:
    topology = Topology()
    (queue,) = queues_in(topology, "queue")
    top, left, right = (an_exchange(topology, name, "fanout") for name in ("top", "left", "right"))
    for exchange in (left, right):
        topology.bind(top, exchange, "", {})
        topology.bind(exchange, queue, "", {})
    topology.bind(top, queue, "", {})
    assert reached(topology, top, "key") == ["queue"]


def test_a_cycle_of_exchanges_ends() -> None:
    topology = Topology()
    (queue,) = queues_in(topology, "queue")
    one, two = an_exchange(topology, "one", "fanout"), an_exchange(topology, "two", "fanout")
    topology.bind(one, two, "", {})
    topology.bind(two, one, "", {})
    topology.bind(two, two, "", {})
    topology.bind(two, queue, "", {})
    assert reached(topology, one, "key") == ["queue"]


def test_a_message_that_matches_no_binding_goes_to_the_alternate_exchange() -> None:
    topology = Topology()
    wanted, spare = queues_in(topology, "wanted", "spare")
    main = an_exchange(topology, "main", "direct", alternate_exchange="amq.fanout")
    topology.bind(main, wanted, "key", {})
    topology.bind(topology.exchanges["amq.fanout"], spare, "", {})
    assert reached(topology, main, "key") == ["wanted"]
    assert reached(topology, main, "other") == ["spare"]


def test_an_exchange_that_leads_to_another_does_not_use_its_alternate() -> None:
    topology = Topology()
    (spare,) = queues_in(topology, "spare")
    main = an_exchange(topology, "main", "direct", alternate_exchange="amq.fanout")
    topology.bind(main, an_exchange(topology, "dead end", "fanout"), "key", {})
    topology.bind(topology.exchanges["amq.fanout"], spare, "", {})
    assert reached(topology, main, "key") == []


def test_a_missing_alternate_exchange_is_ignored_until_it_is_declared() -> None:
    topology = Topology()
    (spare,) = queues_in(topology, "spare")
    main = an_exchange(topology, "main", "direct", alternate_exchange="later")
    assert reached(topology, main, "key") == []
    version = topology.version
    topology.bind(an_exchange(topology, "later", "fanout"), spare, "", {})
    assert reached(topology, main, "key") == ["spare"]
    assert topology.version > version


def test_a_cycle_of_alternates_ends() -> None:
    topology = Topology()
    one = an_exchange(topology, "one", "direct", alternate_exchange="two")
    an_exchange(topology, "two", "direct", alternate_exchange="one")
    assert reached(topology, one, "key") == []


def test_an_alternate_exchange_must_be_a_string() -> None:
    topology = Topology("/")
    with pytest.raises(ChannelFault) as refused:
        an_exchange(topology, "main", "direct", alternate_exchange=5)
    assert (refused.value.code, refused.value.text) == (
        PRECONDITION_FAILED,
        "invalid type 'signedint' for arg 'alternate-exchange' in exchange 'main' in vhost '/'",
    )
    assert "main" not in topology.exchanges


@pytest.mark.parametrize("as_source", [True, False])
def test_an_exchange_cannot_be_removed_before_its_bindings(as_source: bool) -> None:
    topology = Topology()
    exchange, fanout = an_exchange(topology, "exchange", "fanout"), topology.exchanges["amq.fanout"]
    topology.bind(exchange if as_source else fanout, fanout if as_source else exchange, "", {})
    with pytest.raises(InvariantBroken, match="exchange 'exchange' is removed before its bindings"):
        topology.remove_exchange(exchange)


def test_a_queue_cannot_be_removed_before_its_bindings() -> None:
    topology = Topology()
    (queue,) = queues_in(topology, "queue")
    topology.bind(topology.exchanges["amq.fanout"], queue, "", {})
    with pytest.raises(InvariantBroken, match="queue 'queue' is removed before its bindings"):
        topology.remove_queue(queue)


def test_the_version_grows_by_one_with_every_change() -> None:
    topology = Topology()
    queue = a_queue("queue")
    versions = [topology.version]
    topology.add_queue(queue)
    versions.append(topology.version)
    exchange = an_exchange(topology, "exchange", "fanout")
    versions.append(topology.version)
    topology.bind(exchange, queue, "", {})
    versions.append(topology.version)
    unbind(topology, exchange, queue, "", {})
    versions.append(topology.version)
    topology.remove_queue(queue)
    versions.append(topology.version)
    topology.remove_exchange(exchange)
    assert exchange.deleted
    versions.append(topology.version)
    assert versions == list(range(versions[0], versions[0] + 7))


@pytest.mark.parametrize("name", EXCHANGE_TYPES)
def test_a_known_exchange_type_passes(name: str) -> None:
    validate_exchange_type(name)


def test_an_unknown_exchange_type_closes_the_connection() -> None:
    with pytest.raises(ConnectionFault) as refused:
        an_exchange(Topology(), "main", "x-random")
    assert (refused.value.code, refused.value.text) == (COMMAND_INVALID, "unknown exchange type 'x-random'")
