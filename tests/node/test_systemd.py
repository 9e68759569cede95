"""The notifications of a real node to systemd."""

import http.client
import os
import signal
import socket
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.conftest import Serve
from tests.node.serving import DEADLINE_S, Serving


class Systemd:
    """The notification socket, and its messages."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(DEADLINE_S)
        self._socket.bind(f"\0{address[1:]}" if address.startswith("@") else address)

    def next(self) -> dict[str, str]:
        told = self._socket.recv(65536).decode()
        return dict(line.split("=", 1) for line in told.splitlines())

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["a path", "an abstract name"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Systemd]:
    address = str(tmp_path / "notify") if request.param == "a path" else f"@warren-test-{os.getpid()}"
    listening = Systemd(address)
    yield listening
    listening.close()


def started(serve: Serve, systemd: Systemd) -> Serving:
    node = serve(environment={"NOTIFY_SOCKET": systemd.address})
    assert systemd.next()["STATUS"].startswith("is starting")
    told = systemd.next()
    assert told["READY"] == "1"
    addresses = node.ready_line.partition(" amqp=")[2].strip()
    assert told["STATUS"].endswith(f" serves amqp={addresses}")
    return node


def test_a_node_says_when_it_is_ready_and_when_it_stops(serve: Serve, systemd: Systemd) -> None:
    node = started(serve, systemd)
    node.signal(signal.SIGTERM)
    assert systemd.next()["STOPPING"] == "1"
    assert node.exit_code() == 0


def test_a_process_whose_node_is_stopped_stays_a_service_that_is_ready(serve: Serve, systemd: Systemd) -> None:
    node = started(serve, systemd)
    order(node, "stop_app")
    told = systemd.next()
    assert "STOPPING" not in told
    assert (told["READY"], told["STATUS"].partition(" is ")[2]) == (
        "1",
        "stopped, and waits for 'warren ctl start_app'",
    )
    node.signal(signal.SIGTERM)
    assert node.exit_code() == 0


@pytest.mark.parametrize("address", ["/nonexistent/notify", "vsock:2:1234", ""])
def test_a_node_runs_without_systemd(serve: Serve, address: str) -> None:
    node = serve(environment={"NOTIFY_SOCKET": address})
    assert node.stop() == 0


def order(node: Serving, verb: str) -> None:
    connection = http.client.HTTPConnection(*node.address("http"), timeout=DEADLINE_S)
    login = {"authorization": "Basic " + b64encode(b"guest:guest").decode()}
    connection.request("POST", f"/api/warren/membership/{verb}", "{}", login)
    assert connection.getresponse().status == 204
    connection.close()
