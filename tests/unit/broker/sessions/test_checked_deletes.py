"""queue.delete with if-empty or if-unused: the queue stays empty and unused until the delete is decided."""

from collections.abc import Callable

import pytest

from tests.support.core_driver import Client, published, spoken
from tests.unit.broker.sessions.deferred_core import DeferredCore
from warren.broker.pending_deletes import RETRY_MS
from warren.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicNack,
    ChannelClose,
    ConfirmSelect,
    Method,
    QueueDelete,
    QueueDeleteOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
)

REMOVAL = ["queues/%2F/q"]


@pytest.fixture
def core() -> DeferredCore:
    core = DeferredCore()
    client = core.client()
    client.declare("q")
    core.grant()
    return core


@pytest.fixture
def client(core: DeferredCore) -> Client:
    """Deletes the queue, if it is empty and unused, and waits."""
    client = core.client()
    client.say(QueueDelete("q", if_unused=True, if_empty=True))
    assert core.backend.keys() == [REMOVAL]
    return client


@pytest.fixture
def publisher(core: DeferredCore, client: Client) -> Client:
    """Publishes while the delete is undecided."""
    publisher = core.client()
    publisher.confirm()
    publisher.publish("q", b"1", b"2")
    assert publisher.methods() == []
    return publisher


def flushed(core: DeferredCore) -> None:
    while core.batches:
        core.flush()


def test_publishes_during_the_delete_are_refused_if_the_queue_is_deleted(
    core: DeferredCore, client: Client, publisher: Client
) -> None:
    core.grant()
    flushed(core)
    assert client.methods() == [QueueDeleteOk(0)]
    assert publisher.methods() == [BasicNack(1, requeue=True), BasicNack(2, requeue=True)]
    assert core.held_bytes() == 0


def test_publishes_during_the_delete_are_enqueued_if_the_queue_stays(
    core: DeferredCore, client: Client, publisher: Client
) -> None:
    core.outdate()
    flushed(core)
    assert publisher.methods() == [BasicAck(2, multiple=True)]
    (closed,) = client.methods()
    assert isinstance(closed, ChannelClose)
    assert closed.reply_text == "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty"
    assert core.vhost.topology.queues["q"].ready_count() == 2
    publisher.publish("q", b"3")
    assert publisher.methods() == [BasicAck(3)]


def test_publishes_without_confirms_are_enqueued_if_the_queue_stays(core: DeferredCore, client: Client) -> None:
    core.client().publish("q", b"1")
    core.outdate()
    assert core.vhost.topology.queues["q"].ready_count() == 1


def test_a_delete_with_an_unknown_outcome_is_revoked_first(
    core: DeferredCore, client: Client, publisher: Client
) -> None:
    core.fail()
    (closed,) = client.methods()
    assert isinstance(closed, ChannelClose)
    # the queue's definition is touched, and until that commits the delete may still commit
    (plan, _waiter) = core.backend.waiting[0]
    assert (list(plan.changes), list(plan.touched)) == ([], REMOVAL)
    core.fail()
    flushed(core)
    assert publisher.methods() == []
    core.now_ms += RETRY_MS
    core.turn()
    core.outdate()
    core.grant()
    flushed(core)
    assert publisher.methods() == [BasicAck(2, multiple=True)]
    assert core.vhost.topology.queues["q"].ready_count() == 2


def test_a_delete_with_an_unknown_outcome_may_have_committed(
    core: DeferredCore, client: Client, publisher: Client
) -> None:
    core.fail()
    core.vhost.remove_queue("q")
    core.outdate()
    flushed(core)
    assert publisher.methods() == [BasicNack(1, requeue=True), BasicNack(2, requeue=True)]
    assert core.backend.waiting == []


def test_a_commit_waits_too(core: DeferredCore, client: Client) -> None:
    committer = core.client()
    committer.say(TxSelect())
    committer.heard()
    committer.read(published("q", b"1") + spoken(TxCommit()))
    assert committer.methods() == []
    core.outdate()
    flushed(core)
    core.turn()
    assert committer.methods() == [TxCommitOk()]


def test_a_commit_after_the_queue_is_gone_finds_none(core: DeferredCore, client: Client) -> None:
    committer = core.client()
    committer.say(TxSelect())
    committer.heard()
    committer.publish("q", b"1")
    core.grant()
    committer.say(TxCommit())
    assert committer.methods() == [TxCommitOk()]


@pytest.mark.parametrize("stays", [True, False])
def test_a_consume_waits(core: DeferredCore, client: Client, stays: bool) -> None:
    consumer = core.client()
    consumer.say(BasicConsume("q", "c"))
    assert consumer.methods() == []
    if stays:
        core.outdate()
    else:
        core.grant()
    core.settle()
    (answer,) = consumer.methods()
    assert isinstance(answer, BasicConsumeOk if stays else ChannelClose)
    (told,) = client.methods()
    # the consumer was handled first, and the queue is in use
    assert isinstance(told, ChannelClose if stays else QueueDeleteOk)


def test_one_waits_for_the_removal_another_wants(core: DeferredCore, client: Client) -> None:
    other = core.client()
    other.say(QueueDelete("q", if_empty=True))
    assert len(core.backend.waiting) == 1
    core.grant()
    core.settle()
    assert (client.methods(), other.methods()) == ([QueueDeleteOk(0)], [QueueDeleteOk(0)])


def unused(core: DeferredCore) -> None:
    client = core.client()
    client.declare("gone", auto_delete=True)
    core.grant()
    client.consume("gone")
    client.say(BasicCancel("c"))


def expired(core: DeferredCore) -> None:
    core.client().declare("gone", {"x-expires": 1000})
    core.grant()
    core.now_ms += 1000
    core.turn()


def orphaned(core: DeferredCore) -> None:
    client = core.client()
    client.declare("gone", exclusive=True)
    core.grant()
    client.lose()


@pytest.mark.parametrize(
    ("depart", "told"),
    [(unused, [BasicAck(1)]), (expired, [BasicNack(1, requeue=True)]), (orphaned, [BasicAck(1)])],
)
def test_publishes_to_a_queue_with_a_pending_delete_are_answered_when_it_commits(
    core: DeferredCore, depart: Callable[[DeferredCore], None], told: list[Method]
) -> None:
    depart(core)
    publisher = core.client()
    publisher.confirm()
    publisher.publish("gone", b"1")
    core.fail()
    flushed(core)
    assert publisher.methods() == []
    core.now_ms += RETRY_MS
    core.turn()
    core.grant()
    flushed(core)
    assert publisher.methods() == told


@pytest.mark.parametrize(
    ("delete", "told"),
    [(QueueDelete("q"), [BasicAck(1)]), (QueueDelete("q", if_unused=True), [BasicNack(1, requeue=True)])],
    ids=["unconditionally", "if unused"],
)
def test_a_queue_that_is_deleted_without_conditions_accepts_publishes(
    core: DeferredCore, delete: Method, told: list[Method]
) -> None:
    client, publisher = core.client(), core.client()
    publisher.say(ConfirmSelect())
    publisher.heard()
    client.say(delete)
    publisher.publish("q", b"1")
    core.grant()
    flushed(core)
    assert publisher.methods() == told
