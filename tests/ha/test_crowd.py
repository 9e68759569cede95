"""Load balancers and a node with an HTTP port that is full of idle connections."""

import socket
from contextlib import ExitStack
from pathlib import Path

from tests.support.node_process import NodeProcess
from warren.admin.http.settings import HttpLimits
from warren.cli.ha.deployment import FITNESS_PATH
from warren.cli.ha.probes import LOCAL_HEADER

BALANCER, STRANGER = "127.0.0.11", "127.0.0.13"
CONFIGURATION = f"management.proxy_protocol = true\nproxy_protocol.from.1 = {BALANCER}\n"
DEADLINE_S = 60.0
AT_ONCE = 50


def answer(address: tuple[str, int], host: str, path: str, header: bytes = b"") -> bytes:
    """The first line of it."""
    with socket.create_connection(address, DEADLINE_S, source_address=(host, 0)) as connection:
        connection.sendall(header + f"GET {path} HTTP/1.0\r\n\r\n".encode())
        return connection.makefile("rb").readline()


def take_up(address: tuple[str, int], host: str, count: int, idle: ExitStack) -> None:
    """So many connections, each answered once, so that it may stay for a minute; the first must not be over by then."""
    taken = []
    for _ in range(count):
        taken.append(idle.enter_context(socket.create_connection(address, DEADLINE_S, source_address=(host, 0))))
        taken[-1].sendall(b"GET /api/warren/fitness HTTP/1.1\r\nhost: x\r\n\r\n")
    for connection in taken:
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_idle_connections_do_not_make_a_node_look_unfit(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "n1", "--name", "warren@n1", configuration=CONFIGURATION)
    address = node.addresses["http"]
    share = HttpLimits().connections_max // 2
    try:
        with ExitStack() as idle:
            for host in ("127.0.0.77", "127.0.0.78"):
                for first in range(0, share, AT_ONCE):
                    take_up(address, host, min(AT_ONCE, share - first), idle)
            assert answer(address, STRANGER, "/api/whoami").startswith(b"HTTP/1.1 503 ")
            assert answer(address, BALANCER, FITNESS_PATH, LOCAL_HEADER).startswith(b"HTTP/1.1 200 ")
            assert answer(address, BALANCER, "/api/whoami", LOCAL_HEADER).startswith(b"HTTP/1.1 503 ")
            assert answer(address, STRANGER, FITNESS_PATH).startswith(b"HTTP/1.1 200 ")
    finally:
        node.stop()
