"""Probes of a port with a strange server: every probe has a result."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.ports import free_port
from warren.cli.ha.probes import probe_amqp, probe_fitness


@contextmanager
def saying(reply: bytes) -> Iterator[int]:
    """A port that accepts one connection, sends this, and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            taken, _ = listening.accept()
            with taken:
                taken.recv(4096)
                taken.sendall(reply)

        thread = threading.Thread(target=answer)
        thread.start()
        yield listening.getsockname()[1]
        thread.join()


def told(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"status": "fit", "node": "warren@n1", "reasons": null}',
        b'{"status": "fit", "node": "warren@n1", "reasons": 5}',
        b"[" * 60_000,
        b"\xff\xfe",
    ],
)
def test_an_answer_that_no_node_would_give_has_no_standing(body: bytes) -> None:
    with saying(told(body)) as port:
        found = probe_fitness("127.0.0.1", port)
    assert (found.status, found.standing, found.refusal) == (200, "", "")


def test_a_name_that_is_none_is_not_reached() -> None:
    host = f"{'n' * 64}.example.com"
    assert probe_fitness(host, 15672).refusal
    assert probe_amqp(host, 5672).refusal


def test_a_closed_port_is_not_reached() -> None:
    found = probe_fitness("127.0.0.1", free_port())
    assert (found.refusal, found.unreached) == ("connection refused", True)
