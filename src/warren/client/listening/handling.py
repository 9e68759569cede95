"""One message, from its arrival to its settlement.

    wanted? ──▶ converted ──▶ handled ──▶ answered, if an answer is asked for ──▶ acked
       │            └──────────────┴──────────── failed ──▶ acked, rejected, tried again or parked
       └▶ acked or rejected, unhandled

Invariant: a message that is to be tried again or parked is published there, and acked only when the broker has
confirmed that. If this process or the connection dies between the two, the message is there twice; it is never
nowhere. What cannot be moved goes back to its queue after a pause.

A stream takes nothing back: what fails there is tried again in hand, then parked, and acked if it is refused.

Not here: which message is next (`listening.dispatch`), what becomes of failures (`listening.retrying`).
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from warren.client import telling
from warren.client.errors import CannotConvert, ClientError, PublishFailed
from warren.client.listening import moving
from warren.client.listening.arrival import Arrival
from warren.client.listening.counting import Fate, Fates, Lately
from warren.client.listening.filters import Filter
from warren.client.listening.retrying import UNLESS_TOLD, Ack, Again, Park, Retries
from warren.client.listening.signals import ImmediateAck, RejectAndDontRequeue
from warren.client.listening.threads import Threads
from warren.client.machine.publishing import Message
from warren.client.transport import Incoming, Outgoing, Transport

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
class Terms(Generic[T]):
    """What a listener was told about its messages."""

    handler: Handler[T]
    acknowledge: Acknowledge = "auto"
    convert: Callable[[Incoming], T] | None = None
    answer: Callable[[Any], bytes | Message] | None = None
    accepts: Filter | None = None
    unwanted: Unwanted = "ack"
    retries: Retries = UNLESS_TOLD
    is_stream: bool = False


class Handling(Generic[T]):
    """Deals with messages, one at a time for each who calls."""

    def __init__(
        self, transport: Transport, terms: Terms[T], threads: Threads, fates: Fates, lately: Lately | None = None
    ) -> None:
        self._transport = transport
        self._fates = fates
        self._lately = lately or Lately()
        self._terms = terms
        self._threads = threads
        self._is_async = _is_async(terms.handler)
        self._none_gives_way_until_s = 0.0

    async def deal_with(self, arrival: Arrival[T], *, gives_way: Callable[[], bool] = lambda: False) -> float | None:
        """Handle and settle it; or in how many seconds it is to be dealt with again, being still in hand.

        What is to give way is put behind the others of its queue, once, unless most messages fail.
        """
        try:
            if self._terms.accepts is not None and not self._terms.accepts(arrival):
                self._refuse_unwanted(arrival)
                return None
            if self._terms.convert is not None:
                arrival.payload = self._converted(arrival, self._terms.convert)
            answer = await self._handled(arrival)
            if answer is not None:
                await self._reply(arrival, answer)
        except Exception as failure:
            if _is_being_cancelled():
                # drivers make errors of their own of a cancellation, and the message is not to blame
                raise asyncio.CancelledError from failure
            return await self._failed(arrival, failure, gives_way)
        self._lately.note(True)
        if self._terms.acknowledge == "auto":
            arrival.ack()
        return None

    def _refuse_unwanted(self, arrival: Arrival[T]) -> None:
        if self._terms.unwanted == "ack" or self._terms.is_stream:
            arrival.ack()
        else:
            arrival.nack(requeue=False)

    def _converted(self, arrival: Arrival[T], convert: Callable[[Incoming], T]) -> T:
        try:
            return convert(arrival)
        except CannotConvert:
            raise
        except Exception as error:
            raise CannotConvert(f"the message cannot be read: {telling.sentence(error)}") from error

    async def _handled(self, arrival: Arrival[T]) -> object:
        handler: Callable[[Arrival[T]], Any] = self._terms.handler
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
        if self._terms.answer is not None:
            answer = self._terms.answer(answer)
        given = Message(answer) if isinstance(answer, bytes) else answer
        if not isinstance(given, Message):
            kind = type(answer).__name__
            raise CannotConvert(
                f"an answer is bytes or a Message, not {kind}; give the listener an `answer` for others"
            )
        asked = request.properties
        properties = moving.changed(given.properties, correlation_id=asked.correlation_id or asked.message_id)
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
            verdict = self._terms.retries.after(failure, arrival.retries, self._left_s(arrival))
        except CannotConvert as unreadable:
            verdict = self._terms.retries.after(unreadable, 0)
        if isinstance(verdict, Again):
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
        waits_with_it = self._terms.retries.way == "in_hand" and not self._terms.is_stream
        return arrival.left_s if waits_with_it else None

    async def _try_again(
        self, arrival: Arrival[T], again: Again, failure: Exception, gives_way: Callable[[], bool]
    ) -> float | None:
        self._note(logging.WARNING, "a message is tried again", arrival, failure)
        way = self._terms.retries.way
        if way != "in_hand":
            outgoing = moving.retried(arrival, arrival.queue, again, way, failure)
            return await self._move(arrival, outgoing, "retried", failure)
        is_first_failure = arrival.retries == 0
        if is_first_failure:
            # one that has failed before says nothing of how others would fare now
            self._lately.note(False)
        arrival.tries_in_hand += 1
        self._fates.count("retried", arrival.queue)
        # a short queue has it back at once: that may cost it its first delay, and never all of them
        may_go = is_first_failure and self._terms.retries.tries > 2 and self._lately.goes_well
        if may_go and gives_way() and await self._put_behind(arrival, failure):
            return None
        return again.delay_s

    async def _put_behind(self, arrival: Arrival[T], failure: Exception) -> bool:
        """Whether it is at the end of its queue now; a broker that did not take one is left alone for a while."""
        clock = asyncio.get_running_loop().time
        if clock() < self._none_gives_way_until_s:
            return False
        outgoing = moving.put_behind(arrival, arrival.queue, arrival.retries, arrival.left_s, failure)
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
            outgoing = moving.parked(arrival, arrival.queue, arrival.retries, failure)
        except CannotConvert:
            outgoing = moving.parked_bare(arrival, arrival.queue, failure)
        return await self._move(arrival, outgoing, "parked", failure)

    async def _move(self, arrival: Arrival[T], outgoing: Outgoing, fate: Fate, failure: Exception) -> float | None:
        """Confirmed first, acked then."""
        error = await self._published(outgoing)
        if isinstance(error, CannotConvert):
            # what was added to its headers made them too large for a frame
            if not self._terms.retries.parking:
                self._reject(arrival, failure)
                return None
            fate, error = "parked", await self._published(moving.parked_bare(arrival, arrival.queue, failure))
        self._fates.count(fate if error is None else "stuck", arrival.queue)
        if error is None:
            arrival.ack()
            return None
        self._note(logging.ERROR, "a message cannot be moved and stays where it is", arrival, error)
        if self._terms.is_stream:
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
        self._fates.count("rejected", arrival.queue)
        if self._terms.is_stream:
            arrival.ack()
        else:
            arrival.nack(requeue=False)

    def _note(self, level: int, what: str, arrival: Arrival[T], failure: Exception) -> None:
        facts = {"queue": arrival.queue, "error": telling.sentence(failure)}
        # not by exc_info: handlers of logs print all that the error says, and that may be data of customers
        _log.log(level, "%s: %s\n%s", what, facts["error"], telling.account(failure), extra=facts)


def _is_async(handler: Callable[..., object]) -> bool:
    """Also of an object that is called like a function."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
