"""Publishes to a queue while its deletion is undecided.

A queue that was found empty, unused or idle is to be deleted, and the cluster has to agree. Messages that were
confirmed before were considered in the decision. Publishes after it are held here in order, without a confirm. If the
queue stays, they are published to it. If the queue is deleted, they are refused, because they would have prevented the
deletion; or, for a deletion that no publish prevents, they are dropped with the contents of the queue. If the queue
becomes mirrored first, the deletion is outdated: held publishes go to the proxy before any later publish does, and the
proxy reports their outcomes.

A client that wants to consume waits until the deletion is decided and every node knows, and tries again.

Invariant: a waiter gets the outcomes of its publishes in order, also across two such deletions: outcomes are reported
after the flush of their turn, and flushes are in order.

Not here: deciding (`broker.pending_deletes`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.message import Message
from warren.broker.model.ports import AWAITED, REJECTED, SETTLED, OutputPort, PublishHold, PublishWaiter, QueuePort
from warren.broker.model.turn import FlushWaiter, Turn

HELD_PUBLISH_BYTES: Final[i64] = 200
"""The memory of a held publish besides its content."""


@final
class HeldPublish:
    """A message, and the waiter for its outcome."""

    def __init__(self, message: Message) -> None:
        self.message: Message = message
        self.waiter: PublishWaiter | None = None
        self.place: i64 = 0


@final
class HeldPublishes(PublishHold, FlushWaiter):
    """The publishes to one queue while its deletion is undecided."""

    def __init__(self, queue: QueuePort, turn: Turn, refuses: bool) -> None:
        """`refuses`: a publish prevents the deletion, so held publishes are refused if the queue is deleted."""
        super().__init__()
        self._queue: QueuePort = queue
        self._turn: Turn = turn
        self._refuses: bool = refuses
        self._known: bool = False
        self._kept: list[HeldPublish] = []
        self._waiting: list[OutputPort] = []
        # to be told after the flush of this turn
        self._answered: list[PublishWaiter] = []

    def keep(self, message: Message) -> i64:
        if self.over:
            return self._result_when_deleted()
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

    def release(self, successor: PublishHold | None = None) -> None:
        """The deletion was given up: publish the held messages, unless the queue is deleted already.

        `successor`: forwards these and all later publishes, because the queue is mirrored.
        """
        if not self.over:
            self._queue.held_publishes = successor
            for kept in self._end():
                self._publish(kept)
            self._answer()
        self.applied_everywhere()

    def applied_everywhere(self) -> None:
        """Every node knows the decision."""
        self._known = True
        self._turn.inputs.extend(self._waiting)
        self._waiting = []

    def gone(self) -> None:
        if self.over:
            return
        for kept in self._end():
            self._decide(kept, self._result_when_deleted())
        self._answer()

    def flushed(self) -> None:
        answered = self._answered
        self._answered = []
        for waiter in answered:
            waiter.settled(1)

    def _result_when_deleted(self) -> i64:
        """The result of a publish to a deleted queue."""
        return REJECTED if self._refuses else SETTLED

    def _end(self) -> list[HeldPublish]:
        self.over = True
        kept = self._kept
        self._kept = []
        return kept

    def _publish(self, kept: HeldPublish) -> None:
        outcome = self._queue.publish(kept.message)
        if outcome & AWAITED and kept.waiter is not None:
            self._queue.await_settlement(kept.waiter, kept.place)
            kept.waiter = None
        self._decide(kept, outcome)

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
