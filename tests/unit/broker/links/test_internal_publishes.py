"""Messages that nodes send by themselves: dead letters, direct replies, notices."""

import pytest

from tests.support.core_driver import Client, published
from tests.unit.broker.links.linked import Together
from tests.unit.broker.sessions.journalled import persistent
from warren.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicReject,
    ChannelClose,
    QueueDeclare,
    QueueDeclareOk,
)
from warren.wire.properties import Properties, decode_properties

REPLY_TO = "amq.rabbitmq.reply-to"


@pytest.fixture
def nodes() -> Together:
    nodes = Together("here", "there", flushes=False)
    nodes.place("grave", "there", durable=True)
    nodes.place("q", "here", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"}, durable=True)
    return nodes


@pytest.fixture
def client(nodes: Together) -> Client:
    client = nodes.client("here")
    client.read(persistent("q", b"1"))
    client.say(BasicGet("q"))
    client.heard()
    return client


def stored(nodes: Together) -> int:
    """How many messages the queue here has on disk."""
    names = [name for name, queue in nodes["here"].queues.items() if queue is nodes["here"].queue("q")]
    assert names == ["q"]
    return len(nodes["here"].logs.opened[0]._stored)


def test_a_dead_letter_is_forgotten_when_it_has_arrived_elsewhere(nodes: Together, client: Client) -> None:
    client.say(BasicReject(1, requeue=False))
    nodes.settle()
    assert nodes["there"].queue("grave").ready_count() == 1
    assert stored(nodes) == 1
    nodes["there"].flush()
    nodes.settle()
    assert stored(nodes) == 0
    assert nodes["here"].queue("q").stats.published == 1
    assert nodes["there"].queue("grave").stats.published == 0


def test_a_dead_letter_waits_for_a_home_that_is_gone(nodes: Together, client: Client) -> None:
    nodes.cut_link("here", "there")
    held_bytes = nodes["here"].held_bytes()
    client.say(BasicReject(1, requeue=False))
    nodes.settle()
    assert stored(nodes) == 1
    nodes.link("here", "there")
    nodes.settle()
    # and is sent again if that home is lost before it settled it
    nodes.cut_link("here", "there")
    nodes.link("here", "there")
    nodes.flushes = True
    nodes.settle()
    assert stored(nodes) == 0
    assert nodes["there"].queue("grave").ready_count() == 2
    assert nodes["there"].queue("grave").stats.published == 0
    assert nodes["here"].held_bytes() < held_bytes


def test_a_dead_letter_for_a_deleted_queue_counts_as_delivered(nodes: Together, client: Client) -> None:
    nodes.cut_link("here", "there")
    client.say(BasicReject(1, requeue=False))
    nodes["here"].remove_proxy("grave")
    nodes["here"].turn()
    nodes.settle()
    assert stored(nodes) == 0


def test_a_direct_reply_finds_its_way_to_another_node(nodes: Together) -> None:
    asker, answerer = nodes.client("here"), nodes.client("there")
    asker.say(BasicConsume(REPLY_TO, "inbox", no_ack=True))
    asker.heard()
    asker.read(published("grave", b"how?", properties=Properties(reply_to=REPLY_TO)))
    nodes.settle()
    answerer.say(BasicGet("grave", no_ack=True))
    (request,) = answerer.heard()
    reply_to = decode_properties(request.header, 0, len(request.header)).reply_to
    assert reply_to is not None
    answerer.publish(reply_to, b"so")
    nodes.settle()
    (reply,) = asker.heard()
    assert isinstance(reply.method, BasicDeliver)
    assert (reply.method.consumer_tag, reply.body) == ("inbox", b"so")


def test_an_inbox_is_found_from_other_nodes_too(nodes: Together) -> None:
    asker, answerer = nodes.client("here"), nodes.client("there")
    asker.say(BasicConsume(REPLY_TO, "inbox", no_ack=True))
    (name,) = nodes["here"].node.reply_inboxes
    for client in (asker, answerer):
        client.heard()
        client.say(QueueDeclare(name, passive=True))
        assert client.methods() == [QueueDeclareOk(name, 0, 1)]
    asker.lose()
    other = nodes.client("here")
    other.say(QueueDeclare(name, passive=True))
    assert isinstance(other.methods()[0], ChannelClose)


def test_replies_to_unknown_inboxes_are_dropped(nodes: Together) -> None:
    client = nodes.client("here")
    client.confirm()
    for name in ("x", "dGhlcmU.gone", "bm93aGVyZQ.gone", "\u00fc.\u00fc", "===.="):
        client.publish(f"{REPLY_TO}.{name}", b"so")
    nodes.settle()
    assert client.methods() == [BasicAck(number) for number in range(1, 6)]


def test_notices_go_to_the_node_they_are_for(nodes: Together) -> None:
    assert nodes["here"].links.notify("there", b"news")
    assert not nodes["here"].links.notify("nowhere", b"news")
    nodes["here"].turn()
    nodes.settle()
    assert nodes["there"].notices == [("here", b"news")]
