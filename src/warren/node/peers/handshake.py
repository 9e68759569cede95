"""The handshake between nodes: the listener, the dialer, TLS, and the exchange of hellos with a deadline.

When both sides agree, `taken` is called with the hello and the transport within the read that completed it, so no byte
behind it is lost; it sets another protocol, or closes the transport. `finished` is done in every case: with the hello
if it was completed, agreed or refused; otherwise with `HandshakeBroken`.

**Listener.** Every connection has `HELLO_PATIENCE_S` for TLS and as long for the hello, and only a limited number may
be in the handshake at once: a share for each address, and a number for all addresses that are not those of members. The
next connection ends the oldest handshake of its address, or of all strangers. A member needs milliseconds for its
hello, so strangers that linger keep no member out, not even from its own address. A lingering stranger costs a socket
and two kilobytes. Its log lines are limited: ten a minute, and one line with the number of the dropped ones.

**Dialer.** A host may have several addresses; the first that answers counts. If all of them refused the connection, the
host is up and the process is not (or a firewall rejects packets that it could drop).

Not here: the hello (`broker.cluster.hello`), retries and established connections (`node.peers.connections`).
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any, cast

from warren.broker.access.backends import address_block
from warren.broker.cluster.addresses import PeerAddress
from warren.broker.cluster.hello import AGREED, REFUSED, TALKING, DialHello, Hello
from warren.node.listeners import ListenAddress
from warren.node.logs import Log

HELLO_PATIENCE_S = 5.0

ConnectionTaker = Callable[[Hello, asyncio.Transport], None]


class HandshakeBroken(Exception):
    """The socket was closed, or the other side took too long."""


class PeerHandshake(asyncio.Protocol):
    """Runs a hello over a socket. `make_hello` gets the TLS channel binding (`broker.cluster.hello`)."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, make_hello: Callable[[bytes], Hello], taken: ConnectionTaker
    ) -> None:
        self.finished: asyncio.Future[Hello] = loop.create_future()
        self._loop = loop
        self._make_hello = make_hello
        self._taken = taken
        self._hello: Hello | None = None
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._deadline = self._loop.call_later(HELLO_PATIENCE_S, self._overdue)
        self._hello = self._make_hello(_channel_of(transport))
        if isinstance(self._hello, DialHello):
            self._transport.write(self._hello.start())

    def data_received(self, data: bytes) -> None:
        hello, transport = self._hello, self._transport
        if self.finished.done() or hello is None or transport is None:
            return
        answer = hello.receive(data)
        if answer:
            transport.write(answer)
        if hello.state == TALKING:
            return
        self._settle()
        self.finished.set_result(hello)
        if hello.state == AGREED:
            self._taken(hello, transport)
        else:
            transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._fail("it hung up in the midst of the hello" if error is None else socket_error_text(error))

    def abort(self) -> None:
        """End it; its callers do not wait any more."""
        if not self.finished.done() or self.finished.cancelled():
            self.finished.cancel()
            self._settle()
            if self._transport is not None:
                self._transport.abort()

    def _overdue(self) -> None:
        self._fail(f"it took longer than {HELLO_PATIENCE_S:g} s for the hello")
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, reason: str) -> None:
        self._settle()
        if not self.finished.done():
            self.finished.set_exception(HandshakeBroken(reason))

    def _settle(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def socket_error_text(error: Exception) -> str:
    """The text of a socket or TLS error."""
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(error.reason or str(error)).replace('_', ' ').lower()}"
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def _channel_of(transport: asyncio.BaseTransport) -> bytes:
    """The TLS channel binding, which only the two ends of this connection know; empty without TLS."""
    secured = transport.get_extra_info("ssl_object")
    return b"" if secured is None else secured.get_channel_binding("tls-unique") or b""


THROTTLED_LINES_MAX = 10
THROTTLE_WINDOW_S = 60.0


class ThrottledLog:
    """A log for warnings that strangers can cause, with a rate limit."""

    def __init__(self, loop: asyncio.AbstractEventLoop, log: Log, window_s: float = THROTTLE_WINDOW_S) -> None:
        self._loop = loop
        self._log = log
        self._window_s = window_s
        self._lines = 0
        self._window: asyncio.TimerHandle | None = None

    def warning(self, event: str, **fields: object) -> None:
        self._lines += 1
        if self._lines <= THROTTLED_LINES_MAX:
            self._log.write("warning", event, fields)
        if self._window is None:
            self._window = self._loop.call_later(self._window_s, self._end_window)

    def close(self) -> None:
        if self._window is not None:
            self._window.cancel()
            self._end_window()

    def _end_window(self) -> None:
        self._window = None
        if self._lines > THROTTLED_LINES_MAX:
            self._log.warning("notes.suppressed", about="the peer port", lines=self._lines - THROTTLED_LINES_MAX)
        self._lines = 0


STRANGERS_MAX = 64
"""Handshakes with addresses that no member has."""

HANDSHAKES_PER_ADDRESS_MAX = 16
TLS_GOODBYE_PATIENCE_S = 1.0
WITHOUT_DESCRIPTORS_WAIT_S = 1.0


class PeerListener:
    """Accepts on bound sockets, and runs a handshake with each connection."""

    def __init__(
        self,
        sockets: list[socket.socket],
        context: ssl.SSLContext | None,
        greet: Callable[[], PeerHandshake],
        complaints: ThrottledLog,
        member_addresses: Callable[[], set[str]],
    ) -> None:
        """`member_addresses` are those of `address_block`."""
        self._sockets = sockets
        self._context = context
        self._greet = greet
        self._complaints = complaints
        self._member_addresses = member_addresses
        # with their addresses and address blocks, oldest first
        self._greeting: dict[asyncio.Task[None], tuple[ListenAddress, str]] = {}
        self._without_descriptors: dict[int, asyncio.TimerHandle] = {}

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        for bound in self._sockets:
            self._watch(bound)

    async def close(self) -> None:
        """Returns when the port is closed."""
        for bound in self._sockets:
            self._loop.remove_reader(bound)
            bound.close()
        for handle in self._without_descriptors.values():
            handle.cancel()
        # a task that is cancelled before it began would not close its socket
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
        block = address_block(where.host)
        self._make_room(block)
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = self._loop.create_task(self._let_in(accepted, where))
        self._greeting[task] = (where, block)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._greeting.pop(task, None)

    def _make_room(self, block: str) -> None:
        """End the oldest handshake of this address, or of all strangers, if there are too many."""
        members = self._member_addresses()
        same = [task for task, (_, other) in self._greeting.items() if other == block]
        strangers = [task for task, (_, other) in self._greeting.items() if other not in members]
        if len(same) >= HANDSHAKES_PER_ADDRESS_MAX:
            self._end(same[0], "too many of its address are saying hello")
        elif block not in members and len(strangers) >= STRANGERS_MAX:
            self._end(strangers[0], "too many are saying hello")

    def _end(self, task: asyncio.Task[None], reason: str) -> None:
        self._complaints.warning("peer.refused", address=self._greeting.pop(task)[0], reason=reason)
        task.cancel()

    async def _let_in(self, accepted: socket.socket, where: ListenAddress) -> None:
        greeting = self._greet()
        try:
            await self._loop.connect_accepted_socket(lambda: greeting, accepted, **tls_options(self._context))
            hello = await greeting.finished
        except (OSError, HandshakeBroken) as error:
            self._complaints.warning("peer.refused", address=where, reason=socket_error_text(error))
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
    """The loop's TLS arguments."""
    if context is None:
        return {}
    return {
        "ssl": context,
        "ssl_handshake_timeout": HELLO_PATIENCE_S,
        "ssl_shutdown_timeout": TLS_GOODBYE_PATIENCE_S,
    }


CONNECT_PATIENCE_S = 2.0


class DialFailed(Exception):
    """There is no connection, for this reason. `refused`: a node answered, and this one or (`by_peer`) the other
    refused."""

    def __init__(
        self, reason: str, connection_refused: bool = False, refused: bool = False, by_peer: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.connection_refused = connection_refused
        self.refused = refused
        self.by_peer = by_peer


Resolved = Callable[[set[str]], None]
"""Gets the IP addresses of a host, as `address_block` writes them."""


async def dial(
    address: PeerAddress, context: ssl.SSLContext | None, greeting: PeerHandshake, resolved: Resolved | None = None
) -> Hello:
    """Do the handshake with the node at that address; raises `DialFailed`."""
    loop = asyncio.get_running_loop()
    found = await _resolve(loop, address)
    if resolved is not None:
        resolved({address_block(str(where[0])) for _, _, _, _, where in found})
    connected = await _connect(loop, found)
    options = tls_options(context)
    if context is not None:
        # the certificate's host is not checked: the authority and the cookie count
        options["server_hostname"] = address.host
    try:
        await attach_handshake(loop, connected, greeting, options)
        hello = await greeting.finished
    except OSError as error:
        raise DialFailed(socket_error_text(error)) from error
    except HandshakeBroken as broken:
        # a client whose certificate is refused learns it only after its own side of the handshake, and not always
        hint = "" if context is None else "; perhaps it does not accept this node's certificate"
        raise DialFailed(f"{broken}{hint}") from broken
    finally:
        greeting.abort()
    if hello.state == REFUSED:
        raise DialFailed(hello.reason, refused=True, by_peer=hello.by_peer)
    return hello


async def attach_handshake(
    loop: asyncio.AbstractEventLoop, connected: socket.socket, greeting: PeerHandshake, options: dict[str, Any]
) -> None:
    """Attach a socket to the loop, and a handshake to the socket."""
    try:
        await loop.create_connection(lambda: greeting, sock=connected, **options)
    finally:
        # uvloop closes the descriptor by its number. If that happens at the first write, to a peer that is already
        # gone, the socket object does not know, and closes the number again when it is collected. By then another
        # file may have this number, for example the journal
        if not isinstance(loop, asyncio.BaseEventLoop):
            connected.detach()


async def _resolve(loop: asyncio.AbstractEventLoop, address: PeerAddress) -> list[tuple[Any, ...]]:
    try:
        async with asyncio.timeout(CONNECT_PATIENCE_S):
            return list(await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM))
    except TimeoutError:
        raise DialFailed(f"the host {address.host} was not found in {CONNECT_PATIENCE_S:g} s") from None
    except OSError as error:
        raise DialFailed(f"the host {address.host} is unknown: {error.strerror}") from error


async def _connect(loop: asyncio.AbstractEventLoop, found: list[tuple[Any, ...]]) -> socket.socket:
    errors: list[OSError] = []
    for family, _, _, _, where in found:
        try:
            return await _connect_to(loop, family, where)
        except OSError as error:
            errors.append(error)
    refused = bool(errors) and all(isinstance(error, ConnectionRefusedError) for error in errors)
    raise DialFailed("connection refused" if refused else socket_error_text(errors[-1]), connection_refused=refused)


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
