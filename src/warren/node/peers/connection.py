"""One connection between two nodes, after its handshake.

    frame     one octet: its type; four: how many octets follow
    data      the broker's bytes; it does its own framing inside, so pieces of any size may be passed on
    heartbeat nothing; sent when nothing else was
    goodbye   a sentence: why the sender ends the connection

A read becomes at most one event. A read that begins within a large frame, or with its head, is passed on as it is.

**Silence.** Any input is a sign of life. Time is counted in ticks, eight in the shorter of the two nodes' timeouts. In
each second tick without a write a heartbeat is sent. After as many ticks without a read as nearly fill this node's
timeout, the connection is over. Ticks are counted, not seconds: a node that was itself suspended or busy counts one
tick for it, and reads its input before it judges.

**The end.** It is reported once, at once. Later events of the socket are not reported. The side that ends a connection
sends a goodbye first: the sending side is shut, and input is discarded until the other side has closed or a deadline
has passed, because a reset would overtake the goodbye.

Connections are always read (the broker bounds what it asks for): two nodes that each stopped reading until the other
reads would wait for ever.

Not here: the handshake (`node.peers.handshake`), which connections there are (`node.peers.connections`).
"""

import asyncio
import struct
from collections.abc import Callable, Sequence

from warren.broker.cluster.hello import REFUSAL_BYTES_MAX, PeerIdentity, refusal_text
from warren.broker.model.events import Event, PeerReceived, PeerWritesPaused, PeerWritesResumed
from warren.node.peers.handshake import socket_error_text

DATA = 1
HEARTBEAT = 2
GOODBYE = 3

WRITE_HIGH_WATER_BYTES = 4 * 1024 * 1024
WRITE_LOW_WATER_BYTES = 1024 * 1024
GOODBYE_PATIENCE_S = 1.0
_TICKS = 8
_TICKS_UNWRITTEN_MAX = 2

_HEAD = struct.Struct(">BI")
_HEARTBEAT = _HEAD.pack(HEARTBEAT, 0)


class PeerConnection(asyncio.Protocol):
    """Input from the node of `facts` becomes events; ordered bytes are sent. `ended` is called once."""

    __slots__ = (
        "_add",
        "_begun",
        "_ended",
        "_heard",
        "_left",
        "_loop",
        "_quiet_max",
        "_since",
        "_tick_s",
        "_ticks_quiet",
        "_ticks_unwritten",
        "_timer",
        "_told_end",
        "_transport",
        "facts",
        "gone",
        "received_bytes",
        "sent_bytes",
        "silence_s",
    )

    def __init__(
        self,
        facts: PeerIdentity,
        silence_s: float,
        loop: asyncio.AbstractEventLoop,
        add: Callable[[Event], None],
        ended: Callable[["PeerConnection", str], None],
    ) -> None:
        self.facts = facts
        self.silence_s = silence_s
        self.sent_bytes = 0
        self.received_bytes = 0
        # done when the socket is closed
        self.gone: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._add = add
        self._told_end = ended
        self._ended = False
        self._since = loop.time()
        # missing bytes of the current data frame
        self._left = 0
        # the beginning of an incomplete frame
        self._begun = b""
        self._heard = True
        self._ticks_quiet = 0
        self._ticks_unwritten = 0
        # a timeout of 0 could not be kept
        self._tick_s = max(0.01, min(silence_s, facts.silence_ms / 1000) / _TICKS)
        self._quiet_max = max(2, int(silence_s / self._tick_s) - 1)
        self._timer: asyncio.TimerHandle | None = None

    def take_over(self, transport: asyncio.Transport, rest: bytes) -> None:
        """Take over the transport; `rest` came behind the handshake."""
        self._transport = transport
        transport.set_write_buffer_limits(WRITE_HIGH_WATER_BYTES, WRITE_LOW_WATER_BYTES)
        transport.set_protocol(self)
        self._timer = self._loop.call_later(self._tick_s, self._tick)
        if rest:
            self.data_received(rest)

    def endpoints(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """The addresses of this side and of the other."""
        own, peer = self._transport.get_extra_info("sockname"), self._transport.get_extra_info("peername")
        return (own[0], own[1]) if own else ("", 0), (peer[0], peer[1]) if peer else ("", 0)

    def age_s(self) -> float:
        return self._loop.time() - self._since

    def send(self, pieces: Sequence[bytes]) -> None:
        """Send a turn's bytes."""
        size_bytes = sum(map(len, pieces))
        if not self._ended and size_bytes:
            self._ticks_unwritten = 0
            self.sent_bytes += size_bytes
            self._transport.writelines((_HEAD.pack(DATA, size_bytes), *pieces))

    def end(self, reason: str, goodbye: bool = False) -> None:
        """End the connection; a goodbye tells the other node the reason."""
        if self._ended:
            return
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        self._told_end(self, reason)
        if goodbye and not self._transport.is_closing():
            self._linger(reason.encode()[:REFUSAL_BYTES_MAX])
        else:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        self._heard = True
        self.received_bytes += len(data)
        if len(data) <= self._left:
            self._left -= len(data)
            self._add(PeerReceived(self.facts.name, data))
        else:
            self._take_apart(self._begun + data if self._begun else data)

    def pause_writing(self) -> None:
        if not self._ended:
            self._add(PeerWritesPaused(self.facts.name))

    def resume_writing(self) -> None:
        if not self._ended:
            self._add(PeerWritesResumed(self.facts.name))

    def eof_received(self) -> None:
        self.end("it closed the link")

    def connection_lost(self, error: Exception | None) -> None:
        self.end("it closed the link" if error is None else socket_error_text(error))
        if self._timer is not None:
            self._timer.cancel()
        if not self.gone.done():
            self.gone.set_result(None)

    def _take_apart(self, data: bytes) -> None:
        """Handle data that contains a frame head."""
        self._begun = b""
        pieces: list[bytes] = []
        reason = ""
        at, end = 0, len(data)
        while at < end and not reason:
            if self._left:
                piece = data[at : at + self._left]
                pieces.append(piece)
                self._left -= len(piece)
                at += len(piece)
                continue
            if end - at < _HEAD.size:
                self._begun = data[at:]
                break
            kind, length = _HEAD.unpack_from(data, at)
            at += _HEAD.size
            if kind == DATA:
                self._left = length
                if not pieces and at < end <= at + length:
                    self._left -= end - at
                    self._add(PeerReceived(self.facts.name, data, at))
                    return
            elif kind == GOODBYE and length <= REFUSAL_BYTES_MAX:
                if end - at < length:
                    self._begun = data[at - _HEAD.size :]
                    break
                reason = f"it said goodbye: {refusal_text(data[at : at + length])}"
            elif kind != HEARTBEAT or length:
                reason = "it sent an invalid frame"
        if pieces:
            self._add(PeerReceived(self.facts.name, pieces[0] if len(pieces) == 1 else b"".join(pieces)))
        if reason:
            self.end(reason)

    def _tick(self) -> None:
        self._ticks_quiet = 0 if self._heard else self._ticks_quiet + 1
        self._heard = False
        if self._ticks_quiet >= self._quiet_max:
            self.end(f"it was silent for {self.silence_s:g} s")
            return
        self._ticks_unwritten += 1
        if self._ticks_unwritten >= _TICKS_UNWRITTEN_MAX:
            self._ticks_unwritten = 0
            self._transport.write(_HEARTBEAT)
        self._timer = self._loop.call_later(self._tick_s, self._tick)

    def _linger(self, sentence: bytes) -> None:
        transport = self._transport
        self._timer = self._loop.call_later(GOODBYE_PATIENCE_S, transport.abort)
        transport.write(_HEAD.pack(GOODBYE, len(sentence)) + sentence)
        if not transport.can_write_eof():
            transport.close()
            return
        try:
            transport.write_eof()
        except OSError:
            # the other node reset the connection, and the loop has not noticed yet
            transport.abort()
