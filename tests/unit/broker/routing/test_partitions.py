"""Routes to a partitioned stream: which partition gets which message."""

from tests.unit.broker.routing.factories import a_copy, an_exchange, reached
from warren.broker.model.stream_partitions import index_for
from warren.broker.routing.topology import Topology
from warren.wire.field_tables import Table

LOGICAL: Table = {"x-queue-type": "stream", "x-stream-partitions": 3}


def partitioned(*others: str) -> Topology:
    """A topology with the partitioned stream `orders`, and others."""
    topology = Topology()
    for name in ("orders", *others):
        topology.add_queue(a_copy(name, dict(LOGICAL)))
        for index in range(3):
            topology.add_queue(a_copy(f"{name}-{index}", {"x-queue-type": "stream", "x-stream-partition-of": name}))
    return topology


def test_a_key_has_one_partition_and_keys_have_all_of_them() -> None:
    topology = partitioned()
    exchange = an_exchange(topology, "x", "fanout")
    topology.bind(exchange, topology.queues["orders"], "", {})
    keys = [f"key-{number}" for number in range(60)]
    found = {key: reached(topology, exchange, key) for key in keys}
    assert found == {key: [f"orders-{index_for(key, 3)}"] for key in keys}
    assert {name for names in found.values() for name in names} == {"orders-0", "orders-1", "orders-2"}


def test_the_hash_is_the_one_that_is_documented() -> None:
    """Clients compute it themselves: crc32 of the key's octets."""
    assert [index_for(key, 1000) for key in ("", "a", "orders", "grün")] == [0, 907, 662, 429]


def test_the_default_exchange_knows_one_key_and_each_partition_by_its_name() -> None:
    topology = partitioned()
    expected = f"orders-{index_for('orders', 3)}"
    assert reached(topology, topology.default, "orders") == [expected]
    assert reached(topology, topology.default, "orders-2") == ["orders-2"]


def test_further_keys_do_not_move_a_message() -> None:
    topology = partitioned()
    exchange = an_exchange(topology, "x", "direct")
    topology.bind(exchange, topology.queues["orders"], "b", {})
    route = topology.route_keys(exchange, ["a", "b"], None)
    assert [queue.name for queue in route.queues] == [f"orders-{index_for('a', 3)}"]


def test_two_paths_to_one_partition_deliver_one_message() -> None:
    topology = partitioned()
    exchange = an_exchange(topology, "x", "fanout")
    topology.bind(exchange, topology.queues["orders"], "", {})
    for index in range(3):
        topology.bind(exchange, topology.queues[f"orders-{index}"], "", {})
    assert sorted(reached(topology, exchange, "k")) == ["orders-0", "orders-1", "orders-2"]


def test_a_partition_that_is_missing_is_no_route() -> None:
    topology = partitioned()
    missing = f"orders-{index_for('orders', 3)}"
    topology.remove_queue(topology.queues[missing])
    assert reached(topology, topology.default, "orders") == []


def test_a_copy_of_the_logical_name_receives_the_messages_of_all_partitions() -> None:
    topology = partitioned()
    topology.add_queue(a_copy("audit", {"x-copy-from": "orders"}))
    for key in ("orders", "orders-0", "orders-1"):
        route = topology.route(topology.default, key, None)
        assert route.copies is not None
        assert [[copy.name for copy in copies] for copies in route.copies.values()] == [["audit"]]


def test_a_deleted_logical_name_can_be_an_ordinary_queue() -> None:
    topology = partitioned()
    for name in ("orders", "orders-0", "orders-1", "orders-2"):
        topology.remove_queue(topology.queues[name])
    topology.add_queue(a_copy("orders", {}))
    assert reached(topology, topology.default, "orders") == ["orders"]


def test_a_message_without_keys_has_no_route() -> None:
    """A direct reply has no keys left after its delivery."""
    topology = partitioned()
    assert topology.route_keys(topology.default, [], None).queues == []
