"""What scenarios about the lives of rings have in common.

Not here: mirrored queues in general (`tests.simulation.cluster.mirrored`).
"""

from tests.simulation.cluster.mirrored import mastered, masters, part_of
from tests.simulation.cluster.scenario import ClusterScenario
from warren.model.events import Commanded
from warren.policy.commands import ClearPolicy, SetPolicy
from warren.policy.policy import Policy
from warren.sim.cluster.member import Member
from warren.wire.methods import (
    QueueDeclare,
    QueueDeclareOk,
)
from warren.wire.values import Table

EVERYWHERE: Table = {"ha-mode": "all", "ha-sync-mode": "automatic"}


def declare(scenario: ClusterScenario, node: Member, name: str = "work", durable: bool = True) -> None:
    answer = scenario.ask(scenario.guest(node), QueueDeclare(name, durable=durable))
    assert isinstance(answer, QueueDeclareOk)


def set_policy(node: Member, definition: Table) -> None:
    node.add(Commanded(1, SetPolicy(Policy("/", "ha", "^work", "queues", definition), False)))


def clear_policy(node: Member) -> None:
    node.add(Commanded(2, ClearPolicy("/", "ha", False)))


def members(node: Member) -> list[str]:
    part = part_of(node)
    return [] if part is None else sorted(part.ring.members)


def delivered(scenario: ClusterScenario, numbers: list[int]) -> bool:
    attempts = scenario.world.promises.attempts
    return all("work" in attempts[number].copies for number in numbers)


def mirrored(scenario: ClusterScenario, home: Member, definition: Table) -> None:
    """The queue is mirrored by a policy from its first moment."""
    set_policy(home, definition)
    scenario.elapse(200)
    declare(scenario, home)
    scenario.until(lambda: masters(scenario) == [home.name])


def counted(node: Member) -> int:
    queue = mastered(node)
    return 0 if queue is None else queue.ready_count()
