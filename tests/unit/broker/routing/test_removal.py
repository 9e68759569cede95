"""The objects that a removal includes, in order; computing a removal changes nothing."""

import pytest

from tests.unit.broker.routing.factories import an_exchange, queues_in, take_away
from tests.unit.broker.routing.structure import structure
from warren.broker.model.ports import QueuePort
from warren.broker.routing.exchanges import Binding, Exchange
from warren.broker.routing.topology import Topology, TopologyRemoval


@pytest.fixture
def topology() -> Topology:
    return Topology()


def bound(topology: Topology, source: Exchange, destination: QueuePort | Exchange, key: str = "") -> Binding:
    topology.bind(source, destination, key, {})
    binding = topology.binding(source, destination, key, {})
    assert binding is not None
    return binding


def test_a_queue_takes_its_bindings_along_oldest_first(topology: Topology) -> None:
    queue, other = queues_in(topology, "queue", "other")
    direct, topic = topology.exchanges["amq.direct"], topology.exchanges["amq.topic"]
    first, second = bound(topology, topic, queue, "b"), bound(topology, direct, queue, "a")
    bound(topology, direct, other)
    removal = TopologyRemoval(topology)
    removal.remove_queue(queue)
    assert removal.gone == [first, second, queue]


def test_computing_a_removal_changes_nothing(topology: Topology) -> None:
    (queue,) = queues_in(topology, "queue")
    source = an_exchange(topology, "source", "topic", auto_delete=True)
    bound(topology, source, queue, "#")
    before, version = structure(topology), topology.version
    TopologyRemoval(topology).remove_queue(queue)
    assert (structure(topology), topology.version, source.deleted) == (before, version, False)


def test_an_auto_delete_exchange_is_removed_with_its_last_binding_as_a_source(topology: Topology) -> None:
    first, second = queues_in(topology, "first", "second")
    source = an_exchange(topology, "source", "fanout", auto_delete=True)
    leading = bound(topology, topology.exchanges["amq.fanout"], source)
    to_first, to_second = bound(topology, source, first), bound(topology, source, second)
    one = TopologyRemoval(topology)
    one.remove_binding(to_first)
    assert one.gone == [to_first]
    take_away(topology, one)
    last = TopologyRemoval(topology)
    last.remove_queue(second)
    assert last.gone == [to_second, second, leading, source]


def test_an_auto_delete_exchange_bound_twice_to_a_queue_is_removed_once(topology: Topology) -> None:
    (queue,) = queues_in(topology, "queue")
    source = an_exchange(topology, "source", "direct", auto_delete=True)
    red, blue = bound(topology, source, queue, "red"), bound(topology, source, queue, "blue")
    removal = TopologyRemoval(topology)
    removal.remove_queue(queue)
    assert removal.gone == [red, blue, queue, source]


def test_an_auto_delete_exchange_survives_the_loss_of_the_bindings_that_lead_to_it(topology: Topology) -> None:
    destination = an_exchange(topology, "destination", "fanout", auto_delete=True)
    leading = bound(topology, topology.exchanges["amq.fanout"], destination)
    removal = TopologyRemoval(topology)
    removal.remove_binding(leading)
    assert removal.gone == [leading]


def test_auto_deletion_runs_up_a_chain_of_exchanges(topology: Topology) -> None:
    (queue,) = queues_in(topology, "queue")
    top, middle, bottom = (
        an_exchange(topology, name, "fanout", auto_delete=True) for name in ("top", "middle", "bottom")
    )
    chain = [bound(topology, top, middle), bound(topology, middle, bottom), bound(topology, bottom, queue)]
    removal = TopologyRemoval(topology)
    removal.remove_binding(chain[2])
    assert removal.gone == [chain[2], chain[1], bottom, chain[0], middle, top]


def test_auto_deletion_of_a_cycle_of_exchanges_ends(topology: Topology) -> None:
    one, two = (an_exchange(topology, name, "fanout", auto_delete=True) for name in ("one", "two"))
    there, back = bound(topology, one, two), bound(topology, two, one)
    removal = TopologyRemoval(topology)
    removal.remove_exchange(one)
    assert removal.gone == [there, back, one, two]


def test_an_exchange_takes_its_bindings_both_ways_along(topology: Topology) -> None:
    (queue,) = queues_in(topology, "queue")
    middle = an_exchange(topology, "middle", "fanout")
    leading = bound(topology, topology.exchanges["amq.direct"], middle, "key")
    onward = [bound(topology, middle, queue), bound(topology, middle, middle)]
    removal = TopologyRemoval(topology)
    removal.remove_exchange(middle)
    assert removal.gone == [*onward, leading, middle]
    take_away(topology, removal)
    assert topology.bindings_of(queue) == []


def test_objects_removed_together_are_listed_once(topology: Topology) -> None:
    first, second = queues_in(topology, "first", "second")
    source = an_exchange(topology, "source", "fanout", auto_delete=True)
    to_first, to_second = bound(topology, source, first), bound(topology, source, second)
    removal = TopologyRemoval(topology)
    removal.remove_queue(first)
    removal.remove_queue(second)
    removal.remove_exchange(source)
    assert removal.gone == [to_first, first, to_second, second, source]
