"""A question and an answer behind a hello, for a node that wants to become a member.

Each is four octets of length and as many of anything. Both are bounded, in size and in time.

Not here: what is asked and answered.
"""

import asyncio

from warren.cluster.hello_messages import Facts

PIECE_BYTES_MAX = 16 * 1024 * 1024
ANSWER_PATIENCE_S = 60.0
_LENGTH_BYTES = 4


class Exchange(asyncio.Protocol):
    """One side of it: sends one piece, and waits for one."""

    def __init__(self, loop: asyncio.AbstractEventLoop, facts: Facts) -> None:
        self.facts = facts
        self.received: asyncio.Future[bytes] = loop.create_future()
        self._buffer = bytearray()

    def take_over(self, transport: asyncio.Transport, rest: bytes) -> None:
        self._transport = transport
        transport.set_protocol(self)
        if rest:
            self.data_received(rest)

    def send(self, piece: bytes) -> None:
        if len(piece) > PIECE_BYTES_MAX:
            raise ValueError(f"{len(piece)} bytes are more than the {PIECE_BYTES_MAX} that are taken")
        self._transport.writelines((len(piece).to_bytes(_LENGTH_BYTES, "big"), piece))

    async def receive(self) -> bytes:
        """What the other side sent; `OSError` if it sent nothing, or nothing that makes sense."""
        try:
            async with asyncio.timeout(ANSWER_PATIENCE_S):
                return await self.received
        except TimeoutError:
            raise OSError(f"no answer in {ANSWER_PATIENCE_S:g} s") from None

    def close(self) -> None:
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        if self.received.done():
            return
        self._buffer += data
        if len(self._buffer) < _LENGTH_BYTES:
            return
        end = _LENGTH_BYTES + int.from_bytes(self._buffer[:_LENGTH_BYTES], "big")
        if end > _LENGTH_BYTES + PIECE_BYTES_MAX:
            self.received.set_exception(OSError("it is too long"))
            self._transport.abort()
        elif len(self._buffer) >= end:
            self.received.set_result(bytes(self._buffer[_LENGTH_BYTES:end]))

    def connection_lost(self, error: Exception | None) -> None:
        if not self.received.done():
            self.received.set_exception(error or OSError("the other node hung up"))
