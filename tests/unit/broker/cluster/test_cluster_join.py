"""A node joins a cluster while it serves its clients."""

import pytest

from tests.support.core_driver import Client, Core
from warren.broker.cluster.join import TransientDefinitions, shared_snapshot
from warren.broker.commands.requests import JoinCluster
from warren.broker.model.effects import Effect, ProposeTransaction
from warren.broker.model.events import CommandReceived, MetadataMigrated, MetadataMigrationFailed
from warren.wire.methods import QueueDeclareOk

OWN = "warren@localhost"
TICKET = 9


@pytest.fixture
def core() -> Core:
    return Core()


@pytest.fixture
def client(core: Core) -> Client:
    """A client with a transient exchange and a transient queue."""
    client = core.client()
    client.declare_exchange("passing", "fanout")
    client.declare("q")
    client.bind("q", "passing")
    client.heard()
    return client


def move(core: Core) -> MetadataMigrated:
    """The definitions of the node in the shared store."""
    core.turn(CommandReceived(TICKET, JoinCluster()))
    moved = core.answers[TICKET].result
    assert isinstance(moved, TransientDefinitions)
    shared = shared_snapshot({}, moved.definitions, OWN, moved.revision + 1)
    return MetadataMigrated(100, {key: (created, 50, value) for key, (created, value) in shared.items()})


def proposed(effects: list[Effect]) -> list[ProposeTransaction]:
    return [effect for effect in effects if isinstance(effect, ProposeTransaction)]


@pytest.mark.usefixtures("client")
def test_clients_keep_their_queues_when_their_node_joins_a_cluster(core: Core) -> None:
    effects = core.turn(move(core))
    core.now_ms += 1
    effects += core.turn()
    assert proposed(effects) == []
    topology = core.broker.vhosts["/"].topology
    assert "passing" in topology.exchanges
    assert "q" in topology.queues


def test_transactions_wait_until_the_node_has_joined(core: Core, client: Client) -> None:
    ready = move(core)
    client.declare("late")
    assert client.methods() == []
    core.now_ms += 1
    orders = proposed(core.turn(ready))
    assert [[key for key, _value in order.changes] for order in orders] == [["queues/%2F/late"]]


def test_transactions_are_proposed_again_when_the_join_fails(core: Core, client: Client) -> None:
    move(core)
    client.declare("late")
    assert client.methods() == []
    core.turn(MetadataMigrationFailed())
    core.now_ms += 1
    core.turn()
    assert [type(method) for method in client.methods()] == [QueueDeclareOk]
