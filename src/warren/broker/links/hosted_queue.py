"""A queue of this node, as one other node uses it: what was published there is counted and settled in order.

What is published in one turn is settled at its end, or, if a part of it is for the disk, when this turn's batch is
flushed, or, if a part of it is withheld because the queue may be about to go, when that is decided; and never before
what came earlier. So what waits is a row of marks, each with what it waits for.

Invariant: everything up to the last number told is as safe as the queue promises, or was refused.

Not here: consumers (`broker.links.hosted_queue`), questions (`broker.links.host_session`).

A consumer whose client is at another node, as the queue at its home sees it.

It is able as long as its client has fewer unacked than its prefetch, as long as what was sent and not yet handed to the
client is within the window, and as long as its link has room. To its queue it always acks: what a consumer without acks
was given is acked by the client's node when it leaves for the client.

Not here: the client's side (`broker.links.remote_queue`), what comes back (`broker.links.host_session`).
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.broker.links import records
from warren.broker.links.records import FOR_GOOD
from warren.broker.model.master_port import MasterIntake, MasterWaiter
from warren.broker.model.message import Entry, Message
from warren.broker.model.ports import PENDING, REJECTED, SETTLED, ConsumerPort, PublishWaiter, QueuePort
from warren.broker.model.reader_positions import is_stream, wants_position
from warren.broker.model.turn import FlushWaiter
from warren.errors import NOT_FOUND, ChannelFault
from warren.wire.field_tables import Table

if TYPE_CHECKING:
    from warren.broker.links.host_session import HostSession


WINDOW_MESSAGES: Final[i64] = 4096
WINDOW_BYTES: Final[i64] = 2 * 1024 * 1024
"""What may be sent and not be in the client's hands; the client's node tells when half of it is."""


@final
class UnackedEntries:
    """What one consumer, or all who get from one queue, have not dealt with: entries by the numbers of deliveries."""

    def __init__(self, hosted: "HostedQueue", queue: QueuePort) -> None:
        self.hosted: HostedQueue = hosted
        self.queue: QueuePort = queue
        # in the order of their numbers
        self.lent: dict[int, Entry] = {}


@final
class HostedConsumer(ConsumerPort):
    """Takes a queue's messages for a client of another node."""

    def __init__(
        self,
        host_session: "HostSession",
        number: i64,
        unacked: UnackedEntries,
        tag: str,
        exclusive: bool,
        priority: i64,
        arguments: Table,
        prefetch: i64,
    ) -> None:
        super().__init__(tag, False, exclusive, priority, arguments)
        self.number: i64 = number
        self.unacked: UnackedEntries = unacked
        # what the client asked for, which is not what the queue is told
        self.acks: bool = True
        # a stream's reader may have to go on elsewhere
        self.tells_position: bool = wants_position(arguments) or is_stream(unacked.queue.arguments)
        self._host_session: HostSession = host_session
        # 0 means no limit
        self._prefetch: i64 = prefetch
        self._sent: i64 = 0
        self._sent_bytes: i64 = 0
        self._taken: i64 = 0
        self._taken_bytes: i64 = 0

    @property
    def node(self) -> str:
        """Where its client is."""
        return self._host_session.node

    def able(self) -> bool:
        if self.stopped or (self._prefetch != 0 and len(self.unacked.lent) >= self._prefetch):
            return False
        if self._sent - self._taken >= WINDOW_MESSAGES or self._sent_bytes - self._taken_bytes >= WINDOW_BYTES:
            return False
        return self._host_session.has_room()

    def unacked_max(self) -> int:
        return int(self._prefetch)

    def deliver(self, entry: Entry) -> None:
        self._sent += 1
        self._sent_bytes += len(entry.message.content)
        self._host_session.deliver(self, entry)

    def limit(self, prefetch: i64) -> None:
        """From here on it takes so many."""
        self._prefetch = prefetch
        self.unacked.queue.wake()

    def taken(self, count: i64, size_bytes: i64) -> None:
        """So many of its deliveries, in all, are in the client's hands."""
        self._taken = count
        self._taken_bytes = size_bytes
        self.unacked.queue.wake()

    def cancelled(self) -> None:
        self.stopped = True
        self._host_session.consumer_gone(self, 0)

    def ended(self) -> None:
        self.stopped = True
        self._host_session.consumer_gone(self, FOR_GOOD)


def requeue_unseen(queue: QueuePort, entries: list[Entry], overtaken: bool) -> None:
    """Return entries that no client has seen: they count as never delivered.

    `overtaken`: others take part who may have been given what comes after. Nobody is to be given anything out of order
    that is not marked redelivered, so these are.
    """
    marked = [entry.redelivered for entry in entries]
    for entry in entries:
        entry.delivery_count -= 1
    queue.requeue(entries)
    if not overtaken:
        for place in range(len(entries)):
            entries[place].redelivered = marked[place]


@final
class PublishMark:
    """All up to a publish, once a batch is flushed and so many that were withheld are decided."""

    def __init__(self, batch_no: i64, withheld_no: i64, number: i64, size_bytes: i64) -> None:
        self.batch_no: i64 = batch_no
        self.withheld_no: i64 = withheld_no
        self.number: i64 = number
        self.size_bytes: i64 = size_bytes


@final
class HostedQueue(FlushWaiter, PublishWaiter, MasterWaiter):
    """The publishes of one node into one queue. The other node may have heard of the queue before this one.

    A mirrored queue is there when this node is its master. When it is not any more, whatever comes stays unanswered:
    the other node turns to the next master with it.
    """

    def __init__(
        self, host_session: "HostSession", number: i64, vhost: str, name: str, queue_id: int, mirrored: bool = False
    ) -> None:
        self.number: i64 = number
        self.mirrored: bool = mirrored
        # how the other node counts what it sends to a mirrored queue
        self.count: i64 = 0
        self._intake: MasterIntake | None = None
        # how much of it the other node has
        self.lent_count: i64 = 0
        self._host_session: HostSession = host_session
        self._vhost: str = vhost
        self._name: str = name
        self._queue_id: int = queue_id
        self._found: QueuePort | None = None
        self._got: UnackedEntries | None = None
        self._received: i64 = 0
        self._received_bytes: i64 = 0
        self._told: i64 = 0
        self._marks: list[PublishMark] = []
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
            self._marks.append(PublishMark(self._batch_no, self._withheld_no, self._received, self._received_bytes))

    def flushed(self) -> None:
        self._flushed_no += 1
        self._advance()

    def settled(self, count: i64) -> None:
        self._decided_no += count
        self._advance()

    def refused(self, place: i64) -> None:
        self._host_session.tell(records.REFUSED, self.number, place)

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

    def got_from(self, queue: QueuePort) -> UnackedEntries:
        """What was got from it, and is not acked."""
        if self._got is None:
            self._got = UnackedEntries(self, queue)
        return self._got

    def opened(self, queue: QueuePort, intake: MasterIntake, mark: int, known: bool) -> None:
        if self._host_session.over:
            return
        self._found = queue
        self._intake = intake
        self.count = mark
        self._host_session.opened(self.number, mark, known, intake.epoch)

    def held(self, count: i64) -> None:
        self._host_session.tell(records.HELD, self.number, count)

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
            self._host_session.home.forget_master(self._queue_id, self)

    def await_commit(self, waiter: FlushWaiter) -> None:
        """Tell the waiter when what was done to the queue in this turn is as safe as it gets."""
        if self._intake is not None:
            self._intake.await_commit(waiter)
        else:
            self._host_session.turn.await_flush(waiter)

    def found(self) -> QueuePort | None:
        """The queue, if this node has heard of it."""
        if self._found is None and not self.mirrored:
            self._found = self._host_session.home.find_queue(self._vhost, self._name, self._queue_id)
        return self._found

    def _not_settled(self, queue: QueuePort | None, outcome: i64) -> None:
        if queue is None or outcome & REJECTED:
            self._host_session.tell(records.REFUSED, self.number, self._received)
        elif outcome & PENDING:
            self._await_batch()
        else:
            self._withheld_no += 1
            queue.await_settlement(self, self._received)

    def _await_batch(self) -> None:
        if not self._in_batch:
            self._in_batch = True
            self._batch_no += 1
            self.await_commit(self)

    def _await_end(self) -> None:
        self._due = True
        self._host_session.settling.append(self)

    def _tell(self, number: i64, size_bytes: i64) -> None:
        if number > self._told:
            self._told = number
            self._host_session.settle(self.number, number, size_bytes)
