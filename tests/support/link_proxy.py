"""A proxy between two hosts that can delay its connections, silence one direction, or break them.

Delayed bytes stay in order, and the proxy goes on reading meanwhile: a delay costs time, not throughput. A silent proxy
reads everything as well, and forwards it when the silence ends; the sender does not notice. When a connection ends, the
proxy forwards all bytes before it closes the other side.

It runs in a thread of its own. The caller makes its sockets, in their network namespaces.

Not here: routing connections to it (`namespaces`).
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass

_CHUNK_BYTES = 262_144
_PATIENCE_S = 30.0


@dataclass(frozen=True)
class Way:
    """A listening socket of one port, and a function that makes the onward socket and names its address."""

    listening: socket.socket
    onward: Callable[[], tuple[socket.socket, tuple[str, int]]]

    @property
    def towards(self) -> str:
        """The address that callers connect to."""
        host: str = self.listening.getsockname()[0]
        return host


class LinkProxy:
    """All ways between two hosts. Hosts are named by their addresses."""

    def __init__(self, ways: Sequence[Way]) -> None:
        self._ways = ways
        self._hosts = sorted({way.towards for way in ways})
        self.delay_s = 0.0
        self._silent: set[str] = set()
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="link proxy", daemon=True)
        self._thread.start()
        self._within(self._listen())

    def silence(self, towards: str) -> None:
        """Hold bytes to that host back."""
        self._silent.add(towards)

    def speak(self) -> None:
        """Forward the bytes that were held back, and all later ones."""
        self._silent.clear()
        self._within(self._wake())

    def break_connections(self) -> None:
        """Reset all connections; new ones may be made."""
        self._within(self._break(keep_listening=True))

    def close(self) -> None:
        self._within(self._break(keep_listening=False))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE_S)
        self._loop.close()

    def _within(self, work: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE_S)

    async def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _listen(self) -> None:
        for way in self._ways:
            way.listening.setblocking(False)
            self._keep(self._accept(way), "listening")

    async def _break(self, keep_listening: bool) -> None:
        ended = [task for task in self._tasks if not (keep_listening and task.get_name() == "listening")]
        for task in ended:
            task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)

    def _keep(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        task = self._loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, way: Way) -> None:
        with way.listening:
            while True:
                caller, _ = await self._loop.sock_accept(way.listening)
                connection = self._keep(self._connect(way, caller), "connection")
                # also the socket of a connection that was cancelled before it started
                connection.add_done_callback(lambda _, caller=caller: caller.close())  # type: ignore[misc]

    async def _connect(self, way: Way, caller: socket.socket) -> None:
        calling, address = way.onward()
        [back] = [host for host in self._hosts if host != way.towards]
        with calling:
            for end in (caller, calling):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                # a broken connection is reset, as by a host that has no record of it
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            try:
                await self._loop.sock_connect(calling, address)
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._carry(caller, calling, way.towards))
                    both.create_task(self._carry(calling, caller, back))
            except* OSError:
                pass  # one end was reset; closing resets the other end, too

    async def _carry(self, source: socket.socket, sink: socket.socket, towards: str) -> None:
        """One direction of a connection; an empty chunk is its end."""
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        async with asyncio.TaskGroup() as both:
            both.create_task(self._hand_on(waiting, sink, towards))
            chunk = b"first"
            while chunk:
                chunk = await self._loop.sock_recv(source, _CHUNK_BYTES)
                waiting.put_nowait((self._loop.time() + self.delay_s, chunk))

    async def _hand_on(self, waiting: asyncio.Queue[tuple[float, bytes]], sink: socket.socket, towards: str) -> None:
        chunk = b"first"
        while chunk:
            due, chunk = await waiting.get()
            await asyncio.sleep(max(due - self._loop.time(), 0))
            while towards in self._silent:
                await self._changed.wait()
            await self._loop.sock_sendall(sink, chunk)
        sink.shutdown(socket.SHUT_WR)
