"""Deliveries that stay unacked too long, on nodes configured to be impatient.

The texts are those of RabbitMQ 3.10.8 with `consumer_timeout` set to the same value.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.amqp_client import Channel, Connection
from tests.support.node_process import NodeProcess

TIMEOUT_MS = 1200
PATIENT_MS = 5000
"""For consumers that must ack in time also on a busy machine."""

# A broker's clock may count whole milliseconds.
CLOCK_TICK_S = 0.001


def impatient_node(directory: Path, timeout_ms: int, *lines: str) -> Iterator[Connection]:
    """A connection to a node of its own."""
    config = directory / "impatient.conf"
    config.write_text("\n".join([f"consumer_timeout = {timeout_ms}", *lines]) + "\n")
    node = NodeProcess(directory / "node", "--config", str(config))
    connection = Connection.opened(node.amqp)
    yield connection
    connection.close()
    node.stop()


@pytest.fixture
def closing(tmp_path: Path) -> Iterator[Connection]:
    yield from impatient_node(tmp_path, TIMEOUT_MS)


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Connection]:
    yield from impatient_node(tmp_path, PATIENT_MS)


@pytest.fixture
def requeueing(tmp_path: Path) -> Iterator[Connection]:
    yield from impatient_node(tmp_path, PATIENT_MS, "consumer_timeout_action = requeue")


def filled_queue(channel: Channel, *bodies: bytes) -> str:
    queue: str = channel.call("queue.declare", exclusive=True).queue
    for body in bodies:
        channel.publish("", queue, body)
    return queue


@pytest.mark.parametrize("way", ["consume", "get"])
def test_a_late_ack_closes_the_channel_and_the_message_returns(closing: Connection, way: str) -> None:
    channel = closing.channel()
    queue = filled_queue(channel, b"slow")
    begun = time.monotonic()
    if way == "consume":
        channel.consume(queue)
        channel.deliveries(1)
    else:
        channel.get(queue, no_ack=False)
    text = (
        f"PRECONDITION_FAILED - delivery acknowledgement on channel {channel.number} timed out. Timeout value used: "
        f"{TIMEOUT_MS} ms. This timeout value can be configured, see consumers doc guide to learn more"
    )
    channel.expect_close(406, text)
    assert time.monotonic() - begun > TIMEOUT_MS / 1000 - CLOCK_TICK_S
    returned = closing.channel(channel.number).get(queue)
    assert returned is not None
    assert (returned.body, returned.redelivered) == (b"slow", True)


def test_a_prompt_consumer_is_left_alone(patient: Connection) -> None:
    slow, prompt = patient.channel(), patient.channel()
    held, served = filled_queue(slow, b"held"), filled_queue(prompt, b"served")
    prompt.consume(served)
    prompt.deliveries(1)
    prompt.ack(1)
    slow.consume(held)
    slow.deliveries(1)
    slow.expect("channel.close", reply_code=406)
    slow.send("channel.close-ok")
    assert prompt.counts(served) == (0, 1)


def test_only_the_late_delivery_returns_when_the_node_says_so(requeueing: Connection) -> None:
    channel, other = requeueing.channel(), requeueing.channel()
    queue = filled_queue(channel, b"slow")
    channel.call("basic.qos", prefetch_count=1)
    channel.consume(queue)
    channel.deliveries(1)
    channel.send("basic.cancel", consumer_tag="nobody", nowait=True)
    again = channel.expect("basic.deliver", redelivered=True)
    assert (again.body, again.delivery_tag) == (b"slow", 2)
    channel.ack(2)
    other.await_counts(queue, 0, consumers=1)
