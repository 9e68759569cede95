"""A queue of this node, as one other node uses it: what was published there is counted and settled in order.

What is published in one turn is settled at its end, or, if a part of it is for the disk, when this turn's batch is
flushed, or, if a part of it is withheld because the queue may be about to go, when that is decided; and never before
what came earlier. So what waits is a row of marks, each with what it waits for.

Invariant: everything up to the last number told is as safe as the queue promises, or was refused.

Not here: consumers (`remote.hosted_consumer`), questions (`remote.hosting`).
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.errors import NOT_FOUND, ChannelFault
from warren.model.distant import SettlementWaiter
from warren.model.message import Message
from warren.model.mirrored import Intake, MasterWaiter
from warren.model.ports import PENDING, REJECTED, SETTLED, QueuePort
from warren.model.turn import FlushWaiter
from warren.remote import records
from warren.remote.hosted_consumer import Loans

if TYPE_CHECKING:
    from warren.remote.hosting import Hosting


@final
class Mark:
    """All up to a publish, once a batch is flushed and so many that were withheld are decided."""

    def __init__(self, batch_no: i64, withheld_no: i64, number: i64, size_bytes: i64) -> None:
        self.batch_no: i64 = batch_no
        self.withheld_no: i64 = withheld_no
        self.number: i64 = number
        self.size_bytes: i64 = size_bytes


@final
class HostedQueue(FlushWaiter, SettlementWaiter, MasterWaiter):
    """The publishes of one node into one queue. The other node may have heard of the queue before this one.

    A mirrored queue is there when this node is its master. When it is not any more, whatever comes stays unanswered:
    the other node turns to the next master with it.
    """

    def __init__(
        self, hosting: "Hosting", number: i64, vhost: str, name: str, queue_id: int, mirrored: bool = False
    ) -> None:
        self.number: i64 = number
        self.mirrored: bool = mirrored
        # how the other node counts what it sends to a mirrored queue
        self.count: i64 = 0
        self._intake: Intake | None = None
        # how much of it the other node has
        self.lent_count: i64 = 0
        self._hosting: Hosting = hosting
        self._vhost: str = vhost
        self._name: str = name
        self._queue_id: int = queue_id
        self._found: QueuePort | None = None
        self._got: Loans | None = None
        self._received: i64 = 0
        self._received_bytes: i64 = 0
        self._told: i64 = 0
        self._marks: list[Mark] = []
        # batches it waited for, counted as they are begun and as they are flushed
        self._batch_no: i64 = 0
        self._flushed_no: i64 = 0
        self._in_batch: bool = False
        # publishes that were withheld, counted as they come and as they are decided
        self._withheld_no: i64 = 0
        self._decided_no: i64 = 0
        # on the list of those that settle at the end of the turn
        self._due: bool = False

    def publish(self, message: Message, counted: bool) -> None:
        self._received += 1
        self._received_bytes += len(message.content)
        queue = self.found()
        outcome: i64 = REJECTED
        if self._intake is not None:
            self.count += 1
            outcome = self._intake.publish(self.count, message, counted)
        elif queue is not None:
            if not counted:
                queue.uncounted += 1
            outcome = queue.publish(message)
        if outcome != SETTLED:
            self._not_settled(queue, outcome)
        if not self._due:
            self._await_end()

    def fence(self) -> None:
        self._received += 1
        self._await_batch()
        if not self._due:
            self._await_end()

    def end_turn(self) -> None:
        self._due = False
        self._in_batch = False
        if self._batch_no == self._flushed_no and self._withheld_no == self._decided_no:
            self._tell(self._received, self._received_bytes)
            return
        # what waits for nothing waits behind what does
        last = self._marks[-1] if self._marks else None
        if last is not None and last.batch_no == self._batch_no and last.withheld_no == self._withheld_no:
            last.number = self._received
            last.size_bytes = self._received_bytes
        else:
            self._marks.append(Mark(self._batch_no, self._withheld_no, self._received, self._received_bytes))

    def flushed(self) -> None:
        self._flushed_no += 1
        self._advance()

    def settled(self, count: i64) -> None:
        self._decided_no += count
        self._advance()

    def refused(self, place: i64) -> None:
        self._hosting.tell(records.REFUSED, self.number, place)

    def lost(self, reason: str) -> None:
        """A queue of this node is not lost while the node lives."""

    def _advance(self) -> None:
        while self._marks:
            mark = self._marks[0]
            if mark.batch_no > self._flushed_no or mark.withheld_no > self._decided_no:
                return
            self._marks.pop(0)
            self._tell(mark.number, mark.size_bytes)

    def usable(self) -> QueuePort:
        """The queue, if it can be asked anything; the fault if not."""
        queue = self.found()
        if queue is None or queue.deleted:
            raise ChannelFault(NOT_FOUND, f"no queue '{self._name}' in vhost '{self._vhost}'")
        queue.check_usable()
        return queue

    def got_from(self, queue: QueuePort) -> Loans:
        """What was got from it, and is not acked."""
        if self._got is None:
            self._got = Loans(self, queue)
        return self._got

    def opened(self, queue: QueuePort, intake: Intake, mark: int, known: bool) -> None:
        if self._hosting.over:
            return
        self._found = queue
        self._intake = intake
        self.count = mark
        self._hosting.opened(self.number, mark, known, intake.epoch)

    def held(self, count: i64) -> None:
        self._hosting.tell(records.HELD, self.number, count)

    def adrift(self) -> bool:
        """Whether this node is not, or not any more, the master of the queue."""
        return self.mirrored and (self._found is None or self._found.deleted)

    def acked_late(self, positions: list[int]) -> None:
        if self._intake is not None:
            self._intake.acked_late(positions)

    def deserted(self) -> None:
        if self._intake is not None:
            self._intake.deserted()

    def forget_master(self) -> None:
        if self.mirrored:
            self._hosting.home.forget_master(self._queue_id, self)

    def await_safe(self, waiter: FlushWaiter) -> None:
        """Tell the waiter when what was done to the queue in this turn is as safe as it gets."""
        if self._intake is not None:
            self._intake.await_safe(waiter)
        else:
            self._hosting.turn.await_flush(waiter)

    def found(self) -> QueuePort | None:
        """The queue, if this node has heard of it."""
        if self._found is None and not self.mirrored:
            self._found = self._hosting.home.find_queue(self._vhost, self._name, self._queue_id)
        return self._found

    def _not_settled(self, queue: QueuePort | None, outcome: i64) -> None:
        if queue is None or outcome & REJECTED:
            self._hosting.tell(records.REFUSED, self.number, self._received)
        elif outcome & PENDING:
            self._await_batch()
        else:
            self._withheld_no += 1
            queue.await_settlement(self, self._received)

    def _await_batch(self) -> None:
        if not self._in_batch:
            self._in_batch = True
            self._batch_no += 1
            self.await_safe(self)

    def _await_end(self) -> None:
        self._due = True
        self._hosting.settling.append(self)

    def _tell(self, number: i64, size_bytes: i64) -> None:
        if number > self._told:
            self._told = number
            self._hosting.settle(self.number, number, size_bytes)
