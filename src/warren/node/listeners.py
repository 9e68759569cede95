"""The sockets a node listens on.

A port without a host means every interface, IPv4 and IPv6: some clients try only the first address of `localhost`.

A backlog of thousands lets a whole fleet reconnect at once. When the process runs out of file descriptors, clients
wait in the backlog (asyncio) or are refused (uvloop); the listener stays.

Not here: what an accepted socket does (`node.client_link`), TLS and PROXY headers (`node.door`).
"""

import asyncio
import errno
import socket
from collections.abc import Callable
from dataclasses import dataclass

from warren.errors import ConfigError

BACKLOG = 8192
_ACCEPTS_AT_ONCE = 128
_FREE_PORT_TRIES = 20


class AddressNotToBeHad(ConfigError):
    """The machine has not got the address yet, cannot look its name up, or somebody else has the port. A later start
    may find it otherwise, so a service must not give up, as it does over a bad option."""

    exit_code = 3


@dataclass(frozen=True)
class ListenAddress:
    """Where to listen; an empty host is every interface, port 0 a free one."""

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
            kind = AddressNotToBeHad if _may_pass(error) else ConfigError
            raise kind(_sentence(address, error, how_to_choose)) from error
    raise AssertionError("the last attempt returns or raises")


def bind_all(addresses: list[ListenAddress], how_to_choose: str) -> list[socket.socket]:
    """The bound sockets of all of them. A free port that was picked takes the place of 0 in the list, so that a node
    that starts again in the same process is found where it was."""
    found: list[socket.socket] = []
    for index, address in enumerate(addresses):
        sockets = bind(address, how_to_choose)
        addresses[index] = settled(address, sockets)
        found += sockets
    return found


def settled(address: ListenAddress, sockets: list[socket.socket]) -> ListenAddress:
    """The same, with the port that was picked for it."""
    return ListenAddress(address.host, bound_address(sockets[0]).port)


def bound_address(bound: socket.socket) -> ListenAddress:
    name = bound.getsockname()
    return ListenAddress(name[0], name[1])


async def listen(sockets: list[socket.socket], accept: Callable[[], asyncio.Protocol]) -> list[asyncio.Server]:
    """Start accepting on bound sockets."""
    loop = asyncio.get_running_loop()
    servers = []
    for bound in sockets:
        # asyncio takes its backlog also as the number of accepts in a row, each of which fails without descriptors
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
    # asyncio sets TCP_NODELAY on what it accepts only where the protocol is named
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.setblocking(False)
        bound.bind(where)
        # Linux lets several sockets bind a port that nobody listens on yet
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
