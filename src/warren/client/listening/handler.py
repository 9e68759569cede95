"""One message, from its arrival to its settlement.

    wanted? ──▶ converted ──▶ handled ──▶ answered, if an answer is asked for ──▶ acked
       │            └──────────────┴──────────── failed ──▶ acked, rejected, tried again or parked
       └▶ acked or rejected, unhandled

Invariant: a message that is to be tried again or parked is published there, and acked only when the broker has
confirmed that. If this process or the connection dies between the two, the message is there twice; it is never
nowhere. What cannot be moved goes back to its queue after a pause.

A stream takes nothing back: what fails there is tried again in hand, then parked, and acked if it is refused.

Not here: which message is next (`listening.dispatch`), what becomes of failures (`listening.retrying`).

How often a listener's messages failed, and what became of them then; and whether handling goes well of late.

    retried     it is tried again: at once, in hand after a while, or by way of a retry queue
    parked      it is in the parking queue
    rejected    it went to the dead letters of its queue, or of a stream was left behind
    stuck       it was to be moved, the broker did not take it, and it stays where it is

Not here: which of them it is (`listening.retrying`).

Threads for handlers that are plain functions, so that heartbeats are answered while they compute.

They are daemons: a handler that does not return keeps neither a listener from stopping within its deadline nor the
process from ending. Its message has gone back to the queue by then.
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
"""Of fewer, a single failure would be half of them or more."""
RECENT_MAX = 100


class RecentOutcomes:
    """How the last few messages fared: a few that nobody can handle among many, or all because something is away."""

    def __init__(self, count: int = RECENT_MIN) -> None:
        self._fared: deque[bool] = deque(maxlen=min(max(count, RECENT_MIN), RECENT_MAX))

    def note(self, well: bool) -> None:
        self._fared.append(well)

    @property
    def goes_well(self) -> bool:
        """Whether more were handled than failed."""
        return 2 * sum(self._fared) > len(self._fared)


class FailureCounters:
    """Of each queue, since the listener began."""

    def __init__(self, queues: Iterable[str]) -> None:
        self._queues = tuple(queues)
        self._counts: Counter[tuple[FailureOutcome, str]] = Counter()

    def count(self, fate: FailureOutcome, queue: str) -> None:
        self._counts[fate, queue] += 1

    def total(self, fate: FailureOutcome) -> int:
        return sum(self._counts[fate, queue] for queue in self._queues)

    def measures(self) -> Sequence[Measure]:
        return [self._measure(fate) for fate in get_args(FailureOutcome)]

    def _measure(self, fate: FailureOutcome) -> Measure:
        def read() -> list[Point]:
            return [(self._counts[fate, queue], {DESTINATION: queue}) for queue in self._queues]

        return Measure(f"warren.client.{fate}.messages", "{message}", _DESCRIPTIONS[fate], "counter", read)


ThreadJob = Callable[[], None]


class HandlerThreads:
    """As many as are needed at once, up to a number."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._started = 0
        self._at_work = 0
        self._jobs: SimpleQueue[ThreadJob | None] = SimpleQueue()

    async def run(self, call: Callable[[], object]) -> object:
        """What the call comes to; if the caller is cancelled the thread goes on, and nobody hears of it."""
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
                # the loop has ended without us: nobody waits for the result
                return

        self._at_work += 1
        if self._at_work > self._started and self._started < self._count_max:
            self._started += 1
            threading.Thread(target=self._work, name=f"warren-handler-{self._started}", daemon=True).start()
        self._jobs.put(job)
        return await future

    def stop(self) -> None:
        """Those at work end when they return."""
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
            # what ends a thread or an iterator is a failure like any other to the one who waits
            future.set_exception(RuntimeError(f"the handler raised {error!r}"))


T = TypeVar("T")
Acknowledge = Literal["auto", "manual", "none"]
Unwanted = Literal["ack", "reject"]
Handler = Callable[[Arrival[T]], object]

MOVE_TIMEOUT_S = 30.0
GIVE_WAY_TIMEOUT_S = 1.0
"""A worker stands for so long at most: the message has a place in hand if the broker does not take it."""
RETURN_PAUSE_S = 1.0
"""How long a message is held back that can neither be handled nor moved, lest it go round and round."""

_log = logging.getLogger("warren.client.listening")


@dataclass(frozen=True, slots=True)
class ListenerOptions(Generic[T]):
    """What a listener was told about its messages."""

    handler: Handler[T]
    acknowledge: Acknowledge = "auto"
    convert: Callable[[Incoming], T] | None = None
    answer: Callable[[Any], bytes | Message] | None = None
    accepts: Filter | None = None
    unwanted: Unwanted = "ack"
    retries: Retries = DEFAULT_RETRIES
    is_stream: bool = False


class HandlerRunner(Generic[T]):
    """Deals with messages, one at a time for each who calls."""

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
        """Handle and settle it; or in how many seconds it is to be dealt with again, being still in hand.

        What is to give way is put behind the others of its queue, once, unless most messages fail.
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
                # drivers make errors of their own of a cancellation, and the message is not to blame
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
            raise RuntimeError("the handler ended as cancelled, and nobody had cancelled it") from None

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
            _log.info("nobody waits for the answer at %s any more", address, extra={"queue": request.queue})
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
        # elsewhere it waits without its time to live, and a stream has no use for it
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
            # one that has failed before says nothing of how others would fare now
            self._recent_outcomes.note(False)
        arrival.tries_in_hand += 1
        self._failure_counters.count("retried", arrival.queue)
        # a short queue has it back at once: that may cost it its first delay, and never all of them
        may_go = is_first_failure and self._options.retries.tries > 2 and self._recent_outcomes.goes_well
        if may_go and gives_way() and await self._put_behind(arrival, failure):
            return None
        return again.delay_s

    async def _put_behind(self, arrival: Arrival[T], failure: Exception) -> bool:
        """Whether it is at the end of its queue now; a broker that did not take one is left alone for a while."""
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
        self, arrival: Arrival[T], outgoing: Outgoing, fate: FailureOutcome, failure: Exception
    ) -> float | None:
        """Confirmed first, acked then."""
        error = await self._published(outgoing)
        if isinstance(error, CannotConvert):
            # what was added to its headers made them too large for a frame
            if not self._options.retries.parking:
                self._reject(arrival, failure)
                return None
            fate, error = (
                "parked",
                await self._published(retries.parking_message_without_properties(arrival, arrival.queue, failure)),
            )
        self._failure_counters.count(fate if error is None else "stuck", arrival.queue)
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
        # not by exc_info: handlers of logs print all that the error says, and that may be data of customers
        _log.log(level, "%s: %s\n%s", what, facts["error"], errors.error_trace(failure), extra=facts)


def _is_async(handler: Callable[..., object]) -> bool:
    """Also of an object that is called like a function."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
