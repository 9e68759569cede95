"""A queue of one node becomes mirrored while it is used: clients do not notice, and no message is lost or doubled."""

import pytest

from tests.simulation.cluster.mirrored import in_sync, masters, numbers_in, taken
from tests.simulation.cluster.replica_set_lives import (
    EVERYWHERE,
    become_mirrored,
    counted,
    declare,
    lose_home,
    members,
    published_at,
    see_delivered,
    set_policy,
)
from tests.simulation.cluster.scenario import ClusterScenario
from warren.wire.methods import (
    BasicAck,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    ExchangeDeclare,
    QueueBind,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    TxSelect,
    TxSelectOk,
)


def test_a_queue_with_messages_and_clients_becomes_mirrored_and_outlives_its_home() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, two)
    publisher = scenario.publisher(one)
    at_home = scenario.publisher(two)
    numbers = scenario.publish(publisher, "work", 10) + scenario.publish(at_home, "work", 10)
    scenario.until(lambda: publisher.done() and at_home.done())
    numbers += scenario.publish(publisher, "work", 10) + scenario.publish(at_home, "work", 10)
    set_policy(three, EVERYWHERE)
    for _ in range(20):
        numbers += scenario.publish(publisher, "work", 2) + scenario.publish(at_home, "work", 2)
        scenario.elapse(5)
    scenario.until(lambda: in_sync(two) == ["one", "three", "two"])
    scenario.until(lambda: publisher.done() and at_home.done())
    assert scenario.confirmed(numbers) == numbers
    lose_home(scenario, two)
    see_delivered(scenario, three, numbers)


def test_transient_messages_in_memory_get_mirrors_too() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, two, durable=False)
    _, numbers = published_at(scenario, one, 10)
    become_mirrored(scenario, two)
    lose_home(scenario, two)
    see_delivered(scenario, three, numbers)


def test_consumers_go_on_while_the_queue_becomes_mirrored() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, two)
    scenario.consumer(two, "work")
    scenario.consumer(three, "work")
    publisher = scenario.publisher(one)
    numbers = scenario.publish(publisher, "work", 20)
    set_policy(three, EVERYWHERE)
    for _ in range(40):
        numbers += scenario.publish(publisher, "work", 3)
        scenario.elapse(3)
    scenario.until(lambda: in_sync(two) == ["one", "three", "two"])
    scenario.finish()
    assert scenario.confirmed(numbers) == numbers
    assert all(scenario.world.ledger.deliveries[number, "work"].count == 1 for number in numbers)


def test_unacked_messages_get_mirrors_too() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, two, durable=False)
    _, numbers = published_at(scenario, one, 2)
    at_home, elsewhere = scenario.guest(two), scenario.guest(three)
    assert isinstance(scenario.ask(at_home, BasicGet("work")), BasicGetOk)
    assert isinstance(scenario.ask(elsewhere, BasicGet("work")), BasicGetOk)
    become_mirrored(scenario, two)
    assert isinstance(scenario.ask(elsewhere, BasicGet("work")), BasicGetEmpty)
    lose_home(scenario, two)
    see_delivered(scenario, three, numbers)


def test_bindings_lead_to_a_queue_that_becomes_mirrored() -> None:
    scenario = ClusterScenario()
    one, two, _three = scenario.nodes
    declare(scenario, two)
    guest = scenario.guest(one)
    for exchange, key, arguments in (
        ("amq.topic", "a.*", {}),
        ("amq.headers", "", {"x-match": "all", "colour": "red"}),
    ):
        scenario.ask(guest, QueueBind("work", exchange, key, arguments=arguments))
    become_mirrored(scenario, two)
    guest.publish("amq.topic", "a.b", {})
    guest.publish("amq.headers", "", {"colour": "red"})
    scenario.until(lambda: counted(two) == 2)
    scenario.ask(guest, QueueUnbind("work", "amq.headers", "", arguments={"x-match": "all", "colour": "red"}))
    guest.publish("amq.headers", "", {"colour": "red"})
    guest.publish("amq.topic", "a.b", {})
    scenario.until(lambda: counted(two) == 3)


def test_an_exchange_may_mirror_the_queues_that_are_bound_to_it_for_as_long_as_they_are() -> None:
    scenario = ClusterScenario()
    one, two, _three = scenario.nodes
    declare(scenario, two)
    guest = scenario.guest(one)
    scenario.ask(guest, ExchangeDeclare("safe", "fanout", durable=True, arguments={"x-mirrored": True}))
    published_at(scenario, one, 10)
    scenario.ask(guest, QueueBind("work", "safe"))
    scenario.until(lambda: in_sync(two) == ["one", "three", "two"])
    scenario.ask(guest, QueueUnbind("work", "safe"))
    scenario.until(lambda: members(two) == ["two"])


def test_consumers_from_before_mirroring_go_on_with_another_master() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, two)
    scenario.consumer(two, "work")
    scenario.consumer(three, "work")
    scenario.until(lambda: scenario.world.seen["consumer started"] == 2)
    become_mirrored(scenario, two)
    set_policy(three, {"ha-mode": "nodes", "ha-params": ["one"], "ha-sync-mode": "automatic"})
    scenario.until(lambda: masters(scenario) == ["one"])
    publisher = scenario.publisher(one)
    numbers = scenario.publish(publisher, "work", 40)
    scenario.finish()
    assert all(scenario.world.ledger.deliveries[number, "work"].count == 1 for number in numbers)
    # no consumer was started anew
    assert scenario.world.seen["consumer started"] == 2


def test_transient_messages_between_persistent_ones_of_a_durable_queue_get_mirrors_too() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, two)
    publisher = scenario.publisher(one)
    publisher.persistent_share = 0.5
    numbers = scenario.publish(publisher, "work", 40)
    scenario.until(publisher.done)
    guest = scenario.guest(three)
    for _ in range(5):
        assert isinstance(scenario.ask(guest, BasicGet("work", no_ack=True)), BasicGetOk)
    numbers += scenario.publish(publisher, "work", 40)
    scenario.until(publisher.done)
    become_mirrored(scenario, two)
    lose_home(scenario, two)
    see_delivered(scenario, three, numbers[5:])


def test_messages_acked_in_an_open_transaction_get_mirrors_too() -> None:
    scenario = ClusterScenario()
    one, two, three = scenario.nodes
    declare(scenario, two, durable=False)
    _, numbers = published_at(scenario, one, 3)
    undecided = scenario.guest(two)
    assert isinstance(scenario.ask(undecided, TxSelect()), TxSelectOk)
    assert isinstance(scenario.ask(undecided, BasicGet("work")), BasicGetOk)
    undecided.send(1, BasicAck(1))
    become_mirrored(scenario, two)
    lose_home(scenario, two)
    assert numbers_in(scenario, three) == numbers


@pytest.mark.parametrize("after_ms", range(50, 80, 3))
def test_every_message_is_got_once_by_gets_without_acks_while_the_queue_becomes_mirrored(after_ms: int) -> None:
    scenario = ClusterScenario()
    scenario.world.store.delay_ms = lambda: 20
    one, two, _three = scenario.nodes
    declare(scenario, two)
    _, numbers = published_at(scenario, two, 10)
    guest = scenario.guest(one)
    set_policy(two, EVERYWHERE)
    scenario.elapse(after_ms)
    assert [number for number, _marked in taken(scenario, guest)] == numbers


@pytest.mark.parametrize("after_ms", range(70, 84))
def test_a_purge_while_the_queue_becomes_mirrored_reports_how_many_messages_there_were(after_ms: int) -> None:
    scenario = ClusterScenario()
    scenario.world.store.delay_ms = lambda: 20
    one, two, _three = scenario.nodes
    declare(scenario, two)
    published_at(scenario, two, 10)
    guest = scenario.guest(one)
    set_policy(two, EVERYWHERE)
    scenario.elapse(after_ms)
    assert scenario.ask(guest, QueuePurge("work")) == QueuePurgeOk(10)
