"""What transactions for exchanges, queues and bindings change, depend on and touch."""

import pytest

from tests.support.lone_vhosts import lone_vhost
from warren.broker.metadata.topology_definitions import BindingDefinition, ExchangeDefinition, QueueDefinition
from warren.broker.metadata.transaction import MetadataTransaction
from warren.broker.model.turn import Turn
from warren.broker.routing.exchanges import Binding
from warren.broker.routing.topology_transactions import (
    plan_all_removal,
    plan_binding,
    plan_exchange,
    plan_exchange_removal,
    plan_queue,
    plan_queue_removal,
    plan_unbinding,
)
from warren.broker.vhost import Vhost

QUEUE, EXCHANGE, VHOST = "queues/%2F/q", "exchanges/%2F/e", "vhosts/%2F"
BINDING = "bindings/%2F/e/q/q//-"


@pytest.fixture
def plan() -> MetadataTransaction:
    return MetadataTransaction()


@pytest.fixture
def vhost() -> Vhost:
    """A virtual host with an auto-delete exchange bound to a queue, both durable."""
    vhost = lone_vhost(Turn())
    vhost.declare_queues([QueueDefinition(vhost.name, "q", True, False, False, {})])
    vhost.declare_exchange(ExchangeDefinition(vhost.name, "e", "fanout", True, True, False, {}))
    vhost.bind(Binding(vhost.topology.exchanges["e"], vhost.topology.queues["q"], "", {}))
    return vhost


def binding_of(vhost: Vhost, source: str) -> Binding:
    (binding,) = vhost.topology.bindings_from(vhost.topology.exchanges[source])
    return binding


def kept(plan: MetadataTransaction) -> dict[str, bool]:
    return {key: change.kept for key, change in plan.changes.items()}


def test_a_new_object_depends_on_its_virtual_host(plan: MetadataTransaction) -> None:
    plan_queue(plan, QueueDefinition("/", "q", True, False, False, {}))
    plan_exchange(plan, ExchangeDefinition("/", "e", "fanout", False, False, False, {}))
    assert kept(plan) == {QUEUE: True, EXCHANGE: False}
    assert (set(plan.relied_on), plan.touched) == ({VHOST, QUEUE, EXCHANGE}, {})


def test_a_binding_touches_both_its_ends(plan: MetadataTransaction) -> None:
    plan_binding(plan, BindingDefinition("/", "e", "q", True, "", {}, True))
    plan_binding(plan, BindingDefinition("/", "e", "f", False, "", {}, True))
    assert set(plan.touched) == {EXCHANGE, QUEUE, "exchanges/%2F/f"}
    assert set(plan.relied_on) >= set(plan.touched)


def test_predeclared_exchanges_are_not_touched(plan: MetadataTransaction) -> None:
    plan_binding(plan, BindingDefinition("/", "amq.fanout", "amq.direct", False, "", {}, True))
    assert plan.touched == {}


def test_an_object_created_with_its_binding_is_not_touched(plan: MetadataTransaction) -> None:
    plan_queue(plan, QueueDefinition("/", "q", True, False, False, {}))
    plan_binding(plan, BindingDefinition("/", "e", "q", True, "", {}, True))
    assert set(plan.touched) == {EXCHANGE}


def test_an_exchange_is_touched_by_the_removal_of_a_bound_queue(plan: MetadataTransaction, vhost: Vhost) -> None:
    vhost.declare_queues([QueueDefinition(vhost.name, "other", True, False, False, {})])
    vhost.bind(Binding(vhost.topology.exchanges["e"], vhost.topology.queues["other"], "", {}))
    plan_queue_removal(plan, vhost.topology, vhost.topology.queues["q"])
    assert (list(plan.changes), set(plan.touched)) == ([BINDING, QUEUE], {EXCHANGE})


def test_a_transaction_has_everything_a_removal_takes_along_and_changes_nothing(
    plan: MetadataTransaction, vhost: Vhost
) -> None:
    version = vhost.topology.version
    plan_queue_removal(plan, vhost.topology, vhost.topology.queues["q"])
    assert kept(plan) == {BINDING: True, QUEUE: True, EXCHANGE: True}
    assert all(change.definition is None for change in plan.changes.values())
    assert (plan.touched, vhost.topology.version) == ({}, version)


def test_the_last_binding_takes_its_auto_delete_exchange_along(plan: MetadataTransaction, vhost: Vhost) -> None:
    plan_unbinding(plan, vhost.topology, binding_of(vhost, "e"))
    assert (list(plan.changes), set(plan.touched)) == ([BINDING, EXCHANGE], {QUEUE})


def test_an_exchange_takes_its_bindings_along(plan: MetadataTransaction, vhost: Vhost) -> None:
    plan_exchange_removal(plan, vhost.topology, vhost.topology.exchanges["e"])
    assert (list(plan.changes), set(plan.touched)) == ([BINDING, EXCHANGE], {QUEUE})


def test_transient_objects_are_not_durable(plan: MetadataTransaction, vhost: Vhost) -> None:
    vhost.declare_queues([QueueDefinition(vhost.name, "passing", False, False, False, {})])
    vhost.bind(Binding(vhost.topology.exchanges["amq.fanout"], vhost.topology.queues["passing"], "", {}))
    plan_queue_removal(plan, vhost.topology, vhost.topology.queues["passing"])
    assert kept(plan) == {"bindings/%2F/amq.fanout/q/passing//-": False, "queues/%2F/passing": False}


def test_a_virtual_host_loses_everything_but_its_predeclared_exchanges(plan: MetadataTransaction, vhost: Vhost) -> None:
    topology = vhost.topology
    vhost.bind(Binding(topology.exchanges["amq.fanout"], topology.exchanges["amq.direct"], "", {}))
    plan_all_removal(plan, topology)
    assert list(plan.changes) == [BINDING, QUEUE, EXCHANGE, "bindings/%2F/amq.fanout/e/amq.direct//-"]
    assert plan.touched == {}
