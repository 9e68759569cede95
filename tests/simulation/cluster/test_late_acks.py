"""Acks of deliveries by a lost master: they count, unless the message was delivered again."""

import pytest

from tests.simulation.cluster.mirrored import (
    FOREVER_MS,
    declare,
    in_sync,
    masters,
    published,
    replica_of,
    served,
    taken,
)
from tests.simulation.cluster.scenario import ClusterScenario
from tests.simulation.cluster.test_mirrored_clients import consuming, deliveries
from warren.broker.replication.mirror import ALONE
from warren.sim.cluster.nodes import SimulatedClusterNode
from warren.wire.methods import BasicAck, BasicGet, BasicGetOk


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("early", [True, False])
def test_a_message_got_from_a_lost_master_and_acked_does_not_come_again(early: bool, durable: bool) -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one, durable=durable)
    numbers = published(scenario, scenario.publisher(three), 4)
    taker = scenario.guest(three)
    for _ in range(3):
        answer = scenario.ask(taker, BasicGet("work"))
        assert isinstance(answer, BasicGetOk)
    one.lose_power(FOREVER_MS)
    if early:
        mirror = replica_of(three)
        assert mirror is not None
        scenario.until(lambda: mirror.mirror.state == ALONE)
        assert not served(scenario, scenario.nodes[1:])
    else:
        scenario.until(lambda: served(scenario, scenario.nodes[1:]))
        scenario.elapse(100)
    taker.send(1, BasicAck(1))
    taker.send(1, BasicAck(3))
    scenario.elapse(20)
    scenario.until(lambda: served(scenario, scenario.nodes[1:]))
    assert [number for number, _marked in taken(scenario, scenario.guest(two))] == [numbers[1], numbers[3]]
    assert taker.faults == []


def test_a_message_acked_after_the_master_was_lost_does_not_come_again() -> None:
    scenario = ClusterScenario()
    one, _two, three = scenario.nodes
    declare(scenario, one)
    numbers = published(scenario, scenario.publisher(three), 6)
    taker = consuming(scenario, scenario.guest(three), prefetch=3)
    scenario.until(lambda: len(deliveries(taker)) == 3)
    one.lose_power(FOREVER_MS)
    scenario.until(lambda: served(scenario, scenario.nodes[1:]))
    # the next master delivers them again; they wait at the proxy, because the client's prefetch is used up
    scenario.elapse(4_000)
    assert len(deliveries(taker)) == 3
    taker.send(1, BasicAck(3, multiple=True))
    scenario.until(lambda: len(deliveries(taker)) == 6)
    assert [number for number, _marked in deliveries(taker)] == numbers


def test_an_ack_of_what_was_delivered_again_changes_nothing() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one)
    numbers = published(scenario, scenario.publisher(three), 2)
    taker = scenario.guest(three)
    assert isinstance(scenario.ask(taker, BasicGet("work")), BasicGetOk)
    one.lose_power(FOREVER_MS)
    scenario.until(lambda: served(scenario, scenario.nodes[1:]))
    other = consuming(scenario, scenario.guest(two), prefetch=1)
    scenario.until(lambda: len(deliveries(other)) == 1)
    assert deliveries(other)[0] == (numbers[0], True)
    taker.send(1, BasicAck(1))
    scenario.elapse(100)
    other.send(1, BasicAck(1))
    scenario.until(lambda: len(deliveries(other)) == 2)
    assert deliveries(other)[1][0] == numbers[1]
    assert taker.faults == other.faults == []


def test_acks_count_when_a_master_comes_back_over_the_same_link() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one)
    numbers = published(scenario, scenario.publisher(three), 3)
    taker = scenario.guest(three)
    assert isinstance(scenario.ask(taker, BasicGet("work")), BasicGetOk)
    for successor in (two, one):
        hand_over(scenario, successor)
    taker.send(1, BasicAck(1))
    scenario.elapse(20)
    assert [number for number, _marked in taken(scenario, scenario.guest(two))] == numbers[1:]


def hand_over(scenario: ClusterScenario, successor: SimulatedClusterNode) -> None:
    """Make another node the master, when it is in sync."""
    all_names = ["one", "three", "two"]
    scenario.until(lambda: all(in_sync(node) == all_names for node in scenario.nodes))
    for node in scenario.nodes:
        replica = replica_of(node)
        if replica is not None and replica.master_replica is not None:
            replica.master_replica.master.want_master(successor.name)
    scenario.until(lambda: masters(scenario) == [successor.name])
