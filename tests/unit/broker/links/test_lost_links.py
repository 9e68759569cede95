"""Publishes, consumers and requests when the link to a queue's home is lost.

Not here: a link that is lost at any moment of any history (`tests/property/test_remote_history.py`).
"""

import pytest

from tests.support.core_driver import Client, published, spoken
from tests.unit.broker.links.linked import Together
from tests.unit.broker.sessions.journalled import persistent
from warren.broker.model.events import PeerReceived
from warren.errors import PRECONDITION_FAILED, ChannelFault
from warren.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicQos,
    BasicReturn,
    ChannelOpen,
    ChannelOpenOk,
    TxCommit,
    TxSelect,
)

DOWN = "NOT_FOUND - home node 'there' of durable queue 'q' in vhost '/' is down or inaccessible"


@pytest.fixture
def nodes() -> Together:
    nodes = Together("here", "there", flushes=False)
    nodes.place("q", "there", durable=True)
    return nodes


def test_publishes_that_were_not_answered_are_nacked(nodes: Together, client: Client) -> None:
    client.confirm()
    client.read(persistent("q", b"1"))
    nodes.settle()
    nodes["there"].flush()
    client.read(persistent("q", b"2", b"3"))
    nodes.step()
    nodes.cut_link("here", "there")
    told = client.methods()
    assert told == [BasicAck(1), BasicNack(2, requeue=True), BasicNack(3, requeue=True)]


def test_publishes_to_a_queue_whose_home_is_gone_are_nacked_and_mandatory_ones_returned_first(
    nodes: Together, client: Client
) -> None:
    nodes.cut_link("here", "there")
    client.confirm()
    client.read(published("q", b"1") + published("q", b"2", mandatory=True))
    told = client.methods()
    assert [type(method) for method in told] == [BasicReturn, BasicNack, BasicNack]


def test_consumers_are_cancelled_and_begin_anew_when_the_home_is_back(nodes: Together, client: Client) -> None:
    nodes.client("there").publish("q", b"1")
    client.consume("q")
    nodes.settle()
    client.heard()
    nodes.cut_link("here", "there")
    assert client.methods() == [BasicCancel("c", nowait=True)]
    queue = nodes["there"].queue("q")
    assert (queue.ready_count(), queue.unacked_count(), queue.consumer_count()) == (1, 0, 0)
    nodes.link("here", "there")
    client.consume("q", tag="again")
    nodes.settle()
    # deliveries from before the loss can no longer be acked
    client.say(BasicAck(1))
    nodes.settle()
    assert queue.unacked_count() == 1
    client.say(BasicAck(2))
    nodes.settle()
    assert queue.unacked_count() == 0


@pytest.mark.parametrize("method", [BasicGet("q"), BasicConsume("q", "c")], ids=lambda method: str(method.name))
def test_requests_end_with_the_link_and_are_refused_without_one(
    nodes: Together, client: Client, method: BasicGet | BasicConsume
) -> None:
    client.say(method)
    nodes.cut_link("here", "there")
    nodes.settle()
    assert client.close_reason() == (404, DOWN)
    other = nodes.client("here")
    other.say(method)
    assert other.close_reason() == (404, DOWN)


def test_a_channel_that_closes_while_it_waits_lets_its_connection_go_on(nodes: Together) -> None:
    client = nodes.client("here", channels=2)
    client.say(BasicGet("q"), channel=1)
    late = ChannelFault(PRECONDITION_FAILED, "delivery acknowledgement on channel 1 timed out")
    nodes["here"].connections[client.number].channels[1].fail(late, 0, 0)
    client.say(ChannelOpen(), channel=3)
    nodes["here"].settle()
    assert ChannelOpenOk() in client.methods()


def test_a_cancel_succeeds_when_the_home_is_lost(nodes: Together, client: Client) -> None:
    client.consume("q")
    nodes.settle()
    client.heard()
    client.say(BasicCancel("c"))
    assert client.methods() == []
    nodes.cut_link("here", "there")
    nodes.settle()
    assert client.methods() == [BasicCancelOk("c")]


def test_a_commit_to_a_queue_whose_home_is_gone_fails(nodes: Together, client: Client) -> None:
    client.say(TxSelect())
    client.heard()
    nodes.cut_link("here", "there")
    client.read(persistent("q", b"1") + spoken(TxCommit()))
    code, text = client.close_reason()
    assert code == 406
    assert text.endswith("partial tx completion: the home node of a queue is down or inaccessible")


def test_a_commit_fails_when_a_home_is_lost(nodes: Together, client: Client) -> None:
    client.say(TxSelect())
    client.read(persistent("q", b"1"))
    client.heard()
    client.say(TxCommit())
    nodes.cut_link("here", "there")
    nodes.settle()
    code, text = client.close_reason()
    assert (code, text.startswith("PRECONDITION_FAILED - partial tx completion: home node 'there'")) == (406, True)


def test_a_window_of_deliveries_does_not_survive_the_link(nodes: Together, client: Client) -> None:
    nodes.client("there").publish("q", b"1", b"2", b"3")
    client.say(BasicQos(0, 1, True))
    client.consume("q")
    nodes.settle()
    nodes.cut_link("here", "there")
    queue = nodes["there"].queue("q")
    assert (queue.ready_count(), queue.unacked_count()) == (3, 0)


def test_bytes_that_make_no_sense_end_the_link(nodes: Together, client: Client) -> None:
    client.consume("q")
    nodes.settle()
    client.heard()
    here = nodes["here"]
    here.turn(PeerReceived("there", b"\xff" * 64))
    assert [order.node for order in here.dropped] == ["there"]
    assert client.methods() == [BasicCancel("c", nowait=True)]
    here.turn(PeerReceived("there", b"\xff" * 64))
    assert len(here.dropped) == 1


def test_a_queue_that_moves_to_another_node_begins_anew_there() -> None:
    nodes = Together("here", "there", "yonder", flushes=False)
    old = nodes.place("q", "there", durable=True)
    client = nodes.client("here")
    client.confirm()
    client.consume("q")
    nodes.settle()
    client.heard()
    client.read(persistent("q", b"1"))
    nodes["yonder"].remove_proxy("q")
    nodes["yonder"].client().declare("q", durable=True)
    nodes["here"].remote("q").rehome("yonder")
    nodes["here"].turn()
    assert client.methods() == [BasicCancel("c", nowait=True), BasicNack(1, requeue=True)]
    assert nodes["here"].links.admission.unsettled_bytes == 0
    nodes.settle()
    assert old.consumer_count() == 0
    client.publish("q", b"2")
    nodes.settle()
    assert client.methods() == [BasicAck(2)]
    assert nodes["yonder"].queue("q").ready_count() == 1


def test_a_queue_that_is_deleted_leaves_nothing_at_its_home(nodes: Together, client: Client) -> None:
    nodes.client("there").publish("q", b"1", b"2")
    client.confirm()
    client.consume("q")
    nodes.settle()
    client.heard()
    client.read(persistent("q", b"3"))
    nodes["here"].remove_proxy("q")
    nodes["here"].turn()
    assert client.methods() == [BasicCancel("c", nowait=True)]
    client.say(BasicAck(1))
    nodes.settle()
    # publishes in transit are confirmed when the home settles them
    assert client.methods() == []
    nodes["there"].flush()
    nodes.settle()
    assert client.methods() == [BasicAck(1)]
    assert nodes["here"].links.admission.unsettled_bytes == 0
    queue = nodes["there"].queue("q")
    assert (queue.consumer_count(), queue.unacked_count()) == (0, 0)
