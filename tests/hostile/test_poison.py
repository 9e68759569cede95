"""Messages and arguments that no client library makes, at the limits of the wire format: the node survives them.

Not here: octets that are no frames (`test_bad_streams`); the same in great number, in process (`bench/fuzz`).
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.amqp_client import Channel, Connection
from tests.support.node_process import NodeProcess

DEAD_LETTERS = {"x-message-ttl": 0, "x-dead-letter-exchange": "amq.fanout"}


@pytest.fixture
def channel(node: NodeProcess) -> Iterator[Channel]:
    connection = Connection.opened(node.amqp)
    channel = connection.channel()
    channel.call("queue.declare", queue="graves", exclusive=True)
    channel.call("queue.bind", queue="graves", exchange="amq.fanout")
    yield channel
    connection.close()


@pytest.mark.parametrize("count", [2**63 - 1, -(2**63), 2**32])
def test_a_forged_count_of_deaths_is_counted_on_or_left(channel: Channel, count: int) -> None:
    channel.call("queue.declare", queue="short", exclusive=True, arguments=DEAD_LETTERS)
    death = {"queue": "short", "reason": "expired", "count": count}
    channel.publish("", "short", b"x", {"headers": {"x-death": [death]}})
    channel.await_counts("graves", 1)


def test_a_dead_letter_key_of_excessive_length_does_no_harm(channel: Channel) -> None:
    arguments = {**DEAD_LETTERS, "x-dead-letter-routing-key": "k" * 300}
    channel.send("queue.declare", queue="long", exclusive=True, arguments=arguments)
    if channel.next().name == "queue.declare-ok":
        channel.publish("", "long", b"x")
        channel.await_counts("long", 0)


@pytest.mark.parametrize("delay", ["9" * 31, "9" * 19, 2**63 - 1, -(2**63), 4294967296, "", 1.5])
def test_a_delay_beyond_any_clock_is_none(channel: Channel, delay: Any) -> None:
    inner = {"x-delayed-type": "fanout"}
    channel.call("exchange.declare", exchange="later", type="x-delayed-message", auto_delete=True, arguments=inner)
    channel.call("queue.bind", queue="graves", exchange="later")
    channel.publish("later", "", b"x", {"headers": {"x-delay": delay}})
    channel.await_counts("graves", 1)


@pytest.mark.parametrize("number", [32767, 32768, 65535])
def test_a_channel_of_any_number_publishes_and_consumes(node: NodeProcess, number: int) -> None:
    connection = Connection.opened(node.amqp)
    channel = connection.channel(number)
    channel.confirm()
    queue = channel.call("queue.declare", queue="", exclusive=True).queue
    channel.publish("", queue, b"x")
    channel.confirms([1])
    channel.consume(queue)
    assert channel.bodies(1) == [b"x"]
    connection.close()


@pytest.mark.parametrize("tag", [2**63, 2**64 - 1])
def test_a_delivery_tag_of_64_bits_is_unknown_and_printed_whole(channel: Channel, tag: int) -> None:
    channel.ack(tag)
    channel.expect_close(406, f"PRECONDITION_FAILED - unknown delivery tag {tag}", "basic.ack")
