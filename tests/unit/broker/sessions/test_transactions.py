"""A transaction step by step: publishes and acks that wait, commit, and rollback.

Not here: the same over sockets (`tests/wire/test_transactions.py`).
"""

import pytest

from tests.support.core_driver import Client, Core, published
from warren.wire.methods import (
    BasicAck,
    BasicGet,
    BasicNack,
    BasicQos,
    BasicReject,
    ChannelClose,
    QueueDelete,
    TxCommit,
    TxRollback,
    TxSelect,
)


@pytest.fixture
def client(core: Core) -> Client:
    """With a transaction on channel 1, an ordinary channel 2 and three messages in `q`."""
    client = core.client(channels=2)
    client.declare("q")
    client.publish("q", b"1", b"2", b"3")
    client.say(TxSelect())
    client.heard()
    return client


def counts(core: Core) -> tuple[int, int]:
    queue = core.broker.vhosts["/"].topology.queues["q"]
    return queue.ready_count(), queue.unacked_count()


def outstanding(core: Core) -> int:
    return int(core.broker.connections[1].channels[1].unacked_deliveries.count)


def test_a_publish_is_in_no_queue_until_it_is_committed(core: Core, client: Client) -> None:
    client.publish("q", b"4")
    assert counts(core) == (3, 0)
    client.say(TxCommit())
    assert counts(core) == (4, 0)


def test_a_publish_goes_where_it_was_routed_when_it_came(core: Core, client: Client) -> None:
    client.declare("r")
    client.bind("r", "amq.direct")
    client.publish("k", b"routed to r", exchange="amq.direct")
    client.bind("q", "amq.direct")
    client.say(TxCommit())
    assert counts(core) == (3, 0)
    assert core.broker.vhosts["/"].topology.queues["r"].ready_count() == 1


def test_an_ack_is_outstanding_nowhere_until_it_is_committed(core: Core, client: Client) -> None:
    client.say(BasicGet(queue="q"), BasicAck(1))
    assert (counts(core), outstanding(core)) == ((2, 1), 0)
    client.say(TxCommit())
    assert (counts(core), outstanding(core)) == ((2, 0), 0)


def test_acks_that_are_rolled_back_may_be_given_again(core: Core, client: Client) -> None:
    client.say(BasicGet(queue="q"), BasicGet(queue="q"), BasicGet(queue="q"))
    client.say(BasicAck(2), BasicReject(delivery_tag=1), BasicNack(delivery_tag=3), TxRollback())
    assert (counts(core), outstanding(core)) == ((0, 3), 3)
    client.say(BasicAck(0, multiple=True), TxCommit())
    assert counts(core) == (0, 0)
    assert "channel.close" not in client.names()


def test_a_delivery_acked_twice_in_one_transaction_is_unknown_the_second_time(client: Client) -> None:
    client.say(BasicGet(queue="q"), BasicAck(1), BasicAck(1))
    fault = client.methods()[-1]
    assert isinstance(fault, ChannelClose)
    assert fault.reply_text == "PRECONDITION_FAILED - unknown delivery tag 1"


@pytest.mark.parametrize("end", [ChannelClose(200, "bye"), None])
def test_a_closed_channel_requeues_deliveries_acked_in_its_open_transaction(
    core: Core, client: Client, end: ChannelClose | None
) -> None:
    client.say(BasicGet(queue="q"), BasicGet(queue="q"), BasicGet(queue="q"))
    client.say(BasicAck(2), BasicNack(delivery_tag=1, requeue=False))
    other = core.client()
    client.say(end) if end else client.lose()
    other.say(*[BasicGet(queue="q")] * 3)
    assert other.bodies() == [b"1", b"2", b"3"]


def test_a_refusal_takes_effect_at_commit(core: Core, client: Client) -> None:
    client.say(BasicGet(queue="q"), BasicNack(delivery_tag=1, requeue=True))
    assert counts(core) == (2, 1)
    client.say(TxCommit())
    assert counts(core) == (3, 0)


def test_a_queue_deleted_before_the_commit_is_not_missed(core: Core, client: Client) -> None:
    client.publish("q", b"4")
    client.say(BasicGet(queue="q"), BasicAck(1))
    client.say(QueueDelete(queue="q"), channel=2)
    client.say(TxCommit())
    assert client.names()[-1] == "tx.commit-ok"
    assert core.held_bytes() == 0


def test_a_commit_that_a_queue_refuses_in_part_closes_the_channel(core: Core, client: Client) -> None:
    client.say(TxCommit())
    client.declare("full", {"x-max-length": 1, "x-overflow": "reject-publish"})
    client.read(published("full") + published("full") + published("q"))
    client.heard()
    client.say(TxCommit())
    fault = client.methods()[-1]
    assert isinstance(fault, ChannelClose)
    assert fault.reply_text == "PRECONDITION_FAILED - partial tx completion"
    assert counts(core) == (4, 0)


def test_the_next_transaction_begins_with_nothing(core: Core, client: Client) -> None:
    client.publish("q", b"4")
    client.say(TxCommit(), TxCommit(), TxRollback(), TxCommit())
    assert counts(core) == (4, 0)
    assert client.names() == ["tx.commit-ok", "tx.commit-ok", "tx.rollback-ok", "tx.commit-ok"]


def test_a_mandatory_publish_returns_at_commit_ahead_of_the_answer(client: Client) -> None:
    client.read(published("nowhere", mandatory=True))
    assert client.heard() == []
    client.say(TxCommit())
    assert client.names() == ["basic.return", "tx.commit-ok"]


def test_an_ack_that_waits_for_its_commit_makes_no_room_for_a_consumer(client: Client) -> None:
    client.say(BasicQos(prefetch_count=1))
    client.consume("q")
    client.heard()
    client.say(BasicAck(1))
    assert client.heard() == []
    client.say(TxCommit())
    assert client.names() == ["tx.commit-ok", "basic.deliver"]
