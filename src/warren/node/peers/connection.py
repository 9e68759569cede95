"""One connection between two nodes, after its handshake.

    frame     one octet: its type; four: how many octets follow
    data      the broker's bytes; it does its own framing inside, so pieces of any size may be passed on
    heartbeat nothing; sent when nothing else was
    goodbye   a sentence: why the sender ends the connection

The socket writes into one buffer, and the broker gets each data frame whole, in one event and with one copy: the other
node sent it in one turn, and half a record is of no use. A frame that is larger than the buffer is passed on in parts.

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
INPUT_BYTES = 1024 * 1024
_TICKS = 8
_TICKS_UNWRITTEN_MAX = 2

_HEAD = struct.Struct(">BI")
_HEARTBEAT = _HEAD.pack(HEARTBEAT, 0)


class PeerConnection(asyncio.BufferedProtocol):
    """Input from the node of `facts` becomes events; ordered bytes are sent. `ended` is called once."""

    __slots__ = (
        "_add",
        "_ended",
        "_filled",
        "_input",
        "_left",
        "_loop",
        "_quiet_max",
        "_received_any",
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
        # input that was not passed on, from the beginning of the buffer
        self._input = memoryview(bytearray(INPUT_BYTES))
        self._filled = 0
        # missing bytes of the current data frame, whose head was read
        self._left = 0
        self._received_any = True
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
        # uvloop asks only when reading starts whether the protocol has a buffer
        transport.pause_reading()
        transport.set_protocol(self)
        transport.resume_reading()
        self._timer = self._loop.call_later(self._tick_s, self._tick)
        while rest:
            room = self.get_buffer(len(rest))
            part, rest = rest[: len(room)], rest[len(room) :]
            room[: len(part)] = part
            self.buffer_updated(len(part))

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

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._input[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._ended:
            return
        self._received_any = True
        self.received_bytes += nbytes
        self._filled += nbytes
        at, reason = self._pass_on()
        rest = self._filled - at
        if at and rest:
            self._input[:rest] = self._input[at : self._filled]
        self._filled = rest
        if reason:
            self.end(reason)

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

    def _pass_on(self) -> tuple[int, str]:
        """Pass on complete data frames. The end of the handled input, and the reason if the connection is over."""
        at, filled = 0, self._filled
        pieces: list[bytes] = []
        reason = ""
        while not reason:
            if self._left:
                missing = self._left > filled - at
                # a frame that fills the whole buffer is passed on in parts
                if missing and (at or filled < INPUT_BYTES):
                    break
                piece = bytes(self._input[at : at + self._left] if not missing else self._input)
                pieces.append(piece)
                self._left -= len(piece)
                at += len(piece)
                continue
            body = at + _HEAD.size
            if body > filled:
                break
            kind, length = _HEAD.unpack_from(self._input, at)
            if kind == DATA:
                self._left = length
            elif kind == GOODBYE and length <= REFUSAL_BYTES_MAX:
                if body + length > filled:
                    break
                reason = f"it said goodbye: {refusal_text(bytes(self._input[body : body + length]))}"
            elif kind != HEARTBEAT or length:
                reason = "it sent an invalid frame"
            at = body
        if pieces:
            self._add(PeerReceived(self.facts.name, pieces[0] if len(pieces) == 1 else b"".join(pieces)))
        return at, reason

    def _tick(self) -> None:
        # before the rest, so that a tick that fails is not the last
        self._timer = self._loop.call_later(self._tick_s, self._tick)
        self._ticks_quiet = 0 if self._received_any else self._ticks_quiet + 1
        self._received_any = False
        if self._ticks_quiet >= self._quiet_max:
            self.end(f"it was silent for {self.silence_s:g} s")
            return
        self._ticks_unwritten += 1
        if self._ticks_unwritten >= _TICKS_UNWRITTEN_MAX:
            self._ticks_unwritten = 0
            self._transport.write(_HEARTBEAT)

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
