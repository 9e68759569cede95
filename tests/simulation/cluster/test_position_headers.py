"""A consumer that asks gets the position of each message: the same at every delivery, by every master."""

import pytest

from tests.simulation.cluster.mirrored import FOREVER_MS, declare, masters, published
from tests.simulation.cluster.scenario import ClusterScenario, Guest
from tests.simulation.cluster.test_epoch_headers import consuming, deliveries, headers
from warren.wire.field_tables import Table
from warren.wire.methods import BasicCancel, BasicConsume, BasicRecover, QueueDeclare

POSITION = "x-warren-position"


@pytest.fixture
def scenario() -> ClusterScenario:
    """The mirrored queue's master, and the lone queue, are on node one."""
    made = ClusterScenario()
    declare(made, made.nodes[0])
    made.ask(made.guest(made.nodes[0]), QueueDeclare("lone", durable=True))
    return made


def holding(scenario: ClusterScenario, place: int, queue: str) -> Guest:
    """A consumer that acks nothing."""
    guest = scenario.guest(scenario.nodes[place])
    guest.ask(BasicConsume(queue, "c", arguments={POSITION: True}))
    return guest


def positions(scenario: ClusterScenario, guest: Guest, count: int) -> list[object]:
    scenario.until(lambda: len(deliveries(guest)) == count)
    return [headers(heard)[POSITION] for heard in deliveries(guest)]


@pytest.mark.parametrize("queue", ["work", "lone"])
@pytest.mark.parametrize(("first", "second"), [(0, 0), (0, 2), (2, 0), (2, 1)])
def test_a_message_stands_where_it_stood_when_it_is_delivered_again(
    scenario: ClusterScenario, queue: str, first: int, second: int
) -> None:
    published(scenario, scenario.publisher(scenario.nodes[1]), 3, queue)
    guest = holding(scenario, first, queue)
    before = positions(scenario, guest, 3)
    assert len(set(before)) == 3
    scenario.ask(guest, BasicCancel("c"))
    scenario.ask(guest, BasicRecover(requeue=True))
    assert positions(scenario, holding(scenario, second, queue), 3) == before


def test_the_next_master_sends_the_same_positions(scenario: ClusterScenario) -> None:
    one, two, three = scenario.nodes
    published(scenario, scenario.publisher(three), 2)
    guest = holding(scenario, 2, "work")
    before = positions(scenario, guest, 2)
    one.kill(FOREVER_MS)
    scenario.until(lambda: masters(scenario) in ([two.name], [three.name]))
    assert positions(scenario, guest, 4) == before * 2


@pytest.mark.parametrize("arguments", [{}, {POSITION: False}])
def test_a_consumer_that_does_not_ask_gets_no_header(scenario: ClusterScenario, arguments: Table) -> None:
    guest = consuming(scenario, scenario.guest(scenario.nodes[2]), "work", arguments)
    published(scenario, scenario.publisher(scenario.nodes[1]), 1)
    scenario.until(lambda: len(deliveries(guest)) == 1)
    assert POSITION not in headers(deliveries(guest)[0])
