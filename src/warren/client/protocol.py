"""A machine on an asyncio transport: bytes read go in, output goes out, events go to their channels.

**Output** of calls is sent at the end of the loop's step, so that calls made together leave in one write. A large
sender (`client.publisher`) flushes by itself and waits while the socket is full.

**Waiting.** A task that waits for a change (room in a window, a writable socket, a broker that unblocks) awaits
`changed` and checks again.

**Input** is not read while the inboxes of consumers hold more than `UNREAD_BYTES_MAX`, unless a task waits for an
answer or a confirm, which comes after the unread deliveries. An unread heartbeat does not count as missed.

Not here: channel events (`client.channel`), finding a host (`client.connection`).
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Final, cast

from warren.client.errors import CallTimeout, ClientError, ConnectionClosed, ConnectionLost, LoginRefused
from warren.client.machine.connection import LOGIN, ConnectionMachine
from warren.client.machine.events import (
    BY_BROKER,
    BY_CLIENT,
    LOGIN_REFUSED,
    PROTOCOL_ERROR,
    Blocked,
    CallAnswered,
    Cancelled,
    ChannelClosedByBroker,
    ClientEvent,
    Closed,
    Confirmed,
    Delivered,
    FlowChanged,
    HandshakeCompleted,
    Returned,
    Unblocked,
)
from warren.client.machine.settings import ClientSettings
from warren.errors import ACCESS_REFUSED

UNREAD_BYTES_MAX: Final = 64 * 1024 * 1024
DELIVERY_BYTES: Final = 512
"""The memory counted for a delivery besides its body."""

WRITE_BYTES: Final = 256 * 1024
"""How many bytes are encoded before they are handed to the socket."""

WRITE_BUFFER_BYTES: Final = 1024 * 1024
TICKS_PER_HEARTBEAT: Final = 4

ErrorFactory = Callable[[], ClientError]
"""Makes an error. Each waiter gets its own, because a traceback belongs to one error."""

ChannelEvent = CallAnswered | Delivered | Confirmed | Returned | Cancelled | FlowChanged | ChannelClosedByBroker
CHANNEL_EVENTS: Final = (Delivered, Confirmed, CallAnswered, Returned, Cancelled, FlowChanged, ChannelClosedByBroker)


class ChannelListener(ABC):
    """Receives the events of one channel."""

    @abstractmethod
    def happened(self, event: ChannelEvent) -> None: ...

    @abstractmethod
    def ended(self, error: ErrorFactory) -> None:
        """The channel has ended."""


class ReadDemand:
    """A context in which a task waits for an answer that comes after unread deliveries."""

    def __init__(self, read_on: Callable[[], None]) -> None:
        self._read_on = read_on
        self.count = 0

    def begin(self) -> None:
        self.count += 1
        self._read_on()

    def end(self) -> None:
        self.count -= 1

    def __enter__(self) -> None:
        self.begin()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()


class ClientProtocol(asyncio.Protocol):
    def __init__(self, settings: ClientSettings, call_timeout_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self.machine = ConnectionMachine(settings, self._now_ms())
        self.call_timeout_s = call_timeout_s
        self.opened: asyncio.Future[HandshakeCompleted] = self._loop.create_future()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self._end: Closed | None = None
        self.blocked_reason: str | None = None
        self.listeners: dict[int, ChannelListener] = {}
        self._transport: asyncio.Transport | None = None
        self._writable = True
        self._flush_is_due = False
        self._answers: dict[int, asyncio.Future[CallAnswered]] = {}
        self._changed: list[asyncio.Future[None]] = []
        self.read_demand = ReadDemand(self._read_on)
        self._inbox_bytes = 0
        self._reads = True
        self._ticker: asyncio.TimerHandle | None = None

    # called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)
        self.flush()

    def data_received(self, data: bytes) -> None:
        self._dispatch(self.machine.receive(data, self._now_ms()))
        self.flush_soon()

    def eof_received(self) -> None:
        self._dispatch(self.machine.lose("the broker hung up"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._dispatch(self.machine.lose(str(exc) if exc else "the broker hung up"))
        if not self.gone.done():
            self.gone.set_result(None)

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self.notify()

    # sending

    @property
    def ended(self) -> bool:
        return self._end is not None

    def error(self) -> ClientError:
        """Why the connection ended; a new error for each caller."""
        return error_of(self._end) if self._end is not None else ConnectionClosed("the connection is open")

    @property
    def takes_more(self) -> bool:
        """Whether a publish would be sent at once."""
        return self._writable and self.blocked_reason is None

    def flush(self) -> None:
        data = self.machine.take_output()
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def flush_soon(self) -> None:
        """Flush at the end of the loop's step, or at once if there is much output."""
        if not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon(self._flush_due)
        elif len(self.machine.output.out) > WRITE_BYTES:
            self.flush()

    def _flush_due(self) -> None:
        self._flush_is_due = False
        self.flush()

    def close_socket(self) -> None:
        """Send the remaining output and close the socket."""
        self.flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        # send nothing more: the socket of an abandoned attempt is closed without connection.close
        transport, self._transport = self._transport, None
        self._dispatch(self.machine.lose("given up"))
        if transport is not None:
            transport.abort()

    # waiting

    async def answer(self, ticket: int) -> CallAnswered:
        """The answer to a call."""
        self.flush_soon()
        future: asyncio.Future[CallAnswered] = self._loop.create_future()
        self._answers[ticket] = future
        try:
            with self.read_demand:
                async with asyncio.timeout(self.call_timeout_s):
                    return await future
        except TimeoutError:
            raise CallTimeout(f"the broker did not answer within {self.call_timeout_s:g} s") from None
        finally:
            self._answers.pop(ticket, None)

    def future(self) -> "asyncio.Future[None]":
        return self._loop.create_future()

    async def changed(self) -> None:
        """Return after the next change that a task may wait for."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._changed.append(future)
        await future

    def notify(self) -> None:
        waiting, self._changed = self._changed, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def inbox_grew(self, weight: int) -> None:
        """The inbox of a consumer has grown."""
        self._inbox_bytes += weight
        if self._inbox_bytes > UNREAD_BYTES_MAX and not self.read_demand.count and self._reads and self._transport:
            self._reads = False
            self._transport.pause_reading()

    def inbox_emptied(self, weight: int) -> None:
        """An inbox was emptied."""
        self._inbox_bytes -= weight
        if self._inbox_bytes <= UNREAD_BYTES_MAX // 2:
            self._read_on()

    def fail_calls(self, tickets: list[int], error: ErrorFactory) -> None:
        for ticket in tickets:
            future = self._answers.pop(ticket, None)
            if future is not None and not future.done():
                future.set_exception(error())

    def _read_on(self) -> None:
        if not self._reads and self._transport is not None:
            self._reads = True
            self.machine.restart_silence(self._now_ms())
            if not self._transport.is_closing():
                self._transport.resume_reading()

    # events

    def _dispatch(self, events: list[ClientEvent]) -> None:
        for event in events:
            if isinstance(event, CHANNEL_EVENTS):
                self._dispatch_to_channel(event)
            elif isinstance(event, Closed):
                self._closed(event)
            elif isinstance(event, HandshakeCompleted):
                self._opened(event)
            elif isinstance(event, Blocked):
                self.blocked_reason = event.reason
            elif isinstance(event, Unblocked):
                self.blocked_reason = None
        if events:
            self.notify()

    def _dispatch_to_channel(self, event: ChannelEvent) -> None:
        listener = self.listeners.get(event.channel)
        if listener is not None:
            listener.happened(event)
        if isinstance(event, CallAnswered):
            future = self._answers.pop(event.ticket, None)
            if future is not None and not future.done():
                future.set_result(event)

    def _opened(self, event: HandshakeCompleted) -> None:
        if not self.opened.done():
            self.opened.set_result(event)
        self._tick()

    def _tick(self) -> None:
        if self.ended or not self.machine.heartbeat_s:
            return
        if not self._reads:
            self.machine.restart_silence(self._now_ms())
        self._dispatch(self.machine.tick(self._now_ms()))
        self.flush()
        self._ticker = self._loop.call_later(self.machine.heartbeat_s / TICKS_PER_HEARTBEAT, self._tick)

    def _closed(self, event: Closed) -> None:
        self._end = event
        self.closed.set_result(None)
        self.blocked_reason = None
        if self._ticker is not None:
            self._ticker.cancel()
        if not self.opened.done():
            self.opened.set_exception(self.error())
        self.fail_calls(list(self._answers), self.error)
        for listener in list(self.listeners.values()):
            listener.ended(self.error)
        self.listeners.clear()
        self.close_socket()

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)


def delivered_bytes(event: Delivered) -> int:
    return event.body_bytes + DELIVERY_BYTES * len(event.deliveries)


def error_of(event: Closed) -> ClientError:
    """The user's error for the end of a connection."""
    if event.stage == LOGIN and (event.code == ACCESS_REFUSED or event.cause == PROTOCOL_ERROR):
        return LoginRefused(event.text)
    if event.cause == BY_BROKER:
        return ConnectionClosed(f"the broker closed the connection: {event.code} {event.text}", event.code, event.text)
    if event.cause == BY_CLIENT:
        return ConnectionClosed("the connection was closed")
    if event.cause == PROTOCOL_ERROR:
        return ConnectionClosed(f"the broker broke the protocol: {event.text}", event.code, event.text)
    if event.cause == LOGIN_REFUSED:
        return LoginRefused(f"the broker hung up during the login: {event.text}")
    return ConnectionLost(f"the connection is lost: {event.text}")
