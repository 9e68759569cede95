"""Shared steps of scenarios in which replica sets change.

Not here: mirrored queues in general (`tests.simulation.cluster.mirrored`).
"""

from tests.simulation.cluster.mirrored import in_sync, mastered, masters, published, replica_of
from tests.simulation.cluster.scenario import ClusterScenario, QuietPublisher
from warren.broker.commands.requests import ClearPolicy, SetPolicy
from warren.broker.model.events import CommandReceived
from warren.broker.policies.policies import Policy
from warren.sim.cluster.nodes import SimulatedClusterNode
from warren.wire.field_tables import Table
from warren.wire.methods import QueueDeclare, QueueDeclareOk

EVERYWHERE: Table = {"ha-mode": "all", "ha-sync-mode": "automatic"}


def declare(scenario: ClusterScenario, node: SimulatedClusterNode, name: str = "work", durable: bool = True) -> None:
    answer = scenario.ask(scenario.guest(node), QueueDeclare(name, durable=durable))
    assert isinstance(answer, QueueDeclareOk)


def set_policy(node: SimulatedClusterNode, definition: Table) -> None:
    node.add(CommandReceived(1, SetPolicy(Policy("/", "ha", "^work", "queues", definition), False)))


def clear_policy(node: SimulatedClusterNode) -> None:
    node.add(CommandReceived(2, ClearPolicy("/", "ha", False)))


def members(node: SimulatedClusterNode) -> list[str]:
    replica = replica_of(node)
    return [] if replica is None else sorted(replica.replica_set.members)


def delivered(scenario: ClusterScenario, numbers: list[int]) -> bool:
    return all((number, "work") in scenario.world.ledger.deliveries for number in numbers)


def mirrored(scenario: ClusterScenario, home: SimulatedClusterNode, definition: Table) -> None:
    """The queue is mirrored by a policy from its first moment."""
    set_policy(home, definition)
    scenario.elapse(200)
    declare(scenario, home)
    scenario.until(lambda: masters(scenario) == [home.name])


def become_mirrored(scenario: ClusterScenario, home: SimulatedClusterNode) -> None:
    """Set a policy that mirrors the queue to all nodes; returns when all are in sync."""
    set_policy(scenario.nodes[2], EVERYWHERE)
    scenario.until(lambda: in_sync(home) == ["one", "three", "two"])


def lose_home(scenario: ClusterScenario, home: SimulatedClusterNode) -> None:
    """Cut the home's power for a long time; returns when there is another master."""
    home.lose_power(down_ms=60_000)
    scenario.until(lambda: len(masters(scenario)) == 1)


def published_at(scenario: ClusterScenario, node: SimulatedClusterNode, count: int) -> tuple[QuietPublisher, list[int]]:
    """A publisher at a node, and the numbers of messages that it has published to `work`, all confirmed."""
    publisher = scenario.publisher(node)
    return publisher, published(scenario, publisher, count)


def see_delivered(scenario: ClusterScenario, node: SimulatedClusterNode, numbers: list[int]) -> None:
    """A consumer at a node gets these messages."""
    scenario.consumer(node, "work")
    scenario.until(lambda: delivered(scenario, numbers))


def counted(node: SimulatedClusterNode) -> int:
    queue = mastered(node)
    return 0 if queue is None else queue.ready_count()
