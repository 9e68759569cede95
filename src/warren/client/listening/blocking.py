"""Consuming for programs without an event loop.

A program that only listens:

    Program(open_transport, lambda transport: Listener(transport, "orders", handle)).run()

`run` blocks until `stop` is called, a listener fails, or, in the main thread, SIGINT or SIGTERM arrives. Then every
listener stops and the transport is closed, within the deadline. It runs the asyncio listeners; handlers that are plain
functions run in threads. Other jobs with `run` and `stop`, such as relays, may be part of it.

A program that asks for messages, or for replies, has a blocking transport:

    with blocking.open(url) as transport, Puller(transport, "orders") as puller:
        while group := puller.take(wait_s=5):
            store(group)
            group.ack()

Not here: the calls themselves (`listening.puller`, `listening.requester`, `listening.listener`).
"""

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol, Self

import uvloop

from warren.client.listening import puller, requester
from warren.client.listening.listener import STOP_DEADLINE_S, Listener
from warren.client.listening.subscriptions import StreamReading
from warren.client.machine.publishes import Message
from warren.client.recovering import blocking
from warren.client.transport import Incoming, Transport
from warren.client.with_blocks import ClosedAtEnd

__all__ = ["Job", "Program", "Puller", "Requester"]

SIGNALS = (signal.SIGINT, signal.SIGTERM)
CLOSE_DEADLINE_S = 1.0
"""The time for closing the transport, even if the listeners used up the deadline."""


class Job(Protocol):
    """A job that runs until it is stopped: a relay, a chaser."""

    async def run(self) -> None: ...

    def stop(self) -> None: ...


class Program:
    """Listeners and other jobs on their own transport."""

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
        """Listen until stopped; raises the error that ended it otherwise."""
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._main())

    def stop(self) -> None:
        """Let `run` return soon; from any thread, also before `run`."""
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
        """Wait until one of them fails, or until cancelled."""
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
    """A job with the interface of a listener: start, wait, and stop within a deadline."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._job.run())

    async def wait(self) -> None:
        """Raise the error of the job; cancelling the wait does not end the job."""
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
    """Handle signals in the main thread, and restore the former handlers afterwards."""
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
    """A group that is settled in the transport's thread with one call."""

    def __init__(self, transport: blocking.Transport, inner: puller.MessageGroup) -> None:
        super().__init__([blocking.Taken(transport.thread, message) for message in inner])
        self._transport = transport
        self._inner = inner

    def ack(self) -> None:
        self._transport.post(self._inner.ack)

    def nack(self, *, requeue: bool = True) -> None:
        self._transport.post(lambda: self._inner.nack(requeue=requeue))


class Puller(ClosedAtEnd):
    """Groups of a queue's messages, on demand."""

    def __init__(
        self, transport: blocking.Transport, queue: str, *, group_size: int = 100, stream: StreamReading | None = None
    ) -> None:
        self._transport = transport
        self._inner = puller.Puller(transport.inner, queue, group_size=group_size, stream=stream)

    def take(self, wait_s: float = 1.0) -> puller.MessageGroup:
        """A full group as soon as there is one, or after `wait_s` the messages so far."""
        return _Group(self._transport, self._transport.run(self._inner.take(wait_s)))

    def close(self) -> None:
        """Ask for no more; messages that were not handed out are requeued, or stay in the stream."""
        self._transport.run(self._inner.close())


class Requester(ClosedAtEnd):
    """Sends requests to an exchange and a routing key; several threads may use it."""

    def __init__(self, transport: blocking.Transport, exchange: str = "", routing_key: str = "") -> None:
        self._transport = transport
        self._inner = requester.Requester(transport.inner, exchange, routing_key)

    def start(self) -> None:
        """Declare the reply queue and listen to it."""
        self._transport.run(self._inner.start())

    def request(self, message: bytes | Message, timeout_s: float = requester.REQUEST_TIMEOUT_S) -> Incoming:
        """The reply to a message, which needs no ack."""
        return self._transport.run(self._inner.request(message, timeout_s))

    def close(self) -> None:
        """Waiting requests end with `CallTimeout`."""
        self._transport.run(self._inner.close())

    def __enter__(self) -> Self:
        self.start()
        return self
