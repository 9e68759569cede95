"""The master of a mirrored queue when it is on this node: the proxy's calls reach the master replica and the queue.

::

    proxy.publish ──► DirectMaster.send ──► MasterIntake.publish ──► the turn's batch
    proxy         ◄── committed, held, refused, opened: before the turn ends (`LocalMasters`)
    queue         ──► DirectConsumer.deliver ──► the client's consumer, at once

Publishes, acks and questions take effect when the session makes them, as with a queue of this node alone; a message is
visible when its batch is committed. The master's reports wait on the list of `LocalMasters` until the end of the round:
the master replica may be in the middle of a commit, and the proxy may publish again when it hears of one.

A delivery to a client is a separate entry. It has its position in the queue, as a delivery over a link has: the ack
finds the queue's entry by the position, and a later master can tell that an earlier one made the delivery.

Invariant: the lane of this node counts the bytes in the windows of all proxies whose master is here and open.

Not here: the master over a link (`broker.links.remote_queue`), the replica (`broker.replication.master_replica`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.links.admission import AdmissionLane, LinkAdmission
from warren.broker.links.host_session import LinkHost
from warren.broker.links.hosted_queue import requeue_unseen
from warren.broker.links.queue_requests import (
    ConsumeRequest,
    CountRequest,
    DeleteRequest,
    GetRequest,
    PurgeRequest,
    RequestedQueue,
)
from warren.broker.metadata.transaction import TransactionWaiter
from warren.broker.model.master_port import MasterIntake, MasterListener, MasterPort, MasterWaiter
from warren.broker.model.message import Entry, Message
from warren.broker.model.ports import AWAITED, CONGESTED, REJECTED, ConsumerPort, OutputPort, QueuePort
from warren.broker.model.reader_positions import AT_HOME, is_stream
from warren.broker.model.remote_queue import (
    CANCEL,
    CONSUME,
    COUNT,
    GET,
    GET_NO_ACK,
    PURGE,
    REMOVE,
    QueueAnswer,
    RemoteQueuePort,
)
from warren.broker.model.turn import FlushWaiter, Turn
from warren.errors import NOT_FOUND, ChannelFault, InvariantBroken

NO_DELIVERY: Final[i64] = -1
"""The position of a delivery that came over no link."""


@final
class LocalMasters:
    """The ports to masters on this node, and the list of those with a report."""

    def __init__(self, node: str, home: LinkHost, turn: Turn, admission: LinkAdmission) -> None:
        self.node: str = node
        self.home: LinkHost = home
        self.turn: Turn = turn
        self.admission: LinkAdmission = admission
        self.lane: AdmissionLane = AdmissionLane()
        self.due: list[DirectMaster] = []

    def end_round(self) -> None:
        """Report to the proxies."""
        due, self.due = self.due, []
        for master in due:
            master.report()


@final
class DirectConsumer(ConsumerPort):
    """Takes a queue's messages for a consumer of the proxy."""

    def __init__(self, master: "DirectMaster", consumer: ConsumerPort, answer: QueueAnswer, epoch: int) -> None:
        super().__init__(consumer.tag, consumer.no_ack, consumer.exclusive, consumer.priority, consumer.arguments)
        self.consumer: ConsumerPort = consumer
        self._client: ConsumerPort = consumer.client()
        self._client.epoch = epoch
        self.answer: QueueAnswer = answer
        # the client has its basic.consume-ok
        self.started: bool = False
        # while it waits to join
        self.request: ConsumeRequest | None = None
        self._master: DirectMaster = master
        self._in_flight: dict[Entry, Entry] = master.in_flight
        self._of_stream: bool = master.of_stream

    @property
    def node(self) -> str:
        """The node of its client."""
        return self._master.node

    def able(self) -> bool:
        return self.started and not self.stopped and self._client.able()

    def unacked_max(self) -> int:
        return self.consumer.unacked_max()

    def deliver(self, entry: Entry) -> None:
        delivery = Entry(entry.message, NO_DELIVERY, AT_HOME | entry.position)
        delivery.redelivered = entry.redelivered
        if not self.no_ack:
            self._in_flight[delivery] = entry
        if not self._of_stream:
            self._client.deliver(delivery)
            return
        # the proxy notes the reader's offset; no reader gets the message a second time
        self.consumer.deliver(delivery)
        delivery.drop_message()

    def cancelled(self) -> None:
        self.stopped = True
        self._master.consumer_gone(self, False)

    def ended(self) -> None:
        self.stopped = True
        self._master.consumer_gone(self, True)


@final
class DirectMaster(MasterPort, MasterWaiter, RequestedQueue):
    """One term of a master on this node."""

    def __init__(self, masters: LocalMasters, proxy: RemoteQueuePort, listener: MasterListener) -> None:
        self.node: str = masters.node
        self.of_stream: bool = is_stream(proxy.arguments)
        # deliveries that are not settled, and the queue's entries for them
        self.in_flight: dict[Entry, Entry] = {}
        self._masters: LocalMasters = masters
        self._turn: Turn = masters.turn
        self._admission: LinkAdmission = masters.admission
        self._lane: AdmissionLane = masters.lane
        self._proxy: RemoteQueuePort = proxy
        self._listener: MasterListener = listener
        # since the master opened the queue
        self._queue: QueuePort | None = None
        self._intake: MasterIntake | None = None
        # another master follows, or the queue is deleted
        self._over: bool = False
        # the bytes that the lane counts for the proxy
        self._kept_bytes: i64 = 0
        self._consumers: dict[ConsumerPort, DirectConsumer] = {}
        self._answers: dict[int, QueueAnswer] = {}
        self._ticket: i64 = 0
        # the next report; the first report asks for the master, because by then this node knows its replica
        self._due: bool = False
        self._asked: bool = False
        self._opening: bool = False
        self._mark: i64 = 0
        self._known: bool = False
        self._refused: list[int] = []
        self._committed: i64 = 0
        self._held: i64 = 0
        # the highest numbers that were sent and reported
        self._sent: i64 = 0
        self._reported: i64 = 0
        self._report_later()

    # -- reports

    def opened(self, queue: QueuePort, intake: MasterIntake, mark: int, known: bool) -> None:
        assert self._queue is None, "a term begins once"
        self._queue = queue
        self._intake = intake
        self._opening = True
        self._mark = mark
        self._known = known
        self._report_later()

    def committed(self, place: i64) -> None:
        assert self._committed <= place <= self._sent, "the master commits in order, and no more than it was given"
        self._committed = place
        self._report_later()

    def held(self, count: i64) -> None:
        self._held = max(self._held, count)
        self._report_later()

    def _report_later(self) -> None:
        if not self._due:
            self._due = True
            self._masters.due.append(self)

    def report(self) -> None:
        """Tell the proxy; called before the turn ends."""
        self._due = False
        listener, intake = self._listener, self._intake
        if self._over:
            return
        if not self._asked:
            self._asked = True
            self._masters.home.await_master(self._proxy.queue_id, self.node, self)
        if self._opening and intake is not None:
            self._opening = False
            listener.opened(self._mark, self._known, intake.epoch)
        if self._refused:
            refused, self._refused = self._refused, []
            for number in refused:
                listener.refused(i64(number))
        if self._held > self._reported:
            listener.held(self._held)
        if self._committed > self._reported:
            self._reported = self._committed
            listener.committed(self._committed)

    # -- publishes

    def send(self, number: i64, message: Message, uncounted: bool, kept_bytes: i64) -> i64:
        intake = self._intake
        assert intake is not None, "the master is open"
        self._sent = number
        if intake.publish(number, number, message, not uncounted) & REJECTED:
            self._refused.append(int(number))
            self._report_later()
        more_bytes: i64 = kept_bytes - self._kept_bytes
        self._kept_bytes = kept_bytes
        return AWAITED | CONGESTED if self._admission.sent(self._lane, more_bytes) else AWAITED

    def send_fence(self, number: i64) -> None:
        assert self._intake is not None, "the master is open"
        self._sent = number
        self._intake.fence(number)

    def keeps(self, kept_bytes: i64) -> None:
        self._admission.arrived(self._lane, self._kept_bytes - kept_bytes)
        self._kept_bytes = kept_bytes

    def await_room(self, waiter: OutputPort) -> bool:
        if not self._admission.crowded(self._lane):
            return False
        self._admission.hold(waiter, self._lane)
        return True

    # -- the queue

    def without_receiver(self) -> bool:
        return self._over or self._queue is None or self._queue.deleted

    def found(self) -> QueuePort | None:
        return self._queue

    def usable(self) -> QueuePort:
        queue = self._queue
        if queue is None or queue.deleted:
            raise ChannelFault(NOT_FOUND, f"no {self._where()}")
        queue.check_usable()
        return queue

    def await_commit(self, queue: QueuePort, waiter: FlushWaiter) -> None:
        assert self._intake is not None, "the master is open"
        self._intake.await_commit(waiter)

    def remove_queue(self, queue: QueuePort, waiter: TransactionWaiter) -> None:
        self._masters.home.remove_queue(queue, waiter)

    def down(self) -> ChannelFault:
        if self._proxy.deleted:
            return ChannelFault(NOT_FOUND, f"no {self._where()}")
        kind = "durable " if self._proxy.durable else ""
        return ChannelFault(NOT_FOUND, f"home node '{self.node}' of {kind}{self._where()} is down or inaccessible")

    def _where(self) -> str:
        return f"queue '{self._proxy.name}' in vhost '{self._proxy.vhost}'"

    # -- questions

    def ask(self, question: i64, asker: OutputPort, consumer: ConsumerPort | None) -> QueueAnswer:
        answer = QueueAnswer(self._proxy, question, asker, self._turn)
        answer.consumer = consumer
        if question == CANCEL:
            assert consumer is not None, "a consumer is cancelled"
            self.remove_consumer(consumer)
            answer.counted(0, 0)
        elif not self.without_receiver():
            self._ticket += 1
            self._answers[int(self._ticket)] = answer
            try:
                self._ask(self._ticket, question, consumer, answer)
            except ChannelFault as fault:
                self.answer_fault(self._ticket, fault)
        return answer

    def _ask(self, ticket: i64, question: i64, consumer: ConsumerPort | None, answer: QueueAnswer) -> None:
        if question == CONSUME:
            assert consumer is not None, "a consumer is to join"
            assert self._intake is not None, "the master is open"
            joining = DirectConsumer(self, consumer, answer, self._intake.epoch)
            joining.request = ConsumeRequest(self, ticket, self.usable(), joining)
            self._consumers[consumer] = joining
            joining.request.go_on()
        elif question == COUNT:
            CountRequest(self, ticket).go_on()
        elif question == PURGE:
            PurgeRequest(self, ticket)
        elif question in (GET, GET_NO_ACK):
            GetRequest(self, ticket, question == GET_NO_ACK).go_on()
        else:
            DeleteRequest(self, ticket, question - REMOVE, self._turn).go_on()

    def abandon(self, answer: QueueAnswer) -> None:
        if answer.abandoned:
            return
        answer.abandoned = True
        if answer.question == CONSUME and answer.consumer is not None:
            self.remove_consumer(answer.consumer)
        elif answer.question == GET and answer.entry is not None:
            self.give_back_unseen(answer.entry)

    def answer(self, ticket: i64, ready: i64, consumers: i64) -> None:
        answer = self._answers.pop(int(ticket), None)
        if answer is not None:
            answer.counted(ready, consumers)

    def answer_got(self, ticket: i64, queue: QueuePort, entry: Entry, no_ack: bool) -> None:
        answer = self._answers.pop(int(ticket), None)
        if answer is None:
            return
        delivery = Entry(entry.message, NO_DELIVERY, AT_HOME | entry.position)
        delivery.redelivered = entry.redelivered
        if not no_ack:
            self.in_flight[delivery] = entry
        answer.got(delivery, queue.ready_count())
        if answer.abandoned and not no_ack:
            self.give_back_unseen(delivery)

    def answer_fault(self, ticket: i64, fault: ChannelFault) -> None:
        answer = self._answers.pop(int(ticket), None)
        if answer is not None:
            answer.failed(fault)

    # -- consumers

    def consumer_decided(self, consumer: ConsumerPort, joined: bool) -> None:
        assert isinstance(consumer, DirectConsumer), "the client is on this node"
        consumer.request = None
        if not joined:
            self._consumers.pop(consumer.consumer, None)

    def started(self, consumer: ConsumerPort) -> None:
        direct = self._consumers.get(consumer)
        if direct is not None:
            direct.started = True
            self.wake()

    def stop(self, consumer: ConsumerPort) -> None:
        direct = self._consumers.get(consumer)
        if direct is not None:
            direct.stopped = True

    def limit(self, consumer: ConsumerPort) -> None:
        self.wake()

    def remove_consumer(self, consumer: ConsumerPort) -> None:
        direct = self._consumers.pop(consumer, None)
        if direct is None:
            return
        direct.stopped = True
        if direct.request is not None:
            direct.request.dropped = True
        elif self._queue is not None:
            self._queue.remove_consumer(direct)

    def consumer_gone(self, direct: DirectConsumer, ended: bool) -> None:
        """The queue drops this consumer: the queue is closed, or cannot serve it."""
        if self._consumers.pop(direct.consumer, None) is None:
            return
        if not direct.started:
            # a client without basic.consume-ok asks the next master
            if ended:
                direct.answer.failed(ChannelFault(NOT_FOUND, f"no {self._where()}"))
        elif ended:
            direct.consumer.ended()
        else:
            direct.consumer.cancelled()

    # -- deliveries

    def settle(self, entry: Entry) -> bool:
        own = self.in_flight.pop(entry, None)
        if own is None or self._queue is None:
            return False
        self._queue.ack(own)
        return True

    def requeue(self, entries: list[Entry]) -> None:
        own = self._own(entries)
        if own and self._queue is not None:
            self._queue.requeue(own)

    def reject(self, entry: Entry) -> None:
        for own in self._own([entry]):
            if self._queue is not None:
                self._queue.reject(own)

    def give_back_unseen(self, entry: Entry) -> None:
        queue = self._queue
        if queue is not None:
            requeue_unseen(queue, self._own([entry]), queue.consumer_count() > 0)

    def _own(self, entries: list[Entry]) -> list[Entry]:
        """Forget those of these deliveries that this master made; the queue's entries for them."""
        found: list[Entry] = []
        for entry in entries:
            own = self.in_flight.pop(entry, None)
            if own is not None:
                found.append(own)
        return found

    def acked_late(self, positions: list[int]) -> None:
        assert self._intake is not None, "the master is open"
        self._intake.acked_late(positions)

    def deserted(self) -> None:
        assert self._intake is not None, "the master is open"
        self._intake.deserted()

    def wake(self) -> None:
        if self._queue is not None:
            self._queue.wake()

    def drain(self) -> None:
        """The queue drains itself."""

    def check(self, kept_bytes: i64) -> None:
        """Raise `InvariantBroken` if this port contradicts itself or its proxy's window."""
        if self._kept_bytes != kept_bytes:
            raise InvariantBroken(f"the lane counts {self._kept_bytes} bytes of {kept_bytes}")
        if self._reported > self._committed or self._committed > self._sent:
            raise InvariantBroken(f"{self._reported} of {self._committed} commits of {self._sent} were reported")

    # -- the end

    def retire(self) -> None:
        self.close()

    def close(self) -> None:
        if self._over:
            return
        self._over = True
        self.keeps(0)
        self._masters.home.forget_master(self._proxy.queue_id, self)
        # the queue is closed with the master's term, and drops its consumers then
        for direct in self._consumers.values():
            direct.stopped = True
        self._consumers = {}
        self._answers = {}
        self.in_flight.clear()
