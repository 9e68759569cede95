"""Direct and fanout exchanges, and the default one."""

from tests.unit.broker.routing.factories import an_exchange, queues_in, reached
from warren.broker.routing.topology import Topology


def test_a_direct_exchange_follows_the_bindings_whose_key_is_equal() -> None:
    topology = Topology()
    first, second, third = queues_in(topology, "first", "second", "third")
    direct = topology.exchanges["amq.direct"]
    topology.bind(direct, first, "red", {})
    topology.bind(direct, second, "red", {})
    topology.bind(direct, third, "blue", {})
    assert reached(topology, direct, "red") == ["first", "second"]
    assert reached(topology, direct, "blue") == ["third"]
    assert reached(topology, direct, "re") == []


def test_a_fanout_exchange_follows_every_binding_with_any_key() -> None:
    topology = Topology()
    first, second = queues_in(topology, "first", "second")
    fanout = topology.exchanges["amq.fanout"]
    topology.bind(fanout, first, "red", {})
    topology.bind(fanout, second, "", {})
    assert reached(topology, fanout, "anything") == ["first", "second"]


def test_a_queue_bound_to_a_fanout_exchange_twice_gets_one_copy() -> None:
    topology = Topology()
    (queue,) = queues_in(topology, "queue")
    fanout = topology.exchanges["amq.fanout"]
    topology.bind(fanout, queue, "red", {})
    topology.bind(fanout, queue, "blue", {})
    assert reached(topology, fanout, "red") == ["queue"]


def test_the_default_exchange_routes_by_queue_name() -> None:
    topology = Topology()
    first, _second = queues_in(topology, "first", "second")
    assert reached(topology, topology.default, "second") == ["second"]
    assert reached(topology, topology.default, "third") == []
    topology.remove_queue(first)
    assert reached(topology, topology.default, "first") == []


def test_the_default_exchange_gives_one_copy_to_a_queue_that_two_keys_name() -> None:
    topology = Topology()
    queues_in(topology, "first", "second")
    route = topology.route_keys(topology.default, ["second", "first", "second", "third"], None)
    assert [queue.name for queue in route.queues] == ["second", "first"]


def test_further_routing_keys_join_in_one_route() -> None:
    topology = Topology()
    first, second, spare = queues_in(topology, "first", "second", "spare")
    direct = an_exchange(topology, "orders", "direct", alternate_exchange="amq.fanout")
    topology.bind(direct, first, "red", {})
    topology.bind(direct, second, "blue", {})
    topology.bind(topology.exchanges["amq.fanout"], spare, "", {})
    both = topology.route_keys(direct, ["red", "green", "blue"], None)
    neither = topology.route_keys(direct, ["green", "pink"], None)
    assert [queue.name for queue in both.queues] == ["first", "second"]
    assert [queue.name for queue in neither.queues] == ["spare"]


def test_routes_by_key_and_by_name_are_cacheable() -> None:
    topology = Topology()
    for name in ("", "amq.direct", "amq.fanout", "amq.topic"):
        assert topology.route(topology.exchanges[name], "key", None).cacheable
