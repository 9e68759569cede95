"""A mirror that is removed from a replica set and added again before it has learnt of either."""

from tests.simulation.cluster.mirrored import (
    AUTOMATIC,
    declare,
    in_sync,
    numbers_in,
    published,
    replica_of,
    served,
    set_policy,
)
from tests.simulation.cluster.scenario import ClusterScenario
from warren.broker.commands.requests import SetPolicy
from warren.broker.model.events import CommandReceived
from warren.broker.policies.policies import QUEUES, Policy
from warren.sim.cluster.nodes import SimulatedClusterNode
from warren.wire.field_tables import Table

WITHOUT_TWO: Table = {"ha-mode": "nodes", "ha-params": ["one", "three"], "ha-sync-mode": "automatic"}


def members_at(node: SimulatedClusterNode) -> list[str]:
    replica = replica_of(node)
    return [] if replica is None else sorted(replica.replica_set.members)


def want(scenario: ClusterScenario, definition: Table) -> None:
    """Set a policy; not every node has to learn of it."""
    policy = Policy("/", "mirroring", ".*", QUEUES, definition)
    scenario.nodes[0].add(CommandReceived(3, SetPolicy(policy, False)))


def test_a_readmitted_mirror_is_in_sync_only_after_a_new_backfill() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    set_policy(scenario, AUTOMATIC)
    declare(scenario, one, durable=False, arguments={})
    publisher = scenario.publisher(one)
    before = published(scenario, publisher, 5)
    two.cut_off_from_store(True)
    want(scenario, WITHOUT_TWO)
    scenario.until(lambda: members_at(one) == ["one", "three"])
    want(scenario, AUTOMATIC)
    scenario.until(lambda: members_at(one) == ["one", "three", "two"])
    # it joins again, with messages that it is about to drop
    for wire in scenario.world.peer_links.of(two.name):
        wire.drop(two, "its network is gone")
    scenario.elapse(400)
    assert scenario.world.whole()
    after = published(scenario, publisher, 5)
    assert in_sync(one) == ["one", "three"]
    two.cut_off_from_store(False)
    scenario.until(lambda: in_sync(one) == ["one", "three", "two"])
    for node in (one, three):
        node.lose_power(down_ms=60_000)
    scenario.until(lambda: served(scenario, [two]))
    assert numbers_in(scenario, two) == before + after


def test_a_mirror_that_missed_its_removal_and_readmission_joins_again() -> None:
    """Its master has removed it, and it does not know that."""
    scenario = ClusterScenario()
    one, two, _three = scenario.nodes
    set_policy(scenario, AUTOMATIC)
    declare(scenario, one, arguments={})
    two.cut_off_from_store(True)
    want(scenario, WITHOUT_TWO)
    scenario.until(lambda: members_at(one) == ["one", "three"])
    want(scenario, AUTOMATIC)
    scenario.until(lambda: members_at(one) == ["one", "three", "two"])
    scenario.world.store.forget_history()
    two.cut_off_from_store(False)
    scenario.until(lambda: in_sync(one) == ["one", "three", "two"])
