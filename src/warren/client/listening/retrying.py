"""What becomes of a message whose handling failed: pure decisions, and the queues they need.

    how it failed                     what becomes of it
    ImmediateAck                      acked
    RejectAndDontRequeue              rejected
    CannotConvert                     parked: it will not be readable next time either
    anything else                     tried again, until it has been tried `tries` times or, in hand, would be so behind
                                      the end of its time to live; then parked

How often a message was tried again is counted in its header `x-retries`, so the count outlives whoever counted; in hand
it is counted by the listener alone.

    queues             QUEUE ──▶ QUEUE.retry.1 ──(time over)──▶ QUEUE ──▶ QUEUE.retry.2 ──▶ ... ──▶ QUEUE.parked
    delayed_exchange   QUEUE ──▶ QUEUE.delayed, an x-delayed-message exchange ──(time over)──▶ QUEUE
                                          └── no longer bound to it ──▶ QUEUE.undelivered ──▶ QUEUE.parked
    in_hand            it stays unacked with its listener, which holds its key: nothing with the key overtakes it

A queue for each step keeps messages with a long delay from standing before those with a short one. The delay is each
message's own time to live, not the queue's, so that it can be changed without deleting a queue.

Not here: the messages that are moved (`listening.moving`), moving them (`listening.handling`).
"""

from dataclasses import dataclass, field
from typing import Final, Literal

from warren.client.errors import CannotConvert
from warren.client.listening.signals import ImmediateAck, RejectAndDontRequeue
from warren.client.transport import BindingLayout, ExchangeLayout, Layout, QueueLayout
from warren.wire.values import Table

Way = Literal["queues", "delayed_exchange", "in_hand"]

DELAY_MAX_S = 4_294_967
"""What fits the 32 bits that brokers have for milliseconds."""


@dataclass(frozen=True, slots=True)
class Ack:
    """It is done with."""


@dataclass(frozen=True, slots=True)
class Reject:
    """It goes where the queue's dead letters go."""


@dataclass(frozen=True, slots=True)
class Again:
    """It is tried again after a while; steps count from 1, step 0 is at once."""

    step: int
    delay_s: float


@dataclass(frozen=True, slots=True)
class Park:
    """It is laid aside for somebody to look at."""


Verdict = Ack | Reject | Again | Park


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a message is tried, with what delays between, and where it goes when nothing helps.

    With fewer delays than retries the last one counts for the rest; with none, `()`, a message is back at once.
    `arguments` are those of the queues that it needs, such as their type.
    """

    tries: int = 5
    delays_s: tuple[float, ...] = (1.0, 5.0, 30.0)
    way: Way = "queues"
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

    def after(self, failure: Exception, retries_done: int, left_s: float | None = None) -> Verdict:
        """What becomes of a message that was tried again so many times before it failed like this.

        `left_s` is what is left of its time to live: nobody waits for what is done later.
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
        """What the broker must have so that messages of a queue can be tried again and parked."""
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
        # a message that is delayed cannot come back as unroutable: nobody waits for it when it is due
        catching = undelivered_exchange(queue)
        arguments["alternate-exchange"] = catching
        exchanges = ExchangeLayout(catching, "fanout"), ExchangeLayout(name, "x-delayed-message", arguments=arguments)
        return Layout(exchanges, parked, (BindingLayout(catching, parking_queue(queue)), back))

    @property
    def _steps(self) -> int:
        """No more than there are retries to use them."""
        return min(len(self.delays_s), self.tries - 1)

    def _again(self, retries_done: int) -> Again:
        if not self.delays_s:
            return Again(0, 0.0)
        step = min(retries_done + 1, len(self.delays_s))
        return Again(step, self.delays_s[step - 1])


UNLESS_TOLD: Final = Retries(way="in_hand")
"""Tries over a minute, so that a database that is away for half of that costs nobody a parked message.

In hand, because then it is as many messages as are in hand that wait, and not one after the other all of the queue, and
because the order of a key survives.
"""


def backoff(first_s: float, count: int, *, factor: float = 2.0, longest_s: float = 3600.0) -> tuple[float, ...]:
    """Delays that grow by a factor, up to a longest."""
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
