"""A proxy on the loopback between a program and its broker, with faults on demand.

    with FaultProxy("amqp://localhost:5672/%2F") as proxy:
        transport = await recovering.open(proxy.url)
        proxy.cut()

A delay keeps the order, and the proxy goes on reading: a delay costs time, not throughput. Stalled bytes are kept, not
lost; to both ends this looks like a network that loses everything. The proxy runs in its own thread, so it serves
programs with and without an event loop. Each call returns when it has taken effect.

Invariant: after `close` no connection through the proxy is left.

Not here: faults inside a broker (`testing.transport`).
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

from warren.client.uri import parse_uri

Direction = Literal["to_broker", "to_client"]

_CHUNK_BYTES = 65_536
_CHUNKS_IN_HAND = 256
_DEADLINE_S = 10.0
# closing a socket with this linger option resets the connection
_RESET = struct.pack("ii", 1, 0)
_IN_WORDS = struct.pack("ii", 0, 0)

Chunks = asyncio.Queue[tuple[float, bytes]]


@dataclass(slots=True)
class DirectionFaults:
    """The faults of one direction."""

    is_stalled: bool = False
    delay_s: float = 0.0
    # the bytes that pass until the connection is closed
    bytes_left: int | None = None
    bytes_passed: int = 0


class FaultProxy:
    """A proxy to the broker of a URL; a context manager, with `async` or without."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._target = parse_uri(url).addresses[0]
        self._ways: dict[Direction, DirectionFaults] = {"to_broker": DirectionFaults(), "to_client": DirectionFaults()}
        self._refuses = False
        self._carrying: dict[asyncio.Task[None], None] = {}
        self._changed = asyncio.Event()
        self._port = 0

    @property
    def address(self) -> tuple[str, int]:
        return ("127.0.0.1", self._port)

    @property
    def url(self) -> str:
        """The broker's URL through this proxy."""
        scheme, _, rest = self._url.partition("://")
        hosts = rest.split("/", 1)[0].split("?", 1)[0]
        user, at, _ = hosts.rpartition("@")
        return f"{scheme}://{user}{at}127.0.0.1:{self._port}{rest[len(hosts) :]}"

    @property
    def connections(self) -> int:
        return len(self._carrying)

    def bytes_passed(self, direction: Direction) -> int:
        return self._ways[direction].bytes_passed

    def cut(self, *, refuse: bool = False) -> None:
        """Reset all connections; with `refuse` also new ones, until `restore`."""

        def act() -> None:
            self._refuses = refuse
            for task in self._carrying:
                task.cancel()

        self._do(act)

    def stall(self, direction: Direction | None = None) -> None:
        """Let nothing pass, in one direction or both, until `restore`."""
        self._change(direction, lambda way: setattr(way, "is_stalled", True))

    def delay(self, seconds: float, direction: Direction | None = None) -> None:
        """Let all bytes pass this much later."""
        self._change(direction, lambda way: setattr(way, "delay_s", seconds))

    def close_after(self, byte_count: int, direction: Direction) -> None:
        """Let this many bytes pass in a direction, then close one connection.

        The receiver sees the close at once; the sender sees it when the receiver has closed its side.
        """
        self._change(direction, lambda way: setattr(way, "bytes_left", byte_count))

    def restore(self) -> None:
        """End all faults; bytes that were held back go on."""

        def heal(way: DirectionFaults) -> None:
            way.is_stalled, way.delay_s, way.bytes_left = False, 0.0, None
            self._refuses = False

        self._change(None, heal)

    def start(self) -> Self:
        """Listen on a free port."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="warren-fault-proxy", daemon=True)
        self._thread.start()
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setblocking(False)
        self._port = listening.getsockname()[1]
        self._do(lambda: self._begin(listening))
        return self

    def close(self) -> None:
        """End all connections and stop listening."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(_DEADLINE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def _change(self, direction: Direction | None, change: Callable[[DirectionFaults], None]) -> None:
        def act() -> None:
            for each, way in self._ways.items():
                if direction in (None, each):
                    change(way)
            self._changed.set()
            self._changed = asyncio.Event()

        self._do(act)

    def _do(self, act: Callable[[], None]) -> None:
        """Run a call in the proxy's thread and wait for it."""

        async def acting() -> None:
            act()

        asyncio.run_coroutine_threadsafe(acting(), self._loop).result(_DEADLINE_S)

    # in the proxy's thread

    def _begin(self, listening: socket.socket) -> None:
        self._accepting = self._loop.create_task(self._accept(listening))

    async def _end(self) -> None:
        tasks = [self._accepting, *self._carrying]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, listening: socket.socket) -> None:
        with listening:
            while True:
                caller, _ = await self._loop.sock_accept(listening)
                task = self._loop.create_task(self._serve(caller))
                self._carrying[task] = None
                task.add_done_callback(self._carrying.pop)

    async def _serve(self, caller: socket.socket) -> None:
        """Serve a connection until both ends have closed it, one has broken it, or it is cut."""
        with caller, socket.socket() as onward:
            for end in (caller, onward):
                end.setblocking(False)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            if self._refuses:
                return
            try:
                await self._loop.sock_connect(onward, (self._target.host, self._target.port))
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._carry(caller, onward, self._ways["to_broker"]))
                    both.create_task(self._carry(onward, caller, self._ways["to_client"]))
                for end in (caller, onward):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _IN_WORDS)
            except* OSError:
                pass  # one end broke the connection, so the proxy breaks the other

    async def _carry(self, source: socket.socket, sink: socket.socket, way: DirectionFaults) -> None:
        """Copy one direction of a connection; an empty chunk is its end."""
        chunks: Chunks = asyncio.Queue(_CHUNKS_IN_HAND)
        async with asyncio.TaskGroup() as both:
            both.create_task(self._hand_on(chunks, sink, way))
            chunk = b"first"
            while chunk:
                chunk = await self._loop.sock_recv(source, _CHUNK_BYTES)
                await chunks.put((self._loop.time() + way.delay_s, chunk))

    async def _hand_on(self, chunks: Chunks, sink: socket.socket, way: DirectionFaults) -> None:
        chunk, is_closed = b"first", False
        while chunk:
            due, chunk = await chunks.get()
            await asyncio.sleep(max(due - self._loop.time(), 0))
            while way.is_stalled:
                await self._changed.wait()
            if is_closed:
                continue
            passes = chunk[: way.bytes_left]
            await self._loop.sock_sendall(sink, passes)
            way.bytes_passed += len(passes)
            if way.bytes_left is not None:
                way.bytes_left -= len(passes)
            if not chunk or way.bytes_left == 0:
                sink.shutdown(socket.SHUT_WR)
                is_closed, way.bytes_left = True, None
