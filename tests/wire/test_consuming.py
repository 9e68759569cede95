"""Consuming: deliveries and their fields, acks of every kind, redelivery, cancelling, basic.get."""

from typing import Any

import pytest

from tests.support.amqp_client import CAPABILITIES, Channel, Connection
from tests.wire.conftest import Connect, Unique
from tests.wire.faults import expect_fault


def filled_queue(channel: Channel, *bodies: bytes, **fields: Any) -> str:
    """A queue of this connection's own with messages in it."""
    queue: str = channel.call("queue.declare", **{"exclusive": True} | fields).queue
    for body in bodies:
        channel.publish("", queue, body)
    return queue


def numbered(count: int) -> list[bytes]:
    return [str(number).encode() for number in range(count)]


def test_a_delivery_says_where_it_comes_from(channel: Channel) -> None:
    queue = filled_queue(channel)
    channel.call("queue.bind", queue=queue, exchange="amq.direct", routing_key=queue)
    channel.publish("amq.direct", queue, b"body", {"app_id": "me"})
    tag = channel.consume(queue, "my consumer")
    assert tag == "my consumer"
    delivery = channel.expect("basic.deliver")
    assert delivery.fields == {
        "consumer_tag": "my consumer",
        "delivery_tag": 1,
        "redelivered": False,
        "exchange": "amq.direct",
        "routing_key": queue,
    }
    assert (delivery.body, delivery.properties) == (b"body", {"app_id": "me"})


def test_consume_ok_comes_before_the_first_delivery(channel: Channel) -> None:
    queue = filled_queue(channel, *numbered(50))
    channel.send("basic.consume", queue=queue, consumer_tag="c")
    channel.expect("basic.consume-ok", consumer_tag="c")
    assert channel.bodies(50) == numbered(50)


def test_a_nameless_consumer_gets_a_name(channel: Channel) -> None:
    queue = filled_queue(channel)
    first, second = channel.consume(queue), channel.consume(queue)
    assert first.startswith("amq.ctag-")
    assert first != second


def test_the_same_consumer_tag_may_serve_on_another_channel(connection: Connection) -> None:
    first, second = connection.channel(), connection.channel()
    queue = filled_queue(first)
    for channel in (first, second):
        assert channel.consume(queue, "same") == "same"


def test_delivery_tags_count_per_channel_across_consumers_and_gets(channel: Channel) -> None:
    first, second, third = (filled_queue(channel, b"x") for _ in range(3))
    channel.consume(first)
    assert channel.expect("basic.deliver").delivery_tag == 1
    channel.consume(second, no_ack=True)
    assert channel.expect("basic.deliver").delivery_tag == 2
    received = channel.get(third)
    assert received is not None
    assert received.delivery_tag == 3


def test_consumers_of_a_queue_take_turns(connection: Connection) -> None:
    publisher, first, second = (connection.channel() for _ in range(3))
    queue = filled_queue(publisher)
    first.consume(queue, no_ack=True)
    second.consume(queue, no_ack=True)
    for body in numbered(10):
        publisher.publish("", queue, body)
    assert first.bodies(5) + second.bodies(5) == numbered(10)[0::2] + numbered(10)[1::2]


def test_acked_messages_are_gone_and_unacked_ones_return_in_order(connection: Connection) -> None:
    channel = connection.channel()
    queue = filled_queue(channel, *numbered(6))
    channel.consume(queue)
    channel.deliveries(6)
    channel.ack(2)
    channel.ack(5)
    channel.close()
    again = connection.channel()
    again.consume(queue)
    returned = again.deliveries(4)
    assert [delivery.body for delivery in returned] == [b"0", b"2", b"3", b"5"]
    assert all(delivery.redelivered for delivery in returned)
    assert [delivery.delivery_tag for delivery in returned] == [1, 2, 3, 4]


@pytest.mark.parametrize(("tag", "left"), [(3, [b"3", b"4"]), (0, []), (5, [])])
def test_an_ack_of_several_takes_all_up_to_its_tag(connection: Connection, tag: int, left: list[bytes]) -> None:
    channel = connection.channel()
    queue = filled_queue(channel, *numbered(5))
    channel.consume(queue)
    channel.deliveries(5)
    channel.ack(tag, multiple=True)
    channel.close()
    again = connection.channel()
    again.await_counts(queue, len(left))
    again.consume(queue)
    assert again.bodies(len(left)) == left


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("basic.reject", {"delivery_tag": 1, "requeue": True}),
        ("basic.nack", {"delivery_tag": 1, "requeue": True}),
    ],
)
def test_a_requeued_message_returns_to_its_place(channel: Channel, method: str, fields: dict[str, Any]) -> None:
    queue = filled_queue(channel, *numbered(3))
    first = channel.get(queue, no_ack=False)
    assert first is not None
    channel.send(method, **fields)
    channel.consume(queue, no_ack=True)
    again = channel.deliveries(3)
    assert [(delivery.body, delivery.redelivered) for delivery in again] == [
        (b"0", True),
        (b"1", False),
        (b"2", False),
    ]


@pytest.mark.parametrize("method", ["basic.reject", "basic.nack"])
def test_a_message_rejected_without_requeue_is_gone(channel: Channel, method: str) -> None:
    queue = filled_queue(channel, b"bad", b"good")
    assert channel.get(queue, no_ack=False) is not None
    channel.send(method, delivery_tag=1)
    received = channel.get(queue)
    assert received is not None
    assert (received.body, received.message_count) == (b"good", 0)


def test_a_nack_of_several_requeues_them_in_order(connection: Connection) -> None:
    channel = connection.channel()
    queue = filled_queue(channel, *numbered(5))
    channel.call("basic.qos", prefetch_count=5)
    channel.consume(queue, "c")
    channel.deliveries(5)
    channel.call("basic.cancel", consumer_tag="c")
    channel.send("basic.nack", delivery_tag=4, multiple=True, requeue=True)
    channel.send("basic.nack", delivery_tag=0, multiple=True, requeue=True)
    channel.consume(queue, no_ack=True)
    assert channel.bodies(5) == numbered(5)


def test_a_nack_of_several_without_requeue_drops_them(channel: Channel) -> None:
    queue = filled_queue(channel, *numbered(4))
    for _ in range(3):
        channel.get(queue, no_ack=False)
    channel.send("basic.nack", delivery_tag=0, multiple=True)
    assert channel.purged(queue) == 1


@pytest.mark.parametrize("method", ["basic.recover", "basic.recover-async"])
def test_recover_redelivers_everything_unacked_in_order(channel: Channel, method: str) -> None:
    queue = filled_queue(channel, *numbered(3))
    channel.consume(queue)
    channel.deliveries(3)
    channel.ack(2)
    channel.send(method, requeue=True)
    if method == "basic.recover":
        channel.expect("basic.recover-ok")
    again = channel.deliveries(2)
    assert [(delivery.body, delivery.redelivered, delivery.delivery_tag) for delivery in again] == [
        (b"0", True, 4),
        (b"2", True, 5),
    ]


def test_an_old_tag_is_unknown_after_recover(channel: Channel) -> None:
    queue = filled_queue(channel, b"x")
    channel.consume(queue)
    channel.deliveries(1)
    channel.call("basic.recover", requeue=True)
    channel.deliveries(1)
    channel.ack(1)
    expect_fault(channel, 406, "PRECONDITION_FAILED - unknown delivery tag 1", "basic.ack")


def test_a_message_delivered_without_acks_has_no_tag_to_ack(channel: Channel) -> None:
    queue = filled_queue(channel, b"x")
    channel.consume(queue, no_ack=True)
    channel.deliveries(1)
    channel.ack(1)
    expect_fault(channel, 406, "PRECONDITION_FAILED - unknown delivery tag 1", "basic.ack")


def test_tags_belong_to_their_channel(connection: Connection) -> None:
    first, second = connection.channel(), connection.channel()
    queue = filled_queue(first, b"x")
    first.consume(queue)
    first.deliveries(1)
    second.ack(1)
    expect_fault(second, 406, "PRECONDITION_FAILED - unknown delivery tag 1", "basic.ack")


def test_a_cancelled_consumer_gets_nothing_more_but_its_deliveries_can_be_acked(channel: Channel) -> None:
    queue = filled_queue(channel, b"before")
    channel.consume(queue, "c")
    channel.deliveries(1)
    assert channel.call("basic.cancel", consumer_tag="c").consumer_tag == "c"
    channel.publish("", queue, b"after")
    channel.ack(1)
    channel.await_counts(queue, 1)
    received = channel.get(queue)
    assert received is not None
    assert (received.body, received.redelivered) == (b"after", False)


def test_a_cancelled_tag_can_be_used_again(channel: Channel) -> None:
    queue = filled_queue(channel)
    for _ in range(2):
        channel.consume(queue, "c")
        channel.call("basic.cancel", consumer_tag="c")


def test_deleting_a_queue_cancels_its_consumers(connection: Connection) -> None:
    owner, reader = connection.channel(), connection.channel()
    queue = filled_queue(owner)
    reader.consume(queue, "first")
    reader.consume(queue, "second")
    owner.call("queue.delete", queue=queue)
    notices = [reader.expect("basic.cancel", nowait=True).consumer_tag for _ in range(2)]
    assert sorted(notices) == ["first", "second"]
    reader.call("basic.qos")


def test_a_client_without_the_cancel_capability_gets_no_basic_cancel(connect: Connect, unique: Unique) -> None:
    queue = unique("deleted")
    reader = connect(capabilities={**CAPABILITIES, "consumer_cancel_notify": False}).channel()
    owner = connect().channel()
    other = filled_queue(reader)
    owner.call("queue.declare", queue=queue)
    reader.consume(queue, "c")
    owner.call("queue.delete", queue=queue)
    reader.expect_silence(other)


def test_get_counts_what_is_left(channel: Channel) -> None:
    queue = filled_queue(channel, *numbered(3))
    for number in range(3):
        received = channel.get(queue, no_ack=number != 1)
        assert received is not None
        assert received.fields == {
            "delivery_tag": number + 1,
            "redelivered": False,
            "exchange": "",
            "routing_key": queue,
            "message_count": 2 - number,
        }
    channel.send("basic.get", queue=queue)
    channel.expect("basic.get-empty", cluster_id="")


def test_a_message_got_but_not_acked_is_not_ready(connection: Connection) -> None:
    channel = connection.channel()
    queue = filled_queue(channel, b"x")
    assert channel.get(queue, no_ack=False) is not None
    assert channel.counts(queue) == (0, 0)
    channel.close()
    again = connection.channel().get(queue)
    assert again is not None
    assert again.redelivered


def test_a_cut_connection_gives_its_messages_back(connect: Connect, unique: Unique) -> None:
    queue = unique("cut")
    witness = connect().channel()
    filled_queue(witness, *numbered(3), queue=queue, exclusive=False)
    doomed = connect()
    reader = doomed.channel()
    reader.consume(queue)
    reader.deliveries(3)
    reader.ack(1)
    reader.call("basic.qos")
    doomed.cut()
    witness.await_counts(queue, 2)
    witness.consume(queue, no_ack=True)
    assert [(delivery.body, delivery.redelivered) for delivery in witness.deliveries(2)] == [(b"1", True), (b"2", True)]


def test_an_ack_in_flight_counts_even_when_the_channel_closes_next(connection: Connection) -> None:
    channel = connection.channel()
    queue = filled_queue(channel, b"x")
    channel.consume(queue)
    channel.deliveries(1)
    channel.ack(1)
    channel.close()
    assert connection.channel().purged(queue) == 0


def test_no_local_is_not_heeded(channel: Channel) -> None:
    queue = filled_queue(channel)
    channel.consume(queue, no_local=True, no_ack=True)
    channel.publish("", queue, b"own")
    assert channel.bodies(1) == [b"own"]
