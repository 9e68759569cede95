"""Shared steps of scenarios about mirrored queues.

Not here: the cluster (`tests.simulation.cluster.scenario`).
"""

from tests.simulation.cluster.scenario import ClusterScenario, Guest, QuietPublisher
from warren.broker.commands.requests import SetPolicy
from warren.broker.model.events import CommandReceived
from warren.broker.model.local_queue import LocalQueue
from warren.broker.policies.policies import QUEUES, Policy
from warren.broker.replication.local_replica import LocalReplica
from warren.sim.cluster.invariants import local_replicas_of
from warren.sim.cluster.nodes import SimulatedClusterNode
from warren.wire.field_tables import Table
from warren.wire.methods import BasicGet, BasicGetEmpty, BasicGetOk, QueueDeclare, QueueDeclareOk

ALL: Table = {"x-ha-mode": "all"}
AUTOMATIC: Table = {"ha-mode": "all", "ha-sync-mode": "automatic"}
FOREVER_MS = 1_000_000


def declare(
    scenario: ClusterScenario,
    node: SimulatedClusterNode,
    name: str = "work",
    durable: bool = True,
    arguments: Table | None = None,
) -> None:
    """Declare a queue that is mirrored to all nodes, and wait until all are in sync; its master is on this node."""
    declared = QueueDeclare(name, durable=durable, arguments={**ALL, **(arguments or {})})
    answer = scenario.ask(scenario.guest(node), declared)
    assert isinstance(answer, QueueDeclareOk)
    all_names = sorted(one.name for one in scenario.nodes)
    scenario.until(lambda: in_sync(node, name) == all_names)
    assert masters(scenario, name) == [node.name]


def set_policy(scenario: ClusterScenario, definition: Table, pattern: str = ".*") -> None:
    """And wait until every node knows of it."""
    scenario.nodes[0].add(CommandReceived(3, SetPolicy(Policy("/", "mirroring", pattern, QUEUES, definition), False)))
    scenario.elapse(200)
    assert all(node.broker.policies.for_queue("/", "work").definition == definition for node in scenario.nodes)


def mastered(node: SimulatedClusterNode, name: str = "work") -> LocalQueue | None:
    """The queue itself, if this node is its master."""
    return node.broker.vhosts["/"].own_queue(name) if node.up else None


def masters(scenario: ClusterScenario, name: str = "work") -> list[str]:
    return [node.name for node in scenario.nodes if mastered(node, name) is not None]


def replica_of(node: SimulatedClusterNode, name: str = "work") -> LocalReplica | None:
    """This node's replica of a queue."""
    return next((replica for replica in local_replicas_of(node) if replica.definition.name == name), None)


def in_sync(node: SimulatedClusterNode, name: str = "work") -> list[str]:
    """The in-sync members, as a member knows them."""
    replica = replica_of(node, name)
    return [] if replica is None else sorted(replica.replica_set.synced_names())


def epoch_at(node: SimulatedClusterNode, name: str = "work") -> int:
    replica = replica_of(node, name)
    return 0 if replica is None else replica.replica_set.epoch


def served(scenario: ClusterScenario, nodes: list[SimulatedClusterNode]) -> bool:
    """True if one of these nodes is the master, and serves the queue."""
    return any(mastered(node) is not None for node in nodes)


def published(scenario: ClusterScenario, publisher: QuietPublisher, count: int, name: str = "work") -> list[int]:
    """Publish, and wait for all confirms."""
    numbers = scenario.publish(publisher, name, count)
    scenario.until(publisher.done)
    assert scenario.confirmed(numbers) == numbers
    return numbers


def taken(scenario: ClusterScenario, guest: Guest, name: str = "work") -> list[tuple[int, bool]]:
    """All messages of the queue, in order: their numbers, and whether they are redelivered."""
    found: list[tuple[int, bool]] = []
    while True:
        answer = scenario.ask(guest, BasicGet(name, no_ack=True))
        if isinstance(answer, BasicGetEmpty):
            return found
        assert isinstance(answer, BasicGetOk)
        assert guest.link is not None
        body, promises = guest.answers[-1].body, scenario.world.ledger
        attempt = promises.delivered(guest.who, guest.link, name, body, answer.redelivered, kept=False)
        assert attempt is not None, "it was published"
        promises.settled(attempt, name, True, False)
        found.append((attempt.number, answer.redelivered))


def numbers_in(scenario: ClusterScenario, node: SimulatedClusterNode, name: str = "work") -> list[int]:
    """The numbers of the messages that are in the queue, in order."""
    return [number for number, _marked in taken(scenario, scenario.guest(node), name)]
