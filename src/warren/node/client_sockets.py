"""One client's socket: socket events become broker events, effects are applied to the socket.

Closing lingers. If a socket is closed with unread input, the kernel sends a reset, which may overtake the reply that
explains the close. So the sending side is shut once everything is written, input is discarded, and the socket is closed
when the client has closed its side or a deadline has passed. TLS cannot be half-closed and has its own closing
handshake.

One turn handles a bounded number of read bytes. The loop reads a busy socket many times before it runs a turn, so a
socket with more than its share is not read until the turn is over (`TurnLoop.received`). Otherwise megabytes of input
wait in memory, long gone from the processor's caches when the broker comes to them.

A node has many of these: slots only, no logger, no timer until it closes. Both loops set TCP_NODELAY on accepted
sockets.

Not here: the meaning of the bytes (`broker.sessions`), turns (`node.turn_loop`), accepting (`node.listeners`).
"""

import asyncio
from itertools import count
from typing import cast

from warren.broker.model.events import BytesReceived, ConnectionDropped, ConnectionOpened, WritesPaused, WritesResumed
from warren.node.proxy_protocol import ProxiedAddresses
from warren.node.tls import CertificateUserName
from warren.node.turn_loop import TurnLoop

WRITE_HIGH_WATER_BYTES = 1024 * 1024
WRITE_LOW_WATER_BYTES = 256 * 1024
CLOSE_PATIENCE_S = 3.0


class ClientSocket(asyncio.Protocol):
    """Connects the loop's transport with the turns."""

    __slots__ = (
        "_closing",
        "_connection_id",
        "_deadline",
        "_ends",
        "_links",
        "_paused",
        "_turn_pending",
        "_turns",
        "transport",
    )

    transport: asyncio.Transport

    def __init__(self, links: "ClientSockets", ends: ProxiedAddresses | None) -> None:
        self._links = links
        # None: the addresses of the socket
        self._ends = ends
        self._turns = links.turns
        self._connection_id = 0
        self._closing = False
        # the broker does not want input; the input that was read waits for its turn
        self._paused = False
        self._turn_pending = False
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(WRITE_HIGH_WATER_BYTES, WRITE_LOW_WATER_BYTES)
        self._connection_id = self._links.next_id()
        self._turns.links[self._connection_id] = self
        self._turns.add(self._links.describe(self._connection_id, self.transport, self._ends))

    def data_received(self, data: bytes) -> None:
        if not self._closing:
            self._turns.received(self, BytesReceived(self._connection_id, data))

    def pause_writing(self) -> None:
        if not self._closing:
            self._turns.add(WritesPaused(self._connection_id))

    def resume_writing(self) -> None:
        if not self._closing:
            self._turns.add(WritesResumed(self._connection_id))

    def connection_lost(self, error: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._closing = True
        self._turns.forget(self._connection_id, self)
        self._turns.add(ConnectionDropped(self._connection_id, "" if error is None else _reason(error)))

    def pause_reading(self) -> None:
        self._paused = True
        self._update_reading()

    def resume_reading(self) -> None:
        self._paused = False
        self._update_reading()

    def await_turn(self) -> None:
        """Read nothing more until the turn is over."""
        self._turn_pending = True
        self._update_reading()

    def turn_over(self) -> None:
        self._turn_pending = False
        self._update_reading()

    def _update_reading(self) -> None:
        wanted = not self._paused and not self._turn_pending
        transport = self.transport
        if wanted == transport.is_reading() or transport.is_closing():
            return
        if wanted:
            transport.resume_reading()
        else:
            transport.pause_reading()

    def close(self) -> None:
        """Send the remaining bytes, then close; abort if the client neither reads nor closes."""
        self._closing = True
        transport = self.transport
        self._deadline = self._turns.loop.call_later(CLOSE_PATIENCE_S, transport.abort)
        if transport.is_closing():
            return
        if not transport.can_write_eof():
            transport.close()
            return
        try:
            transport.write_eof()
        except OSError:
            # the client reset the connection, and the loop has not noticed yet
            transport.abort()
        else:
            # the end of the client's input is awaited
            self._turn_pending = False
            self.resume_reading()

    def abort(self) -> None:
        """Drop the socket and all unsent bytes."""
        self.transport.abort()


class ClientSockets:
    """What the sockets of one listener share: the turns, the connection counter, and how a certificate names a user."""

    __slots__ = ("_naming", "next_id", "turns")

    def __init__(self, turns: TurnLoop, serial: "count[int]", naming: CertificateUserName | None = None) -> None:
        self.turns = turns
        self.next_id = serial.__next__
        # None on a listener without TLS
        self._naming = naming

    def accept(self, ends: ProxiedAddresses | None = None) -> ClientSocket:
        return ClientSocket(self, ends)

    def describe(
        self, connection_id: int, transport: asyncio.Transport, ends: ProxiedAddresses | None
    ) -> ConnectionOpened:
        # a client that is already gone has no address
        peer = ends.peer if ends is not None else transport.get_extra_info("peername") or ("", 0)
        local = ends.local if ends is not None else transport.get_extra_info("sockname") or ("", 0)
        if self._naming is None:
            return ConnectionOpened(connection_id, peer[0], peer[1], local[0], local[1])
        name = self._naming.name_of(transport.get_extra_info("peercert"))
        suite, protocol, _bits = transport.get_extra_info("cipher") or ("", "", 0)
        return ConnectionOpened(connection_id, peer[0], peer[1], local[0], local[1], True, name, protocol, suite)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
