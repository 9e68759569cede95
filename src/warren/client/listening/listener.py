"""A listener: subscriptions, workers, and an orderly stop.

    subscription ──feed──▶ Dispatch ──work──▶ HandlerRunner
    subscription ──feed──▶    ▲                  │
                              └── resume after ──┘

There are as many workers as messages may be handled at once. A worker takes the next message and handles it to its end;
if the message has to wait in hand, the worker pauses it and takes another.

Stopping: nothing more is taken. Messages that no handler has begun with are requeued at once in order of arrival,
except those behind a message at work. Handlers may finish within the deadline; then they are cancelled, or left alone
if they are threads or ignore it, and their messages are requeued, followed by those behind them. RabbitMQ's quorum
queues deliver requeued messages in the order of their return, so this keeps the order of a key. A stream's subscription
is cancelled last, because acks count only while the consumer exists.

Not here: handling one message (`listening.handler`), the next message (`listening.dispatch`).
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from warren.client.errors import ClientError
from warren.client.listening.arrival import Arrival
from warren.client.listening.dispatch import Dispatch, DispatchEntry, in_order, split_returnable
from warren.client.listening.handler import (
    Acknowledge,
    FailureCounters,
    Handler,
    HandlerRunner,
    HandlerThreads,
    ListenerOptions,
    RecentOutcomes,
    Unwanted,
)
from warren.client.listening.retries import DEFAULT_RETRIES, Retries
from warren.client.listening.subscriptions import Filter, StreamReading
from warren.client.machine.publishes import Message
from warren.client.measures import Measure
from warren.client.transport import Incoming, Subscription, Transport
from warren.wire.field_tables import Table

T = TypeVar("T")
Key = Callable[[Incoming], Hashable | None]

KEY = "x-key"
STOP_DEADLINE_S = 10.0
CANCEL_DEADLINE_S = 1.0
"""The time for the last calls to the broker."""
LEAVE_AFTER_S = 0.1
"""The time for cancelled handlers to end; those that do not are left behind."""

_log = logging.getLogger("warren.client.listening")


def header_key(message: Incoming) -> Hashable | None:
    """The ordering key that publishers put into a header; None if it is empty."""
    found = message.headers.get(KEY)
    return found if isinstance(found, str | int) and found != "" else None


class Listener(Generic[T]):
    """Gives the messages of a queue, or of several queues by weight, to a handler."""

    def __init__(
        self,
        transport: Transport,
        queue: str | Mapping[str, int],
        handler: Handler[T],
        *,
        acknowledge: Acknowledge = "auto",
        prefetch: int = 100,
        concurrency: int = 1,
        key: Key = header_key,
        retries: Retries | None = None,
        convert: Callable[[Incoming], T] | None = None,
        answer: Callable[[Any], bytes | Message] | None = None,
        accepts: Filter | None = None,
        unwanted: Unwanted = "ack",
        stream: StreamReading | None = None,
        exclusive: bool = False,
        arguments: Table | None = None,
        declares: bool = True,
    ) -> None:
        """docs/listening.md describes the options."""
        _check(acknowledge, unwanted, prefetch, concurrency, stream)
        self._transport = transport
        self._weights = {queue: 1} if isinstance(queue, str) else dict(queue)
        self._names = ", ".join(self._weights)
        is_stream = stream is not None
        chosen = retries or DEFAULT_RETRIES
        # a stream cannot requeue, so retries wait in hand
        self._retries = replace(chosen, way="in_hand") if is_stream else chosen
        options = ListenerOptions(handler, acknowledge, convert, answer, accepts, unwanted, self._retries, is_stream)
        self._threads = HandlerThreads(concurrency)
        self._failure_counters = FailureCounters(self._weights)
        self._paused_max = max(prefetch // 2, 1)
        self._handling = HandlerRunner(
            transport, options, self._threads, self._failure_counters, RecentOutcomes(self._paused_max)
        )
        self._dispatch: Dispatch[Arrival[T]] = Dispatch(self._weights)
        self._no_ack = acknowledge == "none"
        self._prefetch = prefetch
        self._concurrency = concurrency
        self._key = key
        self._is_stream = is_stream
        # a single worker that pauses nothing needs no keys for order
        self._keeps_all_in_order = concurrency == 1 and self._retries.way != "in_hand"
        self._exclusive = exclusive
        self._arguments: Table = {**(stream.arguments if stream else {}), **(arguments or {})}
        self._declares = declares
        self._subscriptions: dict[str, Subscription] = {}
        self._feeders: list[asyncio.Task[None]] = []
        self._workers: list[asyncio.Task[None]] = []
        self._idle: deque[asyncio.Future[None]] = deque()
        self._room = asyncio.Event()
        self._paused: dict[DispatchEntry[Arrival[T]], asyncio.TimerHandle] = {}
        self._at_work: dict[DispatchEntry[Arrival[T]], None] = {}
        # messages that handlers have left unsettled, in mode `manual`
        self._left: dict[Arrival[T], DispatchEntry[Arrival[T]]] = {}
        # messages to requeue after those before them
        self._going_back: list[DispatchEntry[Arrival[T]]] = []
        self._is_manual = acknowledge == "manual"
        self._failure: BaseException | None = None
        self._is_stopping = False
        self._takes_no_more = False
        self._ended = asyncio.Event()
        self._stopped = asyncio.Event()

    async def start(self) -> None:
        """Declare the retry queues, subscribe, and begin."""
        if self._subscriptions or self._is_stopping:
            raise ValueError("a listener is started once; make another one")
        if self._declares and not self._no_ack:
            for queue in self._weights:
                await self._transport.declare(self._retries.layout(queue))
        try:
            for queue in self._weights:
                self._subscriptions[queue] = await self._subscribe(queue)
        except BaseException:
            await self.stop()
            raise
        self._workers = [asyncio.create_task(self._work()) for _ in range(self._concurrency)]
        self._feeders = [asyncio.create_task(self._feed(*each)) for each in self._subscriptions.items()]

    async def run(self, deadline_s: float = STOP_DEADLINE_S) -> None:
        """Start, and return when stopped; raises the error that ended it otherwise."""
        try:
            await self.start()
            await self.wait()
        finally:
            await self.stop(deadline_s)

    async def wait(self) -> None:
        """Return when stopped; raises the error that ended it otherwise."""
        await self._ended.wait()
        if self._failure is not None:
            raise self._failure

    async def stop(self, deadline_s: float = STOP_DEADLINE_S) -> None:
        """Take no more, let handlers finish within the deadline, and requeue the rest."""
        if self._is_stopping:
            await self._stopped.wait()
            return
        self._is_stopping = True
        try:
            async with asyncio.timeout(deadline_s):
                await self._take_no_more()
                self._takes_no_more = True
                if not self._no_ack:
                    self._collect()
                    self._give_back_free()
                self._wake(len(self._idle))
                if self._workers:
                    await asyncio.wait(self._workers)
        except TimeoutError:
            _log.warning("handlers of %s were still at work at the deadline", self._names)
        finally:
            await self._end()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    def measures(self) -> Sequence[Measure]:
        """The failures by outcome."""
        return self._failure_counters.measures()

    # messages in

    async def _subscribe(self, queue: str) -> Subscription:
        return await self._transport.subscribe(
            queue,
            prefetch=self._prefetch,
            no_ack=self._no_ack,
            exclusive=self._exclusive,
            arguments=dict(self._arguments) or None,
        )

    async def _feed(self, queue: str, subscription: Subscription) -> None:
        last: Incoming | None = None
        try:
            while batch := await subscription.batch():
                if last is not None and not last.is_ours:
                    self._drop_lost()
                last = batch[-1]
                for incoming in batch:
                    self._came(queue, incoming)
                self._wake(len(batch))
                await self._until_room()
            if not self._is_stopping:
                raise ClientError(f"the subscription to queue {queue!r} ended; start another listener")
        except Exception as error:
            self._fail(error)

    def _came(self, queue: str, incoming: Incoming) -> None:
        forget = self._forget if self._is_manual else None
        arrival: Arrival[T] = Arrival(incoming, queue, settled=self._no_ack, when_settled=forget)
        self._dispatch.add(queue, self._key_of(arrival), arrival)

    def _drop_lost(self) -> None:
        """Drop messages of an ended connection: the broker redelivers them."""
        if self._is_stream:
            return
        self._dispatch.drop(lambda arrival: not arrival.is_ours)
        for ticket in [ticket for ticket in self._paused if not ticket.item.is_ours]:
            self._paused.pop(ticket).cancel()
            self._dispatch.finish(ticket)
        self._left = {arrival: ticket for arrival, ticket in self._left.items() if arrival.is_ours}
        self._wake(len(self._idle))

    def _fail(self, error: Exception) -> None:
        _log.error("the listener of %s cannot go on: %s", self._names, error, exc_info=error)
        self._failure = error
        self._ended.set()

    def _key_of(self, arrival: Arrival[T]) -> Hashable | None:
        if self._keeps_all_in_order:
            return None
        try:
            return self._key(arrival)
        except Exception as error:
            _log.error("a message has no order, its key cannot be read: %s", error, extra={"queue": arrival.queue})
            return None

    async def _until_room(self) -> None:
        """Wait for room: no prefetch limits messages without acks, or a stream's messages from ended connections."""
        may_pile_up = self._no_ack or self._is_stream
        while may_pile_up and self._dispatch.waiting >= self._prefetch and not self._is_stopping:
            self._room.clear()
            await self._room.wait()

    def _wake(self, count: int) -> None:
        for _ in range(min(count, len(self._idle))):
            waiting = self._idle.popleft()
            if not waiting.done():
                waiting.set_result(None)

    # messages out

    async def _work(self) -> None:
        try:
            while True:
                ticket = self._dispatch.take() if not self._is_stopping or self._no_ack else None
                if ticket is not None and not self._is_stream and not ticket.item.is_ours:
                    # the broker redelivers it: handling it here too would do it twice and out of order
                    self._dispatch.finish(ticket)
                elif ticket is not None:
                    await self._deal_with(ticket)
                elif self._takes_no_more:
                    return
                else:
                    await self._something_to_do()
        except Exception as error:
            self._fail(error)

    async def _something_to_do(self) -> None:
        self._room.set()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle.append(future)
        await future

    async def _deal_with(self, ticket: DispatchEntry[Arrival[T]]) -> None:
        arrival = ticket.item
        self._at_work[ticket] = None
        try:
            delay_s = await self._handling.deal_with(arrival, gives_way=lambda: self._gives_way(ticket))
        except asyncio.CancelledError:
            self._give_back(arrival)
            raise
        finally:
            del self._at_work[ticket]
        if delay_s is None or self._is_stopping:
            self._dispatch.finish(ticket)
            if delay_s is not None:
                self._give_back(arrival)
            elif self._is_manual and not arrival.settled:
                self._left[arrival] = ticket
            if self._takes_no_more:
                self._give_back_free()
        else:
            loop = asyncio.get_running_loop()
            self._paused[ticket] = loop.call_later(delay_s, self._resume, ticket)
            if len(self._paused) == self._paused_max:
                _log.warning("half of what the listener of %s may have in hand failed and waits", self._names)

    def _gives_way(self, ticket: DispatchEntry[Arrival[T]]) -> bool:
        """Whether a failed message without a key should make room, so that such messages do not fill the listener."""
        paused = len(self._paused)
        if self._is_stream or ticket.key is not None or paused < self._paused_max:
            return False
        return self._dispatch.waiting > 0 or paused >= self._prefetch - self._concurrency

    def _forget(self, arrival: Arrival[T]) -> None:
        self._left.pop(arrival, None)

    def _resume(self, ticket: DispatchEntry[Arrival[T]]) -> None:
        del self._paused[ticket]
        self._dispatch.resume(ticket)
        self._wake(1)

    # end

    async def _take_no_more(self) -> None:
        self._room.set()
        if self._is_stream:
            for feeder in self._feeders:
                feeder.cancel()
        else:
            await self._cancel_subscriptions()
        if self._feeders:
            await asyncio.wait(self._feeders)

    async def _cancel_subscriptions(self) -> None:
        for subscription in self._subscriptions.values():
            with contextlib.suppress(ClientError):
                await subscription.cancel()

    def _collect(self) -> None:
        """Requeue the messages that no handler is working on."""
        for timer in self._paused.values():
            timer.cancel()
        self._going_back += [*self._dispatch.clear(), *self._paused]
        self._paused.clear()

    def _give_back_free(self) -> None:
        before = [*self._at_work, *self._left.values()]
        free, self._going_back = split_returnable(self._going_back, before, all_in_order=self._keeps_all_in_order)
        for ticket in free:
            self._give_back(ticket.item)

    def _give_back(self, arrival: Arrival[T]) -> None:
        if self._is_stream:
            arrival.leave()
        else:
            with contextlib.suppress(ClientError):
                arrival.nack()

    async def _end(self) -> None:
        tasks = [*self._feeders, *self._workers]
        for task in tasks:
            task.cancel()
        # also for a worker whose handler suppresses its cancellation
        self._takes_no_more = True
        if tasks:
            await asyncio.wait(tasks, timeout=LEAVE_AFTER_S)
        self._collect()
        for ticket in in_order([*self._going_back, *self._at_work, *self._left.values()]):
            self._give_back(ticket.item)
        self._going_back.clear()
        self._threads.stop()
        if self._is_stream:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CANCEL_DEADLINE_S):
                    await self._cancel_subscriptions()
        self._ended.set()
        self._stopped.set()


def _check(
    acknowledge: Acknowledge, unwanted: Unwanted, prefetch: int, concurrency: int, stream: StreamReading | None
) -> None:
    if acknowledge not in ("auto", "manual", "none"):
        raise ValueError(f"a listener acknowledges auto, manual or none, not {acknowledge!r}")
    if unwanted not in ("ack", "reject"):
        raise ValueError(f"unwanted messages are answered by ack or reject, not {unwanted!r}")
    if prefetch < 1 or concurrency < 1:
        raise ValueError(f"prefetch ({prefetch}) and concurrency ({concurrency}) are 1 at least")
    if stream is not None and acknowledge == "none":
        raise ValueError("a stream is read with acks: choose acknowledge auto or manual")
