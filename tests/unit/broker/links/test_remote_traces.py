"""Traces of messages whose queues, or whose traces' queues, are elsewhere: each is made where the client is."""

import pytest

from tests.support.core_driver import Client, published
from tests.unit.broker.links.linked import Together
from warren.wire.method_stream import ReceivedMethod
from warren.wire.methods import BasicAck, BasicDeliver, BasicGet, BasicReject
from warren.wire.properties import decode_properties

TRACE = "amq.rabbitmq.trace"


@pytest.fixture
def nodes() -> Together:
    nodes = Together("here", "there")
    nodes.place("q", "there")
    nodes.place("traces", "there")
    for core in nodes.cores.values():
        topology = core.node.only_vhost.topology
        topology.bind(topology.exchanges[TRACE], core.queues["traces"], "#", {})
        core.node.only_vhost.set_tracing(True)
    return nodes


def traces(nodes: Together) -> list[tuple[str, object]]:
    """Key and node of every trace."""
    nodes.settle()
    listener = nodes.client("there")
    listener.consume("traces", no_ack=True)
    nodes.settle()
    return [described(one) for one in listener.heard() if isinstance(one.method, BasicDeliver)]


def described(heard: ReceivedMethod) -> tuple[str, object]:
    assert isinstance(heard.method, BasicDeliver)
    headers = decode_properties(heard.header, 0, len(heard.header)).headers
    assert headers is not None
    return heard.method.routing_key, headers["node"]


def test_a_publish_to_another_nodes_queue_is_traced_once_where_the_client_is(nodes: Together, client: Client) -> None:
    client.publish("q", b"1")
    assert traces(nodes) == [("publish.", "here")]


def test_a_delivery_from_another_nodes_queue_is_traced_once_where_the_client_is(
    nodes: Together, client: Client
) -> None:
    nodes.client("there").publish("q", b"1")
    client.consume("q")
    nodes.settle()
    assert traces(nodes) == [("publish.", "there"), ("deliver.q", "here")]


def test_a_get_from_another_nodes_queue_is_traced_once_where_the_client_is(nodes: Together, client: Client) -> None:
    client.publish("q", b"1")
    client.say(BasicGet("q"))
    assert traces(nodes) == [("publish.", "here"), ("deliver.q", "here")]


def test_an_ack_is_traced_once_where_the_client_is(nodes: Together, client: Client) -> None:
    client.publish("q", b"1")
    client.consume("q")
    nodes.settle()
    client.say(BasicAck(1))
    assert traces(nodes) == [("publish.", "here"), ("deliver.q", "here"), ("ack.q", "here")]


def test_a_dead_letter_is_traced_once_where_its_queue_is(nodes: Together, client: Client) -> None:
    nodes.place("dying", "there", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
    client.publish("dying", b"1")
    client.consume("dying")
    nodes.settle()
    client.say(BasicReject(1, requeue=False))
    assert traces(nodes) == [
        ("publish.", "here"),
        ("deliver.dying", "here"),
        ("reject.dying", "here"),
        ("dead.dying", "there"),
    ]


def test_a_consumer_that_was_there_before_is_traced_too(nodes: Together, client: Client) -> None:
    vhost = nodes["here"].node.only_vhost
    vhost.set_tracing(False)
    client.consume("q")
    nodes.settle()
    vhost.set_tracing(True)
    nodes.client("there").publish("q", b"1")
    assert traces(nodes) == [("publish.", "there"), ("deliver.q", "here")]


def test_a_trace_without_a_reachable_queue_does_not_stop_the_publish(nodes: Together, client: Client) -> None:
    nodes.cut_link("here", "there")
    client.read(published("nowhere", b"1"))
    nodes.link("here", "there")
    client.publish("traces", b"2")
    nodes.settle()
    queue = nodes["there"].queue("traces")
    # the client's message, and the trace of it, which does not count
    assert (queue.ready_count(), queue.stats.published) == (2, 1)
