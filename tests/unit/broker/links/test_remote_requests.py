"""Methods that need an answer from a queue's home."""

import pytest

from tests.support.core_driver import Client, spoken
from tests.unit.broker.links.linked import Together
from tests.unit.broker.sessions.journalled import persistent
from warren.wire.methods import (
    BasicConsume,
    BasicGet,
    BasicGetEmpty,
    BasicQos,
    BasicQosOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
    QueuePurgeOk,
)


@pytest.fixture
def nodes() -> Together:
    nodes = Together("here", "there")
    nodes.place("q", "there", durable=True)
    return nodes


def test_methods_after_a_request_wait_for_its_answer(nodes: Together, client: Client) -> None:
    client.read(spoken(BasicGet("q"), BasicQos(0, 1, False), QueueDeclare("q", durable=True), BasicQos(0, 2, False)))
    assert client.methods() == []
    nodes.settle()
    assert client.methods() == [BasicGetEmpty(), BasicQosOk(), QueueDeclareOk("q", 0, 0), BasicQosOk()]


def test_a_declare_ok_has_the_counts_of_the_home(nodes: Together, client: Client) -> None:
    other = nodes.client("there")
    other.publish("q", b"1", b"2", b"3")
    other.read(spoken(BasicQos(0, 1, False), BasicConsume("q", "c")))
    client.say(QueueDeclare("q", passive=True))
    nodes.settle()
    assert client.methods() == [QueueDeclareOk("q", 2, 1)]


def test_a_purge_is_answered_when_the_home_has_it_on_disk(client: Client, nodes: Together) -> None:
    nodes.flushes = False
    client.read(persistent("q", b"1", b"2"))
    nodes.settle()
    nodes["there"].flush()
    client.say(QueuePurge("q"))
    nodes.settle()
    assert client.methods() == []
    nodes["there"].flush()
    nodes.flushes = True
    nodes.settle()
    assert client.methods() == [QueuePurgeOk(2)]


def test_a_queue_elsewhere_is_not_deleted_against_its_conditions(nodes: Together) -> None:
    other = nodes.client("there")
    other.publish("q", b"1")
    where = "PRECONDITION_FAILED - queue 'q' in vhost '/'"
    one, two = nodes.client("here"), nodes.client("here")
    one.say(QueueDelete("q", if_empty=True))
    nodes.settle()
    assert one.close_reason() == (406, f"{where} not empty")
    other.say(BasicConsume("q", "c"))
    two.say(QueueDelete("q", if_unused=True))
    nodes.settle()
    assert two.close_reason() == (406, f"{where} in use")


def test_a_get_waits_for_the_disk_of_the_home(nodes: Together, client: Client) -> None:
    nodes["there"].node.turn.memory_low = True
    nodes.client("there").read(persistent("q", b"1"))
    nodes["there"].node.turn.memory_low = False
    client.say(BasicGet("q", no_ack=True))
    nodes.settle()
    assert client.methods() == []
    nodes["there"].logs.opened[0].read()
    nodes["there"].turn()
    nodes.settle()
    assert [heard.body for heard in client.heard()] == [b"1"]


def test_two_clients_of_one_node_get_their_own_answers(nodes: Together, client: Client) -> None:
    other = nodes.client("here")
    nodes.client("there").publish("q", b"1", b"2")
    client.say(BasicGet("q", no_ack=True))
    other.say(BasicGet("q", no_ack=True))
    nodes.settle()
    assert ([one.body for one in client.heard()], [one.body for one in other.heard()]) == ([b"1"], [b"2"])


def test_a_queue_stopped_at_home_says_why(nodes: Together, client: Client) -> None:
    nodes["there"].queue("q").stop("segment 1 is damaged")
    client.say(QueueDeclare("q", passive=True))
    nodes.settle()
    assert client.close_reason() == (404, "NOT_FOUND - queue 'q' in vhost '/' is stopped: segment 1 is damaged")
