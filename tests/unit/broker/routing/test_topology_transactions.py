"""The keys that transactions for exchanges, queues and bindings change, rely on and touch."""

import pytest

from tests.support.lone_vhosts import lone_vhost
from warren.broker.metadata.topology_definitions import BindingDefinition, ExchangeDefinition, QueueDefinition
from warren.broker.metadata.transaction import MetadataTransaction
from warren.broker.model.turn import Turn
from warren.broker.routing.exchanges import Binding
from warren.broker.routing.topology_transactions import (
    add_binding_definition,
    add_binding_removal,
    add_exchange_definition,
    add_exchange_removal,
    add_queue_definition,
    add_queue_removal,
    add_removal_of_all,
)
from warren.broker.vhost import Vhost

QUEUE, EXCHANGE, VHOST = "queues/%2F/q", "exchanges/%2F/e", "vhosts/%2F"
BINDING = "bindings/%2F/e/q/q//-"


@pytest.fixture
def transaction() -> MetadataTransaction:
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


def kept(transaction: MetadataTransaction) -> dict[str, bool]:
    return {key: change.kept for key, change in transaction.changes.items()}


def test_a_new_object_depends_on_its_virtual_host(transaction: MetadataTransaction) -> None:
    add_queue_definition(transaction, QueueDefinition("/", "q", True, False, False, {}))
    add_exchange_definition(transaction, ExchangeDefinition("/", "e", "fanout", False, False, False, {}))
    assert kept(transaction) == {QUEUE: True, EXCHANGE: False}
    assert (set(transaction.relied_on), transaction.touched) == ({VHOST, QUEUE, EXCHANGE}, {})


def test_a_binding_touches_both_its_ends(transaction: MetadataTransaction) -> None:
    add_binding_definition(transaction, BindingDefinition("/", "e", "q", True, "", {}, True))
    add_binding_definition(transaction, BindingDefinition("/", "e", "f", False, "", {}, True))
    assert set(transaction.touched) == {EXCHANGE, QUEUE, "exchanges/%2F/f"}
    assert set(transaction.relied_on) >= set(transaction.touched)


def test_predeclared_exchanges_are_not_touched(transaction: MetadataTransaction) -> None:
    add_binding_definition(transaction, BindingDefinition("/", "amq.fanout", "amq.direct", False, "", {}, True))
    assert transaction.touched == {}


def test_an_object_created_with_its_binding_is_not_touched(transaction: MetadataTransaction) -> None:
    add_queue_definition(transaction, QueueDefinition("/", "q", True, False, False, {}))
    add_binding_definition(transaction, BindingDefinition("/", "e", "q", True, "", {}, True))
    assert set(transaction.touched) == {EXCHANGE}


def test_an_exchange_is_touched_by_the_removal_of_a_bound_queue(transaction: MetadataTransaction, vhost: Vhost) -> None:
    vhost.declare_queues([QueueDefinition(vhost.name, "other", True, False, False, {})])
    vhost.bind(Binding(vhost.topology.exchanges["e"], vhost.topology.queues["other"], "", {}))
    add_queue_removal(transaction, vhost.topology, vhost.topology.queues["q"])
    assert (list(transaction.changes), set(transaction.touched)) == ([BINDING, QUEUE], {EXCHANGE})


def test_a_transaction_has_everything_a_removal_takes_along_and_changes_nothing(
    transaction: MetadataTransaction, vhost: Vhost
) -> None:
    version = vhost.topology.version
    add_queue_removal(transaction, vhost.topology, vhost.topology.queues["q"])
    assert kept(transaction) == {BINDING: True, QUEUE: True, EXCHANGE: True}
    assert all(change.definition is None for change in transaction.changes.values())
    assert (transaction.touched, vhost.topology.version) == ({}, version)


def test_the_last_binding_takes_its_auto_delete_exchange_along(transaction: MetadataTransaction, vhost: Vhost) -> None:
    add_binding_removal(transaction, vhost.topology, binding_of(vhost, "e"))
    assert (list(transaction.changes), set(transaction.touched)) == ([BINDING, EXCHANGE], {QUEUE})


def test_an_exchange_takes_its_bindings_along(transaction: MetadataTransaction, vhost: Vhost) -> None:
    add_exchange_removal(transaction, vhost.topology, vhost.topology.exchanges["e"])
    assert (list(transaction.changes), set(transaction.touched)) == ([BINDING, EXCHANGE], {QUEUE})


def test_transient_objects_are_not_durable(transaction: MetadataTransaction, vhost: Vhost) -> None:
    vhost.declare_queues([QueueDefinition(vhost.name, "passing", False, False, False, {})])
    vhost.bind(Binding(vhost.topology.exchanges["amq.fanout"], vhost.topology.queues["passing"], "", {}))
    add_queue_removal(transaction, vhost.topology, vhost.topology.queues["passing"])
    assert kept(transaction) == {"bindings/%2F/amq.fanout/q/passing//-": False, "queues/%2F/passing": False}


def test_a_virtual_host_loses_everything_but_its_predeclared_exchanges(
    transaction: MetadataTransaction, vhost: Vhost
) -> None:
    topology = vhost.topology
    vhost.bind(Binding(topology.exchanges["amq.fanout"], topology.exchanges["amq.direct"], "", {}))
    add_removal_of_all(transaction, topology)
    assert list(transaction.changes) == [BINDING, QUEUE, EXCHANGE, "bindings/%2F/amq.fanout/e/amq.direct//-"]
    assert transaction.touched == {}
