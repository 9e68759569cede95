"""Large bodies over HTTP that do not end: they have one budget, and the memory alarm counts them.

Not here: bodies that are expensive to parse (`test_rule`).
"""

import base64
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.hostile.conftest import SETTINGS, serving
from tests.hostile.observing import DEADLINE_S, MEGABYTE, resident_bytes
from tests.hostile.pouring import publish_frames
from tests.support.amqp_client import Connection
from tests.support.deadlines import eventually
from tests.support.node_process import NodeProcess

BODY_BYTES = 19_000_000
LOGIN = "authorization: Basic " + base64.b64encode(b"guest:guest").decode()


@pytest.fixture
def short_node(tmp_path: Path) -> Iterator[NodeProcess]:
    """A node that uses more memory than its watermark from the start; so its alarm depends on what it holds."""
    yield from serving(tmp_path, SETTINGS + "vm_memory_high_watermark.absolute = 50MB\n")


def unfinished(node: NodeProcess, path: str, login: str = "x: y") -> socket.socket:
    """A request with all but the end of a large body, as far as the node accepts it."""
    client = socket.create_connection(node.addresses["http"], timeout=DEADLINE_S)
    # the node closes the connection of a body for which it has no room
    with suppress(ConnectionError):
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{login}\r\ncontent-length: {BODY_BYTES + 1}\r\n\r\n"
        client.sendall(head.encode() + bytes(BODY_BYTES))
    return client


@pytest.mark.parametrize(("path", "login"), [("/api/login", "x: y"), ("/api/definitions", LOGIN)])
def test_bodies_that_do_not_end_take_a_bounded_amount_of_memory(node: NodeProcess, path: str, login: str) -> None:
    before = resident_bytes(node)
    with ExitStack() as clients:
        for _ in range(40):
            clients.enter_context(unfinished(node, path, login))
        assert resident_bytes(node) - before < 100 * MEGABYTE


def test_bodies_of_requests_raise_the_memory_alarm(short_node: NodeProcess) -> None:
    publisher = Connection.opened(short_node.amqp)
    publisher.channel()
    with unfinished(short_node, "/api/definitions", LOGIN):
        eventually(lambda: "event=alarm.raised" in short_node.log())
        publisher.send_bytes(publish_frames("nowhere", b"x"))
        publisher.expect(0, "connection.blocked", DEADLINE_S, reason="low on memory")
    publisher.expect(0, "connection.unblocked", DEADLINE_S)
    publisher.close()
