"""A node that was alone comes to share its definitions while it serves its clients."""

import pytest

from tests.support.core_driver import Client, Core
from warren.broker.commands import BeginSharing
from warren.broker.sharing.moving_in import PassingDefinitions, shared_snapshot
from warren.model.effects import Effect, Propose
from warren.model.events import Commanded, SharingGivenUp, SharingReady
from warren.wire.methods import QueueDeclareOk

OWN = "warren@localhost"
TICKET = 9


@pytest.fixture
def core() -> Core:
    return Core()


@pytest.fixture
def client(core: Core) -> Client:
    """Has a transient exchange and a transient queue."""
    client = core.client()
    client.declare_exchange("passing", "fanout")
    client.declare("q")
    client.bind("q", "passing")
    client.heard()
    return client


def move(core: Core) -> SharingReady:
    """Everything the node has, in the store that nodes share."""
    core.turn(Commanded(TICKET, BeginSharing()))
    moved = core.answers[TICKET].result
    assert isinstance(moved, PassingDefinitions)
    shared = shared_snapshot({}, moved.definitions, OWN, moved.revision + 1)
    return SharingReady(100, {key: (created, 50, value) for key, (created, value) in shared.items()})


def proposed(effects: list[Effect]) -> list[Propose]:
    return [effect for effect in effects if isinstance(effect, Propose)]


@pytest.mark.usefixtures("client")
def test_what_clients_of_a_node_have_stays_when_it_becomes_part_of_a_cluster(core: Core) -> None:
    effects = core.turn(move(core))
    core.now_ms += 1
    effects += core.turn()
    assert proposed(effects) == []
    topology = core.broker.vhosts["/"].topology
    assert "passing" in topology.exchanges
    assert "q" in topology.queues


def test_plans_wait_until_the_node_has_moved(core: Core, client: Client) -> None:
    ready = move(core)
    client.declare("late")
    assert client.methods() == []
    core.now_ms += 1
    orders = proposed(core.turn(ready))
    assert [[key for key, _value in order.changes] for order in orders] == [["queues/%2F/late"]]


def test_plans_are_made_anew_by_a_node_that_stays_alone(core: Core, client: Client) -> None:
    move(core)
    client.declare("late")
    assert client.methods() == []
    core.turn(SharingGivenUp())
    core.now_ms += 1
    core.turn()
    assert [type(method) for method in client.methods()] == [QueueDeclareOk]
