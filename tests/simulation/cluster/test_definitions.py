"""Definitions that nodes share through the store, and a node that is cut off from the store."""

import pytest

from tests.simulation.cluster.scenario import ClusterScenario
from warren.sim.clients import CONFIRM, TRANSACTION
from warren.sim.cluster.clients import ClusterPublishTarget
from warren.sim.history import CONFIRMED
from warren.wire.field_tables import Table
from warren.wire.methods import (
    BasicGet,
    BasicGetOk,
    BasicNack,
    ExchangeBind,
    ExchangeDeclare,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)


@pytest.mark.parametrize("durable", [True, False])
def test_a_declare_is_known_everywhere_when_it_is_answered(durable: bool) -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    guest = scenario.guest(two)
    guest.ask(QueueDeclare("work", durable=durable))
    scenario.until(lambda: any(isinstance(one.method, QueueDeclareOk) for one in guest.answers))
    assert [scenario.knows(node, "work") for node in (one, two, three)] == [True] * 3
    assert scenario.queue_on(two, "work") is not None
    assert scenario.queue_on(one, "work") is None


def test_a_declare_waits_for_a_node_that_is_slow_to_hear_of_it() -> None:
    scenario = ClusterScenario()
    _one, two, three = scenario.nodes
    guest = scenario.guest(two)
    three.freeze(1_000)
    guest.ask(QueueDeclare("work"))
    scenario.elapse(900)
    assert guest.answer() is None
    scenario.until(lambda: guest.answer() is not None)
    assert scenario.knows(three, "work")


def test_a_declare_is_answered_only_when_a_node_that_was_lost_does_not_confirm_what_it_cannot_route() -> None:
    scenario = ClusterScenario()
    _one, two, three = scenario.nodes
    guest = scenario.guest(two)
    publisher = scenario.publisher(three)
    scenario.tear_from_all(three)
    guest.ask(QueueDeclare("work"))
    scenario.elapse(1_000)
    assert guest.answer() is None
    scenario.until(lambda: guest.answer() is not None)
    assert scenario.is_stale(three)
    numbers = scenario.publish(publisher, "work", 3)
    scenario.until(publisher.done)
    assert scenario.confirmed(numbers) == []


def test_two_nodes_that_reach_the_store_and_not_each_other_do_not_confirm_what_they_cannot_route() -> None:
    scenario = ClusterScenario()
    _one, two, three = scenario.nodes
    guest = scenario.guest(two)
    publisher = scenario.publisher(three)
    wire = scenario.world.peer_links.between("two", "three")
    for place in (0, 1):
        wire.set_cut(place, True)
    scenario.elapse(5_000)
    scenario.ask(guest, QueueDeclare("first"))
    asked_ms = scenario.world.now_ms
    scenario.ask(guest, QueueDeclare("second"))
    # the transaction does not wait for three, which may learn of it later
    assert scenario.world.now_ms - asked_ms < 100
    numbers = scenario.publish(publisher, "unknown", 2)
    scenario.until(publisher.done)
    assert scenario.confirmed(numbers) == []
    assert not scenario.is_stale(three)
    wire.mend()
    scenario.until(scenario.world.whole)
    scenario.elapse(100)
    unroutable = publisher.publish(ClusterPublishTarget("", "unknown", ()), False)
    scenario.until(lambda: unroutable.state == CONFIRMED)


def test_a_declare_does_not_wait_for_a_node_that_is_down() -> None:
    scenario = ClusterScenario()
    _one, two, three = scenario.nodes
    guest = scenario.guest(two)
    three.kill(down_ms=60_000)
    scenario.elapse(500)
    asked_ms = scenario.world.now_ms
    assert isinstance(scenario.ask(guest, QueueDeclare("work")), QueueDeclareOk)
    assert scenario.world.now_ms - asked_ms < 500


def test_a_declare_is_not_held_up_for_ever_by_a_node_that_does_not_hear_of_the_store() -> None:
    scenario = ClusterScenario()
    _one, two, three = scenario.nodes
    guest = scenario.guest(two)
    three.cut_off_from_store(True)
    guest.ask(QueueDeclare("work"))
    scenario.elapse(4_000)
    assert guest.answers == []
    scenario.elapse(4_000)
    assert isinstance(guest.answer(), QueueDeclareOk)
    assert scenario.world.seen["peer.behind"] == 1
    # it does not wait a second time
    asked_ms = scenario.world.now_ms
    assert isinstance(scenario.ask(guest, QueueDeclare("more")), QueueDeclareOk)
    assert scenario.world.now_ms - asked_ms < 100
    three.cut_off_from_store(False)
    scenario.elapse(2_000)
    assert scenario.world.seen["peer.caught_up"] == 1


def test_a_declare_does_not_wait_once_the_store_says_that_a_lost_node_lives_no_more() -> None:
    scenario = ClusterScenario()
    _one, two, three = scenario.nodes
    guest = scenario.guest(two)
    three.lose_power(down_ms=60_000)
    scenario.until(lambda: scenario.world.seen["member.dead"] > 0)
    asked_ms = scenario.world.now_ms
    assert isinstance(scenario.ask(guest, QueueDeclare("work")), QueueDeclareOk)
    assert scenario.world.now_ms - asked_ms < 100
    assert scenario.world.seen["peer.behind"] == 0


@pytest.mark.parametrize("mode", [CONFIRM, TRANSACTION])
@pytest.mark.parametrize("road", ["", "direct", "alternate", "chained"])
def test_a_node_that_may_be_behind_confirms_nothing_that_it_cannot_route(road: str, mode: str) -> None:
    scenario = ClusterScenario()
    _one, two, three = scenario.nodes
    guest = scenario.guest(two)
    scenario.ask(guest, ExchangeDeclare("last", "direct"))
    scenario.ask(guest, ExchangeDeclare("direct", "direct"))
    scenario.ask(guest, ExchangeDeclare("alternate", "direct", arguments={"alternate-exchange": "last"}))
    scenario.ask(guest, ExchangeDeclare("chained", "fanout"))
    scenario.ask(guest, ExchangeBind("last", "chained", ""))
    scenario.ask(guest, QueueDeclare("old", durable=True))
    scenario.ask(guest, QueueBind("old", "last", "old"))
    publisher = scenario.publisher(three, mode)
    three.cut_off_from_store(True)
    scenario.until(lambda: scenario.is_stale(three))
    lost = publisher.publish(ClusterPublishTarget(road, "work", ("work",)), False)
    scenario.elapse(1_000)
    assert lost.state != CONFIRMED
    scenario.until(lambda: publisher.channel_open)
    known = publisher.publish(ClusterPublishTarget("last", "old", ("old",)), False)
    scenario.until(lambda: known.state == CONFIRMED)
    three.cut_off_from_store(False)
    scenario.until(lambda: not scenario.is_stale(three))
    # when the node is up to date, an unroutable publish is confirmed as usual
    unroutable = publisher.publish(ClusterPublishTarget(road, "work", ()), False)
    scenario.until(lambda: unroutable.state == CONFIRMED)


def test_a_node_that_is_cut_off_from_the_store_confirms_no_change() -> None:
    scenario = ClusterScenario()
    _one, two, _three = scenario.nodes
    guest = scenario.guest(two)
    scenario.ask(guest, ExchangeDeclare("news", "fanout"))
    scenario.ask(guest, QueueDeclare("old"))
    two.cut_off_from_store(True)
    for method in (QueueDeclare("work"), QueueBind("old", "news", ""), QueueDelete("old"), ExchangeDeclare("more")):
        scenario.until(lambda: guest.channel_open)
        guest.answers.clear()
        faults = len(guest.faults)
        guest.ask(method)
        scenario.until(lambda before=faults: len(guest.faults) > before)
        assert guest.answers == []
        assert "could not agree" in guest.faults[-1]
    two.cut_off_from_store(False)
    scenario.elapse(3_000)
    assert isinstance(scenario.ask(guest, QueueDeclare("work")), QueueDeclareOk)


def test_a_change_without_a_majority_of_the_store_fails_or_is_made_as_its_answer_says() -> None:
    scenario = ClusterScenario()
    one, _two, _three = scenario.nodes
    guest = scenario.guest(one)
    scenario.world.store.set_majority(False)
    guest.ask(QueueDeclare("work"))
    scenario.elapse(12_000)
    assert guest.answers == []
    assert not any(scenario.knows(node, "work") for node in scenario.nodes)
    scenario.world.store.set_majority(True)
    scenario.elapse(2_000)
    assert isinstance(scenario.ask(guest, QueueDeclare("work")), QueueDeclareOk)


def test_a_node_that_missed_changes_that_are_forgotten_ends_up_like_all_others() -> None:
    scenario = ClusterScenario()
    one, _two, three = scenario.nodes
    guest = scenario.guest(one)
    scenario.ask(guest, ExchangeDeclare("news", "fanout", durable=True))
    scenario.ask(guest, QueueDeclare("goes", durable=True))
    scenario.ask(guest, QueueBind("goes", "news", ""))
    three.cut_off_from_store(True)
    assert isinstance(scenario.ask(guest, QueueDelete("goes")), QueueDeleteOk)
    scenario.ask(guest, QueueDeclare("comes", durable=True))
    assert isinstance(scenario.ask(guest, QueueBind("comes", "news", "")), QueueBindOk)
    scenario.world.store.forget_history()
    three.cut_off_from_store(False)
    scenario.elapse(500)
    assert scenario.knows(three, "comes")
    assert not scenario.knows(three, "goes")
    scenario.finish()


def test_two_nodes_that_declare_the_same_queue_at_once_make_one() -> None:
    scenario = ClusterScenario()
    _one, _two, _three = scenario.nodes
    guests = [scenario.guest(node) for node in scenario.nodes]
    for guest in guests:
        guest.ask(QueueDeclare("work", durable=True))
    scenario.until(lambda: all(guest.answer() is not None for guest in guests))
    assert all(isinstance(guest.answer(), QueueDeclareOk) for guest in guests)
    assert sum(1 for node in scenario.nodes if scenario.queue_on(node, "work") is not None) == 1
    scenario.finish()


@pytest.mark.parametrize("road", ["dies", "is delayed"])
def test_a_publish_waits_at_a_node_that_may_be_behind_and_knows_no_queue_for_it(road: str) -> None:
    scenario = ClusterScenario()
    _one, two, three = scenario.nodes
    guest, visitor = scenario.guest(three), scenario.guest(two)
    scenario.ask(guest, ExchangeDeclare("late", "x-delayed-message", arguments={"x-delayed-type": "fanout"}))
    scenario.ask(guest, QueueDeclare("short", durable=True, arguments={"x-dead-letter-exchange": "late"}))
    three.cut_off_from_store(True)
    scenario.until(lambda: scenario.is_stale(three))
    scenario.ask(visitor, QueueDeclare("work"))
    scenario.ask(visitor, QueueBind("work", "late", ""))
    headers: Table = {"x-delay": 50} if road == "is delayed" else {}
    exchange, key = ("late", "") if road == "is delayed" else ("", "short")
    guest.publish(exchange, key, headers)
    if road == "dies":
        scenario.ask(guest, BasicGet("short"))
        guest.ask(BasicNack(1, requeue=False))
    scenario.elapse(3_000)
    three.cut_off_from_store(False)
    scenario.elapse(3_000)
    assert isinstance(scenario.ask(visitor, BasicGet("work")), BasicGetOk)
