"""The door of a TLS listener: a socket stays here until its handshake is done, has failed, or took too long.

The loops' own TLS servers keep a failed handshake to themselves. Here sockets are accepted by hand, so that a failure
is one line in the log, with the peer and the reason. Without descriptors the door waits a moment before it looks
again.

Not here: the context and its files (`node.tls`), the connection once it is secured
(`node.client_link`, `admin.server`).
"""

import asyncio
import socket
import ssl
from collections.abc import Callable

from warren.node.listeners import ListenAddress
from warren.node.logs import Log

GOODBYE_PATIENCE_S = 3.0
WITHOUT_DESCRIPTORS_WAIT_S = 1.0


class TlsDoor:
    """Accepts on bound sockets and hands each secured connection to a protocol of its own."""

    def __init__(
        self, accept: Callable[[], asyncio.Protocol], context: ssl.SSLContext, patience_s: float, log: Log
    ) -> None:
        self._make_protocol = accept
        self._context = context
        self._patience_s = patience_s
        self._log = log
        self._accepting: list[asyncio.Task[None]] = []
        # the loop itself holds tasks only weakly
        self._shaking_hands: set[asyncio.Task[None]] = set()

    def open(self, sockets: list[socket.socket]) -> None:
        loop = asyncio.get_running_loop()
        self._accepting += [loop.create_task(self._accept(loop, bound)) for bound in sockets]

    def close(self) -> None:
        """Nobody comes in any more, not even who is at the door."""
        for task in [*self._accepting, *self._shaking_hands]:
            task.cancel()
        self._accepting.clear()

    async def _accept(self, loop: asyncio.AbstractEventLoop, bound: socket.socket) -> None:
        with bound:
            while True:
                try:
                    accepted, peer = await loop.sock_accept(bound)
                except OSError:
                    await asyncio.sleep(WITHOUT_DESCRIPTORS_WAIT_S)
                    continue
                task = loop.create_task(self._shake_hands(loop, accepted, ListenAddress(peer[0], peer[1])))
                self._shaking_hands.add(task)
                task.add_done_callback(self._shaking_hands.discard)

    async def _shake_hands(self, loop: asyncio.AbstractEventLoop, accepted: socket.socket, peer: ListenAddress) -> None:
        try:
            await loop.connect_accepted_socket(
                self._make_protocol,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=self._patience_s,
                ssl_shutdown_timeout=GOODBYE_PATIENCE_S,
            )
        except OSError as error:
            self._log.warning("tls_handshake.failed", peer=peer, reason=_reason(error))


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return error.strerror or str(error) or "the client hung up"
