"""The sockets a node listens on, and the acceptor for listeners with TLS or PROXY headers.

A port without a host means every interface, IPv4 and IPv6: some clients try only the first address of `localhost`.

A backlog of thousands lets a whole fleet reconnect at once. When the process runs out of file descriptors, clients wait
in the backlog (asyncio) or are refused (uvloop); the listener stays.

`Acceptor` reads the PROXY header and does the TLS handshake before it creates the protocol. The loops' own TLS servers
do not report a failed handshake; here each failure is one log line with the peer and the reason. Without descriptors it
waits a moment before it accepts again.

A TLS handshake holds up to 300 kB, before any login. So only `HANDSHAKES_MAX` are under way at once, and further
clients wait in the backlog until one succeeds, fails or has used up its time. No handshake is ended earlier to make
room: in a fleet that reconnects, many are slow and none is hostile.

Not here: accepted connections (`node.client_sockets`, `admin.http.server`), the TLS context (`node.tls`), the PROXY
header (`node.proxy_protocol`).
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from warren.admin.background import BackgroundTask, BackgroundTasks
from warren.errors import ConfigError
from warren.node.logs import Log
from warren.node.proxy_protocol import (
    ClosedBeforeHeader,
    LoadBalancers,
    ProxiedAddresses,
    ProxyHeaderRefused,
    read_proxy_header,
)

BACKLOG = 8192
_ACCEPTS_AT_ONCE = 128
_FREE_PORT_TRIES = 20


class AddressUnavailable(ConfigError):
    """The machine does not have the address yet, cannot resolve its name, or another process has the port. A later
    start may succeed, so a service manager should retry, unlike after a bad option."""

    exit_code = 3


@dataclass(frozen=True)
class ListenAddress:
    """An address to listen on; an empty host is every interface, port 0 a free port."""

    host: str
    port: int

    def __str__(self) -> str:
        host = self.host or "0.0.0.0"
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


def bind(address: ListenAddress, how_to_choose: str) -> list[socket.socket]:
    """The bound sockets of one address; `ConfigError` says what is wrong and how to choose another."""
    for attempt in range(_FREE_PORT_TRIES):
        try:
            return _bind_everywhere(address.port) if not address.host else [_bind_host(address)]
        except OSError as error:
            # a free port of IPv4 may be taken in IPv6
            if error.errno == errno.EADDRINUSE and address.port == 0 and attempt + 1 < _FREE_PORT_TRIES:
                continue
            kind = AddressUnavailable if _may_pass(error) else ConfigError
            raise kind(_sentence(address, error, how_to_choose)) from error
    raise AssertionError("the last attempt returns or raises")


def bind_all(addresses: list[ListenAddress], how_to_choose: str) -> list[socket.socket]:
    """The bound sockets of all addresses. A free port that was picked replaces 0 in the list, so a node that starts
    again in the same process keeps its port."""
    found: list[socket.socket] = []
    for index, address in enumerate(addresses):
        sockets = bind(address, how_to_choose)
        addresses[index] = with_bound_port(address, sockets)
        found += sockets
    return found


def with_bound_port(address: ListenAddress, sockets: list[socket.socket]) -> ListenAddress:
    """The same address, with the port that was picked."""
    return ListenAddress(address.host, bound_address(sockets[0]).port)


def bound_address(bound: socket.socket) -> ListenAddress:
    name = bound.getsockname()
    return ListenAddress(name[0], name[1])


async def listen(sockets: list[socket.socket], accept: Callable[[], asyncio.Protocol]) -> list[asyncio.Server]:
    """Start accepting on bound sockets."""
    loop = asyncio.get_running_loop()
    servers = []
    for bound in sockets:
        # asyncio also uses its backlog as the number of accepts in a row, each of which fails without descriptors
        servers.append(await loop.create_server(accept, sock=bound, backlog=_ACCEPTS_AT_ONCE))
        bound.listen(BACKLOG)
    return servers


def _bind_everywhere(port: int) -> list[socket.socket]:
    first = _bind(socket.AF_INET, ("0.0.0.0", port))
    try:
        second = _bind(socket.AF_INET6, ("::", first.getsockname()[1]))
    except OSError as error:
        if error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
            return [first]
        first.close()
        raise
    return [first, second]


def _bind_host(address: ListenAddress) -> socket.socket:
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, where = found[0]
    return _bind(family, where)


def _bind(family: int, where: tuple[object, ...]) -> socket.socket:
    # asyncio sets TCP_NODELAY on accepted sockets only if the protocol is named
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.setblocking(False)
        bound.bind(where)
        # Linux lets several sockets bind a port as long as none listens
        bound.listen(BACKLOG)
    except OSError:
        bound.close()
        raise
    return bound


def _may_pass(error: OSError) -> bool:
    return isinstance(error, socket.gaierror) or error.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL)


def _sentence(address: ListenAddress, error: OSError, how_to_choose: str) -> str:
    if isinstance(error, socket.gaierror):
        return f"the host of {address} is unknown: {error.strerror}"
    if error.errno == errno.EADDRINUSE:
        return f"port {address.port} of {address.host or 'this machine'} is in use; {how_to_choose}"
    if error.errno == errno.EACCES:
        return f"port {address.port} is reserved for the superuser; {how_to_choose}"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{address.host} is not an address of this machine; {how_to_choose}"
    return f"cannot listen on {address}: {error.strerror}; {how_to_choose}"


GOODBYE_PATIENCE_S = 3.0
HANDSHAKES_MAX = 1000
WITHOUT_DESCRIPTORS_WAIT_S = 1.0


class ProtocolFactory(Protocol):
    """Makes the protocol of one connection; gets the addresses of the PROXY header, if there is one."""

    def __call__(self, ends: ProxiedAddresses | None = None) -> asyncio.Protocol: ...


class OpenListener(Protocol):
    """A listener that accepts connections."""

    def close(self) -> None: ...


async def accept_on(
    sockets: list[socket.socket],
    accept: ProtocolFactory,
    context: ssl.SSLContext | None,
    patience_s: float,
    log: Log,
    balancers: LoadBalancers | None,
    tasks: BackgroundTasks,
) -> list[OpenListener]:
    """Accept on these sockets; an `Acceptor` is used only for TLS or PROXY headers."""
    if context is None and balancers is None:
        return list(await listen(sockets, accept))
    door = Acceptor(accept, context, patience_s, log, balancers)
    door.open(sockets, tasks)
    return [door]


class Acceptor:
    """Accepts on bound sockets and hands each connection, after its handshake, to a protocol."""

    def __init__(
        self,
        accept: ProtocolFactory,
        context: ssl.SSLContext | None,
        patience_s: float,
        log: Log,
        balancers: LoadBalancers | None = None,
    ) -> None:
        """Without a context there is no TLS; without balancers there is no PROXY header."""
        self._make_protocol = accept
        self._context = context
        self._patience_s = patience_s
        self._log = log
        self._balancers = balancers
        self._sockets: list[socket.socket] = []
        self._accepting: list[BackgroundTask] = []
        # the loop holds only weak references to tasks
        self._handshakes: set[asyncio.Task[None]] = set()
        self._handshake_ended = asyncio.Event()

    def open(self, sockets: list[socket.socket], tasks: BackgroundTasks) -> None:
        loop = asyncio.get_running_loop()
        self._sockets += sockets
        for bound in sockets:
            self._accepting.append(tasks.start(f"accept on {bound_address(bound)}", partial(self._accept, loop, bound)))

    def close(self) -> None:
        """Accept no more, and end the handshakes under way."""
        for accepting in self._accepting:
            accepting.cancel()
        for handshake in self._handshakes:
            handshake.cancel()
        self._accepting.clear()
        for bound in self._sockets:
            bound.close()
        self._sockets.clear()

    async def _accept(self, loop: asyncio.AbstractEventLoop, bound: socket.socket) -> None:
        while True:
            try:
                accepted, peer = await loop.sock_accept(bound)
            except OSError:
                await asyncio.sleep(WITHOUT_DESCRIPTORS_WAIT_S)
                continue
            task = loop.create_task(self._let_in(loop, accepted, ListenAddress(peer[0], peer[1])))
            self._handshakes.add(task)
            task.add_done_callback(self._ended)
            while len(self._handshakes) >= HANDSHAKES_MAX:
                self._handshake_ended.clear()
                await self._handshake_ended.wait()

    def _ended(self, handshake: asyncio.Task[None]) -> None:
        self._handshakes.discard(handshake)
        self._handshake_ended.set()

    async def _let_in(self, loop: asyncio.AbstractEventLoop, accepted: socket.socket, peer: ListenAddress) -> None:
        ends = None
        try:
            if self._balancers is not None and self._balancers.include(peer.host):
                ends = await read_proxy_header(loop, accepted, peer.host, self._patience_s)
        except ProxyHeaderRefused as refusal:
            accepted.close()
            self._log.warning("proxy_header.refused", peer=peer, reason=str(refusal))
        except (ClosedBeforeHeader, OSError):
            # a balancer's port check would fill the log
            accepted.close()
        except asyncio.CancelledError:
            accepted.close()
            raise
        else:
            await self._hand_over(loop, accepted, ends, peer if ends is None else ListenAddress(*ends.peer))

    async def _hand_over(
        self,
        loop: asyncio.AbstractEventLoop,
        accepted: socket.socket,
        ends: ProxiedAddresses | None,
        peer: ListenAddress,
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
