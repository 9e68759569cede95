"""Ports for the servers that tests start.

They lie below the system's ephemeral ports: a server that is down for a moment finds its own port free when it comes
back, and a node's etcd member, which begins to listen much later than the node, finds its ports free.

A port is not used twice within some minutes, even if no server listens on it: neither in this process nor in another
run of tests on the same machine. A file has a byte for each port, which is locked. The default ports of nodes and local
clusters, and the ranges they search for free ports, are never used.
"""

import contextlib
import fcntl
import functools
import os
import random
import socket
import tempfile
import time

_FIRST, _LAST = 12_000, 25_999
# 15672, 15692, 25672, its etcd member's, and the like: every node of a test tries to listen on some of them
_USUAL_ENDINGS = range(600, 800)
_ATTEMPTS = 200
# longer than any test, and any set of nodes that tests share
_KEPT_S = 1200.0
_given: dict[int, float] = {}


def free_port(*behind: int) -> int:
    """A port that is free, as are those at these distances behind it."""
    _forget_old()
    for port in random.sample(range(_FIRST, _LAST), _ATTEMPTS):
        if port % 1000 not in _USUAL_ENDINGS and _take([port + step for step in (0, *behind)]):
            return port
    raise AssertionError("there is no free port")


def peer_port() -> int:
    """One for other nodes, with room for the node's etcd member above it."""
    return free_port(1000, 2000)


def cluster_ports(count: int) -> list[str]:
    """Options of `warren cluster up` for so many nodes; they have ports that follow one another."""
    others = range(1, count)
    members = [step + number for step in (1000, 2000) for number in range(count)]
    first = {"amqp": free_port(*others), "http": free_port(*others), "peer": free_port(*others, *members)}
    return [word for kind, port in first.items() for word in (f"--{kind}", str(port))]


def _take(ports: list[int]) -> bool:
    if any(port in _given for port in ports):
        return False
    try:
        for port in ports:
            fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        with contextlib.ExitStack() as listening:
            for port in ports:
                listening.enter_context(socket.create_server(("127.0.0.1", port)))
    except OSError:
        for port in ports:
            fcntl.lockf(_claims(), fcntl.LOCK_UN, 1, port)
        return False
    _given.update(dict.fromkeys(ports, time.monotonic()))
    return True


def _forget_old() -> None:
    for port in [port for port, given_at in _given.items() if time.monotonic() > given_at + _KEPT_S]:
        del _given[port]
        fcntl.lockf(_claims(), fcntl.LOCK_UN, 1, port)


@functools.cache
def _claims() -> int:
    """Never closed: a close would release every lock of this process."""
    path = os.path.join(tempfile.gettempdir(), f"warren-test-ports-{os.getuid()}")
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
