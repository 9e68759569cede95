"""Publishers that repeat messages: a message with the same publisher and publishing id is kept once by each queue."""

from typing import Any

import pytest

from tests.support.amqp_client import Channel, Connection
from tests.support.amqp_values import Typed
from tests.wire.conftest import Unique
from tests.wire.faults import expect_fault
from tests.wire.test_streams import declare, offsets, reader


def identified(publishing_id: Any, publisher: Any = "p", **headers: Any) -> dict[str, Any]:
    names = {"x-warren-publisher": publisher, "x-warren-publishing-id": publishing_id}
    return {"delivery_mode": 2, "headers": {**names, **headers}}


def own_queue(channel: Channel, **arguments: Any) -> str:
    given = {name.replace("_", "-"): value for name, value in arguments.items()}
    name: str = channel.call("queue.declare", exclusive=True, arguments=given).queue
    return name


def drained(channel: Channel, queue: str) -> list[bytes]:
    bodies = []
    while (got := channel.get(queue)) is not None:
        bodies.append(got.body)
    return bodies


@pytest.mark.parametrize("durable", [True, False])
def test_the_second_of_two_is_confirmed_and_not_kept(channel: Channel, unique: Unique, durable: bool) -> None:
    queue = unique("queue")
    channel.call("queue.declare", queue=queue, durable=durable)
    channel.confirm()
    for body in (b"first", b"second"):
        channel.publish("", queue, body, identified("1"))
    channel.publish("", queue, b"third", identified("2"))
    channel.confirms([1, 2, 3])
    assert drained(channel, queue) == [b"first", b"third"]
    # an id is known after its message is gone
    channel.publish("", queue, b"fourth", identified("1"))
    channel.confirms([4])
    assert drained(channel, queue) == []


def test_publishers_do_not_know_of_each_other(channel: Channel) -> None:
    queue = own_queue(channel)
    for publisher in ("p", "q"):
        channel.publish("", queue, publisher.encode(), identified("1", publisher))
    assert drained(channel, queue) == [b"p", b"q"]


def test_a_number_is_its_decimal_text(channel: Channel) -> None:
    queue = own_queue(channel)
    for number in ("7", 7, Typed("l", 7), Typed("s", 7), Typed("B", 7), 70):
        channel.publish("", queue, b"x", identified(number))
    assert len(drained(channel, queue)) == 2


def test_each_queue_decides_for_itself(channel: Channel, unique: Unique) -> None:
    exchange = unique("exchange")
    channel.call("exchange.declare", exchange=exchange, type="fanout")
    first = own_queue(channel)
    channel.call("queue.bind", queue=first, exchange=exchange)
    channel.publish(exchange, "", b"1", identified("1"))
    second = own_queue(channel)
    channel.call("queue.bind", queue=second, exchange=exchange)
    channel.publish(exchange, "", b"1", identified("1"))
    assert (channel.counts(first), channel.counts(second)) == ((1, 0), (1, 0))


def test_a_transaction_keeps_one_of_two(channel: Channel) -> None:
    queue = own_queue(channel)
    channel.call("tx.select")
    for body in (b"first", b"second"):
        channel.publish("", queue, body, identified("1"))
    channel.call("tx.commit")
    assert drained(channel, queue) == [b"first"]
    channel.call("tx.rollback")
    channel.publish("", queue, b"dropped", identified("2"))
    channel.call("tx.rollback")
    channel.publish("", queue, b"kept", identified("2"))
    channel.call("tx.commit")
    assert drained(channel, queue) == [b"kept"]


def test_a_mandatory_message_that_is_a_repetition_does_not_return(channel: Channel) -> None:
    queue = own_queue(channel)
    channel.confirm()
    for _ in range(2):
        channel.publish("", queue, b"x", identified("1"), mandatory=True)
    channel.confirms([1, 2])
    assert drained(channel, queue) == [b"x"]


def test_a_dead_letter_comes_back_to_its_own_queue(channel: Channel, unique: Unique) -> None:
    queue = unique("queue")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
    channel.call("queue.declare", queue=queue, exclusive=True, arguments=arguments)
    channel.publish("", queue, b"again", identified("1"))
    for _ in range(3):
        channel.await_counts(queue, 1)
        got = channel.get(queue, no_ack=False)
        assert got is not None
        assert got.body == b"again"
        channel.send("basic.reject", delivery_tag=got.delivery_tag, requeue=False)
    channel.await_counts(queue, 1)
    channel.publish("", queue, b"repeated", identified("1"))
    assert drained(channel, queue) == [b"again"]


def test_the_id_of_a_refused_message_is_not_remembered(channel: Channel) -> None:
    queue = own_queue(channel, x_max_length=1, x_overflow="reject-publish")
    channel.confirm()
    channel.publish("", queue, b"1", identified("1"))
    channel.publish("", queue, b"2", identified("2"))
    channel.publish("", queue, b"1", identified("1"))
    assert channel.outcomes([1, 2, 3]) == ({1, 3}, {2})
    assert drained(channel, queue) == [b"1"]
    channel.publish("", queue, b"2", identified("2"))
    channel.confirms([4])
    assert drained(channel, queue) == [b"2"]


def test_delayed_messages_are_compared_when_they_arrive(channel: Channel, unique: Unique) -> None:
    exchange = unique("delaying")
    channel.call(
        "exchange.declare", exchange=exchange, type="x-delayed-message", arguments={"x-delayed-type": "fanout"}
    )
    queue = own_queue(channel)
    channel.call("queue.bind", queue=queue, exchange=exchange)
    channel.confirm()
    with channel.connection.one_write():
        for delay_ms in (50, 20):
            channel.publish(exchange, "", b"%d" % delay_ms, identified("1", **{"x-delay": delay_ms}))
        channel.publish(exchange, "", b"last", identified("2", **{"x-delay": 60}))
    channel.confirms([1, 2, 3])
    channel.await_counts(queue, 2)
    assert drained(channel, queue) == [b"20", b"last"]


@pytest.mark.parametrize(("width", "kept"), [(2, [0, 1, 2, 0, 1]), (3, [0, 1, 2]), (0, [0, 1, 2, 0, 2, 1])])
def test_a_window_is_as_wide_as_the_queue_says(channel: Channel, width: int, kept: list[int]) -> None:
    queue = own_queue(channel, x_warren_dedup_window=width)
    for number in (0, 1, 2, 0, 2, 1):
        channel.publish("", queue, b"%d" % number, identified(number))
    assert [int(body) for body in drained(channel, queue)] == kept


@pytest.mark.parametrize(
    ("publisher", "publishing_id", "named", "kind"),
    [({}, "1", "x-warren-publisher", "table"), ("p", True, "x-warren-publishing-id", "bool")],
)
def test_names_that_are_neither_text_nor_number_are_refused(
    channel: Channel, publisher: Any, publishing_id: Any, named: str, kind: str
) -> None:
    channel.publish("", own_queue(channel), b"x", identified(publishing_id, publisher))
    text = f'invalid message: {{unacceptable_type_in_header,"{named}",{kind}}}'
    expect_fault(channel, 406, f"PRECONDITION_FAILED - {text}", "basic.publish")


def test_one_of_the_two_headers_alone_says_nothing(channel: Channel) -> None:
    queue = own_queue(channel)
    for _ in range(2):
        channel.publish("", queue, b"x", {"headers": {"x-warren-publisher": "p"}})
        channel.publish("", queue, b"x", {"headers": {"x-warren-publishing-id": "1"}})
    assert len(drained(channel, queue)) == 4


def test_a_stream_keeps_the_first_of_two(connection: Connection, unique: Unique) -> None:
    channel = connection.channel()
    name = declare(channel, unique("stream"))
    channel.confirm()
    for number in (1, 2, 1, 3, 2):
        channel.publish("", name, b"%d" % number, {"headers": identified(number)["headers"]})
    channel.confirms(range(1, 6))
    got = reader(connection, name, x_stream_offset="first").deliveries(3)
    assert [delivery.body for delivery in got] == [b"1", b"2", b"3"]
    assert offsets(got) == [0, 1, 2]
