"""Deletes with if-empty, while all nodes publish to the queue."""

import pytest

from tests.simulation.cluster.mirrored import declare as declare_mirrored
from tests.simulation.cluster.mirrored import numbers_in
from tests.simulation.cluster.replica_set_lives import EVERYWHERE, set_policy
from tests.simulation.cluster.scenario import ClusterScenario, Guest, QuietPublisher
from warren.sim.history import PublishAttempt
from warren.wire.methods import (
    BasicGet,
    BasicGetEmpty,
    ChannelClose,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)

STORE_MS = 20
"""How long each way to the store takes: a decision is to take a while."""


def slow_scenario() -> ClusterScenario:
    scenario = ClusterScenario()
    scenario.world.store.delay_ms = lambda: STORE_MS
    return scenario


def attempts_of(scenario: ClusterScenario, publishers: list[QuietPublisher]) -> list[PublishAttempt]:
    """One mandatory message of every publisher."""
    numbers = [scenario.publish(one, "work", 1, mandatory=True)[0] for one in publishers]
    return [scenario.world.ledger.attempts[number] for number in numbers]


def kept(scenario: ClusterScenario, attempts: list[PublishAttempt]) -> list[int]:
    """The messages that were confirmed and not returned."""
    confirmed = scenario.confirmed([attempt.number for attempt in attempts])
    return [attempt.number for attempt in attempts if attempt.number in confirmed and not attempt.returned]


def emptied(scenario: ClusterScenario, guest: Guest) -> int:
    """Take everything; how many there were."""
    count = 0
    while not isinstance(scenario.ask(guest, BasicGet("work", no_ack=True)), BasicGetEmpty):
        count += 1
    return count


@pytest.mark.parametrize("asked", [0, 1])
def test_a_queue_that_is_deleted_if_it_is_empty_takes_nothing_along(asked: int) -> None:
    scenario = slow_scenario()
    publishers = [scenario.publisher(node) for node in scenario.nodes]
    owner = scenario.guest(scenario.nodes[0])
    ends: set[type] = set()
    for after_ms in range(0, 8 * STORE_MS, STORE_MS // 4):
        scenario.ask(owner, QueueDeclare("work", durable=True))
        deleter = scenario.guest(scenario.nodes[asked])
        attempts = attempts_of(scenario, publishers) if after_ms == 0 else []
        scenario.until(lambda: all(one.done() for one in publishers))
        deleter.ask(QueueDelete("work", if_empty=True))
        scenario.elapse(after_ms)
        attempts += attempts_of(scenario, publishers)
        scenario.until(lambda one=deleter: bool(one.answer() or one.faults))
        scenario.until(lambda: all(one.done() for one in publishers))
        ends.add(type(deleter.answer()) if deleter.answer() is not None else ChannelClose)
        if isinstance(deleter.answer(), QueueDeleteOk):
            assert kept(scenario, attempts) == []
        else:
            assert emptied(scenario, owner) == len(kept(scenario, attempts)) == len(attempts)
            scenario.ask(owner, QueueDelete("work"))
    assert ends == {QueueDeleteOk, ChannelClose}


def test_a_queue_that_is_declared_as_it_expires_is_there() -> None:
    scenario = slow_scenario()
    expires_ms = 1_000
    declare = QueueDeclare("work", durable=True, arguments={"x-expires": expires_ms})
    owner = scenario.guest(scenario.nodes[0])
    for early_ms in range(-6 * STORE_MS, STORE_MS, STORE_MS // 2):
        scenario.ask(owner, declare)
        visitor = scenario.guest(scenario.nodes[1])
        scenario.elapse(expires_ms - early_ms - 2 * STORE_MS)
        visitor.ask(declare)
        scenario.until(lambda one=visitor: bool(one.answer() or one.faults))
        assert visitor.faults == []
        scenario.until(lambda: not any(scenario.knows(node, "work") for node in scenario.nodes))


@pytest.mark.parametrize("early_ms", range(0, 6 * STORE_MS, STORE_MS // 2))
def test_a_queue_that_expires_while_it_becomes_mirrored_goes(early_ms: int) -> None:
    scenario = slow_scenario()
    expires_ms = 1_000
    declare = QueueDeclare("work", durable=True, arguments={"x-expires": expires_ms})
    guest, binder = scenario.guest(scenario.nodes[0]), scenario.guest(scenario.nodes[1])
    scenario.ask(guest, ExchangeDeclare("safe", "fanout", durable=True, arguments={"x-mirrored": True}))
    scenario.ask(guest, declare)
    scenario.elapse(expires_ms - early_ms)
    # a policy would restart the clock
    binder.ask(QueueBind("work", "safe"))
    scenario.elapse(early_ms + STORE_MS)
    # the old queue, or another one if that is being deleted
    assert isinstance(scenario.ask(guest, declare), QueueDeclareOk)
    scenario.until(lambda: not any(scenario.knows(node, "work") for node in scenario.nodes))


def test_an_expired_mirrored_queue_that_is_used_before_its_delete_is_tried_again_stays() -> None:
    scenario = ClusterScenario()
    master = scenario.nodes[0]
    expires_ms = 1_000
    declare_mirrored(scenario, master, arguments={"x-expires": expires_ms})
    guest = scenario.guest(scenario.nodes[1])
    master.cut_off_from_store(True)
    scenario.elapse(expires_ms + 100)
    master.cut_off_from_store(False)
    for _ in range(20):
        assert isinstance(scenario.ask(guest, QueueDeclare("work", passive=True)), QueueDeclareOk)
        scenario.elapse(expires_ms // 4)
    # and goes when it is no longer used
    scenario.until(lambda: not any(scenario.knows(node, "work") for node in scenario.nodes))


@pytest.mark.parametrize("asked", [0, 1])
@pytest.mark.parametrize("decided_at_once", [True, False])
@pytest.mark.parametrize("after_ms", range(0, 5 * STORE_MS, STORE_MS // 2))
def test_a_queue_that_becomes_mirrored_during_a_conditional_delete_has_what_was_confirmed_in_order(
    asked: int, decided_at_once: bool, after_ms: int
) -> None:
    scenario = slow_scenario()
    home = scenario.nodes[0]
    publishers = [scenario.publisher(node) for node in scenario.nodes]
    scenario.ask(scenario.guest(home), QueueDeclare("work", durable=True))
    deleter = scenario.guest(scenario.nodes[asked])
    set_policy(scenario.nodes[2], EVERYWHERE)
    scenario.elapse(after_ms)
    deleter.ask(QueueDelete("work", if_empty=True))
    scenario.elapse(5)
    home.cut_off_from_store(not decided_at_once)
    attempts: list[PublishAttempt] = []
    for _ in range(20):
        attempts += attempts_of(scenario, publishers)
        scenario.elapse(5)
    scenario.elapse(1_000)
    home.cut_off_from_store(False)
    scenario.until(lambda: bool(deleter.answer() or deleter.faults))
    scenario.until(lambda: all(one.done() for one in publishers))
    found = numbers_in(scenario, home) if scenario.knows(home, "work") else []
    assert set(kept(scenario, attempts)) <= set(found)
    for place in range(len(publishers)):
        own = [attempt.number for attempt in attempts[place :: len(publishers)]]
        assert [number for number in found if number in own] == [number for number in own if number in found]
