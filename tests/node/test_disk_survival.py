"""Confirmed messages survive a kill and a stop of the node."""

import signal
from pathlib import Path

import pytest

from tests.node.conftest import Connect, Serve

PERSISTENT = {"delivery_mode": 2}
COUNT = 50


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_confirmed_messages_are_there_again_in_order(
    serve: Serve, connect: Connect, tmp_path: Path, number: signal.Signals
) -> None:
    options = ("--name", "hare@here", "--data", str(tmp_path / "data"))
    node = serve(*options)
    client = connect(node, opened=True)
    channel = client.channel()
    channel.call("queue.declare", queue="kept", durable=True)
    channel.confirm()
    bodies = [f"body {i}".encode() * (1 + i * 100) for i in range(COUNT)]
    for body in bodies:
        channel.publish("", "kept", body, PERSISTENT)
    channel.confirms(range(1, COUNT + 1))
    client.socket.close()
    node.signal(number)
    node.exit_code()
    again = connect(serve(*options), opened=True).channel()
    assert again.call("queue.declare", queue="kept", passive=True).message_count == COUNT
    again.consume("kept", no_ack=True)
    assert again.bodies(COUNT) == bodies
