"""Reading a stream's old data, in a process of its own, and throwing it away.

A reader goes through a stream from its first message to its last, and begins again. It skips frames by their lengths
and reads only the first octets of a body: a chunk's head, with its first offset and its message count.

Not here: the measurement (`streams`).
"""

import multiprocessing
import struct
import time
from multiprocessing.sharedctypes import Synchronized

from wire import PREAMBLE, Connection, Refused, ack_up_to, long_string, method, short_string

BUFFER_BYTES = 2 * 1024 * 1024
CHUNK_PREFETCH = 8
MESSAGE_PREFETCH = 2_000
ACK_EVERY = 500
HEAD = struct.Struct("<IIIIq")
"""Of a chunk: magic, checksum, length, count, first position."""
OFFSETS = (1 << 44) - 1


def table(fields: dict[str, str | int | bool]) -> bytes:
    content = b""
    for name, value in fields.items():
        content += short_string(name)
        if isinstance(value, bool):
            content += b"t" + bytes([value])
        elif isinstance(value, int):
            content += b"l" + struct.pack(">q", value)
        else:
            content += b"S" + long_string(value.encode())
    return long_string(content)


def declare_stream(connection: Connection, name: str) -> None:
    arguments = table({"x-queue-type": "stream"})
    connection.call(method(1, 50, 10, b"\0\0" + short_string(name) + b"\x02" + arguments), 50, 11)


class Skimmer:
    """Skips the frames of deliveries and counts deliveries and octets of bodies."""

    def __init__(self, connection: Connection) -> None:
        self.deliveries = 0
        self.body_bytes = 0
        # where the last chunk that began ends
        self.end = 0
        self._socket = connection.socket
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        # the rest of the last read: less than a frame's head and the octets that are read behind it
        self._kept = bytes(connection.unread)
        self._skip = 0
        self._begins = False

    def read(self) -> None:
        kept = len(self._kept)
        self._buffer[:kept] = self._kept
        came = self._socket.recv_into(self._view[kept:])
        if not came:
            raise Refused("the broker closed a reading connection")
        self._step(kept + came)

    def _step(self, end: int) -> None:
        at = min(self._skip, end)
        self._skip -= at
        while end - at >= PREAMBLE.size + HEAD.size:
            kind, _channel, size = PREAMBLE.unpack_from(self._buffer, at)
            if kind == 1:
                if self._buffer[at + 7 : at + 11] != b"\x00\x3c\x00\x3c":
                    raise Refused("something else than a delivery came")
                self.deliveries += 1
                self._begins = True
            elif kind == 3:
                self.body_bytes += size
                if self._begins:
                    self._begins = False
                    _, _, _, count, position = HEAD.unpack_from(self._buffer, at + 7)
                    self.end = (position & OFFSETS) - 1 + count
            step = min(size + 8, end - at)
            self._skip = size + 8 - step
            at += step
        self._kept = bytes(self._view[at:end])


class OldDataReader:
    """A process that reads a stream again and again while the block lasts. A rate of 0: as fast as it goes."""

    def __init__(self, address: tuple[str, int], stream: str, count: int, *, chunks: bool, mb_a_s: float = 0) -> None:
        self._bytes: Synchronized[int] = multiprocessing.Value("q", 0)
        self._messages: Synchronized[int] = multiprocessing.Value("q", 0)
        arguments = (address, stream, count, chunks, mb_a_s, self._bytes, self._messages)
        self._process = multiprocessing.Process(target=_read_on, args=arguments, daemon=True)

    def __enter__(self) -> "OldDataReader":
        self._process.start()
        while not self.body_bytes:
            if not self._process.is_alive():
                raise Refused("the reader ended before it had read anything")
            time.sleep(0.01)
        return self

    def __exit__(self, *_exception: object) -> None:
        self._process.terminate()
        self._process.join()

    @property
    def body_bytes(self) -> int:
        return self._bytes.value

    @property
    def messages(self) -> int:
        return self._messages.value


def _read_on(
    address: tuple[str, int],
    stream: str,
    count: int,
    chunks: bool,
    mb_a_s: float,
    total_bytes: "Synchronized[int]",
    total_messages: "Synchronized[int]",
) -> None:
    began_s = time.monotonic()
    while True:
        connection = Connection(address)
        connection.set_prefetch(CHUNK_PREFETCH if chunks else MESSAGE_PREFETCH)
        arguments = table({"x-stream-offset": "first", "x-stream-chunks": chunks})
        connection.call(
            method(1, 60, 20, b"\0\0" + short_string(stream) + short_string("r") + b"\0" + arguments), 60, 21
        )
        skimmer, acked, counted_bytes, counted = Skimmer(connection), 0, 0, 0
        while (skimmer.end if chunks else skimmer.deliveries) < count:
            skimmer.read()
            total_bytes.value += skimmer.body_bytes - counted_bytes
            counted_bytes = skimmer.body_bytes
            done = skimmer.end if chunks else skimmer.deliveries
            total_messages.value += done - counted
            counted = done
            if mb_a_s:
                ahead_s = total_bytes.value / (mb_a_s * 1e6) - (time.monotonic() - began_s)
                time.sleep(max(ahead_s, 0))
            if skimmer.deliveries - acked >= (1 if chunks else ACK_EVERY):
                acked = skimmer.deliveries
                connection.socket.sendall(ack_up_to(acked))
        connection.close()
