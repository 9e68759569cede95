"""Consumers can ask for the epoch of each delivery of a mirrored queue; traces name the nodes that hold a message."""

import pytest

from tests.simulation.cluster.mirrored import FOREVER_MS, declare, masters, published
from tests.simulation.cluster.scenario import ClusterScenario, Guest
from warren.wire.field_tables import Table
from warren.wire.method_stream import ReceivedMethod
from warren.wire.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from warren.wire.properties import decode_properties

TRACE = "amq.rabbitmq.trace"
EPOCH = "x-warren-epoch"


def consuming(scenario: ClusterScenario, guest: Guest, queue: str, arguments: Table) -> Guest:
    consume = BasicConsume(queue, "c", no_ack=True, arguments=arguments)
    assert isinstance(scenario.ask(guest, consume), BasicConsumeOk)
    guest.answers.clear()
    return guest


def deliveries(guest: Guest) -> list[ReceivedMethod]:
    return [heard for heard in guest.answers if isinstance(heard.method, BasicDeliver)]


def headers(heard: ReceivedMethod) -> Table:
    return decode_properties(heard.header, 0, len(heard.header)).headers or {}


@pytest.fixture
def scenario() -> ClusterScenario:
    """The queue's master is node one."""
    made = ClusterScenario()
    declare(made, made.nodes[0])
    return made


@pytest.mark.parametrize("place", [0, 2])
def test_a_consumer_that_asks_gets_the_epoch(scenario: ClusterScenario, place: int) -> None:
    publisher = scenario.publisher(scenario.nodes[1])
    guest = consuming(scenario, scenario.guest(scenario.nodes[place]), "work", {EPOCH: True})
    published(scenario, publisher, 1)
    scenario.until(lambda: len(deliveries(guest)) == 1)
    assert headers(deliveries(guest)[0])[EPOCH] == 1
    assert deliveries(guest)[0].body[:10].isdigit()


def test_the_next_master_delivers_in_the_next_epoch(scenario: ClusterScenario) -> None:
    one, two, three = scenario.nodes
    publisher = scenario.publisher(three)
    guest = consuming(scenario, scenario.guest(three), "work", {EPOCH: True})
    one.kill(FOREVER_MS)
    scenario.until(lambda: masters(scenario) in ([two.name], [three.name]))
    published(scenario, publisher, 1)
    scenario.until(lambda: len(deliveries(guest)) == 1)
    assert headers(deliveries(guest)[0])[EPOCH] == 2


@pytest.mark.parametrize("arguments", [{}, {EPOCH: False}])
def test_a_consumer_that_does_not_ask_gets_no_header(scenario: ClusterScenario, arguments: Table) -> None:
    guest = consuming(scenario, scenario.guest(scenario.nodes[2]), "work", arguments)
    published(scenario, scenario.publisher(scenario.nodes[1]), 1)
    scenario.until(lambda: len(deliveries(guest)) == 1)
    assert EPOCH not in headers(deliveries(guest)[0])


def test_a_queue_that_is_not_mirrored_has_no_epochs(scenario: ClusterScenario) -> None:
    guest = scenario.guest(scenario.nodes[1])
    assert isinstance(scenario.ask(guest, QueueDeclare("lone", durable=True)), QueueDeclareOk)
    consuming(scenario, guest, "lone", {EPOCH: True})
    published(scenario, scenario.publisher(scenario.nodes[1]), 1, "lone")
    scenario.until(lambda: len(deliveries(guest)) == 1)
    assert EPOCH not in headers(deliveries(guest)[0])


def test_an_argument_that_is_not_boolean_is_refused(scenario: ClusterScenario) -> None:
    guest = scenario.guest(scenario.nodes[1])
    guest.ask(BasicConsume("work", "c", arguments={EPOCH: "yes"}))
    scenario.until(lambda: bool(guest.faults))
    assert guest.faults == [
        "PRECONDITION_FAILED - invalid arg 'x-warren-epoch' for queue 'work' in vhost '/': {unacceptable_type,longstr}"
    ]


def test_the_holders_of_a_message_are_traced_where_the_master_is(scenario: ClusterScenario) -> None:
    one, _two, three = scenario.nodes
    for node in scenario.nodes:
        node.broker.vhosts["/"].set_tracing(True)
    guest = scenario.guest(one)
    assert isinstance(scenario.ask(guest, QueueDeclare("traces", durable=False)), QueueDeclareOk)
    assert isinstance(scenario.ask(guest, QueueBind("traces", TRACE, "confirm.#")), QueueBindOk)
    consuming(scenario, guest, "traces", {})
    published(scenario, scenario.publisher(three), 2)
    scenario.until(lambda: len(deliveries(guest)) == 2)
    for heard in deliveries(guest):
        facts = headers(heard)
        assert (facts["node"], facts["vhost"], facts["epoch"], facts["nodes"]) == (
            "one",
            "/",
            1,
            ["one", "three", "two"],
        )
        assert isinstance(heard.method, BasicDeliver)
        assert heard.method.routing_key == "confirm.work"
