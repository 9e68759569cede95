"""With `ha-confirm` = `master` the master alone confirms; losing it and the publisher's node at once loses messages."""

import pytest

from tests.simulation.cluster.mirrored import (
    AUTOMATIC,
    FOREVER_MS,
    declare,
    in_sync,
    mastered,
    masters,
    numbers_in,
    published,
    replica_of,
    set_policy,
)
from tests.simulation.cluster.scenario import ClusterScenario

FROZEN_MS = 1_000
SHORT_MS = 300
EARLY = {**AUTOMATIC, "ha-confirm": "master"}


@pytest.fixture
def scenario() -> ClusterScenario:
    """The queue's master is node one."""
    made = ClusterScenario()
    set_policy(made, EARLY)
    declare(made, made.nodes[0])
    return made


def test_the_master_alone_confirms_and_does_not_deliver_messages_it_alone_has(scenario: ClusterScenario) -> None:
    one, two, three = scenario.nodes
    publisher = scenario.publisher(three)
    queue = mastered(one)
    assert queue is not None
    numbers = published(scenario, publisher, 5)
    scenario.until(lambda: queue.ready_count() == 5)
    two.freeze(FROZEN_MS)
    began_ms = scenario.world.now_ms
    numbers += published(scenario, publisher, 5)
    assert scenario.world.now_ms < began_ms + SHORT_MS
    assert queue.ready_count() == 5
    scenario.until(lambda: queue.ready_count() == 10)
    assert numbers_in(scenario, three) == numbers
    scenario.finish()


def test_messages_that_only_the_lost_master_had_are_sent_to_the_next(scenario: ClusterScenario) -> None:
    one, two, three = scenario.nodes
    set_policy(scenario, {**EARLY, "ha-mode": "nodes", "ha-params": ["one", "two"]})
    scenario.until(lambda: in_sync(one) == ["one", "two"] and replica_of(three) is None)
    publisher = scenario.publisher(three)
    numbers = published(scenario, publisher, 5)
    wire = scenario.world.peer_links.between("one", "two")
    wire.set_cut(0, True)
    wire.set_cut(1, True)
    numbers += published(scenario, publisher, 5)
    one.lose_power(FOREVER_MS)
    scenario.until(lambda: masters(scenario) == ["two"])
    queue = mastered(two)
    assert queue is not None
    scenario.until(lambda: queue.ready_count() == 10)
    assert numbers_in(scenario, three) == numbers


def test_without_the_policy_a_confirm_waits_for_all_in_sync_replicas(scenario: ClusterScenario) -> None:
    set_policy(scenario, AUTOMATIC)
    _one, two, three = scenario.nodes
    publisher = scenario.publisher(three)
    two.freeze(FROZEN_MS)
    began_ms = scenario.world.now_ms
    published(scenario, publisher, 5)
    assert scenario.world.now_ms >= began_ms + FROZEN_MS - SHORT_MS
