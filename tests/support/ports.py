"""Ports for the servers that tests start.

They lie below those that the system gives to connections on their way out: a server that is down for a moment finds its
own port free when it comes back, and a node's etcd member finds the ports above the node's.
"""

import contextlib
import random
import socket

_FIRST, _LAST = 12_000, 29_999
_ATTEMPTS = 200


def free_port(*behind: int) -> int:
    """A port on which nobody listens, nor on those so far behind it."""
    for port in random.sample(range(_FIRST, _LAST), _ATTEMPTS):
        with contextlib.suppress(OSError), contextlib.ExitStack() as listening:
            for step in (0, *behind):
                listening.enter_context(socket.create_server(("127.0.0.1", port + step)))
            return port
    raise AssertionError("there is no free port")


def peer_port() -> int:
    """One for other nodes, with room for the node's etcd member above it."""
    return free_port(1000, 2000)
