"""The life of a queue: names, counts, purging, deleting with conditions, exclusive and auto-delete ones."""

import pytest

from tests.support.amqp_client import Channel, Connection
from tests.wire.conftest import Connect, Unique
from tests.wire.faults import expect_fault


def fill(channel: Channel, queue: str, count: int) -> None:
    for number in range(count):
        channel.publish("", queue, str(number).encode())


def exists(connection: Connection, queue: str) -> bool:
    """Asked on a channel of its own, since the answer no costs the channel."""
    probe = connection.channel()
    probe.send("queue.declare", queue=queue, passive=True)
    reply = probe.next()
    if reply.name == "channel.close":
        assert reply.reply_code == 404
        probe.send("channel.close-ok")
        return False
    probe.close()
    return True


def await_gone(connection: Connection, queue: str) -> None:
    """Each question is a round trip; the connection's deadline bounds how often it is asked."""
    for _ in range(5000):
        if not exists(connection, queue):
            return
    raise AssertionError(f"{queue} is still there")


def test_a_nameless_queue_gets_a_name_of_its_own(channel: Channel) -> None:
    first, second = (channel.call("queue.declare", exclusive=True).queue for _ in range(2))
    assert first.startswith("amq.gen-")
    assert second.startswith("amq.gen-")
    assert first != second


def test_a_generated_name_may_be_declared_again_only_passively(channel: Channel) -> None:
    queue = channel.call("queue.declare", exclusive=True).queue
    assert channel.call("queue.declare", queue=queue, passive=True).queue == queue
    channel.send("queue.declare", queue=queue, exclusive=True)
    text = f"ACCESS_REFUSED - queue name '{queue}' contains reserved prefix 'amq.*'"
    expect_fault(channel, 403, text, "queue.declare")


def test_an_empty_name_means_the_queue_this_channel_declared_last(connection: Connection) -> None:
    channel, other = connection.channel(), connection.channel()
    channel.call("queue.declare", exclusive=True)
    last = channel.call("queue.declare", exclusive=True).queue
    channel.call("queue.bind", exchange="amq.direct", routing_key=last)
    channel.publish("amq.direct", last, b"x")
    assert channel.call("queue.purge").message_count == 1
    channel.publish("", last, b"y")
    channel.send("basic.get", no_ack=True)
    assert channel.expect("basic.get-ok").body == b"y"
    channel.consume("", "c")
    channel.publish("", last, b"z")
    assert channel.expect("basic.deliver", consumer_tag="c").body == b"z"
    channel.call("queue.unbind", exchange="amq.direct", routing_key=last)
    other.send("basic.consume")
    expect_fault(other, 404, "NOT_FOUND - no previously declared queue", "basic.consume")


def test_an_empty_routing_key_with_an_empty_name_binds_under_the_queues_name(channel: Channel) -> None:
    queue = channel.call("queue.declare", exclusive=True).queue
    channel.call("queue.bind", exchange="amq.direct")
    channel.publish("amq.direct", queue, b"x")
    assert channel.purged(queue) == 1


def test_a_passive_declare_also_makes_a_queue_the_last_one(channel: Channel) -> None:
    first = channel.call("queue.declare", exclusive=True).queue
    second = channel.call("queue.declare", exclusive=True).queue
    channel.call("queue.declare", queue=first, passive=True)
    channel.publish("", first, b"x")
    assert channel.call("queue.purge").message_count == 1
    assert second != first


def test_the_last_queue_is_forgotten_when_it_is_deleted(channel: Channel) -> None:
    queue = channel.call("queue.declare", exclusive=True).queue
    channel.call("queue.delete")
    channel.send("queue.purge")
    expect_fault(channel, 404, f"NOT_FOUND - no queue '{queue}' in vhost '/'", "queue.purge")


def test_declare_ok_counts_ready_messages_and_consumers(connection: Connection) -> None:
    channel = connection.channel()
    queue = channel.call("queue.declare", exclusive=True).queue
    fill(channel, queue, 5)
    channel.await_counts(queue, 5)
    channel.call("basic.qos", prefetch_count=2)
    channel.consume(queue)
    channel.deliveries(2)
    channel.await_counts(queue, 3, consumers=1)


def test_declaring_again_counts_too(channel: Channel, unique: Unique) -> None:
    queue = unique("counted")
    channel.confirm()
    channel.call("queue.declare", queue=queue, exclusive=True)
    fill(channel, queue, 2)
    channel.confirms([1, 2])
    reply = channel.call("queue.declare", queue=queue, exclusive=True)
    assert (reply.message_count, reply.consumer_count) == (2, 0)


def test_purging_takes_what_is_ready_and_leaves_what_is_delivered(connection: Connection) -> None:
    channel = connection.channel()
    queue = channel.call("queue.declare", exclusive=True).queue
    fill(channel, queue, 5)
    channel.get(queue, no_ack=False)
    assert channel.purged(queue) == 4
    channel.send("basic.nack", delivery_tag=1, requeue=True)
    assert channel.purged(queue) == 1


def test_deleting_counts_what_was_ready(channel: Channel) -> None:
    queue = channel.call("queue.declare", exclusive=True).queue
    fill(channel, queue, 3)
    assert channel.call("queue.delete", queue=queue).message_count == 3


def test_a_queue_in_use_is_kept_when_only_unused_may_go(channel: Channel) -> None:
    queue = channel.call("queue.declare", exclusive=True).queue
    channel.consume(queue)
    channel.send("queue.delete", queue=queue, if_unused=True)
    expect_fault(channel, 406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' in use", "queue.delete")


def test_a_queue_with_messages_is_kept_when_only_empty_may_go(channel: Channel) -> None:
    queue = channel.call("queue.declare", exclusive=True).queue
    fill(channel, queue, 1)
    channel.send("queue.delete", queue=queue, if_empty=True)
    expect_fault(channel, 406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' not empty", "queue.delete")


def test_a_queue_both_used_and_filled_is_called_not_empty(channel: Channel) -> None:
    queue = channel.call("queue.declare", exclusive=True).queue
    fill(channel, queue, 2)
    channel.call("basic.qos", prefetch_count=1)
    channel.consume(queue)
    channel.deliveries(1)
    channel.send("queue.delete", queue=queue, if_empty=True, if_unused=True)
    expect_fault(channel, 406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' not empty", "queue.delete")


def test_a_queue_whose_messages_are_all_delivered_counts_as_empty(channel: Channel) -> None:
    queue = channel.call("queue.declare", exclusive=True).queue
    fill(channel, queue, 1)
    channel.get(queue, no_ack=False)
    assert channel.call("queue.delete", queue=queue, if_empty=True).message_count == 0


def test_an_ack_after_the_queue_is_gone_is_no_error(channel: Channel) -> None:
    queue = channel.call("queue.declare", exclusive=True).queue
    fill(channel, queue, 1)
    channel.get(queue, no_ack=False)
    channel.call("queue.delete", queue=queue)
    channel.ack(1)
    channel.call("basic.qos")


@pytest.mark.parametrize("polite", [True, False])
def test_an_exclusive_queue_goes_with_its_connection(connect: Connect, unique: Unique, polite: bool) -> None:
    queue = unique("mine")
    owner, witness = connect(), connect()
    owner.channel().call("queue.declare", queue=queue, exclusive=True)
    if polite:
        owner.close()
    else:
        owner.cut()
    claim = witness.channel()
    for _ in range(5000):
        claim.send("queue.declare", queue=queue, exclusive=True)
        reply = claim.next()
        if reply.name == "queue.declare-ok":
            return
        assert reply.reply_code == 405
        claim.send("channel.close-ok")
        claim = witness.channel(claim.number)
    raise AssertionError("the queue outlived its connection")


def test_an_exclusive_queue_stays_when_only_its_channel_closes(connection: Connection) -> None:
    channel = connection.channel()
    queue = channel.call("queue.declare", exclusive=True).queue
    channel.close()
    assert exists(connection, queue)


@pytest.mark.parametrize("way", ["cancel", "channel close", "connection cut"])
def test_an_auto_delete_queue_goes_with_its_last_consumer(connect: Connect, unique: Unique, way: str) -> None:
    queue = unique("brief")
    connection, witness = connect(), connect()
    channel = connection.channel()
    channel.call("queue.declare", queue=queue, auto_delete=True)
    assert exists(witness, queue)
    first, second = channel.consume(queue), channel.consume(queue)
    channel.call("basic.cancel", consumer_tag=first)
    assert exists(witness, queue)
    if way == "cancel":
        channel.call("basic.cancel", consumer_tag=second)
    elif way == "channel close":
        channel.close()
    else:
        connection.cut()
    await_gone(witness, queue)


def test_an_auto_delete_queue_that_never_had_a_consumer_stays(connection: Connection, unique: Unique) -> None:
    queue = unique("waiting")
    channel = connection.channel()
    channel.call("queue.declare", queue=queue, auto_delete=True)
    fill(channel, queue, 1)
    channel.get(queue)
    channel.close()
    assert exists(connection, queue)


def test_a_deleted_queue_forgets_its_bindings(channel: Channel, unique: Unique) -> None:
    queue = unique("bound")
    channel.call("queue.declare", queue=queue)
    channel.call("queue.bind", queue=queue, exchange="amq.direct", routing_key=queue)
    channel.call("queue.delete", queue=queue)
    channel.call("queue.declare", queue=queue)
    channel.publish("amq.direct", queue, b"x", mandatory=True)
    channel.expect("basic.return", reply_text="NO_ROUTE")


def test_two_connections_share_a_queue(connect: Connect, unique: Unique) -> None:
    queue = unique("shared")
    first, second = connect().channel(), connect().channel()
    for channel in (first, second):
        assert channel.call("queue.declare", queue=queue, durable=True).queue == queue
    first.publish("", queue, b"hello")
    first.await_counts(queue, 1)
    received = second.get(queue)
    assert received is not None
    assert received.body == b"hello"
