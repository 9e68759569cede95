"""Clients that do not speak AMQP, or break off in the middle: they are disconnected, with one line in the
log, and other clients do not notice.

Not here: clients that speak it and take too much (`test_greed`).
"""

import random
import socket
import time
from collections.abc import Iterator

import pytest

from tests.hostile.bystanders import Bystanders
from tests.hostile.conftest import HANDSHAKE_S
from tests.hostile.observing import lines_about
from tests.support.amqp_client import Connection
from tests.support.amqp_frames import BODY, HEADER, METHOD, frame
from tests.support.amqp_methods import read_method
from tests.support.deadlines import eventually
from tests.support.node_process import NodeProcess

SILENCE_S = 3.0
"""How long a client that erred before it logged in is left waiting."""

MARGIN_S = 15.0
"""The most that a busy machine adds."""


def ended_within(client: socket.socket, seconds: float) -> bool:
    """Whether the server disconnects in time; it may send anything before that."""
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            client.settimeout(max(deadline - time.monotonic(), 0.001))
            if not client.recv(65536):
                return True
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True
    return False


@pytest.fixture
def client(node: NodeProcess) -> Iterator[socket.socket]:
    """A bare socket to the node."""
    with socket.create_connection(node.amqp, timeout=30) as connected:
        yield connected


def port_of(client: socket.socket) -> int:
    port: int = client.getsockname()[1]
    return port


@pytest.mark.parametrize("seed", range(3))
def test_random_octets_end_a_connection_and_cost_one_log_line(
    node: NodeProcess, client: socket.socket, seed: int
) -> None:
    port = port_of(client)
    with Bystanders(node) as pair:
        client.sendall(random.Random(seed).randbytes(2000))
        assert ended_within(client, SILENCE_S + MARGIN_S)
        pair.wait_for_rounds(20)
    eventually(lambda: lines_about(node, port), "the client's end is logged")
    assert len(lines_about(node, port)) == 1


@pytest.mark.parametrize(
    "header", [b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00", b"GET / HT", b"\x16\x03\x01\x02\x00\x01\x00\x01"]
)
def test_a_wrong_protocol_header_is_answered_with_the_right_one(
    node: NodeProcess, client: socket.socket, header: bytes
) -> None:
    port = port_of(client)
    with Bystanders(node) as pair:
        client.sendall(header)
        assert client.recv(8) == b"AMQP\x00\x00\x09\x01"
        assert ended_within(client, MARGIN_S)
        pair.wait_for_rounds(20)
    eventually(lambda: lines_about(node, port), "the client's end is logged")
    assert len(lines_about(node, port)) == 1


def test_a_handshake_an_octet_at_a_time_is_cut_off_at_the_timeout(node: NodeProcess) -> None:
    started_s = time.monotonic()
    with socket.create_connection(node.amqp, timeout=30) as client, Bystanders(node) as pair:
        port = port_of(client)
        for octet in b"AMQP\x00\x00\x09":
            client.sendall(bytes([octet]))
            if ended_within(client, 0.3):
                break
        else:
            assert ended_within(client, MARGIN_S)
        assert HANDSHAKE_S - 0.1 < time.monotonic() - started_s < HANDSHAKE_S + MARGIN_S
        pair.wait_for_rounds(20)
    eventually(lambda: lines_about(node, port), "the client's end is logged")
    assert len(lines_about(node, port)) == 1


def test_a_client_that_logs_in_and_never_opens_is_cut_off_at_the_timeout(node: NodeProcess) -> None:
    with Bystanders(node) as pair:
        client = Connection(node.amqp)
        client.authenticate()
        assert ended_within(client.socket, HANDSHAKE_S + MARGIN_S)
        client.socket.close()
        pair.wait_for_rounds(20)


@pytest.mark.parametrize(
    ("octets", "code"),
    [
        (frame(METHOD, 1, b"\x00\x14\x00\x0a\x00", end=b"\x00"), 501),
        (b"\x01\x00\x01\xff\xff\xff\xff", 501),
        (b"\x01\x00\x01\x00\x02\x00\x01" + bytes(131073) + b"\xce", 501),
        (frame(9, 1, b"what"), 501),
        (frame(METHOD, 1, b"\x00\x63\x00\x63"), 503),
        (frame(HEADER, 1, bytes(14)), 505),
        (frame(BODY, 1, b"body"), 505),
        (frame(METHOD, 1, b"\x00\x3c\x00\x46\x00\x00\x00\x00"), 504),
    ],
    ids=["wrong-end", "huge", "oversized", "unknown-type", "unknown-method", "header", "body", "no-channel"],
)
def test_a_bad_frame_closes_its_connection_with_the_right_code(node: NodeProcess, octets: bytes, code: int) -> None:
    with Bystanders(node) as pair:
        client = Connection.opened(node.amqp)
        port = port_of(client.socket)
        client.send_bytes(octets)
        assert client.expect(0, "connection.close").reply_code == code
        client.send(0, "connection.close-ok")
        assert ended_within(client.socket, SILENCE_S + MARGIN_S)
        client.socket.close()
        pair.wait_for_rounds(20)
    eventually(lambda: lines_about(node, port), "the client's end is logged")
    assert len(lines_about(node, port)) == 1


def test_a_frame_that_never_ends_does_not_disturb_other_clients(node: NodeProcess) -> None:
    with Bystanders(node) as pair:
        client = Connection.opened(node.amqp)
        client.send_bytes(frame(METHOD, 1, bytes(4000))[:-1])
        pair.wait_for_rounds(20)
        client.cut()


def test_channels_without_end_are_refused_at_channel_max(node: NodeProcess) -> None:
    opening = frame(METHOD, 1, b"\x00\x14\x00\x0a\x00")
    with Bystanders(node) as pair:
        client = Connection.opened(node.amqp)
        client.send_bytes(b"".join(opening[:1] + number.to_bytes(2, "big") + opening[3:] for number in range(1, 65536)))
        opened = 0
        while (reply := client.next_frame()).channel != 0:
            opened += 1
        name, fields = read_method(reply.payload)
        assert (opened, name, fields["reply_code"]) == (2047, "connection.close", 530)
        pair.wait_for_rounds(20)
        client.cut()


def test_a_storm_of_resets_in_the_middle_of_publishes_leaves_nothing_behind(node: NodeProcess) -> None:
    publish = b"\x00\x3c\x00\x28\x00\x00\x00\x05storm\x00"
    whole = frame(METHOD, 1, publish) + frame(HEADER, 1, b"\x00\x3c\x00\x00" + (3000).to_bytes(8, "big") + b"\x00\x00")
    with Bystanders(node) as pair:
        keeper = Connection.opened(node.amqp)
        channel = keeper.channel()
        channel.call("queue.declare", queue="storm")
        for number in range(200):
            client = Connection.opened(node.amqp)
            client.channel()
            client.send_bytes(whole + frame(BODY, 1, bytes(3000))[: 1 + number * 14])
            client.cut()
        eventually(lambda: node.log().count(" event=connection.lost") >= 200, "every reset is noticed")
        assert channel.counts("storm") == (0, 0)
        pair.wait_for_rounds(20)
        keeper.close()


def test_a_thousand_connections_that_do_nothing_are_cut_off(node: NodeProcess) -> None:
    with Bystanders(node) as pair:
        idle = [socket.create_connection(node.amqp, timeout=30) for _ in range(1000)]
        pair.wait_for_rounds(20)
        assert all(ended_within(client, HANDSHAKE_S + MARGIN_S) for client in idle)
        for client in idle:
            client.close()
        pair.wait_for_rounds(20)
    eventually(lambda: node.log().count(" event=handshake.timed_out") >= 1000, "every one is logged")
    assert node.log().count(" event=handshake.timed_out") == 1000
