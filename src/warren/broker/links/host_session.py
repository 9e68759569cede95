"""The home's side of a link: the other node's publishers and consumers, and its questions.

Every delivery is noted under its number until it is settled. When the link is lost, the unacked entries of the other
node go back to their queues, in order, and then its consumers leave. In this order an auto-delete queue, which is
deleted with its last consumer, has all its entries when it is deleted.

Not here: one queue's publishes and consumers (`broker.links.hosted_queue`), questions that wait
(`broker.links.queue_requests`), the records (`broker.links.records`).
"""

from abc import abstractmethod
from typing import final

from librt.strings import BytesWriter
from mypy_extensions import i64, mypyc_attr

from warren.broker.links import records
from warren.broker.links.hosted_queue import HostedConsumer, HostedQueue, HostPort, UnackedEntries, requeue_unseen
from warren.broker.links.link_sender import LinkSender
from warren.broker.links.queue_requests import (
    ConsumeRequest,
    CountRequest,
    DeleteRequest,
    GetRequest,
    PurgeRequest,
)
from warren.broker.metadata.transaction import TransactionWaiter
from warren.broker.model.master_port import MasterWaiter
from warren.broker.model.message import Entry, Message
from warren.broker.model.ports import QueuePort
from warren.broker.model.turn import Turn
from warren.errors import ChannelFault, PeerFault
from warren.wire.scalars import write_longlong, write_longstr
from warren.wire.values import ArgumentReader


@mypyc_attr(allow_interpreted_subclasses=True)
class LinkHost:
    """The services of this node for other nodes."""

    @abstractmethod
    def find_queue(self, vhost: str, name: str, queue_id: int) -> QueuePort | None:
        """The queue of that name on this node, if it has this id; id 0 means any."""

    @abstractmethod
    def remove_queue(self, queue: QueuePort, waiter: TransactionWaiter) -> None:
        """Delete a queue that was found empty or unused, and keep it so until the delete is decided."""

    @abstractmethod
    def reply_arrived(self, inbox: str, message: Message) -> None:
        """A direct reply for an inbox of this node, which may be gone."""

    @abstractmethod
    def notice_arrived(self, node: str, data: bytes) -> None:
        """The other node called `NodeLinks.notify`."""

    def await_master(self, queue_id: int, node: str, waiter: MasterWaiter) -> None:
        """Tell the waiter, on behalf of a node, when this node is the queue's master and the queue is open."""
        raise PeerFault("a mirrored queue is wanted, and there are none here")

    def forget_master(self, queue_id: int, waiter: MasterWaiter) -> None:
        """Withdraw a waiter."""
        return

    def replication_arrived(self, node: str, data: bytes, start: i64, end: i64) -> None:
        """The other node called `NodeLinks.send_replication`."""
        raise PeerFault("a message of a replica set came, and there are none here")


@final
class HostSession(HostPort):
    """One other node's publishers, consumers and questions here."""

    def __init__(self, link: LinkSender, home: LinkHost, turn: Turn) -> None:
        super().__init__(link.node, turn)
        self._link: LinkSender = link
        self._home: LinkHost = home
        # a consumer was stopped because the link was full; and the consumer that is woken first afterwards
        self._starved: bool = False
        self._first: int = 0
        # the last message, which may also go to another queue
        self._last_published: Message | None = None
        self._queues: dict[int, HostedQueue] = {}
        self._consumers: dict[int, HostedConsumer] = {}
        # consumers that wait to join
        self._joining: dict[int, HostedConsumer] = {}
        self._delivered: i64 = 0
        # by the numbers of deliveries
        self._holders: dict[int, UnackedEntries] = {}

    # -- this node

    def find_queue(self, vhost: str, name: str, queue_id: int) -> QueuePort | None:
        return self._home.find_queue(vhost, name, queue_id)

    def forget_master(self, queue_id: int, waiter: MasterWaiter) -> None:
        self._home.forget_master(queue_id, waiter)

    def remove_queue(self, queue: QueuePort, waiter: TransactionWaiter) -> None:
        self._home.remove_queue(queue, waiter)

    # -- records that go there

    def deliver(self, consumer: HostedConsumer, entry: Entry) -> None:
        self._record_delivery(consumer.unacked, entry)
        flags: i64 = records.REDELIVERED if entry.redelivered else 0
        if consumer.unacked.hosted.mirrored or consumer.tells_position:
            self._link.send_positioned_delivery(flags, consumer.number, entry.message, entry.position)
        else:
            self._link.send_message(records.DELIVER, flags, consumer.number, entry.message)

    def consumer_gone(self, consumer: HostedConsumer, flags: i64) -> None:
        if self._consumers.pop(int(consumer.number), None) is not None:
            records.write_words(self._link.output(), records.CONSUMER_GONE, flags, [int(consumer.number)])

    def send_record(self, kind: i64, number: i64, word: i64) -> None:
        """Send a record with one number about a queue."""
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
        if self.over:
            return
        payload = BytesWriter()
        write_longlong(payload, int(ticket))
        write_longlong(payload, fault.code)
        write_longstr(payload, fault.text.encode("utf-8", "surrogateescape"))
        records.write_text(self._link.output(), records.FAULT, 0, payload.getvalue())

    def answer_got(self, ticket: i64, unacked: UnackedEntries, entry: Entry, no_ack: bool, ready: i64) -> None:
        if no_ack:
            self._delivered += 1
        else:
            self._record_delivery(unacked, entry)
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
        """Whether the link has room for one more delivery."""
        if self._link.has_room():
            return True
        self._starved = True
        return False

    def go_on(self) -> None:
        """The link has room: wake the consumers that waited for it, starting with another one each time."""
        if not self._starved or self._link.lane.paused:
            return
        self._starved = False
        consumers = list(self._consumers.values())
        self._first = (self._first + 1) % max(len(consumers), 1)
        for consumer in consumers[self._first :] + consumers[: self._first]:
            consumer.unacked.queue.wake()

    def lent_of(self, queue: QueuePort) -> list[Entry]:
        """Entries of a queue that clients of the other node hold."""
        found: list[Entry] = []
        for number, unacked in self._holders.items():
            if unacked.queue is queue:
                found.append(unacked.entries[number])
        return found

    # -- records that come from there

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
        """Records that are not sent for each message."""
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
            self._request_received(kind, flags, arguments)

    def lost(self) -> None:
        """The link is lost."""
        self.over = True
        for consumer in list(self._joining.values()):
            self._drop_joining(consumer)
        for hosted in self._queues.values():
            hosted.forget_master()
        self._withdraw(list(self._consumers.values()), list(self._holders))

    # -- questions

    def _request_received(self, kind: i64, flags: i64, arguments: ArgumentReader) -> None:
        ticket = arguments.longlong()
        if kind == records.CANCEL:
            self._cancel(arguments)
            self.answer(ticket, 0, 0)
            return
        hosted = self._queue(arguments.longlong())
        if hosted.without_receiver():
            # the asker asks the next master
            return
        try:
            if kind == records.COUNT:
                CountRequest(hosted, ticket).go_on()
            elif kind == records.PURGE:
                PurgeRequest(hosted, ticket)
            elif kind == records.GET:
                GetRequest(hosted, ticket, flags & records.NO_ACK != 0).go_on()
            elif kind == records.CONSUME:
                self._consume(ticket, hosted, flags, arguments)
            elif kind == records.REMOVE:
                DeleteRequest(hosted, ticket, flags, self.turn).go_on()
            else:
                raise PeerFault(f"a record of kind {kind}")
        except ChannelFault as fault:
            self.answer_fault(ticket, fault)

    def _consume(self, ticket: i64, hosted: HostedQueue, flags: i64, arguments: ArgumentReader) -> None:
        queue = hosted.usable()
        number, priority, prefetch = arguments.longlong(), arguments.longlong(), arguments.longlong()
        tag = arguments.shortstr()
        if int(number) in self._consumers or int(number) in self._joining or prefetch < 0:
            raise PeerFault(f"consumer {number} makes no sense")
        exclusive = flags & records.EXCLUSIVE != 0
        unacked = UnackedEntries(hosted, queue)
        consumer = HostedConsumer(self, number, unacked, tag, exclusive, priority, arguments.table(), prefetch)
        consumer.request = ConsumeRequest(hosted, ticket, queue, consumer)
        self._joining[int(number)] = consumer
        consumer.request.go_on()

    def consumer_decided(self, consumer: HostedConsumer, joined: bool) -> None:
        del self._joining[int(consumer.number)]
        consumer.request = None
        if joined:
            self._consumers[int(consumer.number)] = consumer

    def _drop_joining(self, consumer: HostedConsumer) -> None:
        assert consumer.request is not None, "a joining consumer has a request"
        consumer.request.dropped = True
        del self._joining[int(consumer.number)]

    def _cancel(self, arguments: ArgumentReader) -> None:
        """A consumer leaves; deliveries that its client never saw go back to the queue as if never delivered."""
        number, seen = arguments.longlong(), arguments.longlong()
        joining = self._joining.get(int(number))
        if joining is not None:
            self._drop_joining(joining)
        consumer = self._consumers.pop(int(number), None)
        if consumer is None:
            return
        consumer.stopped = True
        unacked = consumer.unacked
        unseen: list[Entry] = []
        for unseen_no in [unseen_no for unseen_no in unacked.entries if unseen_no > seen]:
            entry = self._taken_back(unseen_no)[1]
            if entry is not None:
                unseen.append(entry)
        requeue_unseen(unacked.queue, unseen, unacked.queue.consumer_count() > 1)
        unacked.queue.remove_consumer(consumer)

    # -- entries in flight

    def _record_delivery(self, unacked: UnackedEntries, entry: Entry) -> None:
        self._delivered += 1
        number = int(self._delivered)
        self._holders[number] = unacked
        unacked.entries[number] = entry
        unacked.hosted.in_flight_count += 1

    def _ack(self, number: int) -> None:
        unacked = self._holders.pop(number, None)
        if unacked is not None:
            unacked.hosted.in_flight_count -= 1
            unacked.queue.ack(unacked.entries.pop(number))

    def _taken_back(self, number: int) -> tuple[UnackedEntries | None, Entry | None]:
        unacked = self._holders.pop(number, None)
        if unacked is None:
            return None, None
        unacked.hosted.in_flight_count -= 1
        return unacked, unacked.entries.pop(number)

    def _withdraw(self, consumers: list[HostedConsumer], numbers: list[int]) -> None:
        """Consumers leave. Their unacked entries are requeued first, and not delivered to these consumers again."""
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
            raise PeerFault(f"queue {number} is not defined")
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
            self._home.await_master(int(queue_id), self.node, hosted)

    def _forget_queue(self, number: i64) -> None:
        """The other node learned that the queue is deleted or has another master; this node may not know it yet."""
        hosted = self._queues.pop(int(number), None)
        if hosted is None:
            return
        hosted.forget_master()
        for joining in list(self._joining.values()):
            if joining.unacked.hosted is hosted:
                self._drop_joining(joining)
        consumers = [consumer for consumer in self._consumers.values() if consumer.unacked.hosted is hosted]
        numbers: list[int] = []
        if hosted.in_flight_count != 0:
            numbers = [number for number, unacked in self._holders.items() if unacked.hosted is hosted]
        if hosted.mirrored:
            self._leave_master(consumers, numbers)
        else:
            self._withdraw(consumers, numbers)

    def _leave_master(self, consumers: list[HostedConsumer], numbers: list[int]) -> None:
        """The term of this master is over, even if this node does not know it yet. So the entries that clients of the
        other node hold are not requeued, and an auto-delete queue is not deleted when its consumers leave."""
        for consumer in consumers:
            consumer.stopped = True
            del self._consumers[int(consumer.number)]
        for number in numbers:
            self._taken_back(number)


def _numbers(arguments: ArgumentReader) -> list[int]:
    numbers: list[int] = []
    while not arguments.at_end():
        numbers.append(int(arguments.longlong()))
    return numbers
