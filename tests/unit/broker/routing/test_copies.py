"""Queues that copy others: their order, their patterns, and one delivery of each message."""

from tests.unit.broker.routing.factories import a_copy, queues_in
from tests.unit.broker.routing.structure import structure
from warren.broker.model.ports import QueuePort
from warren.broker.routing.exchanges import Recipients, Route
from warren.broker.routing.topology import Topology
from warren.wire.field_tables import Table


def copies_in(topology: Topology, **copies: object) -> None:
    """A copy for each name; its value is the source queue, or the arguments."""
    for name, said in copies.items():
        arguments: Table = said if isinstance(said, dict) else {"x-copy-from": said}
        topology.add_queue(a_copy(name, arguments))


def given(route: Route, *refusing: str) -> list[str]:
    """The queues that receive a message, if these queues refuse it."""
    recipients = Recipients(route.queues, route.copies)
    for queue in recipients.row:
        if queue.name not in refusing:
            recipients.taken_by(queue)
    return [queue.name for queue in recipients.row]


def given_for(topology: Topology, key: str) -> list[str]:
    return given(topology.route(topology.default, key, None))


def test_a_copy_receives_the_messages_of_its_source() -> None:
    topology = Topology()
    queues_in(topology, "orders", "other")
    copies_in(topology, audit="orders")
    assert given_for(topology, "orders") == ["orders", "audit"]
    assert given_for(topology, "other") == ["other"]
    assert given_for(topology, "audit") == ["audit"]


def test_a_topology_without_copies_has_no_table_of_them() -> None:
    topology = Topology()
    queues_in(topology, "orders", "other")
    assert topology.route(topology.default, "orders", None).copies is None
    copies_in(topology, audit="orders")
    assert topology.route(topology.default, "other", None).copies is None


def test_copies_alone_are_not_a_route() -> None:
    topology = Topology()
    copies_in(topology, audit="orders")
    route = topology.route(topology.default, "orders", None)
    assert (route.queues, route.copies) == ([], None)


def test_a_source_may_be_created_later_deleted_and_created_again() -> None:
    topology = Topology()
    copies_in(topology, audit="orders")
    for _ in range(2):
        (orders,) = queues_in(topology, "orders")
        assert given_for(topology, "orders") == ["orders", "audit"]
        topology.remove_queue(orders)
        assert given_for(topology, "orders") == []


def test_a_deleted_copy_leaves_nothing_behind() -> None:
    topology = Topology()
    queues_in(topology, "orders")
    before = structure(topology)
    copies_in(topology, audit={"x-copy-from": ["orders", {"src_name": "orders", "routing_key": "eu.#"}, "later"]})
    assert structure(topology) != before
    topology.remove_queue(topology.queues["audit"])
    assert structure(topology) == before
    assert given_for(topology, "orders") == ["orders"]


def test_a_source_knows_its_copies() -> None:
    topology = Topology()
    orders, returns = queues_in(topology, "orders", "returns")
    copies_in(topology, b="orders", a=["orders", {"src_name": "orders", "routing_key": "eu"}], c="b")
    assert topology.copying.names_of_copies(orders) == ["a", "b"]
    assert topology.copying.names_of_copies(topology.queues["b"]) == ["c"]
    assert topology.copying.names_of_copies(returns) == []


def test_the_version_changes_with_copies() -> None:
    topology = Topology()
    queues_in(topology, "orders")
    versions = [topology.version]
    copies_in(topology, audit="orders")
    versions.append(topology.version)
    topology.remove_queue(topology.queues["audit"])
    versions.append(topology.version)
    assert versions == sorted(set(versions))


def test_only_messages_that_match_the_pattern_are_copied_from_any_exchange() -> None:
    topology = Topology()
    (orders,) = queues_in(topology, "orders")
    copies_in(topology, europe={"x-copy-from": "orders", "x-copy-routing-key": "eu.#"})
    for exchange in ("amq.topic", "amq.fanout"):
        topology.bind(topology.exchanges[exchange], orders, "#", {})
        routes = [topology.route(topology.exchanges[exchange], key, None) for key in ("eu.de", "us.ny")]
        assert [given(route) for route in routes] == [["orders", "europe"], ["orders"]]
    several = topology.route_keys(topology.default, ["orders", "eu.fr"], None)
    assert given(several) == ["orders", "europe"]


def test_each_source_of_a_list_has_its_own_pattern_or_the_usual_one() -> None:
    topology = Topology()
    one, two = queues_in(topology, "one", "two")
    sources = ["one", {"src_name": "two", "routing_key": "b"}]
    copies_in(topology, audit={"x-copy-from": sources, "x-copy-routing-key": "a"})
    topic = topology.exchanges["amq.topic"]
    topology.bind(topic, one, "#", {})
    assert given(topology.route(topic, "a", None)) == ["one", "audit"]
    assert given(topology.route(topic, "b", None)) == ["one"]
    topology.bind(topic, two, "#", {})
    assert given(topology.route(topic, "b", None)) == ["one", "two", "audit"]
    assert given(topology.route(topic, "c", None)) == ["one", "two"]


def test_copies_of_copies_follow_and_cycles_end() -> None:
    topology = Topology()
    queues_in(topology, "orders")
    copies_in(topology, first="orders", second="first", third=["second", "orders", "third-party"])
    topology.add_queue(a_copy("orders-again", {"x-copy-from": ["third", "last"]}))
    copies_in(topology, last="orders-again")
    assert given_for(topology, "orders") == ["orders", "first", "third", "second", "orders-again", "last"]
    assert given_for(topology, "last") == ["last", "orders-again"]


def test_a_queue_receives_a_message_once() -> None:
    topology = Topology()
    (orders,) = queues_in(topology, "orders")
    copies_in(topology, audit="orders")
    for queue in (topology.queues["audit"], orders):
        topology.bind(topology.exchanges["amq.fanout"], queue, "", {})
    assert given(topology.route(topology.exchanges["amq.fanout"], "", None)) == ["audit", "orders"]


def test_a_message_that_a_source_refuses_is_not_copied_unless_another_source_accepts_it() -> None:
    topology = Topology()
    sources = queues_in(topology, "one", "two")
    copies_in(topology, first="one", both=["first", "two"], beyond="both")
    for queue in sources:
        topology.bind(topology.exchanges["amq.fanout"], queue, "", {})
    route = topology.route(topology.exchanges["amq.fanout"], "", None)
    assert given(route, "one") == ["one", "two", "both", "beyond"]
    assert given(route, "two", "first") == ["one", "two", "first"]
    assert given(route, "two") == ["one", "two", "first", "both", "beyond"]
    assert given(route, "one", "two") == ["one", "two"]


def test_an_exclusive_queue_may_copy_and_is_not_copied() -> None:
    topology = Topology()
    queues_in(topology, "orders")
    topology.add_queue(a_copy("mine", {"x-copy-from": "orders"}, exclusive=True))
    copies_in(topology, theirs="mine")
    assert given_for(topology, "orders") == ["orders", "mine"]


def test_a_replaced_queue_object_is_no_longer_copied() -> None:
    topology = Topology()
    queues_in(topology, "orders")
    copies_in(topology, audit="orders")
    before = topology.queues["audit"]
    topology.remove_queue(before)
    copies_in(topology, audit="orders")
    copies = topology.route(topology.default, "orders", None).copies
    expected: dict[QueuePort, list[QueuePort]] = {topology.queues["orders"]: [topology.queues["audit"]]}
    assert copies == expected
    assert topology.queues["audit"] is not before
