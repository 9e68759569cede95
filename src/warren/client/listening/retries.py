"""The decision after a failed message, the queues for retries, and the messages that are moved.

    how it failed                     the decision
    ImmediateAck                      acked
    RejectAndDontRequeue              rejected
    CannotConvert                     parked: it will not be readable next time either
    anything else                     tried again, until it was tried `tries` times or, in hand, the next try would be
                                      after the end of its time to live; then parked

The header `x-retries` counts the retries, so the count survives the process; in hand the listener counts.

    queues             QUEUE ──▶ QUEUE.retry.1 ──(time over)──▶ QUEUE ──▶ QUEUE.retry.2 ──▶ ... ──▶ QUEUE.parked
    delayed_exchange   QUEUE ──▶ QUEUE.delayed, an x-delayed-message exchange ──(time over)──▶ QUEUE
                                          └── no longer bound to it ──▶ QUEUE.undelivered ──▶ QUEUE.parked
    in_hand            it stays unacked with its listener, which holds its key: nothing with the key overtakes it

Each step has its own queue, so that a message with a long delay does not block those with a short one. The delay is the
message's own time to live, not the queue's, so that it can be changed without deleting a queue.

A moved message keeps body, properties and headers, and gets these headers:

    x-retries             how often it was retried
    x-error               the last error, in one line
    x-origin-exchange     the exchange and routing key of its first publish
    x-origin-key
    x-origin-queue        the queue it was parked from

Some properties are dropped. `expiration` and the broker's delay header would end a message that waits or is parked. A
broker refuses a `user_id` from another user. `CC` would send all copies again. Warren's deduplication headers would
make the broker drop the message as a duplicate. With its `x-death` history RabbitMQ may take a message from a retry
queue for a cycle, and drop it.

Not here: moving messages without losing them (`listening.handler`).
"""

from dataclasses import dataclass, field
from typing import Final, Literal

from warren.client.errors import CannotConvert, error_summary
from warren.client.machine.publishes import Message
from warren.client.transport import BindingLayout, ExchangeLayout, Incoming, Layout, Outgoing, QueueLayout
from warren.wire.field_tables import Table
from warren.wire.properties import Properties


class RejectAndDontRequeue(Exception):
    """Raised by a handler to refuse a message for good: it is dead-lettered, or dropped."""

    def __init__(self, reason: str = "the handler refused it") -> None:
        super().__init__(reason)


class ImmediateAck(Exception):
    """Raised by a handler to acknowledge a message although it was not handled to its end."""


RetryMethod = Literal["queues", "delayed_exchange", "in_hand"]

DELAY_MAX_S = 4_294_967
"""The limit of the 32 bits that brokers have for milliseconds."""


@dataclass(frozen=True, slots=True)
class Ack:
    """Acknowledge it."""


@dataclass(frozen=True, slots=True)
class Reject:
    """Dead-letter it."""


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """Try it again after a delay; steps count from 1, and step 0 is at once."""

    step: int
    delay_s: float


@dataclass(frozen=True, slots=True)
class Park:
    """Put it into the parking queue, for a person to look at."""


RetryDecision = Ack | Reject | RetryAfter | Park


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a message is tried, with which delays, and what happens after the last try.

    With fewer delays than retries the last delay is repeated; with none, `()`, a message is retried at once.
    `arguments` are those of the queues that are declared, such as their type.
    """

    tries: int = 5
    delays_s: tuple[float, ...] = (1.0, 5.0, 30.0)
    way: RetryMethod = "queues"
    parking: bool = True
    arguments: Table = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.tries < 1:
            raise ValueError(f"a message is tried once at least, not {self.tries} times")
        for delay_s in self.delays_s:
            if not 0.001 <= delay_s <= DELAY_MAX_S:
                raise ValueError(f"a delay is between 0.001 and {DELAY_MAX_S} seconds, not {delay_s:g}")
        if self.way not in ("queues", "delayed_exchange", "in_hand"):
            raise ValueError(f"a message waits in queues, at a delayed_exchange or in_hand, not {self.way!r}")

    def after(self, failure: Exception, retries_done: int, left_s: float | None = None) -> RetryDecision:
        """The decision for a message that failed after so many retries.

        `left_s` is the rest of its time to live: a retry after that is useless.
        """
        if isinstance(failure, ImmediateAck):
            return Ack()
        if isinstance(failure, RejectAndDontRequeue):
            return Reject()
        if not isinstance(failure, CannotConvert) and retries_done + 1 < self.tries:
            again = self._again(retries_done)
            if left_s is None or again.delay_s < left_s:
                return again
        return Park() if self.parking else Reject()

    def layout(self, queue: str) -> Layout:
        """The queues and exchanges that retries and parking of a queue need."""
        parked = (QueueLayout(parking_queue(queue), arguments=self.arguments),) if self.parking else ()
        if self.way == "delayed_exchange" and self._steps:
            return self._delayed_layout(queue, parked)
        if self.way == "queues":
            back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
            names = [retry_queue(queue, step) for step in range(1, self._steps + 1)]
            return Layout(
                queues=tuple(QueueLayout(name, arguments={**self.arguments, **back}) for name in names) + parked
            )
        return Layout(queues=parked)

    def _delayed_layout(self, queue: str, parked: tuple[QueueLayout, ...]) -> Layout:
        name = delayed_exchange(queue)
        back = BindingLayout(name, queue, queue)
        arguments: Table = {"x-delayed-type": "direct"}
        if not parked:
            return Layout((ExchangeLayout(name, "x-delayed-message", arguments=arguments),), (), (back,))
        # a delayed message cannot be returned as unroutable: its publisher does not wait that long
        catching = undelivered_exchange(queue)
        arguments["alternate-exchange"] = catching
        exchanges = ExchangeLayout(catching, "fanout"), ExchangeLayout(name, "x-delayed-message", arguments=arguments)
        return Layout(exchanges, parked, (BindingLayout(catching, parking_queue(queue)), back))

    @property
    def _steps(self) -> int:
        """As many as there are retries to use them."""
        return min(len(self.delays_s), self.tries - 1)

    def _again(self, retries_done: int) -> RetryAfter:
        if not self.delays_s:
            return RetryAfter(0, 0.0)
        step = min(retries_done + 1, len(self.delays_s))
        return RetryAfter(step, self.delays_s[step - 1])


DEFAULT_RETRIES: Final = Retries(way="in_hand")
"""Tries over a minute, so that a database that is away for half a minute parks no message.

In hand, so that only the messages in hand wait and not the whole queue one by one, and so that the order of a key is
kept.
"""


def backoff(first_s: float, count: int, *, factor: float = 2.0, longest_s: float = 3600.0) -> tuple[float, ...]:
    """Delays that grow by a factor up to a limit."""
    delays = []
    delay_s = first_s
    for _ in range(count):
        delays.append(min(delay_s, longest_s))
        delay_s = min(delay_s * factor, longest_s)
    return tuple(delays)


def retry_queue(queue: str, step: int) -> str:
    return f"{queue}.retry.{step}"


def parking_queue(queue: str) -> str:
    return f"{queue}.parked"


def delayed_exchange(queue: str) -> str:
    return f"{queue}.delayed"


def undelivered_exchange(queue: str) -> str:
    return f"{queue}.undelivered"


RETRIES = "x-retries"
ERROR = "x-error"
ORIGIN_EXCHANGE = "x-origin-exchange"
ORIGIN_KEY = "x-origin-key"
ORIGIN_QUEUE = "x-origin-queue"

_DROPPED_HEADERS = frozenset({"CC", "BCC", "x-delay", "x-warren-publisher", "x-warren-publishing-id"})


def retries_done(headers: Table) -> int:
    """The number of retries; an invalid header counts as 0."""
    found = headers.get(RETRIES)
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0


def origin(headers: Table) -> tuple[str, str] | None:
    """The exchange and routing key of the first publish, if the message was moved since."""
    exchange, key = headers.get(ORIGIN_EXCHANGE), headers.get(ORIGIN_KEY)
    return (exchange, key) if isinstance(exchange, str) and isinstance(key, str) else None


def retry_message(message: Incoming, queue: str, again: RetryAfter, way: RetryMethod, failure: Exception) -> Outgoing:
    """The message for its next try."""
    properties = _properties(message, failure)
    headers = _headers_of(properties)
    for name in [name for name in headers if _is_death_header(name)]:
        del headers[name]
    headers[RETRIES] = retries_done(headers) + 1
    delay_ms = round(again.delay_s * 1000)
    if again.step == 0:
        return Outgoing(Message(message.body, properties), "", queue)
    if way == "delayed_exchange":
        headers["x-delay"] = delay_ms
        # if its queue is gone when it is due, it is parked
        headers[ORIGIN_QUEUE] = queue
        # not mandatory: its route is known only when it is due
        return Outgoing(Message(message.body, properties), delayed_exchange(queue), queue, mandatory=False)
    properties.expiration = str(delay_ms)
    return Outgoing(Message(message.body, properties), "", retry_queue(queue, again.step))


def requeue_message(message: Incoming, queue: str, retries: int, left_s: float | None, failure: Exception) -> Outgoing:
    """The message for the end of its own queue, with the rest of its time to live."""
    properties = _properties(message, failure)
    _headers_of(properties)[RETRIES] = retries
    if left_s is not None:
        properties.expiration = str(max(0, round(left_s * 1000)))
    return Outgoing(Message(message.body, properties), "", queue)


def parking_message(message: Incoming, queue: str, retries: int, failure: Exception) -> Outgoing:
    """The message for the parking queue."""
    properties = _properties(message, failure)
    _headers_of(properties).update({ORIGIN_QUEUE: queue, RETRIES: retries})
    return Outgoing(Message(message.body, properties), "", parking_queue(queue))


def parking_message_without_properties(message: Incoming, queue: str, failure: Exception) -> Outgoing:
    """The body alone, for a message with unreadable properties."""
    headers: Table = {ORIGIN_QUEUE: queue, ERROR: error_summary(failure)}
    return Outgoing(Message(message.body, Properties(headers=headers, delivery_mode=2)), "", parking_queue(queue))


def with_changes(properties: Properties | None, **changes: object) -> Properties:
    """A changed copy; the original stays as it is."""
    fields = dict((properties or Properties()).fields())
    return Properties(**{**fields, **changes})  # type: ignore[arg-type]  # names and values are those of properties


def _properties(message: Incoming, failure: Exception) -> Properties:
    given = message.properties
    headers = {name: value for name, value in (given.headers or {}).items() if name not in _DROPPED_HEADERS}
    headers[ORIGIN_EXCHANGE], headers[ORIGIN_KEY] = origin(headers) or (message.exchange, message.routing_key)
    headers[ERROR] = error_summary(failure)
    return with_changes(given, headers=headers, delivery_mode=2, expiration=None, user_id=None)


def _headers_of(properties: Properties) -> Table:
    assert properties.headers is not None
    return properties.headers


def _is_death_header(name: str) -> bool:
    return name == "x-death" or name.startswith(("x-first-death-", "x-last-death-"))
