"""The shortest possible round trips over loopback: through processes that only forward a message, or only flush it.

::

    echo    client ──► process ──► client
    lap     client ──► process ──► process ──► process ──► client
    least   client ──► process: writes, flushes ──► client
    copies  client ──► master: sends to two mirrors, writes, flushes, awaits both ──► client

Processes block in `recv` and do nothing else. All use the same client, which sends the next message when the last has
come back. Samples have the form that `measure.percentile_ms` takes.

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
    """Round trips from the client through a chain of processes, and back."""
    with _chain([_nothing] * processes) as (first, last):
        return there_and_back(first, last, message, seconds)


def least_samples(message: bytes, seconds: float, *, ahead: bool) -> Samples:
    """Round trips to a server that flushes before it answers: to a file that grows, or over zeros written ahead."""
    with _written_ahead() if ahead else _growing() as handle, _chain([handle]) as (first, last):
        return there_and_back(first, last, message, seconds)


def copies_samples(message: bytes, seconds: float) -> Samples:
    """Round trips to a master that answers when it and two mirrors have flushed the message."""
    with contextlib.ExitStack() as held:
        flushing = [held.enter_context(_written_ahead()) for _ in range(3)]
        mirrors = [held.enter_context(_chain([handle])) for handle in flushing[1:]]
        master = _Copying(flushing[0], [there for there, _back in mirrors])
        first, last = held.enter_context(_chain([master]))
        return there_and_back(first, last, message, seconds)


def there_and_back(sending: socket.socket, receiving: socket.socket, message: bytes, seconds: float) -> Samples:
    """Round-trip times of one message after another; each answer comes in one read."""
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
    """Writes behind the last write: 4 KiB if the file grows, as `measure.flush_samples` does, else the message."""

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


class _Copying:
    """A master: the message is on its disk and on the disks of its mirrors when the call returns."""

    def __init__(self, flush: _Flushing, mirrors: list[socket.socket]) -> None:
        self._flush = flush
        self._mirrors = mirrors

    def __call__(self, data: bytes) -> None:
        for mirror in self._mirrors:
            mirror.sendall(data)
        self._flush(data)
        for mirror in self._mirrors:
            mirror.recv(RECEIVED_BYTES)


@contextlib.contextmanager
def _growing() -> Iterator[_Flushing]:
    with tempfile.TemporaryFile(buffering=0) as file:
        yield _Flushing(file.fileno(), ahead=False)


@contextlib.contextmanager
def _written_ahead() -> Iterator[_Flushing]:
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(bytes(ROOM_BYTES))
        os.fsync(file.fileno())
        yield _Flushing(file.fileno(), ahead=True)


def _nothing(data: bytes) -> None:
    pass


@contextlib.contextmanager
def _chain(handles: list[Handle]) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A chain of forwarding processes; yields the socket to send to and the socket to receive from."""
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
    """Runs until it is killed or its peer closes."""
    way_in = door.accept()[0]
    way_in.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    way_out = way_in if target is None else _to(target)
    way_out.settimeout(None)
    while data := way_in.recv(RECEIVED_BYTES):
        handle(data)
        way_out.sendall(data)
