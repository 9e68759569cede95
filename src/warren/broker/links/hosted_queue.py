"""One other node's use of a queue of this node: its publishes, which are counted and settled in order, and consumers.

Publishes of one turn to a queue of this node alone are settled when the turn ends; if some of them must be on disk,
when the turn's batch is flushed; if some are held because the queue may be deleted, when that is decided. They are
never settled before earlier ones. A list of marks has the flush and the held publishes that later publishes wait for.
Publishes to a mirrored queue are settled when its master reports them committed.

A consumer is able while its client has fewer unacked than its prefetch, while the deliveries that its node has not
handed to the client are within the window, and while the link has room. For the queue every such consumer acks: the
client's node acks deliveries of a consumer without acks when it hands them to the client.

Invariant: every publish up to the last reported number is as safe as the queue promises, or was refused.

Not here: questions (`broker.links.queue_requests`), records and deliveries (`broker.links.host_session`), the other
node's side (`broker.links.remote_queue`).
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64

from warren.broker.links import records
from warren.broker.links.queue_requests import ConsumeRequest, RequestedQueue
from warren.broker.links.records import FOR_GOOD
from warren.broker.metadata.transaction import TransactionWaiter
from warren.broker.model.master_port import MasterIntake, MasterWaiter
from warren.broker.model.message import Entry, Message
from warren.broker.model.ports import PENDING, REJECTED, SETTLED, ConsumerPort, PublishWaiter, QueuePort
from warren.broker.model.reader_positions import is_stream, wants_position
from warren.broker.model.turn import FlushWaiter, Turn
from warren.errors import NOT_FOUND, ChannelFault
from warren.wire.field_tables import Table

WINDOW_MESSAGES: Final[i64] = 4096
WINDOW_BYTES: Final[i64] = 2 * 1024 * 1024
"""The most deliveries on their way to a client; the client's node reports when half of them are handed over."""


class HostPort:
    """The other node, as its queues and consumers on this node use it."""

    def __init__(self, node: str, turn: Turn) -> None:
        self.node: str = node
        self.turn: Turn = turn
        # the link is lost
        self.over: bool = False
        # queues with publishes to settle at the end of the turn
        self.settling: list[HostedQueue] = []

    @abstractmethod
    def find_queue(self, vhost: str, name: str, queue_id: int) -> QueuePort | None: ...

    @abstractmethod
    def forget_master(self, queue_id: int, waiter: MasterWaiter) -> None: ...

    @abstractmethod
    def remove_queue(self, queue: QueuePort, waiter: TransactionWaiter) -> None: ...

    @abstractmethod
    def has_room(self) -> bool:
        """Whether the link has room for one more delivery."""

    @abstractmethod
    def deliver(self, consumer: "HostedConsumer", entry: Entry) -> None: ...

    @abstractmethod
    def consumer_decided(self, consumer: "HostedConsumer", joined: bool) -> None: ...

    @abstractmethod
    def consumer_gone(self, consumer: "HostedConsumer", flags: i64) -> None: ...

    @abstractmethod
    def send_record(self, kind: i64, number: i64, word: i64) -> None:
        """Send a record with one number about a queue."""

    @abstractmethod
    def settle(self, number: i64, publish_no: i64, size_bytes: i64) -> None: ...

    @abstractmethod
    def opened(self, number: i64, mark: i64, known: bool, epoch: int) -> None: ...

    @abstractmethod
    def answer(self, ticket: i64, ready: i64, consumers: i64) -> None: ...

    @abstractmethod
    def answer_got(self, ticket: i64, unacked: "UnackedEntries", entry: Entry, no_ack: bool, ready: i64) -> None: ...

    @abstractmethod
    def answer_fault(self, ticket: i64, fault: ChannelFault) -> None: ...


@final
class UnackedEntries:
    """Unsettled entries by delivery number: of one consumer, or of all basic.get on one queue."""

    def __init__(self, hosted: "HostedQueue", queue: QueuePort) -> None:
        self.hosted: HostedQueue = hosted
        self.queue: QueuePort = queue
        # in the order of their numbers
        self.entries: dict[int, Entry] = {}


@final
class HostedConsumer(ConsumerPort):
    """Takes a queue's messages for a client of another node."""

    def __init__(
        self,
        host_session: HostPort,
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
        # while it waits to join
        self.request: ConsumeRequest | None = None
        # a stream's reader may have to continue at another node
        self.tells_position: bool = wants_position(arguments) or is_stream(unacked.queue.arguments)
        self._host_session: HostPort = host_session
        # 0 means no limit
        self._prefetch: i64 = prefetch
        self._sent: i64 = 0
        self._sent_bytes: i64 = 0
        self._taken: i64 = 0
        self._taken_bytes: i64 = 0

    @property
    def node(self) -> str:
        """The node of its client."""
        return self._host_session.node

    def able(self) -> bool:
        if self.stopped or (self._prefetch != 0 and len(self.unacked.entries) >= self._prefetch):
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
        """Set its prefetch."""
        self._prefetch = prefetch
        self.unacked.queue.wake()

    def taken(self, count: i64, size_bytes: i64) -> None:
        """The client has this many of its deliveries, counted from the first."""
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

    `overtaken`: other consumers may have got later messages of the queue. A consumer gets a message out of order only
    if it is marked redelivered, so the returned entries are marked.
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
    """Publishes up to this one are settled when a batch is flushed and a number of held publishes is decided."""

    def __init__(self, batch_no: i64, withheld_no: i64, number: i64, size_bytes: i64) -> None:
        self.batch_no: i64 = batch_no
        self.withheld_no: i64 = withheld_no
        self.number: i64 = number
        self.size_bytes: i64 = size_bytes


@final
class HostedQueue(FlushWaiter, PublishWaiter, MasterWaiter, RequestedQueue):
    """The publishes of one node into one queue. The other node may have heard of the queue before this one.

    A mirrored queue is found when this node is its master. When it is not any more, records about the queue stay
    unanswered: the other node turns to the next master.
    """

    def __init__(
        self, host_session: HostPort, number: i64, vhost: str, name: str, queue_id: int, mirrored: bool = False
    ) -> None:
        self.number: i64 = number
        self.mirrored: bool = mirrored
        # the origin count of the other node's last publish to a mirrored queue
        self.count: i64 = 0
        self._intake: MasterIntake | None = None
        # how many entries the other node has in flight
        self.in_flight_count: i64 = 0
        self._host_session: HostPort = host_session
        self._vhost: str = vhost
        self._name: str = name
        self._queue_id: int = queue_id
        self._found: QueuePort | None = None
        self._got: UnackedEntries | None = None
        self._received: i64 = 0
        self._received_bytes: i64 = 0
        self._settled_no: i64 = 0
        # of a mirrored queue: publishes up to this one are committed
        self._committed: i64 = 0
        self._marks: list[PublishMark] = []
        # batches it waited for, counted as they are begun and as they are flushed
        self._batch_no: i64 = 0
        self._flushed_no: i64 = 0
        self._in_batch: bool = False
        # publishes that were held, counted as they come and as they are decided
        self._withheld_no: i64 = 0
        self._decided_no: i64 = 0
        # on the list of queues that settle publishes at the end of the turn
        self._due: bool = False

    # -- publishes

    def publish(self, message: Message, counted: bool) -> None:
        self._received += 1
        self._received_bytes += len(message.content)
        if not self._due:
            self._await_end()
        intake = self._intake
        if intake is not None:
            self.count += 1
            if intake.publish(self.count, self._received, message, counted) & REJECTED:
                self._host_session.send_record(records.REFUSED, self.number, self._received)
            return
        queue = self.found()
        if queue is None:
            self._host_session.send_record(records.REFUSED, self.number, self._received)
            return
        if not counted:
            queue.uncounted += 1
        outcome = queue.publish(message)
        if outcome != SETTLED:
            self._not_settled(queue, outcome)

    def fence(self) -> None:
        self._received += 1
        if self._intake is not None:
            self._intake.fence(self._received)
        else:
            self._await_batch()
        if not self._due:
            self._await_end()

    def end_turn(self) -> None:
        self._due = False
        self._in_batch = False
        # publishes that wait for nothing wait behind those that do
        last = self._marks[-1] if self._marks else None
        alike = last is not None and last.batch_no == self._batch_no and last.withheld_no == self._withheld_no
        if last is not None and alike and self._intake is None:
            last.number = self._received
            last.size_bytes = self._received_bytes
            return
        self._marks.append(PublishMark(self._batch_no, self._withheld_no, self._received, self._received_bytes))
        self._advance()

    def flushed(self) -> None:
        self._flushed_no += 1
        self._advance()

    def committed(self, place: i64) -> None:
        assert self._committed <= place <= self._received, "the master commits in order, and no more than it was given"
        self._committed = place
        self._advance()

    def settled(self, count: i64) -> None:
        self._decided_no += count
        self._advance()

    def refused(self, place: i64) -> None:
        self._host_session.send_record(records.REFUSED, self.number, place)

    def lost(self, reason: str) -> None:
        """A queue of this node is not lost while the node lives."""

    def _advance(self) -> None:
        """Settle all publishes that do not have to wait."""
        count = 0
        for mark in self._marks:
            if mark.batch_no > self._flushed_no or mark.withheld_no > self._decided_no:
                break
            if self._intake is not None and mark.number > self._committed:
                break
            count += 1
        if count:
            last = self._marks[count - 1]
            del self._marks[:count]
            if last.number > self._settled_no:
                self._settled_no = last.number
                self._host_session.settle(self.number, last.number, last.size_bytes)

    def _not_settled(self, queue: QueuePort, outcome: i64) -> None:
        if outcome & REJECTED:
            self._host_session.send_record(records.REFUSED, self.number, self._received)
        elif outcome & PENDING:
            self._await_batch()
        else:
            self._withheld_no += 1
            queue.await_settlement(self, self._received)

    def _await_batch(self) -> None:
        if not self._in_batch:
            self._in_batch = True
            self._batch_no += 1
            self._host_session.turn.await_flush(self)

    def _await_end(self) -> None:
        self._due = True
        self._host_session.settling.append(self)

    # -- the queue

    def usable(self) -> QueuePort:
        queue = self.found()
        if queue is None or queue.deleted:
            raise ChannelFault(NOT_FOUND, f"no queue '{self._name}' in vhost '{self._vhost}'")
        queue.check_usable()
        return queue

    def found(self) -> QueuePort | None:
        if self._found is None and not self.mirrored:
            self._found = self._host_session.find_queue(self._vhost, self._name, self._queue_id)
        return self._found

    def without_receiver(self) -> bool:
        if self._host_session.over:
            return True
        return self.mirrored and (self._found is None or self._found.deleted)

    def remove_queue(self, queue: QueuePort, waiter: TransactionWaiter) -> None:
        self._host_session.remove_queue(queue, waiter)

    # -- the master

    def opened(self, queue: QueuePort, intake: MasterIntake, mark: int, known: bool) -> None:
        if self._host_session.over:
            return
        self._found = queue
        self._intake = intake
        self.count = mark
        self._host_session.opened(self.number, mark, known, intake.epoch)

    def held(self, count: i64) -> None:
        self._host_session.send_record(records.HELD, self.number, count)

    def acked_late(self, positions: list[int]) -> None:
        if self._intake is not None:
            self._intake.acked_late(positions)

    def deserted(self) -> None:
        if self._intake is not None:
            self._intake.deserted()

    def forget_master(self) -> None:
        if self.mirrored:
            self._host_session.forget_master(self._queue_id, self)

    def await_commit(self, queue: QueuePort, waiter: FlushWaiter) -> None:
        if self._intake is not None:
            self._intake.await_commit(waiter)
        elif queue.durable:
            self._host_session.turn.await_flush(waiter)
        else:
            waiter.flushed()

    # -- answers

    def answer(self, ticket: i64, ready: i64, consumers: i64) -> None:
        self._host_session.answer(ticket, ready, consumers)

    def answer_got(self, ticket: i64, queue: QueuePort, entry: Entry, no_ack: bool) -> None:
        if self._got is None:
            self._got = UnackedEntries(self, queue)
        self._host_session.answer_got(ticket, self._got, entry, no_ack, queue.ready_count())

    def answer_fault(self, ticket: i64, fault: ChannelFault) -> None:
        self._host_session.answer_fault(ticket, fault)

    def consumer_decided(self, consumer: ConsumerPort, joined: bool) -> None:
        assert isinstance(consumer, HostedConsumer), "the client is on the other node"
        self._host_session.consumer_decided(consumer, joined)
