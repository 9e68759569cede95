"""The x-delayed-message exchange, as RabbitMQ's community plugin documents it."""

import time
from typing import Any

import pytest

from tests.support.amqp_client import Channel
from tests.wire.conftest import Unique
from tests.wire.faults import expect_fault

# A broker's clock may count whole milliseconds.
CLOCK_TICK_S = 0.001


def delaying(channel: Channel, unique: Unique, kind: str = "direct", key: str = "k") -> tuple[str, str]:
    """An exchange that delays, and a queue behind it that is being consumed."""
    exchange = unique("delaying")
    channel.call("exchange.declare", exchange=exchange, type="x-delayed-message", arguments={"x-delayed-type": kind})
    queue = channel.call("queue.declare", exclusive=True).queue
    channel.call("queue.bind", queue=queue, exchange=exchange, routing_key=key)
    channel.consume(queue, no_ack=True)
    return exchange, queue


def delay(milliseconds: Any) -> dict[str, Any]:
    return {"headers": {"x-delay": milliseconds}}


def test_a_message_arrives_when_its_delay_has_passed(channel: Channel, unique: Unique) -> None:
    exchange, _ = delaying(channel, unique)
    begun = time.monotonic()
    channel.publish(exchange, "k", b"late", delay(1000))
    delivery = channel.expect("basic.deliver", exchange=exchange, routing_key="k", redelivered=False)
    assert time.monotonic() - begun > 1.0 - CLOCK_TICK_S
    assert (delivery.body, delivery.headers) == (b"late", {"x-delay": -1000})


def test_messages_arrive_by_when_they_are_due(channel: Channel, unique: Unique) -> None:
    exchange, _ = delaying(channel, unique)
    with channel.connection.one_write():
        for milliseconds in (1200, 400, 800):
            channel.publish(exchange, "k", str(milliseconds).encode(), delay(milliseconds))
        channel.publish(exchange, "k", b"at once")
    assert channel.bodies(4) == [b"at once", b"400", b"800", b"1200"]


def test_equal_delays_keep_the_order_of_publishing(channel: Channel, unique: Unique) -> None:
    exchange, _ = delaying(channel, unique)
    for number in range(20):
        channel.publish(exchange, "k", str(number).encode(), delay(100))
    assert channel.bodies(20) == [str(number).encode() for number in range(20)]


@pytest.mark.parametrize("milliseconds", [0, -500, "soon", None, True])
def test_a_delay_that_is_none_delays_nothing(channel: Channel, unique: Unique, milliseconds: Any) -> None:
    exchange, queue = delaying(channel, unique)
    channel.publish(exchange, "k", b"now", delay(milliseconds))
    assert channel.bodies(1) == [b"now"]
    channel.expect_silence(queue)


def test_a_delayed_message_is_confirmed_at_once(channel: Channel, unique: Unique) -> None:
    exchange, queue = delaying(channel, unique)
    channel.confirm()
    # so long that a busy machine does not bring it while nothing is to come
    channel.publish(exchange, "k", b"late", delay(5000))
    channel.expect("basic.ack", delivery_tag=1)
    channel.expect_silence(queue)
    assert channel.bodies(1) == [b"late"]


def test_the_bindings_of_the_moment_it_is_due_decide(channel: Channel, unique: Unique) -> None:
    exchange, queue = delaying(channel, unique)
    late = channel.call("queue.declare", exclusive=True).queue
    with channel.connection.one_write():
        channel.publish(exchange, "k", b"late", delay(1000))
        channel.send("queue.unbind", queue=queue, exchange=exchange, routing_key="k")
        channel.send("queue.bind", queue=late, exchange=exchange, routing_key="k")
    channel.expect("queue.unbind-ok")
    channel.expect("queue.bind-ok")
    channel.consume(late, "late", no_ack=True)
    assert channel.expect("basic.deliver").consumer_tag == "late"


@pytest.mark.parametrize(
    ("kind", "binding", "key", "routed"),
    [
        ("topic", "a.*", "a.b", True),
        ("topic", "a.*", "b.a", False),
        ("fanout", "", "anything", True),
        ("direct", "k", "j", False),
    ],
)
def test_a_delayed_exchange_routes_as_its_inner_type_does(
    channel: Channel, unique: Unique, kind: str, binding: str, key: str, routed: bool
) -> None:
    exchange, _ = delaying(channel, unique, kind, binding)
    channel.publish(exchange, key, b"asked", delay(50))
    channel.publish(exchange, binding.replace("*", "z"), b"last", delay(150))
    expected = [b"asked", b"last"] if routed else [b"last"]
    assert channel.bodies(len(expected)) == expected


@pytest.mark.parametrize("arguments", [{}, {"x-delayed-type": 1}, {"x-delayed-type": "x-delayed-message"}])
def test_without_a_good_inner_type_it_is_refused(channel: Channel, unique: Unique, arguments: dict[str, Any]) -> None:
    channel.send("exchange.declare", exchange=unique("bad"), type="x-delayed-message", arguments=arguments)
    text = "PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing exchange type"
    expect_fault(channel, 406, text, "exchange.declare")


def test_deleting_the_exchange_drops_what_it_holds(channel: Channel, unique: Unique) -> None:
    exchange, queue = delaying(channel, unique)
    with channel.connection.one_write():
        channel.publish(exchange, "k", b"dropped", delay(600))
        channel.send("exchange.delete", exchange=exchange)
    channel.expect("exchange.delete-ok")
    other, _ = delaying(channel, unique, key="k")
    channel.publish(other, "k", b"later", delay(900))
    assert channel.bodies(1) == [b"later"]
    channel.expect_silence(queue)
