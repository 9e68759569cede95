"""After a mirrored queue lost its master: messages that must not come back, publishes that must not be confirmed."""

from tests.simulation.cluster.mirrored import in_sync, published, replica_of, served, taken
from tests.simulation.cluster.replica_set_lives import mirrored, set_policy
from tests.simulation.cluster.scenario import ClusterScenario
from warren.wire.field_tables import Table
from warren.wire.methods import BasicGet, QueueDeclare, QueuePurge

FOREVER_MS = 10_000_000
LIMITED: Table = {
    "x-ha-mode": "nodes",
    "x-ha-params": ["one", "two"],
    "x-max-length": 1,
    "x-overflow": "reject-publish",
}


def on_nodes(*names: str) -> Table:
    return {"ha-mode": "nodes", "ha-params": list(names), "ha-sync-mode": "automatic"}


def test_a_removed_mirror_that_joins_again_has_nothing_of_its_earlier_membership() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    mirrored(scenario, one, on_nodes("one", "two"))
    scenario.until(lambda: in_sync(one) == ["one", "two"])
    publisher = scenario.publisher(three)
    published(scenario, publisher, 10)
    set_policy(one, on_nodes("one"))
    scenario.until(lambda: in_sync(one) == ["one"] and replica_of(two) is None)
    scenario.ask(scenario.guest(one), QueuePurge("work"))
    set_policy(one, on_nodes("one", "two"))
    scenario.until(lambda: in_sync(one) == ["one", "two"])
    more = published(scenario, publisher, 1)
    one.lose_power(FOREVER_MS)
    two.lose_power(500)
    scenario.until(lambda: served(scenario, [two]))
    assert [number for number, _redelivered in taken(scenario, scenario.guest(two))] == more


def test_a_removed_mirror_that_joins_again_ignores_records_of_its_earlier_membership() -> None:
    scenario = ClusterScenario()
    one, two, _three = scenario.nodes
    mirrored(scenario, one, on_nodes("one"))
    wire = scenario.world.peer_links.between("one", "two")
    wire.set_cut(wire.members.index(two), True)
    # it asks to join, and again when it is back, before the master receives either request
    for names in (["one", "two"], ["one"], ["one", "two"]):
        set_policy(one, on_nodes(*names))
        scenario.until(lambda wanted=names: (replica_of(two) is not None) == ("two" in wanted))
    scenario.elapse(20)
    wire.mend()
    scenario.until(lambda: in_sync(one) == ["one", "two"])
    scenario.finish()


def test_a_publish_that_a_lost_master_refused_is_not_confirmed_by_the_next() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    scenario.ask(scenario.guest(one), QueueDeclare("work", durable=True, arguments=LIMITED))
    scenario.until(lambda: in_sync(one) == ["one", "two"])
    publisher = scenario.publisher(three)
    first = published(scenario, publisher, 1)
    wire = next(wire for wire in scenario.world.peer_links.of("one") if wire.joins("three"))
    wire.set_cut(wire.members.index(one), True)
    refused = scenario.publish(publisher, "work", 1)
    scenario.elapse(50)
    scenario.ask(scenario.guest(two), BasicGet("work", no_ack=True))
    scenario.elapse(100)
    scenario.publish(publisher, "work", 1)
    scenario.elapse(100)
    one.lose_power(FOREVER_MS)
    run = wire.run
    assert run is not None
    run[1 - wire.members.index(one)].coming.clear()
    wire.mend()
    scenario.until(lambda: served(scenario, [two]))
    scenario.until(publisher.done)
    assert scenario.confirmed(first + refused) == first
