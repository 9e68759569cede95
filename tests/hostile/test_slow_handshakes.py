"""Strangers whose TLS handshakes do not end, or who want to begin again: other clients are served, and the node gets
everything back.

Not here: one such client (`tests/node/test_tls.py`), more at once than there are places
(`tests/unit/node/test_tls_listener.py`), the peer port (`tests/unit/node/test_refusals.py`).
"""

import os
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.hostile.bystanders import Bystanders
from tests.hostile.conftest import serving
from tests.hostile.observing import DEADLINE_S, MEGABYTE, resident_bytes
from tests.node.certificate_files import Authority
from tests.support.deadlines import eventually
from tests.support.node_process import NodeProcess
from tests.support.ports import free_port

CROWD = 300
HANDSHAKE_S = 4.0
"""Of which TLS gets half."""


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def ports() -> dict[str, int]:
    return {"amqps": free_port(), "https": free_port()}


@pytest.fixture
def tls_node(tmp_path: Path, authority: Authority, ports: dict[str, int]) -> Iterator[NodeProcess]:
    files = f"certfile = {authority.server.certificate}", f"keyfile = {authority.server.key}"
    lines = [
        f"handshake_timeout = {HANDSHAKE_S * 1000:.0f}",
        f"listeners.ssl.1 = 127.0.0.1:{ports['amqps']}",
        *(f"ssl_options.{line}" for line in files),
        *(f"management.ssl.{line}" for line in files),
        "management.ssl.ip = 127.0.0.1",
        f"management.ssl.port = {ports['https']}",
    ]
    yield from serving(tmp_path, "\n".join(lines) + "\n")


def client_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def descriptors(node: NodeProcess) -> int:
    return len(os.listdir(f"/proc/{node.process.pid}/fd"))


@pytest.mark.parametrize(
    ("protocol", "drips"), [("amqps", True), ("https", False)], ids=["a byte at a time", "nothing after the hello"]
)
def test_a_crowd_of_slow_handshakes_is_cut_off_and_delays_no_other_client(
    tls_node: NodeProcess, ports: dict[str, int], protocol: str, drips: bool
) -> None:
    hello, before, idle_bytes = client_hello(), descriptors(tls_node), resident_bytes(tls_node)
    with ExitStack() as stack, Bystanders(tls_node) as pair:
        address = ("127.0.0.1", ports[protocol])
        crowd = [stack.enter_context(socket.create_connection(address, DEADLINE_S)) for _ in range(CROWD)]
        for stranger in crowd:
            stranger.sendall(hello[:5] if drips else hello)
        eventually(lambda: descriptors(tls_node) >= before + CROWD // 2, lambda: "the crowd is not let in")
        assert resident_bytes(tls_node) - idle_bytes < CROWD * MEGABYTE // 2
        begun = time.monotonic()
        for at in range(5, len(hello)):
            for stranger in crowd if drips else ():
                # it may have been cut off meanwhile
                with suppress(OSError):
                    stranger.sendall(hello[at : at + 1])
            pair.wait_for_rounds(5)
            # the pair has two sockets of its own
            if descriptors(tls_node) <= before + 4:
                break
        assert time.monotonic() - begun < HANDSHAKE_S + DEADLINE_S
        assert descriptors(tls_node) <= before + 4


def test_a_client_that_renegotiates_is_cut_off(
    tls_node: NodeProcess, ports: dict[str, int], authority: Authority
) -> None:
    address = f"127.0.0.1:{ports['amqps']}"
    command = ["openssl", "s_client", "-tls1_2", "-CAfile", authority.path, "-connect", address]
    with (
        Bystanders(tls_node) as pair,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as client,
    ):
        assert client.stdin is not None
        client.stdin.write(b"R\n")
        client.stdin.flush()
        said, _ = client.communicate(timeout=DEADLINE_S)
        assert b"RENEGOTIATING" in said
        assert b"no renegotiation" in said
        pair.wait_for_rounds(20)
