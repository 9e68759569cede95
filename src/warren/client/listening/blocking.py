"""Consuming for programs without an event loop.

A program that listens and does nothing else:

    Program(open_transport, lambda transport: Listener(transport, "orders", handle)).run()

`run` keeps the thread that calls it until somebody calls `stop`, a listener cannot go on, or, if it is the main thread,
a SIGINT or SIGTERM comes. Then every listener stops in good order and the transport is closed, all within the
deadline. It runs the asyncio listeners and nothing of its own; plain handlers run in threads. Jobs that run and stop,
as relays do, may be part of it.

A program that asks for messages, or for answers, has a blocking transport:

    with blocking.open(url) as transport, Puller(transport, "orders") as puller:
        while group := puller.take(wait_s=5):
            store(group)
            group.ack()

Not here: what the calls do (`listening.pulling`, `listening.requesting`, `listening.listener`).
"""

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from types import TracebackType
from typing import Any, Protocol, Self

import uvloop

from warren.client.listening import puller, requester
from warren.client.listening.listener import STOP_DEADLINE_S, Listener
from warren.client.listening.subscriptions import StreamReading
from warren.client.machine.publishes import Message
from warren.client.recovering import blocking
from warren.client.transport import Incoming, Transport

__all__ = ["Job", "Program", "Puller", "Requester"]

SIGNALS = (signal.SIGINT, signal.SIGTERM)
CLOSE_DEADLINE_S = 1.0
"""For closing the transport, even if the listeners took all the time."""


class Job(Protocol):
    """What runs until it is told to stop: a relay, a chaser."""

    async def run(self) -> None: ...

    def stop(self) -> None: ...


class Program:
    """Listeners, and other jobs, on a transport of their own."""

    def __init__(
        self,
        open_transport: Callable[[], Awaitable[Transport]],
        *jobs: Callable[[Transport], Listener[Any] | Job],
        deadline_s: float = STOP_DEADLINE_S,
    ) -> None:
        self._open_transport = open_transport
        self._make = jobs
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
        """Until one of them cannot go on, or it is cancelled, at whichever step it is."""
        transport = await self._open_transport()
        running: list[Listener[Any] | _Running] = []
        try:
            for make in self._make:
                job = make(transport)
                running.append(job if isinstance(job, Listener) else _Running(job))
                await running[-1].start()
            await asyncio.gather(*(each.wait() for each in running))
        finally:
            began = time.monotonic()
            await asyncio.gather(*(each.stop(self._deadline_s) for each in running))
            left_s = began + self._deadline_s - time.monotonic()
            await transport.close(max(CLOSE_DEADLINE_S, left_s))


class _Running:
    """A job as a program has its listeners: started, waited for, and stopped within a deadline."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._job.run())

    async def wait(self) -> None:
        """What ended it is raised; whoever is cancelled while he waits does not end it."""
        if self._task is not None:
            await asyncio.wait([self._task])
            self._task.result()

    async def stop(self, deadline_s: float) -> None:
        if self._task is None:
            return
        self._job.stop()
        await asyncio.wait([self._task], timeout=deadline_s)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])


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


class _Group(puller.MessageGroup):
    """Settled in the transport's thread, and handed over as one."""

    def __init__(self, transport: blocking.Transport, inner: puller.MessageGroup) -> None:
        super().__init__([blocking.Taken(transport.thread, message) for message in inner])
        self._transport = transport
        self._inner = inner

    def ack(self) -> None:
        self._transport.post(self._inner.ack)

    def nack(self, *, requeue: bool = True) -> None:
        self._transport.post(lambda: self._inner.nack(requeue=requeue))


class Puller:
    """Groups of a queue's messages, when the program asks for them."""

    def __init__(
        self, transport: blocking.Transport, queue: str, *, group_size: int = 100, stream: StreamReading | None = None
    ) -> None:
        self._transport = transport
        self._inner = puller.Puller(transport.inner, queue, group_size=group_size, stream=stream)

    def take(self, wait_s: float = 1.0) -> puller.MessageGroup:
        """A full group as soon as there is one, or when the time is over what has come."""
        return _Group(self._transport, self._transport.run(self._inner.take(wait_s)))

    def close(self) -> None:
        """Ask for no more; what was not handed out goes back, or is still in the stream."""
        self._transport.run(self._inner.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Requester:
    """Asks whoever listens behind an exchange and a routing key; several threads may ask at once."""

    def __init__(self, transport: blocking.Transport, exchange: str = "", routing_key: str = "") -> None:
        self._transport = transport
        self._inner = requester.Requester(transport.inner, exchange, routing_key)

    def start(self) -> None:
        """Have the queue for answers, and listen to it."""
        self._transport.run(self._inner.start())

    def request(self, message: bytes | Message, timeout_s: float = requester.REQUEST_TIMEOUT_S) -> Incoming:
        """The answer to a message, which needs no ack."""
        return self._transport.run(self._inner.request(message, timeout_s))

    def close(self) -> None:
        """Whoever still waits gets a `CallTimeout` now."""
        self._transport.run(self._inner.close())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
