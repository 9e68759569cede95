"""A witness holds no queues, and serves clients like any other node; a queue on two nodes survives the loss of one."""

import pytest

from tests.simulation.cluster.mirrored import ALL, FOREVER_MS, in_sync, masters, numbers_in, published, replica_of
from tests.simulation.cluster.scenario import ClusterScenario
from warren.sim.cluster.nodes import SimulatedClusterNode
from warren.wire.field_tables import Table
from warren.wire.methods import QueueDeclare, QueueDeclareOk

LISTED: Table = {"x-ha-mode": "nodes", "x-ha-params": ["three", "one"]}


@pytest.fixture
def scenario() -> ClusterScenario:
    """Node three is the witness."""
    made = ClusterScenario(together=False)
    made.nodes[2].is_witness = True
    made.come_together()
    return made


def declare(
    scenario: ClusterScenario, node: SimulatedClusterNode, name: str, arguments: Table, exclusive: bool = False
) -> None:
    declared = QueueDeclare(name, durable=not exclusive, exclusive=exclusive, arguments=arguments)
    assert isinstance(scenario.ask(scenario.guest(node), declared), QueueDeclareOk)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_queue_on_two_nodes_and_a_witness_outlives_either(scenario: ClusterScenario, lost: int) -> None:
    witness, other = scenario.nodes[2], scenario.nodes[1 - lost]
    declare(scenario, scenario.nodes[0], "work", ALL)
    publisher = scenario.publisher(witness)
    numbers = published(scenario, publisher, 10)
    scenario.until(lambda: in_sync(other) == ["one", "two"])
    scenario.nodes[lost].lose_power(FOREVER_MS)
    scenario.until(lambda: masters(scenario) == [other.name])
    numbers += published(scenario, publisher, 10)
    assert numbers_in(scenario, witness) == numbers
    assert replica_of(witness) is None


def test_a_queue_declared_at_a_witness_is_on_another_node(scenario: ClusterScenario) -> None:
    witness = scenario.nodes[2]
    for number in range(4):
        declare(scenario, witness, f"q{number}", {})
    homes = [len(node.broker.vhosts["/"].own_queues()) for node in scenario.nodes]
    assert homes == [2, 2, 0]


def test_a_listed_witness_is_not_chosen(scenario: ClusterScenario) -> None:
    one, _two, witness = scenario.nodes
    declare(scenario, witness, "work", LISTED)
    scenario.until(lambda: in_sync(one) == ["one"])
    assert replica_of(witness) is None


def test_the_exclusive_queue_of_a_client_is_where_the_client_is_at_a_witness_too(scenario: ClusterScenario) -> None:
    witness = scenario.nodes[2]
    declare(scenario, witness, "mine", {}, exclusive=True)
    assert [queue.name for queue in witness.broker.vhosts["/"].own_queues()] == ["mine"]


def test_a_witness_that_reaches_no_node_refuses_to_declare_a_queue(scenario: ClusterScenario) -> None:
    one, two, witness = scenario.nodes
    guest = scenario.guest(witness)
    one.kill(FOREVER_MS)
    two.kill(FOREVER_MS)
    scenario.elapse(1_000)
    guest.ask(QueueDeclare("q", durable=True))
    scenario.until(lambda: bool(guest.faults))
    assert guest.faults == [
        "PRECONDITION_FAILED - the nodes of the cluster could not agree: this node is a witness, and reaches no node "
        "that holds queues"
    ]
