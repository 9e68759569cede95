"""A node that is taken out of a ring and taken in again before it has heard of either."""

from tests.simulation.cluster.mirrored import (
    AUTOMATIC,
    declare,
    in_sync,
    numbers_in,
    part_of,
    published,
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
    replica = part_of(node)
    return [] if replica is None else sorted(replica.replica_set.members)


def want(scenario: ClusterScenario, definition: Table) -> None:
    """Not every node has to hear of it."""
    policy = Policy("/", "mirroring", ".*", QUEUES, definition)
    scenario.nodes[0].add(CommandReceived(3, SetPolicy(policy, False)))


def test_it_is_in_sync_only_with_what_it_got_since_it_heard_of_that() -> None:
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
    # it asks its master anew, with what it has and is about to drop
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


def test_it_follows_anew_if_it_never_hears_what_came_in_between() -> None:
    """Its master does not take it for a follower any more, and it cannot tell."""
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
