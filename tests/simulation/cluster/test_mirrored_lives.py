"""Replica sets over time: policies that change while queues are used, masters that move, nodes that stop and vanish."""

import pytest

from tests.simulation.cluster.mirrored import in_sync, masters, numbers_in, replica_of
from tests.simulation.cluster.replica_set_lives import (
    EVERYWHERE,
    clear_policy,
    declare,
    members,
    mirrored,
    published_at,
    see_delivered,
    set_policy,
)
from tests.simulation.cluster.scenario import ClusterScenario
from warren.broker.commands.requests import RebalanceQueues
from warren.broker.metadata.store import IDS_PER_REVISION
from warren.broker.model.events import CommandReceived
from warren.wire.field_tables import Table
from warren.wire.methods import QueueDeclare

SPREAD = ["one", "one", "three", "three", "two", "two"]


def test_without_a_policy_any_more_the_master_goes_on_alone() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    mirrored(scenario, two, EVERYWHERE)
    publisher, numbers = published_at(scenario, one, 10)
    clear_policy(one)
    scenario.until(lambda: in_sync(two) == ["two"] and members(one) == members(three) == [])
    numbers += scenario.publish(publisher, "work", 10)
    scenario.until(publisher.done)
    assert scenario.confirmed(numbers) == numbers
    see_delivered(scenario, three, numbers)
    scenario.finish()


def test_a_policy_that_names_other_nodes_moves_the_queue_there_with_all_it_has() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    mirrored(scenario, one, {"ha-mode": "nodes", "ha-params": ["one"], "ha-sync-mode": "automatic"})
    publisher, numbers = published_at(scenario, one, 10)
    set_policy(two, {"ha-mode": "nodes", "ha-params": ["three", "two"], "ha-sync-mode": "automatic"})
    # the first of them that has everything
    scenario.until(lambda: masters(scenario) in (["two"], ["three"]) and in_sync(three) == ["three", "two"])
    scenario.until(lambda: members(one) == [])
    numbers += scenario.publish(publisher, "work", 10)
    scenario.until(publisher.done)
    assert scenario.confirmed(numbers) == numbers
    see_delivered(scenario, two, numbers)
    scenario.finish()


def test_the_only_copy_in_sync_is_kept_until_another_has_everything() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    mirrored(scenario, one, {"ha-mode": "nodes", "ha-params": ["one"]})
    _, numbers = published_at(scenario, one, 10)
    # without automatic synchronisation
    set_policy(two, {"ha-mode": "nodes", "ha-params": ["two"]})
    scenario.until(lambda: members(two) == ["one", "two"])
    scenario.elapse(5_000)
    assert masters(scenario) == ["one"]
    assert in_sync(one) == ["one"]
    see_delivered(scenario, three, numbers)


def test_a_transient_queue_is_gone_with_all_its_replicas_and_does_not_come_back() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    set_policy(one, {"ha-mode": "nodes", "ha-params": ["one", "two"], "ha-sync-mode": "automatic"})
    scenario.elapse(200)
    declare(scenario, two, durable=False)
    scenario.until(lambda: in_sync(two) == ["one", "two"])
    scenario.publish(scenario.publisher(two), "work", 10)
    one.lose_power(down_ms=2_000)
    two.lose_power(down_ms=2_000)
    scenario.until(lambda: not scenario.knows(three, "work"))
    scenario.until(lambda: one.up and two.up and scenario.world.whole())
    scenario.until(lambda: not any(scenario.knows(node, "work") for node in scenario.nodes))
    assert masters(scenario) == []


def test_a_transient_queue_lives_on_with_a_mirror_that_was_in_sync() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    set_policy(one, EVERYWHERE)
    scenario.elapse(200)
    declare(scenario, two, durable=False)
    scenario.until(lambda: in_sync(two) == ["one", "three", "two"])
    _, numbers = published_at(scenario, one, 10)
    two.lose_power(down_ms=2_000)
    scenario.until(lambda: two.up and scenario.world.whole() and in_sync(one) == ["one", "three", "two"])
    see_delivered(scenario, three, numbers)


def test_a_node_that_stops_hands_its_queues_over_first() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    mirrored(scenario, two, EVERYWHERE)
    scenario.until(lambda: in_sync(two) == ["one", "three", "two"])
    publisher, numbers = published_at(scenario, one, 10)
    two.stop(down_ms=60_000)
    scenario.until(lambda: masters(scenario) in (["one"], ["three"]))
    assert two.up
    numbers += scenario.publish(publisher, "work", 10)
    scenario.until(lambda: not two.up)
    scenario.until(publisher.done)
    assert scenario.confirmed(numbers) == numbers
    see_delivered(scenario, three, numbers)


def test_a_queue_without_a_mirror_in_sync_waits_for_its_node() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    mirrored(scenario, two, {"ha-mode": "nodes", "ha-params": ["two"]})
    _, numbers = published_at(scenario, two, 10)
    set_policy(one, {"ha-mode": "nodes", "ha-params": ["two", "one"]})
    scenario.until(lambda: members(one) == ["one", "two"])
    two.stop(down_ms=5_000)
    scenario.until(lambda: not two.up)
    scenario.elapse(4_000)
    assert masters(scenario) == []
    scenario.until(lambda: two.up and masters(scenario) == ["two"])
    see_delivered(scenario, three, numbers)


def test_a_policy_may_allow_the_promotion_of_an_incomplete_mirror_when_a_node_stops() -> None:
    scenario = ClusterScenario()
    one, two, _three = scenario.nodes
    mirrored(scenario, two, {"ha-mode": "nodes", "ha-params": ["two"]})
    published_at(scenario, two, 10)
    both: Table = {"ha-mode": "nodes", "ha-params": ["two", "one"], "ha-promote-on-shutdown": "always"}
    set_policy(one, both)
    scenario.until(lambda: members(one) == ["one", "two"])
    two.stop(down_ms=60_000)
    scenario.until(lambda: masters(scenario) == ["one"])
    assert in_sync(one) == ["one"]


def test_the_first_master_is_on_a_node_that_is_to_hold_the_queue() -> None:
    scenario = ClusterScenario()
    one, _two, _three = scenario.nodes
    set_policy(one, {"ha-mode": "nodes", "ha-params": ["missing", "three", "two"]})
    scenario.elapse(200)
    declare(scenario, one)
    scenario.until(lambda: masters(scenario) == ["three"])
    assert members(one) == []
    wanted: Table = {"x-ha-mode": "nodes", "x-ha-params": ["missing"]}
    scenario.ask(scenario.guest(one), QueueDeclare("other", durable=True, arguments=wanted))
    scenario.until(lambda: masters(scenario, "other") == ["one"])


def test_masters_are_spread_evenly_over_the_members() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    set_policy(one, EVERYWHERE)
    scenario.elapse(200)
    names = [f"work{number}" for number in range(6)]
    for name in names:
        declare(scenario, one, name)
    scenario.until(lambda: all(in_sync(one, name) == ["one", "three", "two"] for name in names))
    publisher = scenario.publisher(two)
    for name in names:
        scenario.publish(publisher, name, 3)
    scenario.until(publisher.done)
    three.add(CommandReceived(3, RebalanceQueues()))
    scenario.until(lambda: sorted(masters(scenario, name)[0] for name in names if masters(scenario, name)) == SPREAD)
    for name in names:
        scenario.consumer(three, name)
    scenario.finish()


def test_a_policy_may_allow_the_promotion_of_an_incomplete_mirror_when_a_node_is_lost() -> None:
    scenario = ClusterScenario()
    one, two, _three = scenario.nodes
    mirrored(scenario, two, {"ha-mode": "nodes", "ha-params": ["two"]})
    published_at(scenario, two, 10)
    set_policy(one, {"ha-mode": "nodes", "ha-params": ["two", "one"], "ha-promote-on-failure": "always"})
    scenario.until(lambda: members(one) == ["one", "two"])
    two.lose_power(down_ms=60_000)
    scenario.until(lambda: masters(scenario) == ["one"])
    replica = replica_of(one)
    assert replica is not None
    assert "mirror.promoted_unsynced" in [said.name for said in replica.history.events]
    # `warren ctl queue_story` has a column for each
    assert all({"node", "epoch"} <= said.facts.keys() for said in replica.history.events)


def test_with_fewer_nodes_in_sync_than_a_policy_demands_publishes_are_refused() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    mirrored(scenario, two, {**EVERYWHERE, "ha-min-in-sync": 3})
    scenario.until(lambda: in_sync(two) == ["one", "three", "two"])
    publisher, numbers = published_at(scenario, one, 10)
    assert scenario.confirmed(numbers) == numbers
    three.lose_power(down_ms=3_000)
    scenario.until(lambda: in_sync(two) == ["one", "two"])
    refused = scenario.publish(publisher, "work", 10)
    scenario.until(publisher.done)
    assert scenario.confirmed(refused) == []
    scenario.until(lambda: in_sync(two) == ["one", "three", "two"])
    numbers = scenario.publish(publisher, "work", 10)
    scenario.until(publisher.done)
    assert scenario.confirmed(numbers) == numbers


def test_a_node_that_stops_hands_many_queues_over_in_a_few_transactions() -> None:
    scenario = ClusterScenario()
    one, two, _three = scenario.nodes
    set_policy(one, EVERYWHERE)
    scenario.elapse(200)
    guest = scenario.guest(two)
    names = [f"work{number}" for number in range(70)]
    for name in names:
        scenario.ask(guest, QueueDeclare(name, durable=True))
    scenario.until(lambda: all(in_sync(two, name) == ["one", "three", "two"] for name in names))
    scenario.elapse(1_000)
    before = scenario.world.store.revision
    two.stop(down_ms=60_000)
    scenario.until(lambda: not two.up)
    scenario.until(lambda: all(masters(scenario, name) in (["one"], ["three"]) for name in names))
    # one for each transaction, a few of which are about something else
    assert (scenario.world.store.revision - before) // IDS_PER_REVISION < 10


@pytest.mark.parametrize("durable", [True, False])
def test_a_master_that_hands_over_stays_in_sync_and_has_everything(durable: bool) -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    # without automatic synchronisation
    set_policy(one, {"ha-mode": "all"})
    scenario.elapse(200)
    declare(scenario, two, durable=durable)
    scenario.until(lambda: in_sync(two) == ["one", "three", "two"])
    publisher, numbers = published_at(scenario, three, 10)
    replica = replica_of(two)
    assert replica is not None
    assert replica.master_replica is not None
    numbers += scenario.publish(publisher, "work", 10)
    # its answers as a mirror are delayed
    wire = scenario.world.peer_links.between("one", "two")
    wire.set_cut(wire.members.index(two), True)
    replica.master_replica.master.want_master("one")
    scenario.elapse(2)
    numbers += scenario.publish(publisher, "work", 10)
    scenario.elapse(500)
    wire.mend()
    scenario.until(lambda: masters(scenario) == ["one"] and publisher.done())
    assert scenario.confirmed(numbers) == numbers
    scenario.elapse(3_000)
    assert in_sync(one) == ["one", "three", "two"]
    assert replica.contents.count() == 30
    for node in (one, three):
        node.lose_power(down_ms=1_000_000)
    scenario.until(lambda: masters(scenario) == ["two"])
    assert numbers_in(scenario, two) == numbers
