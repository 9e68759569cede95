"""The budget of a turn: fan-out is counted, publishers share it, and other clients do not wait for it."""

import pytest

from tests.support.core_driver import Client, Core, content, published, spoken
from warren.broker.model.events import BytesReceived, ConnectionDropped
from warren.broker.model.settings import WORK_A_TURN
from warren.wire.methods import BasicPublish, QueueDeclare, QueueDeclareOk

QUEUES = 400
"""How many queues the fanout exchange has."""

EACH = 200
"""How many messages a publisher sends in one read; they are routed to five times the budget of a turn."""


@pytest.fixture
def core() -> Core:
    core = Core()
    client = core.client()
    for number in range(QUEUES):
        client.declare(f"q{number}")
        client.bind(f"q{number}", "amq.fanout", "")
    return core


def to_all(count: int = EACH) -> bytes:
    return (spoken(BasicPublish("amq.fanout", "")) + content(b"x")) * count


def queued(core: Core, name: str = "q0") -> int:
    return int(core.broker.vhosts["/"].topology.queues[name].ready_count())


def test_one_read_is_spread_over_turns_and_nothing_is_lost(core: Core) -> None:
    publisher = core.client()
    publisher.read(to_all())
    assert queued(core) == WORK_A_TURN // QUEUES
    assert core.unread == {publisher.number}
    core.settle()
    assert queued(core) == EACH
    assert core.unread == set()


def test_publishers_share_the_budget_of_a_turn(core: Core) -> None:
    publishers = [core.client() for _ in range(4)]
    queues = [f"of{publisher.number}" for publisher in publishers]
    for publisher, queue in zip(publishers, queues, strict=True):
        publisher.declare(queue)
    mixed = [(published(queue, b"x") + to_all(1)) * EACH for queue in queues]
    core.turn(*[BytesReceived(one.number, data) for one, data in zip(publishers, mixed, strict=True)])
    before = [queued(core, queue) for queue in queues]
    core.turn()
    moved = [queued(core, queue) - first for queue, first in zip(queues, before, strict=True)]
    assert min(moved) >= WORK_A_TURN // QUEUES // 4 - 1
    assert max(moved) - min(moved) <= 1
    core.settle()
    assert [queued(core, queue) for queue in queues] == [EACH] * 4


def test_a_client_that_does_not_publish_is_served_in_a_turn_without_budget(core: Core) -> None:
    publisher, other = core.client(), core.client()
    asked = spoken(QueueDeclare("new"))
    core.turn(BytesReceived(publisher.number, to_all()), BytesReceived(other.number, asked))
    assert other.methods() == [QueueDeclareOk("new", 0, 0)]


def test_a_publish_to_one_queue_is_accepted_in_a_turn_without_budget(core: Core) -> None:
    publisher, other = core.client(), core.client()
    other.declare("own")
    core.turn(BytesReceived(publisher.number, to_all()), BytesReceived(other.number, published("own", b"x")))
    assert queued(core, "own") == 1


def test_deliveries_beyond_the_budget_follow_in_the_next_turns(core: Core) -> None:
    consumers: list[Client] = []
    for number in range(QUEUES):
        consumer = core.client()
        consumer.consume(f"q{number}", no_ack=True)
        consumer.heard()
        consumers.append(consumer)
    publisher = core.client()
    publisher.read(to_all())
    core.settle()
    assert [len(consumer.heard()) for consumer in consumers] == [EACH] * QUEUES


def test_undrained_queues_leave_publishers_a_part_of_the_budget(core: Core) -> None:
    turn = core.broker.turn
    turn.drains.append(core.broker.vhosts["/"].topology.queues["q0"])
    turn.begin(core.now_ms)
    assert turn.work_max == WORK_A_TURN // 4


def test_publishes_that_were_read_before_the_socket_closed_are_routed(core: Core) -> None:
    publisher = core.client()
    core.turn(BytesReceived(publisher.number, to_all()), ConnectionDropped(publisher.number, "reset"))
    assert queued(core) < EACH
    assert publisher.number in core.broker.connections
    core.settle()
    assert queued(core) == EACH
    assert publisher.number not in core.broker.connections


def test_a_closed_socket_is_delivered_nothing_while_its_input_is_handled(core: Core) -> None:
    client = core.client()
    client.consume("q0", no_ack=True)
    client.heard()
    core.turn(BytesReceived(client.number, to_all()), ConnectionDropped(client.number, "reset"))
    assert queued(core) > 0
    core.settle()
    assert queued(core) == EACH
