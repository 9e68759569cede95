"""The graph: bindings and their bookkeeping, alternates, cycles, auto-delete, and the version."""

import pytest

from tests.unit.routing.makers import a_queue, an_exchange, queues_in, reached
from warren.errors import COMMAND_INVALID, PRECONDITION_FAILED, ChannelFault, ConnectionFault
from warren.routing.topology import Topology
from warren.routing.types import EXCHANGE_TYPES, validate_exchange_type


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
    assert topology.unbind(direct, queue, "key", {"a": 1})
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


def test_unbinding_what_is_not_bound_says_so() -> None:
    topology = Topology()
    (queue,) = queues_in(topology, "queue")
    direct = topology.exchanges["amq.direct"]
    topology.bind(direct, queue, "key", {})
    version = topology.version
    assert not topology.unbind(direct, queue, "other", {})
    assert not topology.unbind(topology.exchanges["amq.fanout"], queue, "key", {})
    assert topology.version == version


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


def test_what_no_binding_wants_goes_to_the_alternate_exchange() -> None:
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


def test_a_missing_alternate_is_nowhere_until_it_is_declared() -> None:
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


def test_an_alternate_that_is_no_name_is_refused() -> None:
    topology = Topology("/")
    with pytest.raises(ChannelFault) as refused:
        an_exchange(topology, "main", "direct", alternate_exchange=5)
    assert (refused.value.code, refused.value.text) == (
        PRECONDITION_FAILED,
        "invalid type 'signedint' for arg 'alternate-exchange' in exchange 'main' in vhost '/'",
    )
    assert "main" not in topology.exchanges


def test_an_auto_delete_exchange_goes_with_its_last_binding_as_a_source() -> None:
    topology = Topology()
    first, second = queues_in(topology, "first", "second")
    source = an_exchange(topology, "source", "fanout", auto_delete=True)
    topology.bind(topology.exchanges["amq.fanout"], source, "", {})
    topology.bind(source, first, "", {})
    topology.bind(source, second, "", {})
    topology.unbind(source, first, "", {})
    assert not source.deleted
    assert topology.remove_queue(second) == [source]
    assert source.deleted
    assert "source" not in topology.exchanges
    assert topology.bindings_from(topology.exchanges["amq.fanout"]) == []


def test_an_auto_delete_exchange_bound_twice_to_a_queue_goes_once() -> None:
    topology = Topology()
    (queue,) = queues_in(topology, "queue")
    source = an_exchange(topology, "source", "direct", auto_delete=True)
    topology.bind(source, queue, "red", {})
    topology.bind(source, queue, "blue", {})
    assert topology.remove_queue(queue) == [source]


def test_an_auto_delete_exchange_survives_the_loss_of_the_bindings_that_lead_to_it() -> None:
    topology = Topology()
    destination = an_exchange(topology, "destination", "fanout", auto_delete=True)
    fanout = topology.exchanges["amq.fanout"]
    topology.bind(fanout, destination, "", {})
    topology.unbind(fanout, destination, "", {})
    assert "destination" in topology.exchanges


def test_auto_deletion_runs_up_a_chain_of_exchanges() -> None:
    topology = Topology()
    (queue,) = queues_in(topology, "queue")
    top, middle, bottom = (
        an_exchange(topology, name, "fanout", auto_delete=True) for name in ("top", "middle", "bottom")
    )
    topology.bind(top, middle, "", {})
    topology.bind(middle, bottom, "", {})
    topology.bind(bottom, queue, "", {})
    topology.unbind(bottom, queue, "", {})
    assert [top.deleted, middle.deleted, bottom.deleted] == [True, True, True]
    assert {"top", "middle", "bottom"} & set(topology.exchanges) == set()


def test_auto_deletion_of_a_cycle_of_exchanges_ends() -> None:
    topology = Topology()
    one, two = (an_exchange(topology, name, "fanout", auto_delete=True) for name in ("one", "two"))
    topology.bind(one, two, "", {})
    topology.bind(two, one, "", {})
    assert topology.delete_exchange(one) == [two]


def test_deleting_an_exchange_removes_its_bindings_both_ways() -> None:
    topology = Topology()
    (queue,) = queues_in(topology, "queue")
    direct, topic = topology.exchanges["amq.direct"], topology.exchanges["amq.topic"]
    middle = an_exchange(topology, "middle", "fanout")
    topology.bind(direct, middle, "key", {})
    topology.bind(middle, queue, "", {})
    topology.bind(middle, topic, "", {})
    topology.bind(middle, middle, "", {})
    assert topology.delete_exchange(middle) == []
    assert [topology.bindings_from(direct), topology.bindings_of(queue), topology.bindings_of(topic)] == [[], [], []]
    assert reached(topology, direct, "key") == []


def test_the_version_moves_by_one_with_every_change() -> None:
    topology = Topology()
    queue = a_queue("queue")
    versions = [topology.version]
    topology.add_queue(queue)
    versions.append(topology.version)
    exchange = an_exchange(topology, "exchange", "fanout")
    versions.append(topology.version)
    topology.bind(exchange, queue, "", {})
    versions.append(topology.version)
    topology.unbind(exchange, queue, "", {})
    versions.append(topology.version)
    topology.remove_queue(queue)
    versions.append(topology.version)
    topology.delete_exchange(exchange)
    versions.append(topology.version)
    assert versions == list(range(versions[0], versions[0] + 7))


def test_a_removed_queue_does_not_take_the_name_from_its_successor() -> None:
    topology = Topology()
    (old,) = queues_in(topology, "queue")
    (new,) = queues_in(topology, "queue")
    topology.remove_queue(old)
    assert topology.queues["queue"] is new


@pytest.mark.parametrize("name", EXCHANGE_TYPES)
def test_a_known_exchange_type_passes(name: str) -> None:
    validate_exchange_type(name)


def test_an_unknown_exchange_type_closes_the_connection() -> None:
    with pytest.raises(ConnectionFault) as refused:
        an_exchange(Topology(), "main", "x-random")
    assert (refused.value.code, refused.value.text) == (COMMAND_INVALID, "unknown exchange type 'x-random'")
