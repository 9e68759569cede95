"""Queues that several nodes hold: confirmed messages survive all faults of the nodes, once and in order."""

from collections.abc import Callable

import pytest

from tests.simulation.cluster.mirrored import (
    AUTOMATIC,
    FOREVER_MS,
    declare,
    epoch_at,
    in_sync,
    masters,
    numbers_in,
    published,
    served,
    set_policy,
    taken,
)
from tests.simulation.cluster.scenario import ClusterScenario
from warren.sim.clients import TRANSACTION
from warren.sim.cluster.nodes import SimulatedClusterNode
from warren.wire.methods import BasicAck, BasicGet, BasicGetOk, QueueDeclare, QueueDeclareOk

OUTAGE_MS = 3_000
ENDS: dict[str, Callable[[SimulatedClusterNode], None]] = {
    "killed": lambda node: node.kill(OUTAGE_MS),
    "without power": lambda node: node.lose_power(OUTAGE_MS),
    "stopped": lambda node: node.stop(OUTAGE_MS),
}


def all_back(scenario: ClusterScenario, lives: list[int]) -> bool:
    lived = [node.lives for node in scenario.nodes]
    return lived == lives and all(node.up for node in scenario.nodes) and scenario.world.whole()


def test_a_mirrored_queue_takes_and_gives_messages() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, two)
    numbers = published(scenario, scenario.publisher(one), 10)
    assert numbers_in(scenario, three) == numbers
    scenario.finish()


@pytest.mark.parametrize("end", list(ENDS))
@pytest.mark.parametrize("ended", [(0,), (1,), (1, 2), (0, 1), (0, 1, 2)])
def test_confirmed_messages_are_there_after_the_loss_of_any_nodes(ended: tuple[int, ...], end: str) -> None:
    scenario = ClusterScenario()
    one, _two, three = scenario.nodes
    declare(scenario, one)
    numbers = published(scenario, scenario.publisher(three), 10)
    for place in ended:
        ENDS[end](scenario.nodes[place])
    scenario.until(lambda: all_back(scenario, [2 if place in ended else 1 for place in range(3)]))
    assert numbers_in(scenario, three) == numbers
    scenario.finish()


@pytest.mark.parametrize("first", [0, 1, 2])
def test_after_a_full_stop_the_first_node_that_returns_has_the_confirmed_messages(first: int) -> None:
    scenario = ClusterScenario()
    declare(scenario, scenario.nodes[0])
    numbers = published(scenario, scenario.publisher(scenario.nodes[1]), 10)
    returning = scenario.nodes[first]
    for node in scenario.nodes:
        node.lose_power(500 if node is returning else FOREVER_MS)
    scenario.until(lambda: served(scenario, [returning]))
    assert numbers_in(scenario, returning) == numbers


def test_a_member_that_returns_later_from_a_full_stop_drops_removed_messages() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    set_policy(scenario, AUTOMATIC)
    declare(scenario, one)
    publisher = scenario.publisher(two)
    published(scenario, publisher, 10)
    one.lose_power(20_000)
    three.lose_power(20_000)
    two.lose_power(500)
    scenario.until(lambda: served(scenario, [two]) and publisher.channel_open)
    assert len(numbers_in(scenario, two)) == 10
    numbers = published(scenario, publisher, 5)
    scenario.until(lambda: all_back(scenario, [2, 2, 2]) and in_sync(two) == ["one", "three", "two"])
    two.lose_power(FOREVER_MS)
    scenario.until(lambda: served(scenario, [one, three]))
    assert numbers_in(scenario, three) == numbers


@pytest.mark.parametrize("after_ms", range(0, 14, 2))
def test_messages_under_way_when_the_master_is_lost_are_neither_lost_nor_doubled(after_ms: int) -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one)
    publishers = [scenario.publisher(node) for node in (two, three)]
    numbers = [number for one in publishers for number in scenario.publish(one, "work", 8)]
    scenario.elapse(after_ms)
    one.kill(FOREVER_MS)
    numbers += [number for one in publishers for number in scenario.publish(one, "work", 8)]
    scenario.until(lambda: all(publisher.done() for publisher in publishers))
    assert scenario.confirmed(numbers) == sorted(numbers)
    found = numbers_in(scenario, two)
    assert sorted(found) == sorted(numbers)
    for publisher in publishers:
        own = [number for number in found if scenario.world.ledger.attempts[number].publisher == publisher.who]
        assert own == sorted(own)


@pytest.mark.parametrize("after_ms", range(0, 12, 3))
def test_a_transaction_is_kept_whole_when_the_master_is_lost(after_ms: int) -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one)
    publisher = scenario.publisher(three, TRANSACTION)
    numbers = scenario.publish(publisher, "work", 8)
    scenario.elapse(after_ms)
    one.kill(FOREVER_MS)
    scenario.until(publisher.done)
    assert scenario.confirmed(numbers) == numbers
    assert numbers_in(scenario, two) == numbers


def test_acked_messages_never_come_back() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one)
    numbers = published(scenario, scenario.publisher(three), 9)
    taker = scenario.guest(three)
    for place, master in enumerate((one, two)):
        for _ in range(3):
            answer = scenario.ask(taker, BasicGet("work"))
            assert isinstance(answer, BasicGetOk)
            taker.send(1, BasicAck(answer.delivery_tag))
        scenario.elapse(100)
        master.lose_power(FOREVER_MS)
        left = scenario.nodes[place + 1 :]
        scenario.until(lambda nodes=left: served(scenario, nodes))
    assert [number for number, _marked in taken(scenario, taker)] == numbers[6:]


def test_order_is_kept_through_one_failover_after_another() -> None:
    scenario = ClusterScenario()
    set_policy(scenario, AUTOMATIC)
    declare(scenario, scenario.nodes[0])
    publisher = scenario.publisher(scenario.nodes[2])
    numbers: list[int] = []
    for place in (0, 1, 0):
        numbers += scenario.publish(publisher, "work", 10)
        scenario.elapse(3)
        lives = scenario.nodes[place].lives
        scenario.nodes[place].kill(OUTAGE_MS)
        numbers += scenario.publish(publisher, "work", 10)
        node = scenario.nodes[place]
        scenario.until(lambda one=node, before=lives: one.up and one.lives > before and scenario.world.whole())
        scenario.until(lambda: in_sync(scenario.nodes[2]) == ["one", "three", "two"])
    scenario.until(publisher.done)
    assert scenario.confirmed(numbers) == numbers
    assert numbers_in(scenario, scenario.nodes[1]) == numbers
    scenario.finish()


@pytest.mark.parametrize("stands_ms", [4_500, 12_000])
def test_a_master_that_stands_still_and_goes_on_adds_nothing_and_loses_nothing(stands_ms: int) -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    set_policy(scenario, AUTOMATIC)
    declare(scenario, one)
    publishers = [scenario.publisher(node) for node in scenario.nodes]
    numbers = [number for publisher in publishers for number in published(scenario, publisher, 3)]
    numbers += [number for publisher in publishers for number in scenario.publish(publisher, "work", 5)]
    one.freeze(stands_ms)
    scenario.until(lambda: epoch_at(two) == 2 and masters(scenario) != ["one"])
    numbers += [number for publisher in publishers[1:] for number in scenario.publish(publisher, "work", 5)]
    scenario.until(lambda: all(publisher.done() for publisher in publishers) and scenario.world.whole())
    scenario.until(lambda: in_sync(two) == ["one", "three", "two"])
    found = numbers_in(scenario, three)
    assert sorted(set(found)) == sorted(found)
    assert set(scenario.confirmed(numbers)) <= set(found)
    assert len(scenario.confirmed(numbers)) >= len(numbers) - 5
    scenario.finish()


@pytest.mark.parametrize(("store", "links"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("place", [0, 1])
def test_nodes_that_are_cut_off_lose_nothing_and_double_nothing(place: int, store: bool, links: bool) -> None:
    scenario = ClusterScenario()
    node = scenario.nodes[place]
    set_policy(scenario, AUTOMATIC)
    declare(scenario, scenario.nodes[0])
    publishers = [scenario.publisher(one) for one in scenario.nodes]
    numbers = [number for publisher in publishers for number in published(scenario, publisher, 3)]
    scenario.isolate(node, links)
    node.cut_off_from_store(store)
    for _ in range(20):
        for publisher in publishers:
            if publisher.channel_open:
                numbers += scenario.publish(publisher, "work", 1)
        scenario.elapse(400)
    scenario.isolate(node, False)
    node.cut_off_from_store(False)
    scenario.until(lambda: all(publisher.done() for publisher in publishers) and scenario.world.whole())
    scenario.until(lambda: in_sync(scenario.nodes[2]) == ["one", "three", "two"])
    found = numbers_in(scenario, scenario.nodes[2])
    assert sorted(set(found)) == sorted(found)
    assert set(scenario.confirmed(numbers)) <= set(found)
    # the two others were never without a master for long
    assert len(scenario.confirmed(numbers)) >= 2 * 20
    scenario.finish()


def test_a_restarted_mirror_does_not_take_the_place_of_a_master_that_it_cannot_reach() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    set_policy(scenario, {"ha-mode": "nodes", "ha-params": ["one", "three"]})
    assert isinstance(scenario.ask(scenario.guest(one), QueueDeclare("work", durable=True)), QueueDeclareOk)
    scenario.until(lambda: in_sync(one) == ["one", "three"])
    publisher = scenario.publisher(two)
    publisher.persistent_share = 0.0
    numbers = published(scenario, publisher, 10)
    wire = scenario.world.peer_links.between("one", "three")
    for place in (0, 1):
        wire.set_cut(place, True)
    three.kill(100)
    scenario.elapse(9_000)
    assert masters(scenario) == ["one"]
    wire.mend()
    scenario.until(lambda: three.up and scenario.world.whole())
    assert numbers_in(scenario, three) == numbers
    scenario.finish()


def test_a_confirmed_message_is_on_the_masters_disk() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, one)
    # the mirrors are quick, the master is not
    one.disk.slow = True
    publisher = scenario.publisher(one)
    numbers = scenario.publish(publisher, "work", 3)
    scenario.until(lambda: scenario.confirmed(numbers) == numbers)
    for node in (two, three):
        node.lose_power(FOREVER_MS)
    one.disk.slow = False
    one.lose_power(500)
    scenario.until(lambda: one.up and served(scenario, [one]))
    assert numbers_in(scenario, one) == numbers
