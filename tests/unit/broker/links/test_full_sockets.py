"""The bytes that wait for a slow node are bounded; messages wait in their queues or at their clients."""

import pytest

from tests.support.core_driver import Client
from tests.unit.broker.links.linked import Together
from warren.broker.links.link_sender import REPLICATION_BYTES_MAX, REPLY_BYTES_MAX, TURN_BYTES_MAX
from warren.broker.model.effects import DropPeer
from warren.broker.model.events import PeerWritesPaused, PeerWritesResumed
from warren.wire.methods import BasicAck, BasicConsume, BasicDeliver, BasicGet, BasicGetOk

BODY = b"x" * (64 * 1024)
REPLY_TO = "amq.rabbitmq.reply-to"


@pytest.fixture
def nodes() -> Together:
    nodes = Together("here", "there")
    nodes.place("q", "there")
    return nodes


def waiting_bytes(nodes: Together, node: str) -> int:
    """The bytes that a node has sent and that are not carried across."""
    return sum(len(effect.data) for effect in nodes[node].sent)


def deliveries(client: Client) -> int:
    return sum(isinstance(one.method, BasicDeliver) for one in client.heard())


def test_a_publisher_waits_for_a_node_that_takes_no_more(nodes: Together) -> None:
    client, other = nodes.client("here"), nodes.client("here")
    for one in (client, other):
        one.confirm()
    nodes["here"].turn(PeerWritesPaused("there"))
    for one in (client, other):
        for _ in range(100):
            one.publish("q", BODY)
    assert {client.number, other.number} <= set(nodes["here"].unread)
    assert waiting_bytes(nodes, "here") < 3 * len(BODY)
    # earlier publishes are settled, but the socket is still full
    nodes.settle()
    assert {client.number, other.number} <= set(nodes["here"].unread)
    nodes["here"].turn(PeerWritesResumed("there"))
    nodes.settle()
    assert nodes["there"].queue("q").ready_count() == 200
    assert [method for method in client.methods() if isinstance(method, BasicAck)][-1].delivery_tag == 100


def test_a_publisher_goes_on_when_the_node_it_waits_for_is_lost(nodes: Together) -> None:
    client = nodes.client("here")
    nodes["here"].turn(PeerWritesPaused("there"))
    client.publish("q", BODY)
    assert client.number in nodes["here"].unread
    nodes.cut_link("here", "there")
    nodes["here"].settle()
    assert client.number not in nodes["here"].unread
    nodes.link("here", "there")
    client.publish("q", BODY)
    assert client.number not in nodes["here"].unread


def test_deliveries_wait_in_their_queue_while_a_node_takes_no_more(nodes: Together) -> None:
    consumer = nodes.client("here")
    consumer.say(BasicConsume("q", "c", no_ack=True))
    nodes.settle()
    nodes["there"].turn(PeerWritesPaused("here"))
    nodes.client("there").publish("q", *[BODY] * 10)
    assert (nodes["there"].queue("q").ready_count(), waiting_bytes(nodes, "there")) == (10, 0)
    # answers do not wait
    visitor = nodes.client("here")
    visitor.say(BasicGet("q", no_ack=True))
    nodes.settle()
    assert isinstance(visitor.methods()[0], BasicGetOk)
    consumer.heard()
    nodes["there"].turn(PeerWritesResumed("here"))
    nodes.settle()
    assert deliveries(consumer) == 9


def test_deliveries_of_one_turn_are_bounded_and_the_next_turn_continues(nodes: Together) -> None:
    names = [f"q{number}" for number in range(8)]
    consumers: list[Client] = []
    for name in names:
        nodes.place(name, "there")
        nodes.client("there").publish(name, *[BODY] * 20)
    for name in names:
        consumers.append(nodes.client("here"))
        consumers[-1].say(BasicConsume(name, "c", no_ack=True))
    nodes.settle()
    for consumer in consumers:
        consumer.heard()
    nodes["there"].turn(PeerWritesPaused("here"))
    for name in names:
        nodes.client("there").publish(name, *[BODY] * 20)
    nodes["there"].turn(PeerWritesResumed("here"))
    (sent,) = nodes["there"].sent
    assert len(sent.data) < TURN_BYTES_MAX + 2 * len(BODY)
    nodes.settle()
    assert [deliveries(consumer) for consumer in consumers] == [20] * 8


def test_direct_replies_to_a_node_that_takes_no_more_are_bounded(nodes: Together) -> None:
    asker, answerer = nodes.client("here"), nodes.client("there")
    asker.say(BasicConsume(REPLY_TO, "inbox", no_ack=True))
    asker.heard()
    (inbox,) = nodes["here"].node.reply_inboxes
    nodes["there"].turn(PeerWritesPaused("here"))
    fitting = int(REPLY_BYTES_MAX) // len(BODY)
    for _ in range(fitting + 100):
        answerer.publish(inbox, BODY)
    assert waiting_bytes(nodes, "there") < REPLY_BYTES_MAX + 2 * len(BODY)
    nodes["there"].turn(PeerWritesResumed("here"))
    nodes.settle()
    assert fitting - 2 <= deliveries(asker) <= fitting
    answerer.publish(inbox, b"so")
    nodes.settle()
    assert deliveries(asker) == 1


def test_a_mirror_that_does_not_read_loses_its_link_once(nodes: Together) -> None:
    here = nodes["here"]
    here.turn(PeerWritesPaused("there"))
    for _ in range(REPLICATION_BYTES_MAX // len(BODY) + 10):
        assert here.links.send_replication("there", b"", BODY)
    assert [effect.node for effect in here.node.turn.effects if isinstance(effect, DropPeer)] == ["there"]
    here.turn()
    assert waiting_bytes(nodes, "here") < REPLICATION_BYTES_MAX + 3 * len(BODY)
    assert not here.links.send_replication("nowhere", b"", BODY)
