"""PROXY headers on the listeners of a real node, from scripts and from a real HAProxy."""

import base64
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.node.conftest import Connect, Serve
from tests.node.serving import Serving
from tests.support.amqp_client import Connection, ServerHungUp
from tests.support.haproxy import HAProxy
from tests.support.operator import Operator

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
EVERYWHERE = "loopback_users = none\n"
BALANCED = "proxy_protocol = true\nproxy_protocol.from.1 = 127.0.0.1\n"
LISTENERS = (
    "listeners.tcp.1 = 127.0.0.1:0\nmanagement.tcp.port = 0\nmanagement.tcp.ip = 127.0.0.1\nprometheus.tcp.port = 0\n"
)

Balance = Callable[..., HAProxy]


def version_2(source: str, target: str = "198.51.100.1", command: int = 0x21) -> bytes:
    addresses = socket.inet_aton(source) + socket.inet_aton(target) + struct.pack(">HH", 50112, 5672)
    return SIGNATURE + bytes([command, 0x11]) + struct.pack(">H", len(addresses)) + addresses


def log_in(connection: Connection) -> None:
    tune = connection.authenticate()
    connection.tune_ok(tune)
    connection.send(0, "connection.open", virtual_host="/")
    connection.expect(0, "connection.open-ok")


def line_of(node: Serving, event: str) -> str:
    """The only line of an event, which the log has sooner or later."""
    node.wait_for(lambda: node.events(event))
    [line] = node.events(event)
    return line


@pytest.fixture
def balance(tmp_path: Path) -> Iterator[Balance]:
    """Put HAProxy before nodes; every one is gone when the test is over."""
    started: list[HAProxy] = []

    def start(*lines: str) -> HAProxy:
        folder = tmp_path / f"haproxy{len(started)}"
        folder.mkdir()
        started.append(HAProxy(folder, *lines))
        return started[-1]

    yield start
    for balancer in started:
        balancer.close()


@pytest.mark.parametrize(
    "header",
    [b"PROXY TCP4 192.0.2.7 198.51.100.1 50112 5672\r\n", version_2("192.0.2.7")],
    ids=["version 1", "version 2"],
)
def test_a_client_is_shown_with_its_own_address(serve: Serve, connect: Connect, header: bytes) -> None:
    node = serve(configuration=f"proxy_protocol = true\n{EVERYWHERE}")
    connection = connect(node)
    connection.socket.sendall(header)
    log_in(connection)
    [row] = Operator(node.address("http")).read("connections")
    assert row["name"] == "192.0.2.7:50112 -> 198.51.100.1:5672"
    assert (row["peer_host"], row["peer_port"], row["host"], row["port"]) == ("192.0.2.7", 50112, "198.51.100.1", 5672)
    opened = line_of(node, "connection.opened")
    assert "192.0.2.7:50112" in opened


def test_a_user_of_this_machine_alone_does_not_get_in_by_way_of_a_balancer(serve: Serve, connect: Connect) -> None:
    node = serve(configuration="proxy_protocol = true\n")
    distant = connect(node)
    distant.socket.sendall(version_2("192.0.2.7"))
    with pytest.raises((AssertionError, ServerHungUp)):
        log_in(distant)
    refused = line_of(node, "login.refused")
    assert "192.0.2.7" in refused
    near = connect(node)
    near.socket.sendall(version_2("127.0.0.9"))
    log_in(near)


def test_a_client_without_a_header_is_cut_off_with_one_line(serve: Serve, connect: Connect) -> None:
    node = serve(configuration="proxy_protocol = true\n")
    connection = connect(node)
    with pytest.raises((OSError, ServerHungUp)):
        connection.start()
    line = line_of(node, "proxy_header.refused")
    assert "which is no PROXY header" in line


def test_a_client_that_is_no_balancer_needs_no_header(serve: Serve, connect: Connect) -> None:
    node = serve(configuration="proxy_protocol = true\nproxy_protocol.from.1 = 10.0.0.0/24\n")
    log_in(connect(node))
    impostor = connect(node)
    impostor.socket.sendall(version_2("192.0.2.7"))
    node.wait_for(lambda: node.events("handshake.refused"))
    assert not node.events("proxy_header.refused")


def test_the_api_gets_the_addresses_of_its_clients(serve: Serve) -> None:
    node = serve(configuration=f"{LISTENERS}management.proxy_protocol = true\n")
    login = base64.b64encode(b"guest:guest").decode()
    request = (
        f"GET /api/whoami HTTP/1.1\r\nhost: [::]\r\nauthorization: Basic {login}\r\nconnection: close\r\n\r\n".encode()
    )

    def status(*sent: bytes) -> bytes:
        with socket.create_connection(node.address("http"), timeout=20) as client:
            client.sendall(b"".join(sent))
            try:
                return client.makefile("rb").readline()
            except OSError:
                return b""

    assert b" 200 " in status(version_2("127.0.0.9"), request)
    # guest is one of the loopback_users
    assert b" 401 " in status(version_2("192.0.2.7"), request)
    assert status(request) == b""
    line_of(node, "proxy_header.refused")


def test_haproxy_sends_the_addresses_of_its_clients(serve: Serve, balance: Balance) -> None:
    node = serve(configuration=f"{LISTENERS}{BALANCED}management.proxy_protocol = true\n")
    balancer = balance(
        "listen amqp",
        "    mode tcp",
        "    bind {port}",
        f"    server n1 {_address(node, 'amqp')} send-proxy-v2 check inter 50ms",
        "listen http",
        "    mode http",
        "    option httpchk GET /api/warren/membership",
        "    http-check expect status 401",
        f"    server n1 {_address(node, 'http')} send-proxy-v2 check inter 50ms",
    )
    balancer.await_state("amqp/n1", "UP")
    balancer.await_state("http/n1", "UP")
    client = socket.create_connection(balancer.address, source_address=("127.0.0.5", 0))
    connection = Connection(balancer.address)
    connection.socket.close()
    connection.socket = client
    log_in(connection)
    assert " peer=127.0.0.5:" in line_of(node, "connection.opened")
    connection.socket.close()
    node.wait_for(lambda: node.events("connection.lost"))
    # HAProxy's own health checks, which have no client, are not logged
    assert not node.events("proxy_header.refused")
    assert not node.events("handshake.refused")


def _address(node: Serving, protocol: str) -> str:
    host, port = node.address(protocol)
    return f"{host}:{port}"
