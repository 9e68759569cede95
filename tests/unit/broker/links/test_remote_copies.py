"""Copies of queues on another node: confirms and commits wait for them, and a refusal there comes too late.

Not here: clusters that lose nodes (`tests/simulation/cluster/test_named_copies.py`).
"""

import pytest

from tests.support.core_driver import Client
from tests.unit.broker.links.linked import Together
from tests.unit.broker.sessions.journalled import persistent
from warren.wire.methods import BasicNack, TxCommit, TxSelect

HERE, THERE = "here", "there"


@pytest.fixture
def nodes() -> Together:
    return Together(HERE, THERE, flushes=False)


@pytest.fixture
def client(nodes: Together) -> Client:
    return nodes.client(HERE)


@pytest.mark.parametrize(("source", "copy"), [(HERE, THERE), (THERE, HERE)])
def test_a_confirm_waits_for_source_and_copy(nodes: Together, client: Client, source: str, copy: str) -> None:
    nodes.place("q", source, durable=True)
    nodes.place("copy", copy, {"x-copy-from": "q"}, durable=True)
    client.confirm()
    client.read(persistent("q", b"1"))
    nodes.settle()
    assert client.names() == []
    nodes[THERE].flush()
    nodes.settle()
    assert client.names() == []
    nodes[HERE].flush()
    nodes.settle()
    assert client.names() == ["basic.ack"]
    assert [nodes[source].queue("q").ready_count(), nodes[copy].queue("copy").ready_count()] == [1, 1]


def test_a_commit_waits_for_a_copy(nodes: Together, client: Client) -> None:
    nodes.place("q", HERE)
    nodes.place("copy", THERE, {"x-copy-from": "q"}, durable=True)
    client.say(TxSelect())
    client.heard()
    client.read(persistent("q", b"1"))
    client.say(TxCommit())
    nodes.settle()
    assert client.names() == []
    nodes[THERE].flush()
    nodes.settle()
    assert client.names() == ["tx.commit-ok"]


def test_a_publish_refused_by_a_remote_source_is_nacked_and_may_be_in_its_copy(nodes: Together, client: Client) -> None:
    nodes.place("q", THERE, {"x-max-length": 0, "x-overflow": "reject-publish"})
    nodes.place("copy", HERE, {"x-copy-from": "q"})
    client.confirm()
    client.publish("q", b"1")
    nodes.settle()
    assert [type(method) for method in client.methods()] == [BasicNack]
    assert nodes[HERE].queue("copy").ready_count() == 1


def test_a_publish_that_cannot_be_sent_to_the_source_is_not_copied(nodes: Together, client: Client) -> None:
    nodes.place("q", THERE)
    nodes.place("copy", HERE, {"x-copy-from": "q"})
    nodes.cut_link(HERE, THERE)
    client.confirm()
    client.publish("q", b"1")
    nodes.settle()
    assert [type(method) for method in client.methods()] == [BasicNack]
    assert nodes[HERE].queue("copy").ready_count() == 0
