"""Publishers, and no other clients, are held while too much is in transit to other nodes."""

import pytest

from tests.support.core_driver import Client
from tests.unit.broker.links.linked import Together
from warren.broker.links.admission import LINK_BYTES_MAX
from warren.wire.methods import BasicAck, BasicConsume, BasicDeliver, ConfirmSelect

BODY = b"x" * (1024 * 1024)
TOO_MANY = int(LINK_BYTES_MAX) // len(BODY) + 4


@pytest.fixture
def nodes() -> Together:
    nodes = Together("here", "there")
    nodes.place("q", "there")
    nodes.place("r", "here")
    return nodes


def publish_too_much(client: Client) -> None:
    for _ in range(TOO_MANY):
        client.publish("q", BODY)


def test_a_publisher_that_fills_a_link_is_held_until_half_of_it_has_arrived(nodes: Together) -> None:
    client = nodes.client("here")
    publish_too_much(client)
    assert client.number in nodes["here"].unread
    nodes.settle()
    assert client.number not in nodes["here"].unread
    assert nodes["there"].queue("q").ready_count() == TOO_MANY
    assert nodes["here"].links.admission.unsettled_bytes == 0


def test_others_go_on_while_a_publisher_is_held(nodes: Together) -> None:
    publish_too_much(nodes.client("here"))
    other = nodes.client("here")
    other.publish("r", b"1")
    other.say(BasicConsume("r", "c"))
    assert [one.body for one in other.heard() if isinstance(one.method, BasicDeliver)] == [b"1"]


def test_a_publisher_goes_on_when_the_link_is_lost(nodes: Together) -> None:
    client = nodes.client("here")
    publish_too_much(client)
    nodes.cut_link("here", "there")
    nodes["here"].settle()
    assert client.number not in nodes["here"].unread
    assert nodes["here"].links.admission.unsettled_bytes == 0


def test_publishes_read_while_their_connection_is_held_are_published_afterwards(nodes: Together) -> None:
    client = nodes.client("here")
    client.say(ConfirmSelect())
    client.heard()
    publish_too_much(client)
    nodes.settle()
    confirmed = [method.delivery_tag for method in client.methods() if isinstance(method, BasicAck)]
    assert confirmed[-1] == TOO_MANY


def test_a_publisher_that_is_gone_is_let_go(nodes: Together) -> None:
    client = nodes.client("here")
    publish_too_much(client)
    client.lose()
    nodes.settle()
    assert nodes["here"].links.admission.unsettled_bytes == 0
