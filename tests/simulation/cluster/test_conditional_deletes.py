"""Queues that are deleted if they are empty, while messages come to them from all nodes."""

import pytest

from tests.simulation.cluster.scenario import ClusterScenario, Guest, QuietPublisher
from warren.sim.history import PublishAttempt
from warren.wire.methods import BasicGet, BasicGetEmpty, ChannelClose, QueueDeclare, QueueDelete, QueueDeleteOk

STORE_MS = 20
"""How long each way to the store takes: a decision is to take a while."""


def attempts_of(scenario: ClusterScenario, publishers: list[QuietPublisher]) -> list[PublishAttempt]:
    """One mandatory message of every publisher."""
    numbers = [scenario.publish(one, "work", 1, mandatory=True)[0] for one in publishers]
    return [scenario.world.ledger.attempts[number] for number in numbers]


def kept(scenario: ClusterScenario, attempts: list[PublishAttempt]) -> list[int]:
    """Those whose publishers were told that the queue has them."""
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
    scenario = ClusterScenario()
    scenario.world.store.delay_ms = lambda: STORE_MS
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
    scenario = ClusterScenario()
    scenario.world.store.delay_ms = lambda: STORE_MS
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
