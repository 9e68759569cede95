"""A hello over a socket: its deadline, its channel, and who takes the connection over when both sides agreed.

`taken` is called with the hello and the transport within the read that brought agreement, so no byte behind the hello
is lost; it gives the transport another protocol, or closes it. `finished` is done in every case, and has the hello if
it came to an end, agreed or refused; otherwise `GreetingBroken` says what was in the way.

Not here: what is said (`cluster.hello`), how the socket came to be (`node.peers.door`, `node.peers.dialling`).
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from warren.cluster.hello import AGREED, TALKING, DialHello, Hello

HELLO_PATIENCE_S = 5.0

Taken = Callable[[Hello, asyncio.Transport], None]


class GreetingBroken(Exception):
    """The socket went, or the other side took too long."""


class Greeting(asyncio.Protocol):
    """Lets a hello talk over a socket. `make_hello` is told the channel (`cluster.hello`)."""

    def __init__(self, loop: asyncio.AbstractEventLoop, make_hello: Callable[[bytes], Hello], taken: Taken) -> None:
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
        self._fail("it hung up in the midst of the hello" if error is None else words_of(error))

    def abort(self) -> None:
        """Whoever waited for it does not any more."""
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
            self.finished.set_exception(GreetingBroken(reason))

    def _settle(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def words_of(error: Exception) -> str:
    """What an error of a socket or of TLS says, for a sentence."""
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(error.reason or str(error)).replace('_', ' ').lower()}"
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def _channel_of(transport: asyncio.BaseTransport) -> bytes:
    """What both ends of a TLS connection know of it and nobody else's connection has; nothing without TLS."""
    secured = transport.get_extra_info("ssl_object")
    return b"" if secured is None else secured.get_channel_binding("tls-unique") or b""
