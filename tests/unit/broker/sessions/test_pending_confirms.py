"""Confirms of publishes that wait for the disk.

Not here: every mixture of outcomes and flushes (`tests/property/test_confirms.py`).
"""

import pytest

from tests.support.core_driver import Client, published
from tests.unit.broker.sessions.journalled import PERSISTENT, JournalledCore, persistent
from warren.wire.methods import (
    BasicAck,
    BasicNack,
    ChannelClose,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
)


@pytest.fixture
def client(journalled: JournalledCore) -> Client:
    """With a durable queue, one in memory, one that is full, and confirms on channel 1."""
    client = journalled.client()
    client.declare("durable", durable=True)
    client.declare("memory")
    client.declare("full", {"x-max-length": 0, "x-overflow": "reject-publish"})
    for queue in ("durable", "memory", "full"):
        client.bind(queue, "amq.direct", queue)
        client.bind(queue, "amq.fanout")
    client.confirm()
    return client


def test_a_persistent_publish_is_confirmed_when_its_batch_is_on_disk(
    journalled: JournalledCore, client: Client
) -> None:
    client.read(persistent("durable", b"1", b"2", b"3"))
    assert client.methods() == []
    journalled.turn()
    assert client.methods() == []
    journalled.flush()
    assert client.methods() == [BasicAck(3, multiple=True)]


def test_batches_are_confirmed_as_they_are_flushed(journalled: JournalledCore, client: Client) -> None:
    for _ in range(3):
        client.read(persistent("durable", b"1", b"2"))
    journalled.flush()
    assert client.methods() == [BasicAck(2, multiple=True)]
    journalled.flush()
    journalled.flush()
    assert client.methods() == [BasicAck(4, multiple=True), BasicAck(6, multiple=True)]


def test_a_channel_waits_once_for_each_batch(journalled: JournalledCore, client: Client) -> None:
    client.read(persistent("durable", b"1", b"2") + published("nowhere") + persistent("durable", b"3"))
    client.read(persistent("durable", b"4"))
    assert [len(waiters) for waiters in journalled.batches] == [1, 1]


def test_a_publish_that_is_settled_at_once_is_confirmed_singly_at_the_end_of_its_turn(
    journalled: JournalledCore, client: Client
) -> None:
    client.read(published("memory") + persistent("durable", b"2") + published("memory") * 2)
    assert client.methods() == [BasicAck(1), BasicAck(3), BasicAck(4)]
    client.read(published("memory"))
    assert client.methods() == [BasicAck(5)]
    journalled.flush()
    assert client.methods() == [BasicAck(2)]
    client.read(published("memory") * 2)
    assert client.methods() == [BasicAck(7, multiple=True)]


def test_a_rejection_is_sent_at_once_while_others_are_pending(journalled: JournalledCore, client: Client) -> None:
    client.read(persistent("durable", b"1", b"2") + persistent("full", b"3"))
    assert client.methods() == [BasicNack(3, requeue=True)]
    journalled.flush()
    assert client.methods() == [BasicAck(2, multiple=True)]


@pytest.mark.parametrize(
    ("queues", "at_once", "when_flushed"),
    [
        (("durable", "memory"), [], [BasicAck(1)]),
        (("memory", "durable"), [], [BasicAck(1)]),
        (("durable", "full", "memory"), [BasicNack(1, requeue=True)], []),
        (("full", "durable"), [BasicNack(1, requeue=True)], []),
        (("memory",), [BasicAck(1)], []),
    ],
)
@pytest.mark.parametrize("kind", ["direct", "headers"], ids=["remembered route", "routed each time"])
def test_several_queues_answer_as_one(
    journalled: JournalledCore,
    client: Client,
    kind: str,
    queues: tuple[str, ...],
    at_once: list[BasicAck | BasicNack],
    when_flushed: list[BasicAck],
) -> None:
    client.declare_exchange("several", kind)
    for queue in queues:
        client.bind(queue, "several")
    client.read(published("k", exchange="several", properties=PERSISTENT))
    assert client.methods() == at_once
    while journalled.batches:
        journalled.flush()
    assert client.methods() == when_flushed


def test_a_return_is_followed_by_its_own_ack_while_others_are_pending(
    journalled: JournalledCore, client: Client
) -> None:
    client.read(persistent("durable", b"1") + published("memory") + published("nowhere", mandatory=True))
    assert client.names() == ["basic.ack", "basic.return", "basic.ack"]
    journalled.flush()
    assert client.methods() == [BasicAck(1)]


@pytest.mark.parametrize(
    "end", [ChannelClose(200, "bye"), QueueDeclare(queue="missing", passive=True)], ids=["closed", "failed"]
)
def test_a_closed_channel_gets_no_confirms(
    journalled: JournalledCore, client: Client, end: ChannelClose | QueueDeclare
) -> None:
    client.read(persistent("durable", b"1"))
    client.say(end)
    client.heard()
    journalled.flush()
    assert client.heard() == []


def test_a_channel_opened_again_under_the_same_number_has_numbers_of_its_own(
    journalled: JournalledCore, client: Client
) -> None:
    client.read(persistent("durable", b"1", b"2"))
    client.say(ChannelClose(200, "bye"))
    client.say(ChannelOpen(), ConfirmSelect())
    client.read(persistent("durable", b"1"))
    assert client.methods()[1:] == [ChannelOpenOk(), ConfirmSelectOk()]
    journalled.flush()
    assert client.methods() == []
    journalled.flush()
    assert client.methods() == [BasicAck(1)]


def test_a_disconnected_client_gets_no_confirms(journalled: JournalledCore, client: Client) -> None:
    client.read(persistent("durable", b"1"))
    client.lose()
    assert journalled.flush() == []


def test_a_client_that_was_cut_off_is_not_cut_off_again(journalled: JournalledCore) -> None:
    client = journalled.client(heartbeat_s=10)
    client.declare("durable", durable=True)
    client.confirm()
    client.read(persistent("durable", b"1"))
    journalled.pass_ms(60_000)
    journalled.flush()
    assert journalled.closed == [client.number]


def test_publishes_without_confirms_wait_for_nothing(journalled: JournalledCore) -> None:
    client = journalled.client()
    client.declare("durable", durable=True)
    client.read(persistent("durable", b"1"))
    assert journalled.batches == []
