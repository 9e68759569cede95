"""What is published to a queue while nobody knows whether the queue will go.

A queue is found to be empty, or unused, or idle for too long, and is to be deleted for that; others have yet to agree.
What was confirmed before then was looked at; what comes after waits here, unconfirmed, in order. If the queue stays,
all of it is published to it as if it came at that moment. If the queue goes it is refused, because it came in time to
prevent that; or, where nothing could have prevented it, it goes with the queue as what is in it does.

Whoever wants to consume waits until that is decided, and every node knows, and looks again.

Invariant: a waiter hears of its publishes in the order they came, also over two such times: answers wait for the flush
of their turn, and flushes come in order.

Not here: deciding (`broker.pending_deletes`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.message import Message
from warren.broker.model.ports import AWAITED, REJECTED, SETTLED, OutputPort, PublishHold, PublishWaiter, QueuePort
from warren.broker.model.turn import FlushWaiter, Turn

HELD_PUBLISH_BYTES: Final[i64] = 200
"""What a publish that waits holds besides its content."""


@final
class HeldPublish:
    """A message, and who waits to hear of it."""

    def __init__(self, message: Message) -> None:
        self.message: Message = message
        self.waiter: PublishWaiter | None = None
        self.place: i64 = 0


@final
class HeldPublishes(PublishHold, FlushWaiter):
    """What comes to one queue between the wish to delete it and the end of that."""

    def __init__(self, queue: QueuePort, turn: Turn, refuses: bool) -> None:
        """`refuses`: what came meanwhile would have kept the queue from going."""
        super().__init__()
        self._queue: QueuePort = queue
        self._turn: Turn = turn
        self._refuses: bool = refuses
        self._known: bool = False
        self._kept: list[HeldPublish] = []
        self._waiting: list[OutputPort] = []
        # who takes what is published when this is over, if the queue does not take it itself
        self.next: PublishHold | None = None
        # who is told once this turn's batch is on disk
        self._answered: list[PublishWaiter] = []

    def keep(self, message: Message) -> i64:
        if self.over:
            return self._fate()
        self._turn.held_bytes += len(message.content) + HELD_PUBLISH_BYTES
        self._kept.append(HeldPublish(message))
        return AWAITED

    def await_settlement(self, waiter: PublishWaiter, place: i64) -> None:
        last = self._kept[-1]
        last.waiter = waiter
        last.place = place

    def await_end(self, waiter: OutputPort) -> bool:
        if not self._known:
            self._waiting.append(waiter)
        return not self._known

    def release(self) -> None:
        """The queue stays, unless it is gone already."""
        if not self.over:
            self._queue.held_publishes = self.next
            for kept in self._end():
                self._decide(kept, self._queue.publish(kept.message))
            self._answer()
        self.known()

    def known(self) -> None:
        """Every node knows what became of the queue."""
        self._known = True
        self._turn.inputs.extend(self._waiting)
        self._waiting = []

    def gone(self) -> None:
        if self.over:
            return
        for kept in self._end():
            self._decide(kept, self._fate())
        self._answer()

    def flushed(self) -> None:
        answered = self._answered
        self._answered = []
        for waiter in answered:
            waiter.settled(1)

    def _fate(self) -> i64:
        """Of what comes to a queue that is gone."""
        return REJECTED if self._refuses else SETTLED

    def _end(self) -> list[HeldPublish]:
        self.over = True
        kept = self._kept
        self._kept = []
        return kept

    def _decide(self, kept: HeldPublish, outcome: i64) -> None:
        self._turn.held_bytes -= len(kept.message.content) + HELD_PUBLISH_BYTES
        waiter = kept.waiter
        if waiter is None:
            return
        if outcome & REJECTED:
            waiter.refused(kept.place)
        self._answered.append(waiter)

    def _answer(self) -> None:
        if self._answered:
            self._turn.await_flush(self)
