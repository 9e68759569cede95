"""What a message over loopback takes when nobody does anything with it, or nothing but flush it: the least there is.

::

    echo    client ──► process ──► client
    lap     client ──► process ──► process ──► process ──► client
    least   client ──► process: writes, flushes ──► client

Processes block in `recv` and do nothing else; the client is the same in all, and sends the next message when the last
has come back. Samples are as `measure.percentile_ms` takes them.

Not here: the disk alone (`measure.flush_samples`).
"""

import contextlib
import multiprocessing
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator

from measure import FLUSHED_BYTES

ROOM_BYTES = 4 * 1024 * 1024
RECEIVED_BYTES = 65_536
LIMIT_S = 30.0
Samples = list[tuple[int, int]]
Handle = Callable[[bytes], None]
forking = multiprocessing.get_context("fork")


def echo_samples(message: bytes, seconds: float) -> Samples:
    return lap_samples(message, seconds, processes=1)


def lap_samples(message: bytes, seconds: float, processes: int = 3) -> Samples:
    """From the client through so many processes, one after another, and back."""
    with _chain([_nothing] * processes) as (first, last):
        return there_and_back(first, last, message, seconds)


def least_samples(message: bytes, seconds: float, *, ahead: bool) -> Samples:
    """Of a server that flushes what it gets before it answers: to a file that grows, or that has room ahead."""
    with tempfile.TemporaryFile(buffering=0) as file:
        if ahead:
            file.write(bytes(ROOM_BYTES))
            os.fsync(file.fileno())
        handle = _Flushing(file.fileno(), ahead=ahead)
        with _chain([handle]) as (first, last):
            return there_and_back(first, last, message, seconds)


def there_and_back(sending: socket.socket, receiving: socket.socket, message: bytes, seconds: float) -> Samples:
    """What the answer to one message after another takes; an answer comes in one piece."""
    samples: Samples = []
    ends_ns = time.monotonic_ns() + int(seconds * 1e9)
    began_ns = 0
    while began_ns < ends_ns:
        began_ns = time.monotonic_ns()
        sending.sendall(message)
        receiving.recv(RECEIVED_BYTES)
        samples.append((time.monotonic_ns() - began_ns, 1))
    return samples


class _Flushing:
    """Writes behind what it wrote before: as much as the raw flush does where the file grows, else what it got."""

    def __init__(self, descriptor: int, *, ahead: bool) -> None:
        self._descriptor = descriptor
        self._ahead = ahead
        self._page = os.urandom(FLUSHED_BYTES)
        self._offset = 0

    def __call__(self, data: bytes) -> None:
        written = data if self._ahead else self._page
        os.pwrite(self._descriptor, written, self._offset)
        os.fdatasync(self._descriptor)
        self._offset += len(written)
        if self._ahead and self._offset + RECEIVED_BYTES > ROOM_BYTES:
            self._offset = 0


def _nothing(data: bytes) -> None:
    pass


@contextlib.contextmanager
def _chain(handles: list[Handle]) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Processes that pass on what they get, each to the next one; where to send, and where it comes out."""
    with contextlib.ExitStack() as held:
        doors = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(len(handles) + 1)]
        for handle, door, following in zip(handles, doors, doors[1:], strict=False):
            target = None if len(handles) == 1 else following
            process = forking.Process(target=_relay, args=(door, target, handle), daemon=True)
            process.start()
            held.callback(process.join)
            held.callback(process.kill)
        first = held.enter_context(_to(doors[0]))
        last = first
        if len(handles) > 1:
            doors[-1].settimeout(LIMIT_S)
            last = held.enter_context(doors[-1].accept()[0])
            last.settimeout(LIMIT_S)
        yield first, last


def _to(door: socket.socket) -> socket.socket:
    made = socket.create_connection(door.getsockname(), LIMIT_S)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def _relay(door: socket.socket, target: socket.socket | None, handle: Handle) -> None:
    """Ends when it is killed, or nobody sends any more."""
    way_in = door.accept()[0]
    way_in.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    way_out = way_in if target is None else _to(target)
    way_out.settimeout(None)
    while data := way_in.recv(RECEIVED_BYTES):
        handle(data)
        way_out.sendall(data)
