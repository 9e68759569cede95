"""A program that listens and does nothing else, for those without an event loop.

    Program(open_transport, lambda transport: Listener(transport, "orders", handle)).run()

`run` keeps the thread that calls it until somebody calls `stop`, a listener cannot go on, or, if it is the main thread,
a SIGINT or SIGTERM comes. Then every listener stops in good order and the transport is closed, all within the
deadline. It runs the asyncio listeners and nothing of its own; plain handlers run in threads.
"""

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import uvloop

from warren.client.listening.listener import STOP_DEADLINE_S, Listener
from warren.client.transport import Transport

SIGNALS = (signal.SIGINT, signal.SIGTERM)
CLOSE_DEADLINE_S = 1.0
"""For closing the transport, even if the listeners took all the time."""


class Program:
    """Listeners on a transport of their own."""

    def __init__(
        self,
        open_transport: Callable[[], Awaitable[Transport]],
        *listeners: Callable[[Transport], Listener[Any]],
        deadline_s: float = STOP_DEADLINE_S,
    ) -> None:
        self._open_transport = open_transport
        self._make = listeners
        self._deadline_s = deadline_s
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._is_stopped = False

    def run(self) -> None:
        """Listen until stopped; raises what ended it otherwise."""
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._main())

    def stop(self) -> None:
        """Have `run` return soon; from any thread, and before `run` as well."""
        with self._lock:
            self._is_stopped = True
            if self._loop is not None and self._stopping is not None:
                self._loop.call_soon_threadsafe(self._stopping.set)

    async def _main(self) -> None:
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        with self._lock:
            self._loop, self._stopping = loop, stopping
            if self._is_stopped:
                stopping.set()
        try:
            with _signals_to(loop, stopping):
                await self._listen(stopping)
        finally:
            with self._lock:
                self._loop = None

    async def _listen(self, stopping: asyncio.Event) -> None:
        if stopping.is_set():
            return
        serving = asyncio.create_task(self._serve())
        stopped = asyncio.create_task(stopping.wait())
        try:
            await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            if not serving.done():
                serving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await serving

    async def _serve(self) -> None:
        """Until a listener cannot go on, or it is cancelled, at whichever step it is."""
        transport = await self._open_transport()
        listeners: list[Listener[Any]] = []
        try:
            for make in self._make:
                listeners.append(make(transport))
                await listeners[-1].start()
            await asyncio.gather(*(listener.wait() for listener in listeners))
        finally:
            began = time.monotonic()
            await asyncio.gather(*(listener.stop(self._deadline_s) for listener in listeners))
            left_s = began + self._deadline_s - time.monotonic()
            await transport.close(max(CLOSE_DEADLINE_S, left_s))


@contextlib.contextmanager
def _signals_to(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> Iterator[None]:
    """Signals reach the main thread alone; what was there for them before is there again afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.getsignal(each) for each in SIGNALS}
    for each in SIGNALS:
        loop.add_signal_handler(each, stopping.set)
    try:
        yield
    finally:
        for each, handler in before.items():
            loop.remove_signal_handler(each)
            signal.signal(each, handler)
