"""The door of a listener whose clients have something to do before they speak its protocol: a load balancer's PROXY
header, a TLS handshake. A socket stays here until that is done, has failed, or took too long.

The loops' own TLS servers keep a failed handshake to themselves. Here sockets are accepted by hand, so that a failure
is one line in the log, with the peer and the reason. Without descriptors the door waits a moment before it looks
again.

Not here: the context and its files (`node.tls`), the header (`node.proxy`), listeners that need neither
(`node.listeners`), the connection once it is let in (`node.client_link`, `admin.server`).
"""

import asyncio
import socket
import ssl
from functools import partial
from typing import Any, Protocol

from warren.node.listeners import ListenAddress, listen
from warren.node.logs import Log
from warren.node.proxy.balancers import Balancers
from warren.node.proxy.header import Ends, HeaderRefused
from warren.node.proxy.reading import HungUp, read_header

GOODBYE_PATIENCE_S = 3.0
WITHOUT_DESCRIPTORS_WAIT_S = 1.0


class Accept(Protocol):
    """Makes the protocol of one connection, which is told whom a balancer speaks for, if any does."""

    def __call__(self, ends: Ends | None = None) -> asyncio.Protocol: ...


class Opened(Protocol):
    """Whatever accepts connections."""

    def close(self) -> None: ...


async def let_in(
    sockets: list[socket.socket],
    accept: Accept,
    context: ssl.SSLContext | None,
    patience_s: float,
    log: Log,
    balancers: Balancers | None,
) -> list[Opened]:
    """Accept on these; only what has something to do before its protocol begins goes through a door."""
    if context is None and balancers is None:
        return list(await listen(sockets, accept))
    door = Door(accept, context, patience_s, log, balancers)
    door.open(sockets)
    return [door]


class Door:
    """Accepts on bound sockets and hands each connection, once it may begin, to a protocol of its own."""

    def __init__(
        self,
        accept: Accept,
        context: ssl.SSLContext | None,
        patience_s: float,
        log: Log,
        balancers: Balancers | None = None,
    ) -> None:
        """Without a context there is no TLS, without balancers nobody sends a header."""
        self._make_protocol = accept
        self._context = context
        self._patience_s = patience_s
        self._log = log
        self._balancers = balancers
        self._accepting: list[asyncio.Task[None]] = []
        # the loop itself holds tasks only weakly
        self._at_the_door: set[asyncio.Task[None]] = set()

    def open(self, sockets: list[socket.socket]) -> None:
        loop = asyncio.get_running_loop()
        self._accepting += [loop.create_task(self._accept(loop, bound)) for bound in sockets]

    def close(self) -> None:
        """Nobody comes in any more, not even who is at the door."""
        for task in [*self._accepting, *self._at_the_door]:
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
                task = loop.create_task(self._let_in(loop, accepted, ListenAddress(peer[0], peer[1])))
                self._at_the_door.add(task)
                task.add_done_callback(self._at_the_door.discard)

    async def _let_in(self, loop: asyncio.AbstractEventLoop, accepted: socket.socket, peer: ListenAddress) -> None:
        ends = None
        try:
            if self._balancers is not None and self._balancers.include(peer.host):
                ends = await read_header(loop, accepted, peer.host, self._patience_s)
        except HeaderRefused as refusal:
            accepted.close()
            self._log.warning("proxy_header.refused", peer=peer, reason=str(refusal))
        except (HungUp, OSError):
            # a balancer that looks whether the port is open would fill the log
            accepted.close()
        except asyncio.CancelledError:
            accepted.close()
            raise
        else:
            await self._hand_over(loop, accepted, ends, peer if ends is None else ListenAddress(*ends.peer))

    async def _hand_over(
        self, loop: asyncio.AbstractEventLoop, accepted: socket.socket, ends: Ends | None, peer: ListenAddress
    ) -> None:
        secured = {} if self._context is None else self._tls_options(self._context)
        try:
            await loop.connect_accepted_socket(partial(self._make_protocol, ends), accepted, **secured)
        except OSError as error:
            if secured:
                self._log.warning("tls_handshake.failed", peer=peer, reason=_reason(error))

    def _tls_options(self, context: ssl.SSLContext) -> dict[str, Any]:
        return {
            "ssl": context,
            "ssl_handshake_timeout": self._patience_s,
            "ssl_shutdown_timeout": GOODBYE_PATIENCE_S,
        }


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return error.strerror or str(error) or "the client hung up"
