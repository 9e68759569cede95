"""What scenarios about the lives of rings have in common.

Not here: mirrored queues in general (`tests.simulation.cluster.mirrored`).
"""

from tests.simulation.cluster.mirrored import mastered, masters, part_of
from tests.simulation.cluster.scenario import ClusterScenario
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
    replica = part_of(node)
    return [] if replica is None else sorted(replica.replica_set.members)


def delivered(scenario: ClusterScenario, numbers: list[int]) -> bool:
    return all((number, "work") in scenario.world.ledger.deliveries for number in numbers)


def mirrored(scenario: ClusterScenario, home: SimulatedClusterNode, definition: Table) -> None:
    """The queue is mirrored by a policy from its first moment."""
    set_policy(home, definition)
    scenario.elapse(200)
    declare(scenario, home)
    scenario.until(lambda: masters(scenario) == [home.name])


def counted(node: SimulatedClusterNode) -> int:
    queue = mastered(node)
    return 0 if queue is None else queue.ready_count()
