"""One message, from its delivery to its ack.

    wanted? ──▶ converted ──▶ handled ──▶ reply, if one is asked for ──▶ acked
       │            └──────────────┴──────────── failed ──▶ acked, rejected, tried again or parked
       └▶ acked or rejected, unhandled

Invariant: a message to retry or park is published to its destination, and acked only after the confirm. If the process
or the connection dies between the two, the message exists twice; it is never lost. A message that cannot be moved is
requeued after a pause.

A stream cannot requeue: a failed message is retried in hand, then parked, and acked if it is refused.

Failures are counted by their outcome:

    retried     tried again: at once, in hand after a while, or through a retry queue
    parked      moved to the parking queue
    rejected    dead-lettered, or skipped in a stream
    stuck       the broker did not take the moved message, and it stays where it is

Handlers that are plain functions run in daemon threads, so that heartbeats go on while they compute. A handler that
does not return keeps neither a listener from stopping in time nor the process from ending; its message is requeued.

Not here: the next message (`listening.dispatch`), the decision after a failure (`listening.retries`).
"""

import asyncio
import contextvars
import inspect
import logging
import threading
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Generic, Literal, TypeVar, get_args

from warren.client import errors
from warren.client.errors import CannotConvert, ClientError, PublishFailed
from warren.client.listening import retries
from warren.client.listening.arrival import Arrival
from warren.client.listening.retries import (
    DEFAULT_RETRIES,
    Ack,
    ImmediateAck,
    Park,
    RejectAndDontRequeue,
    Retries,
    RetryAfter,
)
from warren.client.listening.subscriptions import Filter
from warren.client.machine.publishes import Message
from warren.client.measures import DESTINATION, Measure, Point
from warren.client.transport import Incoming, Outgoing, Transport

FailureOutcome = Literal["retried", "parked", "rejected", "stuck"]

_DESCRIPTIONS: dict[FailureOutcome, str] = {
    "retried": "Messages that failed and are tried again",
    "parked": "Messages that failed and were parked",
    "rejected": "Messages that failed and were rejected",
    "stuck": "Messages that failed and could not be moved",
}

RECENT_MIN = 3
"""With fewer, a single failure would be half of them or more."""
RECENT_MAX = 100


class RecentOutcomes:
    """The outcomes of the last messages: whether few messages fail, or all of them."""

    def __init__(self, count: int = RECENT_MIN) -> None:
        self._fared: deque[bool] = deque(maxlen=min(max(count, RECENT_MIN), RECENT_MAX))

    def note(self, well: bool) -> None:
        self._fared.append(well)

    @property
    def goes_well(self) -> bool:
        """Whether more succeeded than failed."""
        return 2 * sum(self._fared) > len(self._fared)


class FailureCounters:
    """The failures of each queue since the listener began."""

    def __init__(self, queues: Iterable[str]) -> None:
        self._queues = tuple(queues)
        self._counts: Counter[tuple[FailureOutcome, str]] = Counter()

    def count(self, outcome: FailureOutcome, queue: str) -> None:
        self._counts[outcome, queue] += 1

    def total(self, outcome: FailureOutcome) -> int:
        return sum(self._counts[outcome, queue] for queue in self._queues)

    def measures(self) -> Sequence[Measure]:
        return [self._measure(outcome) for outcome in get_args(FailureOutcome)]

    def _measure(self, outcome: FailureOutcome) -> Measure:
        def read() -> list[Point]:
            return [(self._counts[outcome, queue], {DESTINATION: queue}) for queue in self._queues]

        return Measure(f"warren.client.{outcome}.messages", "{message}", _DESCRIPTIONS[outcome], "counter", read)


ThreadJob = Callable[[], None]


class HandlerThreads:
    """As many threads as are needed at once, up to a limit."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._started = 0
        self._at_work = 0
        self._jobs: SimpleQueue[ThreadJob | None] = SimpleQueue()

    async def run(self, call: Callable[[], object]) -> object:
        """The result of a call in a thread. The thread of a cancelled caller goes on, and its result is dropped."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[object] = loop.create_future()
        context = contextvars.copy_context()

        def job() -> None:
            result: object = None
            error: BaseException | None = None
            try:
                result = context.run(call)
            except BaseException as raised:
                error = raised
            try:
                loop.call_soon_threadsafe(self._ended, future, result, error)
            except RuntimeError:
                # the loop has ended: no task waits for the result
                return

        self._at_work += 1
        if self._at_work > self._started and self._started < self._count_max:
            self._started += 1
            threading.Thread(target=self._work, name=f"warren-handler-{self._started}", daemon=True).start()
        self._jobs.put(job)
        return await future

    def stop(self) -> None:
        """Threads at work end when their handler returns."""
        for _ in range(self._started):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def _ended(self, future: asyncio.Future[object], result: object, error: BaseException | None) -> None:
        self._at_work -= 1
        if future.done():
            return
        if error is None:
            future.set_result(result)
        elif isinstance(error, Exception) and not isinstance(error, StopIteration):
            future.set_exception(error)
        else:
            # for the waiting task, an exception that ends a thread or an iterator is a failure like any other
            future.set_exception(RuntimeError(f"the handler raised {error!r}"))


T = TypeVar("T")
Acknowledge = Literal["auto", "manual", "none"]
Unwanted = Literal["ack", "reject"]
Handler = Callable[[Arrival[T]], object]

MOVE_TIMEOUT_S = 30.0
GIVE_WAY_TIMEOUT_S = 1.0
"""How long a worker waits for the confirm of a requeued message, which otherwise stays in hand."""
RETURN_PAUSE_S = 1.0
"""How long a message that can neither be handled nor moved is held, so that it does not loop."""

_log = logging.getLogger("warren.client.listening")


@dataclass(frozen=True, slots=True)
class ListenerOptions(Generic[T]):
    """The options of a listener for its messages."""

    handler: Handler[T]
    acknowledge: Acknowledge = "auto"
    convert: Callable[[Incoming], T] | None = None
    answer: Callable[[Any], bytes | Message] | None = None
    accepts: Filter | None = None
    unwanted: Unwanted = "ack"
    retries: Retries = DEFAULT_RETRIES
    is_stream: bool = False


class HandlerRunner(Generic[T]):
    """Handles messages, one at a time for each caller."""

    def __init__(
        self,
        transport: Transport,
        options: ListenerOptions[T],
        threads: HandlerThreads,
        failure_counters: FailureCounters,
        recent_outcomes: RecentOutcomes | None = None,
    ) -> None:
        self._transport = transport
        self._failure_counters = failure_counters
        self._recent_outcomes = recent_outcomes or RecentOutcomes()
        self._options = options
        self._threads = threads
        self._is_async = _is_async(options.handler)
        self._none_gives_way_until_s = 0.0

    async def deal_with(self, arrival: Arrival[T], *, gives_way: Callable[[], bool] = lambda: False) -> float | None:
        """Handle and settle a message; or return after how many seconds to handle it again, still in hand.

        A message that `gives_way` is moved to the end of its queue, once, unless most messages fail.
        """
        try:
            if self._options.accepts is not None and not self._options.accepts(arrival):
                self._refuse_unwanted(arrival)
                return None
            if self._options.convert is not None:
                arrival.payload = self._converted(arrival, self._options.convert)
            answer = await self._handled(arrival)
            if answer is not None:
                await self._reply(arrival, answer)
        except Exception as failure:
            if _is_being_cancelled():
                # drivers turn a cancellation into their own errors; the message has not failed
                raise asyncio.CancelledError from failure
            return await self._failed(arrival, failure, gives_way)
        self._recent_outcomes.note(True)
        if self._options.acknowledge == "auto":
            arrival.ack()
        return None

    def _refuse_unwanted(self, arrival: Arrival[T]) -> None:
        if self._options.unwanted == "ack" or self._options.is_stream:
            arrival.ack()
        else:
            arrival.nack(requeue=False)

    def _converted(self, arrival: Arrival[T], convert: Callable[[Incoming], T]) -> T:
        try:
            return convert(arrival)
        except CannotConvert:
            raise
        except Exception as error:
            raise CannotConvert(f"the message cannot be read: {errors.error_summary(error)}") from error

    async def _handled(self, arrival: Arrival[T]) -> object:
        handler: Callable[[Arrival[T]], Any] = self._options.handler
        try:
            if self._is_async:
                return await handler(arrival)
            result = await self._threads.run(lambda: handler(arrival))
            return await result if isinstance(result, Awaitable) else result
        except asyncio.CancelledError:
            if _is_being_cancelled():
                raise
            raise RuntimeError("the handler ended as cancelled, but was not cancelled") from None

    async def _reply(self, request: Arrival[T], answer: object) -> None:
        address = request.properties.reply_to
        if not address:
            return
        if self._options.answer is not None:
            answer = self._options.answer(answer)
        given = Message(answer) if isinstance(answer, bytes) else answer
        if not isinstance(given, Message):
            kind = type(answer).__name__
            raise CannotConvert(
                f"an answer is bytes or a Message, not {kind}; give the listener an `answer` for others"
            )
        asked = request.properties
        properties = retries.with_changes(given.properties, correlation_id=asked.correlation_id or asked.message_id)
        outgoing = Outgoing(Message(given.body, properties), "", address)
        error = await self._published(outgoing)
        if isinstance(error, PublishFailed) and error.returned:
            _log.info("no requester waits for the reply at %s", address, extra={"queue": request.queue})
        elif error is not None:
            raise error

    async def _failed(self, arrival: Arrival[T], failure: Exception, gives_way: Callable[[], bool]) -> float | None:
        if arrival.settled:
            if not isinstance(failure, ImmediateAck | RejectAndDontRequeue):
                self._note(logging.ERROR, "a message failed that was settled already", arrival, failure)
            return None
        try:
            verdict = self._options.retries.after(failure, arrival.retries, self._left_s(arrival))
        except CannotConvert as unreadable:
            verdict = self._options.retries.after(unreadable, 0)
        if isinstance(verdict, RetryAfter):
            return await self._try_again(arrival, verdict, failure, gives_way)
        if isinstance(verdict, Park):
            return await self._park(arrival, failure)
        if isinstance(verdict, Ack):
            arrival.ack()
        else:
            self._reject(arrival, failure)
        return None

    def _left_s(self, arrival: Arrival[T]) -> float | None:
        # in a queue it waits without its time to live, and a stream has none
        waits_with_it = self._options.retries.way == "in_hand" and not self._options.is_stream
        return arrival.left_s if waits_with_it else None

    async def _try_again(
        self, arrival: Arrival[T], again: RetryAfter, failure: Exception, gives_way: Callable[[], bool]
    ) -> float | None:
        self._note(logging.WARNING, "a message is tried again", arrival, failure)
        way = self._options.retries.way
        if way != "in_hand":
            outgoing = retries.retry_message(arrival, arrival.queue, again, way, failure)
            return await self._move(arrival, outgoing, "retried", failure)
        is_first_failure = arrival.retries == 0
        if is_first_failure:
            # a repeated failure says nothing about other messages
            self._recent_outcomes.note(False)
        arrival.tries_in_hand += 1
        self._failure_counters.count("retried", arrival.queue)
        # a short queue redelivers it at once: that may cost it its first delay, but not all of them
        may_go = is_first_failure and self._options.retries.tries > 2 and self._recent_outcomes.goes_well
        if may_go and gives_way() and await self._requeue_at_end(arrival, failure):
            return None
        return again.delay_s

    async def _requeue_at_end(self, arrival: Arrival[T], failure: Exception) -> bool:
        """Whether the message is at the end of its queue; after a failure the broker is not asked for a while."""
        clock = asyncio.get_running_loop().time
        if clock() < self._none_gives_way_until_s:
            return False
        outgoing = retries.requeue_message(arrival, arrival.queue, arrival.retries, arrival.left_s, failure)
        error = await self._published(outgoing, GIVE_WAY_TIMEOUT_S)
        if error is None:
            arrival.ack()
            return True
        self._note(logging.WARNING, "a message cannot be put behind the others and waits in hand", arrival, error)
        if not isinstance(error, CannotConvert):
            self._none_gives_way_until_s = clock() + MOVE_TIMEOUT_S
        return False

    async def _park(self, arrival: Arrival[T], failure: Exception) -> float | None:
        self._note(logging.ERROR, "a message is parked", arrival, failure)
        try:
            outgoing = retries.parking_message(arrival, arrival.queue, arrival.retries, failure)
        except CannotConvert:
            outgoing = retries.parking_message_without_properties(arrival, arrival.queue, failure)
        return await self._move(arrival, outgoing, "parked", failure)

    async def _move(
        self, arrival: Arrival[T], outgoing: Outgoing, outcome: FailureOutcome, failure: Exception
    ) -> float | None:
        """Publish with confirm, then ack."""
        error = await self._published(outgoing)
        if isinstance(error, CannotConvert):
            # the added headers made the properties too large for a frame
            if not self._options.retries.parking:
                self._reject(arrival, failure)
                return None
            outcome, error = (
                "parked",
                await self._published(retries.parking_message_without_properties(arrival, arrival.queue, failure)),
            )
        self._failure_counters.count(outcome if error is None else "stuck", arrival.queue)
        if error is None:
            arrival.ack()
            return None
        self._note(logging.ERROR, "a message cannot be moved and stays where it is", arrival, error)
        if self._options.is_stream:
            return RETURN_PAUSE_S
        await asyncio.sleep(RETURN_PAUSE_S)
        arrival.nack()
        return None

    async def _published(self, outgoing: Outgoing, timeout_s: float = MOVE_TIMEOUT_S) -> ClientError | None:
        try:
            [error] = await self._transport.publish([outgoing], timeout_s)
        except ClientError as raised:
            return raised
        return error

    def _reject(self, arrival: Arrival[T], failure: Exception) -> None:
        self._note(logging.WARNING, "a message is rejected", arrival, failure)
        self._failure_counters.count("rejected", arrival.queue)
        if self._options.is_stream:
            arrival.ack()
        else:
            arrival.nack(requeue=False)

    def _note(self, level: int, what: str, arrival: Arrival[T], failure: Exception) -> None:
        facts = {"queue": arrival.queue, "error": errors.error_summary(failure)}
        # not exc_info: log handlers print the whole error, which may have customers' data
        _log.log(level, "%s: %s\n%s", what, facts["error"], errors.error_trace(failure), extra=facts)


def _is_async(handler: Callable[..., object]) -> bool:
    """Whether it is a coroutine function, or a callable object with one."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
