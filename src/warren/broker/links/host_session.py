"""The home's side of a link: the other node's publishers and consumers, and what it asks.

Everything that was lent is noted under the number of its delivery. When the link is lost nothing of the other node
takes part any more: what it held goes back, in order, and then its consumers leave, so that a queue that is deleted
with its last consumer has everything by then.

Not here: one queue's publishes (`broker.links.hosted_queue`), the records (`broker.links.records`).

Questions of another node that something must be waited for: the disk, or other nodes.

Not here: those that are answered at once (`broker.links.host_session`).
"""

from abc import abstractmethod
from typing import TYPE_CHECKING, final

from librt.strings import BytesWriter
from mypy_extensions import i64, mypyc_attr

from warren.broker.links import records
from warren.broker.links.hosted_queue import HostedConsumer, HostedQueue, UnackedEntries, requeue_unseen
from warren.broker.metadata.transaction import TransactionWaiter, transaction_failed
from warren.broker.model.master_port import MasterWaiter
from warren.broker.model.message import Entry, Message
from warren.broker.model.ports import OutputPort, QueuePort
from warren.broker.model.remote_queue import IF_EMPTY, IF_UNUSED, check_removable
from warren.broker.model.turn import FlushWaiter, Turn
from warren.errors import ChannelFault, PeerFault
from warren.wire.scalars import write_longlong, write_longstr
from warren.wire.values import ArgumentReader

if TYPE_CHECKING:
    from warren.broker.links.link import NodeLink


@final
class HostedCountRequest(OutputPort):
    """What a declaration wants to know. Of a queue that outlived its use there is something to say when it is gone for
    everybody: then the other node may make one of its name, rather than being told that there is none."""

    def __init__(self, host_session: "HostSession", ticket: i64, hosted: "HostedQueue") -> None:
        self._host_session: HostSession = host_session
        self._ticket: i64 = ticket
        self._hosted: HostedQueue = hosted

    def flush(self) -> None:
        """It has no output of its own."""

    def go_on(self) -> None:
        if self._host_session.over or self._hosted.adrift():
            return
        found = self._hosted.found()
        if (
            found is not None
            and found.deleted
            and found.held_publishes is not None
            and found.held_publishes.await_end(self)
        ):
            return
        try:
            queue = self._hosted.usable()
        except ChannelFault as fault:
            self._host_session.answer_fault(self._ticket, fault)
            return
        queue.touch()
        queue.drain()
        self._host_session.answer(self._ticket, queue.ready_count(), queue.consumer_count())


@final
class HostedGetRequest(OutputPort):
    """A get, which waits until the entry is in memory."""

    def __init__(self, host_session: "HostSession", ticket: i64, hosted: "HostedQueue", no_ack: bool) -> None:
        self._host_session: HostSession = host_session
        self._ticket: i64 = ticket
        self._hosted: HostedQueue = hosted
        self._no_ack: bool = no_ack

    def flush(self) -> None:
        """It has no output of its own."""

    def go_on(self) -> None:
        if self._host_session.over or self._hosted.adrift():
            return
        try:
            self._get(self._hosted.usable())
        except ChannelFault as fault:
            self._host_session.answer_fault(self._ticket, fault)

    def _get(self, queue: QueuePort) -> None:
        queue.touch()
        if not queue.at_hand():
            queue.await_entry(self)
            return
        entry = queue.get(self._no_ack)
        if entry is None:
            self._host_session.answer(self._ticket, 0, 0)
        else:
            unacked = self._hosted.got_from(queue)
            self._host_session.answer_got(self._ticket, unacked, entry, self._no_ack, queue.ready_count())


@final
class HostedPurgeRequest(FlushWaiter):
    """A purge, answered when the disk knows of it."""

    def __init__(self, host_session: "HostSession", ticket: i64, hosted: "HostedQueue") -> None:
        self._host_session: HostSession = host_session
        self._ticket: i64 = ticket
        queue = hosted.usable()
        self._count: i64 = queue.purge()
        if self._count != 0 and (queue.durable or hosted.mirrored):
            hosted.await_commit(self)
        else:
            self.flushed()

    def flushed(self) -> None:
        self._host_session.answer(self._ticket, self._count, 0)


@final
class HostedConsumeRequest(OutputPort):
    """A consumer that is to join, which waits while it is not decided whether its queue goes."""

    def __init__(self, host_session: "HostSession", ticket: i64, consumer: "HostedConsumer") -> None:
        self._host_session: HostSession = host_session
        self._ticket: i64 = ticket
        self._consumer: HostedConsumer = consumer

    def flush(self) -> None:
        """It has no output of its own."""

    def begin(self) -> None:
        queue = self._consumer.unacked.queue
        if not queue.deleted and queue.held_publishes is not None and queue.held_publishes.await_end(self):
            self._host_session.joining[int(self._consumer.number)] = self
        else:
            self._join()

    def go_on(self) -> None:
        number = int(self._consumer.number)
        # unless it was cancelled meanwhile
        if self._host_session.joining.get(number) is self:
            del self._host_session.joining[number]
            self.begin()

    def forget(self, hosted: "HostedQueue") -> None:
        """The other node has nothing more to do with that queue."""
        if self._consumer.unacked.hosted is hosted:
            del self._host_session.joining[int(self._consumer.number)]

    def _join(self) -> None:
        hosted = self._consumer.unacked.hosted
        if hosted.adrift():
            # whoever asks will ask the next master
            return
        try:
            hosted.usable()
            self._host_session.add_consumer(self._consumer)
        except ChannelFault as fault:
            self._host_session.answer_fault(self._ticket, fault)
        else:
            # of a stream's reader: where it begins, and one
            self._host_session.answer(self._ticket, hosted.usable().begins_at(self._consumer) + 1, 0)


@final
class HostedDeleteRequest(OutputPort):
    """A deletion under a condition, which this node looks after until all nodes agree."""

    def __init__(self, host_session: "HostSession", ticket: i64, hosted: "HostedQueue", conditions: i64) -> None:
        self._host_session: HostSession = host_session
        self._ticket: i64 = ticket
        self._hosted: HostedQueue = hosted
        self._conditions: i64 = conditions

    def flush(self) -> None:
        """It has no output of its own."""

    def go_on(self) -> None:
        if self._host_session.over or self._hosted.adrift():
            return
        queue = self._hosted.found()
        if queue is not None and queue.held_publishes is not None and queue.held_publishes.await_end(self):
            return
        if queue is None or queue.deleted:
            self._host_session.answer(self._ticket, 0, 0)
        else:
            self._remove(queue)

    def failed(self, fault: ChannelFault) -> None:
        if not self._host_session.over:
            self._host_session.answer_fault(self._ticket, fault)

    def _remove(self, queue: QueuePort) -> None:
        try:
            check_removable(queue, self._conditions & IF_EMPTY != 0, self._conditions & IF_UNUSED != 0)
        except ChannelFault as fault:
            self.failed(fault)
            return
        ending = HostedDeleteCompletion(self, self._host_session, self._ticket, queue.ready_count())
        self._host_session.home.remove_queue(queue, ending)


@final
class HostedDeleteCompletion(TransactionWaiter):
    """What the other node is told of it."""

    def __init__(
        self, removal: HostedDeleteRequest, host_session: "HostSession", ticket: i64, message_count: i64
    ) -> None:
        self._removal: HostedDeleteRequest = removal
        self._host_session: HostSession = host_session
        self._ticket: i64 = ticket
        self._message_count: i64 = message_count

    def agreed(self) -> None:
        self._host_session.answer(self._ticket, self._message_count, 0)

    def outdated(self) -> None:
        # behind whoever waited
        self._host_session.turn.inputs.append(self._removal)

    def failed(self, reason: str) -> None:
        self._removal.failed(transaction_failed(reason))


@mypyc_attr(allow_interpreted_subclasses=True)
class LinkHost:
    """This node, as the others see it."""

    @abstractmethod
    def find_queue(self, vhost: str, name: str, queue_id: int) -> QueuePort | None:
        """The queue of that name that lives here; if the id is not 0, that very one."""

    @abstractmethod
    def remove_queue(self, queue: QueuePort, waiter: TransactionWaiter) -> None:
        """Delete a queue that was found to be empty, or unused, and stays so until that is decided."""

    @abstractmethod
    def reply_arrived(self, inbox: str, message: Message) -> None:
        """A direct reply for an inbox of this node, if it is still there."""

    @abstractmethod
    def notice_arrived(self, node: str, data: bytes) -> None:
        """What the other node gave to `Links.notify`."""

    def await_master(self, queue_id: int, node: str, waiter: MasterWaiter) -> None:
        """Tell the waiter, who speaks for a node, when this one is master of the queue, and the queue is open."""
        raise PeerFault("a mirrored queue is wanted, and there are none here")

    def forget_master(self, queue_id: int, waiter: MasterWaiter) -> None:
        """It does not wait any more."""
        return

    def replication_arrived(self, node: str, data: bytes, start: i64, end: i64) -> None:
        """What the other node gave to `Links.send_ring`."""
        raise PeerFault("a message of a ring came, and there are none here")


@final
class HostSession:
    """What one other node has here."""

    def __init__(self, link: "NodeLink", home: LinkHost, turn: Turn) -> None:
        self.node: str = link.node
        self.turn: Turn = turn
        # queues with publishes to settle at the end of the turn
        self.settling: list[HostedQueue] = []
        # the link is lost
        self.over: bool = False
        self._link: NodeLink = link
        self.home: LinkHost = home
        # a consumer could take no more because the link could not; who is the first to go on after that
        self._starved: bool = False
        self._first: int = 0
        # what was published last, in case it is for another queue, too
        self._last_published: Message | None = None
        self._queues: dict[int, HostedQueue] = {}
        self._consumers: dict[int, HostedConsumer] = {}
        # who wants to consume from a queue that may be about to go
        self.joining: dict[int, HostedConsumeRequest] = {}
        self._delivered: i64 = 0
        # who has what was delivered under a number
        self._holders: dict[int, UnackedEntries] = {}

    # -- what goes there

    def deliver(self, consumer: HostedConsumer, entry: Entry) -> None:
        self._lend(consumer.unacked, entry)
        flags: i64 = records.REDELIVERED if entry.redelivered else 0
        if consumer.unacked.hosted.mirrored or consumer.tells_position:
            self._link.send_lent(flags, consumer.number, entry.message, entry.position)
        else:
            self._link.send_message(records.DELIVER, flags, consumer.number, entry.message)

    def consumer_gone(self, consumer: HostedConsumer, flags: i64) -> None:
        if self._consumers.pop(int(consumer.number), None) is not None:
            records.write_words(self._link.output(), records.CONSUMER_GONE, flags, [int(consumer.number)])

    def tell(self, kind: i64, number: i64, word: i64) -> None:
        """Something about a queue."""
        if not self.over:
            records.write_words(self._link.output(), kind, 0, [int(number), int(word)])

    def settle(self, number: i64, publish_no: i64, size_bytes: i64) -> None:
        if not self.over:
            words = [int(number), int(publish_no), int(size_bytes)]
            records.write_words(self._link.output(), records.SETTLED, 0, words)

    def opened(self, number: i64, mark: i64, known: bool, epoch: int) -> None:
        words = [int(number), int(mark), 1 if known else 0, epoch]
        records.write_words(self._link.output(), records.OPENED, 0, words)

    def answer(self, ticket: i64, ready: i64, consumers: i64) -> None:
        if ticket != 0 and not self.over:
            words = [int(ticket), int(ready), int(consumers)]
            records.write_words(self._link.output(), records.COUNTED, 0, words)

    def answer_fault(self, ticket: i64, fault: ChannelFault) -> None:
        payload = BytesWriter()
        write_longlong(payload, int(ticket))
        write_longlong(payload, fault.code)
        write_longstr(payload, fault.text.encode("utf-8", "surrogateescape"))
        records.write_text(self._link.output(), records.FAULT, 0, payload.getvalue())

    def answer_got(self, ticket: i64, unacked: UnackedEntries, entry: Entry, no_ack: bool, ready: i64) -> None:
        if no_ack:
            self._delivered += 1
        else:
            self._lend(unacked, entry)
            if unacked.hosted.mirrored:
                records.write_words(self._link.output(), records.POSITION, 0, [int(entry.position)])
        flags: i64 = records.REDELIVERED if entry.redelivered else 0
        self._link.send_got(flags, ticket, entry.message, ready)

    def end_turn(self) -> None:
        if self.settling:
            settling = self.settling
            self.settling = []
            for queue in settling:
                queue.end_turn()

    def has_room(self) -> bool:
        """Whether its consumers may be sent one more."""
        if self._link.has_room():
            return True
        self._starved = True
        return False

    def go_on(self) -> None:
        """The link has room: whoever waited for that is the next turn's work, and each time another is the first."""
        if not self._starved or self._link.paused:
            return
        self._starved = False
        consumers = list(self._consumers.values())
        self._first = (self._first + 1) % max(len(consumers), 1)
        for consumer in consumers[self._first :] + consumers[: self._first]:
            consumer.unacked.queue.wake()

    def lent_of(self, queue: QueuePort) -> list[Entry]:
        """What the other node has of a queue."""
        found: list[Entry] = []
        for number, unacked in self._holders.items():
            if unacked.queue is queue:
                found.append(unacked.lent[number])
        return found

    # -- what comes from there

    def publish(self, number: i64, flags: i64, message: Message) -> None:
        self._last_published = message
        self._queue(number).publish(message, flags & records.UNCOUNTED == 0)

    def publish_again(self, flags: i64, arguments: ArgumentReader) -> None:
        message = self._last_published
        if message is None:
            raise PeerFault("nothing was published before")
        self._queue(arguments.longlong()).publish(message, flags & records.UNCOUNTED == 0)

    def acked(self, arguments: ArgumentReader) -> None:
        first, last = arguments.longlong(), arguments.longlong()
        if first < 1 or last < first or last > self._delivered:
            raise PeerFault(f"an ack of deliveries {first} to {last} of {self._delivered}")
        if last - first >= len(self._holders):
            for number in [number for number in self._holders if first <= number <= last]:
                self._ack(number)
            return
        while first <= last:
            self._ack(int(first))
            first += 1

    def take(self, kind: i64, flags: i64, arguments: ArgumentReader) -> None:
        """Everything that is not sent for each message."""
        if kind == records.REQUEUED:
            self._requeue(_numbers(arguments))
        elif kind == records.REJECTED:
            for number in _numbers(arguments):
                unacked, entry = self._taken_back(number)
                if unacked is not None and entry is not None:
                    unacked.queue.reject(entry)
        elif kind == records.RETURNED:
            for number in _numbers(arguments):
                unacked, entry = self._taken_back(number)
                if unacked is not None and entry is not None:
                    requeue_unseen(unacked.queue, [entry], unacked.queue.consumer_count() > 0)
        elif kind == records.CREDIT:
            consumer = self._consumers.get(int(arguments.longlong()))
            count, size_bytes = arguments.longlong(), arguments.longlong()
            if consumer is not None:
                consumer.taken(count, size_bytes)
        elif kind == records.LIMIT:
            limited = self._consumers.get(int(arguments.longlong()))
            if limited is not None:
                limited.limit(arguments.longlong())
        elif kind == records.STOP:
            stopped = self._consumers.get(int(arguments.longlong()))
            if stopped is not None:
                stopped.stopped = True
        elif kind == records.QUEUE:
            self._define_queue(arguments, flags & records.MIRRORED != 0)
        elif kind == records.NEXT:
            hosted = self._queue(arguments.longlong())
            hosted.count = arguments.longlong() - 1
        elif kind == records.ACKED_BY_POSITION:
            self._queue(arguments.longlong()).acked_late(_numbers(arguments))
        elif kind == records.CONSUMERS_GONE:
            self._queue(arguments.longlong()).deserted()
        elif kind == records.FORGET_QUEUE:
            self._forget_queue(arguments.longlong())
        elif kind == records.PUBLISH_AGAIN:
            self.publish_again(flags, arguments)
        elif kind == records.FENCE:
            self._queue(arguments.longlong()).fence()
        else:
            self._asked(kind, flags, arguments)

    def lost(self) -> None:
        """The other node is not to be seen any more."""
        self.over = True
        self.joining = {}
        for hosted in self._queues.values():
            hosted.forget_master()
        self._withdraw(list(self._consumers.values()), list(self._holders))

    # -- questions

    def _asked(self, kind: i64, flags: i64, arguments: ArgumentReader) -> None:
        ticket = arguments.longlong()
        if kind == records.CANCEL:
            self._cancel(arguments)
            self.answer(ticket, 0, 0)
            return
        hosted = self._queue(arguments.longlong())
        if hosted.adrift():
            # whoever asks will ask the next master
            return
        try:
            if kind == records.COUNT:
                HostedCountRequest(self, ticket, hosted).go_on()
            elif kind == records.PURGE:
                HostedPurgeRequest(self, ticket, hosted)
            elif kind == records.GET:
                HostedGetRequest(self, ticket, hosted, flags & records.NO_ACK != 0).go_on()
            elif kind == records.CONSUME:
                self._consume(ticket, hosted, flags, arguments)
            elif kind == records.REMOVE:
                HostedDeleteRequest(self, ticket, hosted, flags).go_on()
            else:
                raise PeerFault(f"a record of kind {kind}")
        except ChannelFault as fault:
            self.answer_fault(ticket, fault)

    def _consume(self, ticket: i64, hosted: HostedQueue, flags: i64, arguments: ArgumentReader) -> None:
        queue = hosted.usable()
        number, priority, prefetch = arguments.longlong(), arguments.longlong(), arguments.longlong()
        tag = arguments.shortstr()
        if int(number) in self._consumers or int(number) in self.joining or prefetch < 0:
            raise PeerFault(f"consumer {number} makes no sense")
        exclusive = flags & records.EXCLUSIVE != 0
        unacked = UnackedEntries(hosted, queue)
        consumer = HostedConsumer(self, number, unacked, tag, exclusive, priority, arguments.table(), prefetch)
        consumer.acks = flags & records.NO_ACK == 0
        HostedConsumeRequest(self, ticket, consumer).begin()

    def add_consumer(self, consumer: HostedConsumer) -> None:
        consumer.unacked.queue.add_consumer(consumer)
        self._consumers[int(consumer.number)] = consumer

    def _cancel(self, arguments: ArgumentReader) -> None:
        """It leaves; what came after the last delivery its client saw goes back as if it had never left."""
        number, seen = arguments.longlong(), arguments.longlong()
        self.joining.pop(int(number), None)
        consumer = self._consumers.pop(int(number), None)
        if consumer is None:
            return
        consumer.stopped = True
        unacked = consumer.unacked
        unseen: list[Entry] = []
        for unseen_no in [unseen_no for unseen_no in unacked.lent if unseen_no > seen]:
            entry = self._taken_back(unseen_no)[1]
            if entry is not None:
                unseen.append(entry)
        requeue_unseen(unacked.queue, unseen, unacked.queue.consumer_count() > 1)
        unacked.queue.remove_consumer(consumer)

    # -- loans

    def _lend(self, unacked: UnackedEntries, entry: Entry) -> None:
        self._delivered += 1
        number = int(self._delivered)
        self._holders[number] = unacked
        unacked.lent[number] = entry
        unacked.hosted.lent_count += 1

    def _ack(self, number: int) -> None:
        unacked = self._holders.pop(number, None)
        if unacked is not None:
            unacked.hosted.lent_count -= 1
            unacked.queue.ack(unacked.lent.pop(number))

    def _taken_back(self, number: int) -> tuple[UnackedEntries | None, Entry | None]:
        unacked = self._holders.pop(number, None)
        if unacked is None:
            return None, None
        unacked.hosted.lent_count -= 1
        return unacked, unacked.lent.pop(number)

    def _withdraw(self, consumers: list[HostedConsumer], numbers: list[int]) -> None:
        """Consumers leave, and what was lent under these numbers goes back first, none of it to one of them."""
        for consumer in consumers:
            consumer.stopped = True
            del self._consumers[int(consumer.number)]
        self._requeue(numbers)
        for consumer in consumers:
            consumer.unacked.queue.remove_consumer(consumer)

    def _requeue(self, numbers: list[int]) -> None:
        by_queue: dict[QueuePort, list[Entry]] = {}
        for number in numbers:
            unacked, entry = self._taken_back(number)
            if unacked is not None and entry is not None:
                by_queue.setdefault(unacked.queue, []).append(entry)
        for queue, entries in by_queue.items():
            queue.requeue(entries)

    # -- queues

    def _queue(self, number: i64) -> HostedQueue:
        found = self._queues.get(int(number))
        if found is None:
            raise PeerFault(f"nobody has defined queue {number}")
        return found

    def _define_queue(self, arguments: ArgumentReader, mirrored: bool) -> None:
        number, queue_id = arguments.longlong(), arguments.longlong()
        vhost = arguments.longstr().decode("utf-8", "surrogateescape")
        name = arguments.longstr().decode("utf-8", "surrogateescape")
        if int(number) in self._queues:
            raise PeerFault(f"queue {number} is defined twice")
        hosted = HostedQueue(self, number, vhost, name, int(queue_id), mirrored)
        self._queues[int(number)] = hosted
        if mirrored:
            self.home.await_master(int(queue_id), self.node, hosted)

    def _forget_queue(self, number: i64) -> None:
        """The other node has heard that it is deleted, perhaps before this one: nothing more of it comes from there."""
        hosted = self._queues.pop(int(number), None)
        if hosted is None:
            return
        hosted.forget_master()
        for joining in list(self.joining.values()):
            joining.forget(hosted)
        consumers = [consumer for consumer in self._consumers.values() if consumer.unacked.hosted is hosted]
        numbers: list[int] = []
        if hosted.lent_count != 0:
            numbers = [number for number, unacked in self._holders.items() if unacked.hosted is hosted]
        self._withdraw(consumers, numbers)


def _numbers(arguments: ArgumentReader) -> list[int]:
    numbers: list[int] = []
    while not arguments.at_end():
        numbers.append(int(arguments.longlong()))
    return numbers
