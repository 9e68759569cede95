"""The port on which a node waits for other nodes, and strangers wait for a mistake.

Everybody who comes has `HELLO_PATIENCE_S` for TLS and as long for the hello, and only so many are at it at once: who
comes then is turned away. A lingering stranger costs a socket and two kilobytes, and lines in the log only within
limits.

Not here: the hello (`cluster.hello`), what becomes of a connection (`node.peers.links`).
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any

from warren.cluster.hello import REFUSED, Hello
from warren.node.listeners import ListenAddress
from warren.node.peers.complaints import Complaints
from warren.node.peers.greeting import HELLO_PATIENCE_S, Greeting, GreetingBroken, words_of

GREETINGS_MAX = 64
TLS_GOODBYE_PATIENCE_S = 1.0
WITHOUT_DESCRIPTORS_WAIT_S = 1.0


class Door:
    """Accepts on bound sockets, and lets each who comes say hello."""

    def __init__(
        self,
        sockets: list[socket.socket],
        context: ssl.SSLContext | None,
        greet: Callable[[], Greeting],
        complaints: Complaints,
    ) -> None:
        self._sockets = sockets
        self._context = context
        self._greet = greet
        self._complaints = complaints
        self._greeting: set[asyncio.Task[None]] = set()
        self._without_descriptors: dict[int, asyncio.TimerHandle] = {}

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        for bound in self._sockets:
            self._watch(bound)

    async def close(self) -> None:
        """Nobody listens any more when this is done."""
        for bound in self._sockets:
            self._loop.remove_reader(bound)
            bound.close()
        for handle in self._without_descriptors.values():
            handle.cancel()
        # a task that is cancelled before it began would not close the socket it was given
        await asyncio.sleep(0)
        tasks = list(self._greeting)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _watch(self, bound: socket.socket) -> None:
        self._without_descriptors.pop(bound.fileno(), None)
        self._loop.add_reader(bound, self._accept, bound)

    def _accept(self, bound: socket.socket) -> None:
        # in a callback: a task that is cancelled at the wrong moment loses the socket it was about to get
        try:
            accepted, peer = bound.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError:
            self._loop.remove_reader(bound)
            waiting = self._loop.call_later(WITHOUT_DESCRIPTORS_WAIT_S, self._watch, bound)
            self._without_descriptors[bound.fileno()] = waiting
            return
        where = ListenAddress(peer[0], peer[1])
        if len(self._greeting) >= GREETINGS_MAX:
            accepted.close()
            self._complaints.warning("peer.refused", address=where, reason="too many are saying hello")
            return
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = self._loop.create_task(self._let_in(accepted, where))
        self._greeting.add(task)
        task.add_done_callback(self._greeting.discard)

    async def _let_in(self, accepted: socket.socket, where: ListenAddress) -> None:
        greeting = self._greet()
        try:
            await self._loop.connect_accepted_socket(lambda: greeting, accepted, **tls_options(self._context))
            hello = await greeting.finished
        except (OSError, GreetingBroken) as error:
            self._complaints.warning("peer.refused", address=where, reason=words_of(error))
        else:
            if hello.state == REFUSED:
                self._complain(hello, where)
        finally:
            greeting.abort()

    def _complain(self, hello: Hello, where: ListenAddress) -> None:
        name = "" if hello.peer is None else hello.peer.name
        if hello.by_peer:
            self._complaints.warning("refusal.received", node=name, address=where, reason=hello.reason)
        else:
            self._complaints.warning("peer.refused", node=name, address=where, reason=hello.reason)


def tls_options(context: ssl.SSLContext | None) -> dict[str, Any]:
    """What a loop is told to secure a socket, or not."""
    if context is None:
        return {}
    return {
        "ssl": context,
        "ssl_handshake_timeout": HELLO_PATIENCE_S,
        "ssl_shutdown_timeout": TLS_GOODBYE_PATIENCE_S,
    }
