"""One attempt to reach another node: the socket, TLS, the hello.

A host may have several addresses; the first that answers counts. If every one of them refused the connection, nobody
listens on that port: the host is up, and the process that had the port is not (or a firewall that rejects what it could
drop pretends so).

Not here: when to try again (`node.peers.keeping`).
"""

import asyncio
import socket
import ssl
from typing import Any

from warren.cluster.addresses import PeerAddress
from warren.cluster.hello import REFUSED, Hello
from warren.node.peers.door import tls_options
from warren.node.peers.greeting import Greeting, GreetingBroken, words_of

CONNECT_PATIENCE_S = 2.0


class DialFailed(Exception):
    """There is no link, for this reason. `refused`: a node answered, and this one or (`by_peer`) it refused."""

    def __init__(self, reason: str, nobody_listens: bool = False, refused: bool = False, by_peer: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.nobody_listens = nobody_listens
        self.refused = refused
        self.by_peer = by_peer


async def dial(address: PeerAddress, context: ssl.SSLContext | None, greeting: Greeting) -> Hello:
    """Say hello to whoever listens there; `DialFailed` if it comes to nothing."""
    loop = asyncio.get_running_loop()
    connected = await _connect(loop, address)
    options = tls_options(context)
    if context is not None:
        # which host a certificate is for is not looked at: the authority and the cookie are what counts
        options["server_hostname"] = address.host
    try:
        await hand_over(loop, connected, greeting, options)
        hello = await greeting.finished
    except OSError as error:
        raise DialFailed(words_of(error)) from error
    except GreetingBroken as broken:
        # whose certificate is refused learns of it only after its own side of the handshake, and not always
        hint = "" if context is None else "; perhaps it does not accept this node's certificate"
        raise DialFailed(f"{broken}{hint}") from broken
    finally:
        greeting.abort()
    if hello.state == REFUSED:
        raise DialFailed(hello.reason, refused=True, by_peer=hello.by_peer)
    return hello


async def hand_over(
    loop: asyncio.AbstractEventLoop, connected: socket.socket, greeting: Greeting, options: dict[str, Any]
) -> None:
    """Give a socket to the loop for good, and a greeting to the socket."""
    try:
        await loop.create_connection(lambda: greeting, sock=connected, **options)
    finally:
        # uvloop closes the descriptor by its number. If that is at the first write, to a peer that hung up already, the
        # socket is not told, and would close the number again when it is collected, whoever has it by then: a journal
        if not isinstance(loop, asyncio.BaseEventLoop):
            connected.detach()


async def _connect(loop: asyncio.AbstractEventLoop, address: PeerAddress) -> socket.socket:
    try:
        async with asyncio.timeout(CONNECT_PATIENCE_S):
            found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except TimeoutError:
        raise DialFailed(f"the host {address.host} was not found in {CONNECT_PATIENCE_S:g} s") from None
    except OSError as error:
        raise DialFailed(f"the host {address.host} is unknown: {error.strerror}") from error
    errors: list[OSError] = []
    for family, _, _, _, where in found:
        try:
            return await _connect_to(loop, family, where)
        except OSError as error:
            errors.append(error)
    refused = bool(errors) and all(isinstance(error, ConnectionRefusedError) for error in errors)
    raise DialFailed("nobody listens there" if refused else words_of(errors[-1]), nobody_listens=refused)


async def _connect_to(loop: asyncio.AbstractEventLoop, family: int, where: tuple[object, ...]) -> socket.socket:
    dialled = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        dialled.setblocking(False)
        dialled.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        async with asyncio.timeout(CONNECT_PATIENCE_S):
            await loop.sock_connect(dialled, where)
    except TimeoutError:
        dialled.close()
        raise OSError(f"no answer in {CONNECT_PATIENCE_S:g} s") from None
    except BaseException:
        dialled.close()
        raise
    return dialled
