"""Transactions: what a commit does, what a rollback undoes, and what ends one early."""

import pytest

from tests.support.amqp_client import Channel, Connection
from tests.wire.faults import expect_fault


def own_queue(channel: Channel, *bodies: bytes) -> str:
    queue: str = channel.call("queue.declare", exclusive=True).queue
    for body in bodies:
        channel.publish("", queue, body)
    return queue


@pytest.fixture
def witness(connection: Connection) -> Channel:
    """A channel of the same connection without a transaction."""
    return connection.channel()


def test_publishes_are_seen_only_after_the_commit(channel: Channel, witness: Channel) -> None:
    queue = own_queue(channel)
    channel.call("tx.select")
    for body in (b"a", b"b"):
        channel.publish("", queue, body)
    channel.call("basic.qos")
    assert witness.get(queue) is None
    channel.call("tx.commit")
    witness.consume(queue, no_ack=True)
    assert witness.bodies(2) == [b"a", b"b"]


def test_a_rollback_forgets_the_publishes(channel: Channel, witness: Channel) -> None:
    queue = own_queue(channel)
    channel.call("tx.select")
    channel.publish("", queue, b"never")
    channel.call("tx.rollback")
    channel.publish("", queue, b"once")
    channel.call("tx.commit")
    assert witness.purged(queue) == 1


def test_a_commit_without_anything_to_do_succeeds_again_and_again(channel: Channel) -> None:
    channel.call("tx.select")
    for method in ("tx.commit", "tx.rollback", "tx.commit", "tx.select"):
        channel.call(method)


def test_acks_count_only_after_the_commit(connection: Connection, channel: Channel) -> None:
    queue = own_queue(channel, b"a", b"b")
    channel.call("tx.select")
    for _ in range(2):
        channel.get(queue, no_ack=False)
    channel.ack(1)
    channel.call("tx.commit")
    channel.ack(2)
    channel.close()
    left = connection.channel().get(queue)
    assert left is not None
    assert (left.body, left.redelivered, left.message_count) == (b"b", True, 0)


def test_a_rolled_back_ack_leaves_the_message_unacked_and_may_be_given_again(
    channel: Channel, witness: Channel
) -> None:
    queue = own_queue(channel, b"a")
    channel.call("tx.select")
    channel.get(queue, no_ack=False)
    channel.ack(1)
    channel.call("tx.rollback")
    assert witness.counts(queue) == (0, 0)
    channel.ack(1)
    channel.call("tx.commit")
    channel.close()
    assert witness.purged(queue) == 0


@pytest.mark.parametrize("method", ["basic.nack", "basic.reject"])
def test_a_rejection_counts_only_after_the_commit(channel: Channel, witness: Channel, method: str) -> None:
    queue = own_queue(channel, b"a")
    channel.call("tx.select")
    channel.get(queue, no_ack=False)
    channel.send(method, delivery_tag=1, requeue=True)
    channel.call("basic.qos")
    assert witness.get(queue) is None
    channel.call("tx.commit")
    witness.await_counts(queue, 1)
    again = witness.get(queue)
    assert again is not None
    assert again.redelivered


@pytest.mark.parametrize("ending", ["close", "fault"])
def test_a_channel_that_ends_rolls_its_transaction_back(channel: Channel, witness: Channel, ending: str) -> None:
    queue = own_queue(channel, b"held")
    channel.call("tx.select")
    channel.publish("", queue, b"never")
    channel.get(queue, no_ack=False)
    channel.ack(1)
    if ending == "close":
        channel.close()
    else:
        channel.send("basic.get", queue="nothing")
        expect_fault(channel, 404, "NOT_FOUND - no queue 'nothing' in vhost '/'", "basic.get")
    witness.await_counts(queue, 1)
    left = witness.get(queue)
    assert left is not None
    assert (left.body, left.redelivered) == (b"held", True)


def test_an_unroutable_message_returns_at_the_commit(channel: Channel) -> None:
    channel.call("tx.select")
    channel.publish("", "nobody", b"back", mandatory=True)
    channel.call("basic.qos")
    channel.send("tx.commit")
    assert channel.expect("basic.return", reply_code=312).body == b"back"
    channel.expect("tx.commit-ok")


def test_an_error_in_a_publish_does_not_wait_for_the_commit(channel: Channel) -> None:
    channel.call("tx.select")
    channel.publish("nothing", "k")
    expect_fault(channel, 404, "NOT_FOUND - no exchange 'nothing' in vhost '/'", "basic.publish")


def test_an_unknown_tag_does_not_wait_for_the_commit(channel: Channel) -> None:
    channel.call("tx.select")
    channel.ack(5)
    expect_fault(channel, 406, "PRECONDITION_FAILED - unknown delivery tag 5", "basic.ack")


def test_a_tag_cannot_be_acked_twice_in_a_transaction(channel: Channel) -> None:
    queue = own_queue(channel, b"a")
    channel.call("tx.select")
    channel.get(queue, no_ack=False)
    channel.ack(1)
    channel.ack(1)
    expect_fault(channel, 406, "PRECONDITION_FAILED - unknown delivery tag 1", "basic.ack")


def test_a_prefetch_is_freed_by_the_commit(channel: Channel) -> None:
    queue = own_queue(channel, b"a", b"b")
    channel.call("tx.select")
    channel.call("basic.qos", prefetch_count=1)
    channel.consume(queue)
    assert channel.bodies(1) == [b"a"]
    channel.ack(1)
    channel.expect_silence(queue)
    channel.send("tx.commit")
    replies = [channel.next() for _ in range(2)]
    assert {reply.name for reply in replies} == {"tx.commit-ok", "basic.deliver"}


def test_a_refusing_queue_makes_the_commit_fail(channel: Channel, witness: Channel) -> None:
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    queue = channel.call("queue.declare", exclusive=True, arguments=arguments).queue
    channel.call("tx.select")
    channel.publish("", queue, b"a")
    channel.publish("", queue, b"b")
    channel.send("tx.commit")
    expect_fault(channel, 406, "PRECONDITION_FAILED - partial tx completion", "tx.commit")
    assert witness.purged(queue) == 1


def test_messages_published_before_the_transaction_are_not_part_of_it(channel: Channel, witness: Channel) -> None:
    queue = own_queue(channel, b"before")
    channel.call("tx.select")
    channel.call("tx.rollback")
    assert witness.purged(queue) == 1
