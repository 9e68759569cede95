"""tx.commit-ok is sent when the changes of the commit are on disk.

Not here: other properties of transactions (`test_transactions`).
"""

import pytest

from tests.support.core_driver import Client, published
from tests.unit.broker.sessions.journalled import JournalledCore, persistent
from warren.wire.methods import BasicAck, BasicGet, BasicNack, BasicReject, Method, TxCommit, TxRollback, TxSelect


@pytest.fixture
def client(journalled: JournalledCore) -> Client:
    """In a transaction, with a persistent message in `durable` and one in memory alone in `passing`."""
    client = journalled.client()
    client.declare("durable", durable=True)
    client.declare("passing")
    client.declare("full", {"x-max-length": 0, "x-overflow": "reject-publish"})
    client.read(persistent("durable", b"x") + published("passing", b"x"))
    client.say(TxSelect())
    client.heard()
    return client


def test_a_commit_of_a_persistent_publish_is_answered_when_it_is_on_disk(
    journalled: JournalledCore, client: Client
) -> None:
    client.read(published("passing") + persistent("durable", b"y") + published("passing"))
    client.say(TxCommit())
    assert client.names() == []
    journalled.flush()
    assert client.names() == ["tx.commit-ok"]


@pytest.mark.parametrize(
    ("said", "waits"),
    [
        (BasicAck(1), True),
        (BasicReject(delivery_tag=1, requeue=False), True),
        (BasicNack(delivery_tag=1, requeue=False), True),
        (BasicNack(delivery_tag=1, requeue=True), False),
    ],
    ids=repr,
)
def test_a_commit_waits_for_the_removal_of_acked_messages_on_disk(
    journalled: JournalledCore, client: Client, said: Method, waits: bool
) -> None:
    client.say(BasicGet(queue="durable"), said)
    client.heard()
    client.say(TxCommit())
    assert client.names() == ([] if waits else ["tx.commit-ok"])
    for _ in journalled.batches:
        journalled.flush()
        assert client.names() == ["tx.commit-ok"]


def test_a_commit_of_nothing_on_disk_is_answered_at_once(journalled: JournalledCore, client: Client) -> None:
    client.say(BasicGet(queue="passing"), BasicAck(1))
    client.heard()
    client.read(published("passing") + published("durable") + persistent("passing", b"z"))
    client.say(TxCommit(), TxCommit())
    assert client.names() == ["tx.commit-ok"] * 2


def test_a_rollback_waits_for_nothing(journalled: JournalledCore, client: Client) -> None:
    client.read(persistent("durable", b"y"))
    client.say(TxRollback())
    assert client.names() == ["tx.rollback-ok"]
    assert journalled.batches == []


def test_a_commit_that_is_refused_in_part_is_refused_at_once(journalled: JournalledCore, client: Client) -> None:
    client.read(persistent("durable", b"y") + persistent("full", b"y") + persistent("durable", b"y"))
    client.say(TxCommit())
    assert client.names() == ["channel.close"]
