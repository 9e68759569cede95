"""A node's proxy of a mirrored queue: sessions use the queue through it, and keep it when the master changes.

::

    sessions ── MirroredQueueProxy ──MasterPort──► DirectMaster   the master is on this node
                                                 ► RemoteQueue    the master is at the other end of a link
                                        (one for each term of a master, one after another)

The proxy numbers this node's publishes and keeps them until they are committed (`PublishWindow`). It also keeps the
consumers and the questions that are not answered. When there is another master the proxy hears how many of its
publishes that master holds, and sends the rest again; it attaches the consumers again, unnoticed by their clients, asks
again, and passes on acks of an earlier master's deliveries.

Without a master for `MASTER_TIMEOUT_MS` the proxy behaves like any queue whose node is lost: publishes are refused,
questions answered with a fault, consumers cancelled.

Not here: one master's term (`broker.links.direct_master`, `broker.links.remote_queue`), the publishes
(`broker.links.publish_window`), how much of them a master holds (`broker.replication.batches`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.links.admission import LINK_BYTES_MAX
from warren.broker.links.direct_master import DirectMaster
from warren.broker.links.link import NodeLinks
from warren.broker.links.publish_window import PublishWindow
from warren.broker.links.queue_proxy import QueueProxy
from warren.broker.links.remote_queue import FailoverAcks, RemoteQueue
from warren.broker.model.master_port import MasterListener, MasterPort
from warren.broker.model.message import Entry, Message
from warren.broker.model.ports import (
    AWAITED,
    CONGESTED,
    REJECTED,
    SETTLED,
    UNREACHABLE,
    ConsumerPort,
    OutputPort,
    PublishWaiter,
)
from warren.broker.model.reader_positions import ResumePoint, is_stream
from warren.broker.model.remote_queue import CONSUME, GET, GET_NO_ACK, REMOVE, QueueAnswer
from warren.broker.model.turn import Timer, TimerTarget, Turn
from warren.errors import ChannelFault, InvariantBroken, PeerFault
from warren.wire.field_tables import Table

CANCEL_ON_FAILOVER: Final = "x-cancel-on-ha-failover"


@final
class ProxyConsumer(ConsumerPort):
    """Takes a master's deliveries for a client's consumer, which does not notice when masters change."""

    def __init__(self, proxy: "MirroredQueueProxy", consumer: ConsumerPort) -> None:
        super().__init__(consumer.tag, consumer.no_ack, consumer.exclusive, consumer.priority, consumer.arguments)
        self.consumer: ConsumerPort = consumer
        # attached to a master, or being attached
        self.attached: bool = False
        # the client knows that it consumes
        self.known: bool = False
        # of a stream's reader
        self.place: ResumePoint | None = ResumePoint(consumer.arguments) if is_stream(proxy.arguments) else None
        self._proxy: MirroredQueueProxy = proxy

    def client(self) -> ConsumerPort:
        return self.consumer

    def able(self) -> bool:
        return self.consumer.able()

    def deliver(self, entry: Entry) -> None:
        self.consumer.epoch = self._proxy.epoch
        if self.place is not None:
            self.place.got(entry)
        self.consumer.deliver(entry)

    def unacked_max(self) -> int:
        return self.consumer.unacked_max()

    def cancelled(self) -> None:
        """The queue drops this consumer: the master's term is over, or the queue is deleted."""
        if self.attached:
            self.detach()

    def ended(self) -> None:
        self.attached = False
        self._proxy.let_go(self.consumer)

    def detach(self) -> None:
        """The master is lost: detach the consumer, and cancel it if its arguments say so."""
        self.attached = False
        if self.known and self.arguments.get(CANCEL_ON_FAILOVER) is True:
            self._proxy.let_go(self.consumer)

    def attach(self, master: MasterPort) -> None:
        """Attach it to another master, if the client knows that it consumes; if not, its question is asked again."""
        place = self.place
        if place is not None:
            self.arguments = place.arguments()
        if self.known and not self.attached and (place is None or not place.is_over()):
            ConsumerAttach(self._proxy, self).ask(master)


@final
class ConsumerAttach(OutputPort):
    """A consumer that is being attached to another master."""

    def __init__(self, proxy: "MirroredQueueProxy", proxy_consumer: ProxyConsumer) -> None:
        self._proxy: MirroredQueueProxy = proxy
        self._proxy_consumer: ProxyConsumer = proxy_consumer
        self.master: MasterPort | None = None
        self._answer: QueueAnswer | None = None

    def ask(self, master: MasterPort) -> None:
        self.master = master
        self._proxy_consumer.attached = True
        self._answer = master.ask(CONSUME, self, self._proxy_consumer)

    def flush(self) -> None:
        """There is no output to send."""

    def go_on(self) -> None:
        answer, master, proxy_consumer = self._answer, self.master, self._proxy_consumer
        if answer is None or master is not self._proxy.master or not proxy_consumer.attached:
            return
        if answer.fault is None:
            self._proxy.master.started(proxy_consumer)
        else:
            # as RabbitMQ does when a consumer cannot continue
            proxy_consumer.attached = False
            self._proxy.let_go(proxy_consumer.consumer)


@final
class ProxyRequest(OutputPort):
    """A question to one master after another, until one of them answers."""

    def __init__(
        self, proxy: "MirroredQueueProxy", answer: QueueAnswer, proxy_consumer: "ProxyConsumer | None"
    ) -> None:
        self.answer: QueueAnswer = answer
        self._proxy: MirroredQueueProxy = proxy
        self._proxy_consumer: ProxyConsumer | None = proxy_consumer
        # the question to the present master
        self._asked: QueueAnswer | None = None

    def ask(self, master: MasterPort) -> None:
        """Ask this master."""
        proxy_consumer = self._proxy_consumer
        if proxy_consumer is not None and self.answer.question == CONSUME:
            proxy_consumer.attached = True
        try:
            self._asked = master.ask(self.answer.question, self, proxy_consumer)
        except ChannelFault as fault:
            self._asked = None
            self._proxy.inquiry_over(self)
            self.fail(fault)

    def detach(self) -> None:
        """The master is lost: ignore its answer."""
        self._asked = None

    def abandon(self, master: MasterPort) -> None:
        if self._asked is not None:
            master.abandon(self._asked)

    def fail(self, fault: ChannelFault) -> None:
        self.answer.failed(fault)

    def gone(self, fault: ChannelFault) -> None:
        """The queue is deleted, which answers a request to delete it."""
        if self.answer.question >= REMOVE:
            self.answer.counted(0, 0)
        else:
            self.fail(fault)

    def flush(self) -> None:
        """There is no output to send."""

    def go_on(self) -> None:
        asked = self._asked
        if asked is None or not asked.done:
            return
        self._asked = None
        self._proxy.inquiry_over(self)
        self._proxy.counts_received(asked.question, asked.ready, asked.consumers)
        if asked.fault is not None:
            if self._proxy_consumer is not None:
                self._proxy_consumer.attached = False
            self.fail(asked.fault)
        elif asked.question in (GET, GET_NO_ACK):
            self.answer.got(asked.entry, asked.ready)
        else:
            if (
                self._proxy_consumer is not None
                and self._proxy_consumer.place is not None
                and asked.question == CONSUME
            ):
                self._proxy_consumer.place.began(asked.ready - 1)
            self.answer.counted(asked.ready, asked.consumers)


MASTER_TIMEOUT_MS: Final[i64] = 10_000
REATTACH_DELAY_MS: Final[i64] = 2_000
"""The time until the consumers of all nodes are attached to a new master."""

FIRST_EPOCH: Final = 1


@final
class MirroredQueueProxy(QueueProxy, MasterListener, TimerTarget):
    """One node's proxy of a mirrored queue, for as long as the queue exists."""

    def __init__(
        self,
        vhost: str,
        name: str,
        durable: bool,
        auto_delete: bool,
        arguments: Table,
        node: str,
        queue_id: int,
        links: NodeLinks,
    ) -> None:
        super().__init__(vhost, name, durable, False, auto_delete, arguments, 0, node)
        self.queue_id = queue_id
        # the proxy from before mirroring; sessions that hold it keep it until they close
        self.predecessor: RemoteQueue | None = None
        self._links: NodeLinks = links
        self._turn: Turn = links.turn
        self._kept: PublishWindow = PublishWindow()
        self._inquiries: dict[ProxyRequest, None] = {}
        self._proxy_consumers: dict[ConsumerPort, ProxyConsumer] = {}
        self._late: FailoverAcks = FailoverAcks()
        # a client has consumed: through this proxy, or before the queue was mirrored
        self.used: bool = False
        self._waiting_for_room: list[OutputPort] = []
        # of the present master, or the last one
        self.epoch: i64 = 0
        self._open: bool = False
        self._opened_ms: i64 = 0
        # there has been no master for too long
        self._given_up: bool = False
        self._timer: Timer | None = None
        # one term of the master
        self.master: MasterPort = self._new_master()
        self._await_master()

    def _new_master(self) -> MasterPort:
        local = self._links.local_masters
        if local is not None and local.node == self.node:
            return DirectMaster(local, self, self)
        return RemoteQueue(
            self.vhost,
            self.name,
            self.durable,
            False,
            self.auto_delete,
            self.arguments,
            self.node,
            self.queue_id,
            self._links,
            self,
        )

    # -- publishing

    def publish(self, message: Message) -> i64:
        uncounted = self.uncounted != 0
        self.uncounted = 0
        if self.deleted:
            return SETTLED
        if self._given_up:
            return REJECTED | UNREACHABLE
        kept = self._kept
        number = kept.add(message, uncounted)
        if self._open:
            kept.ever_sent = number
            return self.master.send(number, message, uncounted, kept.size_bytes)
        return AWAITED | CONGESTED if kept.size_bytes > LINK_BYTES_MAX else AWAITED

    def fence(self) -> bool:
        if self.deleted or self._given_up:
            return False
        number = self._kept.add(None, False)
        if self._open:
            self._kept.ever_sent = number
            self.master.send_fence(number)
        return True

    def answers_later(self) -> bool:
        return not self.deleted and not self._given_up

    def await_settlement(self, waiter: PublishWaiter, place: i64) -> None:
        self._kept.waiters.add(self._kept.last_no, waiter, place)

    def await_room(self, waiter: OutputPort) -> bool:
        if self._open:
            return self.master.await_room(waiter)
        if self._kept.size_bytes <= LINK_BYTES_MAX or self._given_up:
            return False
        self._waiting_for_room.append(waiter)
        return True

    def await_home(self, waiter: OutputPort) -> None:
        self._waiting_for_room.append(waiter)

    def reachable(self) -> bool:
        return not self._given_up

    # -- what becomes of publishes

    def committed(self, number: i64) -> None:
        self._kept.settle_to(number)
        self.master.keeps(self._kept.size_bytes)

    def held(self, number: i64) -> None:
        self._kept.confirm_to(number)

    def refused(self, number: i64) -> None:
        if not self._kept.refuse(number):
            self._turn.note("warning", "confirm.broken", {"vhost": self.vhost, "queue": self.name})

    # -- masters

    def opened(self, mark: i64, known: bool, epoch: i64) -> None:
        """A master is open. If `known`, it has this node's publishes up to the mark."""
        if mark > self._kept.ever_sent:
            raise PeerFault(f"publish {mark} of {self._kept.ever_sent} is held")
        self._open = True
        self.epoch = epoch
        self._opened_ms = self._turn.now_ms
        self._given_up = False
        self._stop_timer()
        if not known:
            self._kept.refuse_doubtful()
        self._send_again(mark)
        self._late.report_to(self.master)
        for proxy_consumer in list(self._proxy_consumers.values()):
            proxy_consumer.attach(self.master)
        for inquiry in list(self._inquiries):
            inquiry.ask(self.master)
        if self.auto_delete and self.used and not self._proxy_consumers:
            # the last consumer may have left while there was no master
            self.master.deserted()
        self._wake_waiting()

    def reunited_at_ms(self) -> i64:
        """The time when the consumers of the last master will be attached to this one."""
        follows = self.replica_set is not None and self.replica_set.epoch != FIRST_EPOCH
        return self._opened_ms + REATTACH_DELAY_MS if follows else 0

    def _send_again(self, mark: i64) -> None:
        """Send the publishes that the master lacks, and a fence that reports when those that it has are committed."""
        window, master = self._kept, self.master
        if mark >= window.first_no:
            master.send_fence(mark)
        for kept in self._kept.to_send(mark):
            if kept.message is None:
                master.send_fence(kept.number)
            else:
                master.send(kept.number, kept.message, kept.uncounted, window.size_bytes)
        window.ever_sent = window.last_no
        master.keeps(window.size_bytes)

    def run_lost(self) -> None:
        """The master is lost."""
        if self._open:
            self._late.clear()
        self._open = False
        for proxy_consumer in list(self._proxy_consumers.values()):
            proxy_consumer.detach()
        for inquiry in self._inquiries:
            inquiry.detach()
        if not self.deleted:
            self._await_master()

    def rehome(self, node: str) -> None:
        """The master changed, or this node is master again; the last master reports nothing more."""
        before = self.master
        self.node = node
        if self._open:
            self.run_lost()
        before.retire()
        self.master = self._new_master()

    def _await_master(self) -> None:
        if self._timer is None and not self._given_up:
            self._timer = self._turn.set_timer(self._turn.now_ms + MASTER_TIMEOUT_MS, self)

    def timer_fired(self) -> None:
        """There has been no master for too long."""
        self._timer = None
        self._given_up = True
        self._kept.give_up(self.down().text)
        for inquiry in list(self._inquiries):
            self._inquiries.pop(inquiry, None)
            inquiry.fail(self.down())
        for consumer in list(self._proxy_consumers):
            self.let_go(consumer)
        self._wake_waiting()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._turn.cancel_timer(self._timer)
            self._timer = None

    # -- questions

    def ask(self, question: i64, asker: OutputPort, consumer: ConsumerPort | None) -> QueueAnswer:
        if self.deleted or self._given_up:
            raise self.down()
        answer = QueueAnswer(self, question, asker, self._turn)
        answer.consumer = consumer
        proxy_consumer: ProxyConsumer | None = None
        if consumer is not None:
            if question == CONSUME:
                proxy_consumer = ProxyConsumer(self, consumer)
                self._proxy_consumers[consumer] = proxy_consumer
            else:
                proxy_consumer = self._proxy_consumers.pop(consumer, None)
                if proxy_consumer is None or not proxy_consumer.attached:
                    answer.counted(0, 0)
                    return answer
        inquiry = ProxyRequest(self, answer, proxy_consumer)
        self._inquiries[inquiry] = None
        if self._open:
            inquiry.ask(self.master)
        return answer

    def inquiry_over(self, inquiry: ProxyRequest) -> None:
        self._inquiries.pop(inquiry, None)

    def abandon(self, answer: QueueAnswer) -> None:
        if answer.abandoned:
            return
        answer.abandoned = True
        for inquiry in list(self._inquiries):
            if inquiry.answer is answer:
                self._inquiries.pop(inquiry, None)
                inquiry.abandon(self.master)
        if answer.question == CONSUME and answer.consumer is not None:
            self.remove_consumer(answer.consumer)
        elif answer.question == GET and answer.entry is not None:
            self.master.give_back_unseen(answer.entry)

    def check_usable(self) -> None:
        if self.deleted or self._given_up:
            raise self.down()

    def down(self) -> ChannelFault:
        return self.master.down()

    # -- consumers

    def started(self, consumer: ConsumerPort) -> None:
        proxy_consumer = self._proxy_consumers.get(consumer)
        if proxy_consumer is not None:
            proxy_consumer.known = self.used = True
            if proxy_consumer.attached:
                self.master.started(proxy_consumer)

    def stop(self, consumer: ConsumerPort) -> None:
        proxy_consumer = self._proxy_consumers.get(consumer)
        if proxy_consumer is not None and proxy_consumer.attached:
            self.master.stop(proxy_consumer)

    def limit(self, consumer: ConsumerPort) -> None:
        proxy_consumer = self._proxy_consumers.get(consumer)
        if proxy_consumer is not None and proxy_consumer.attached:
            self.master.limit(proxy_consumer)

    def remove_consumer(self, consumer: ConsumerPort) -> None:
        proxy_consumer = self._proxy_consumers.pop(consumer, None)
        if proxy_consumer is not None and proxy_consumer.attached:
            self.master.remove_consumer(proxy_consumer)

    def consumers(self) -> list[ConsumerPort]:
        return list(self._proxy_consumers)

    def take_over(self, consumer: ConsumerPort, offset: i64) -> None:
        """Go on with a consumer from before the queue was mirrored. A stream's reader was at that offset, or -1."""
        consumer.moved(self)
        proxy_consumer = ProxyConsumer(self, consumer)
        if proxy_consumer.place is not None:
            proxy_consumer.place.began(offset)
        proxy_consumer.known = self.used = True
        self._proxy_consumers[consumer] = proxy_consumer
        if consumer.arguments.get(CANCEL_ON_FAILOVER) is True or self._given_up:
            self.let_go(consumer)
        elif self._open:
            proxy_consumer.attach(self.master)

    def let_go(self, consumer: ConsumerPort) -> None:
        """Cancel it; a client that does not know yet that it consumes hears why it does not."""
        proxy_consumer = self._proxy_consumers.pop(consumer, None)
        if proxy_consumer is not None and proxy_consumer.known:
            consumer.cancelled()

    # -- deliveries

    def ack(self, entry: Entry) -> None:
        if self.master.settle(entry):
            return
        if not is_stream(self.arguments):
            # other readers of a stream still get the message
            self._late.add(entry, self.master if self._open else None)
        # deliveries of an earlier master count for prefetch too, so deliveries of this one may wait for this ack
        self.master.wake()

    def requeue(self, entries: list[Entry]) -> None:
        self.master.requeue(entries)
        self.master.wake()

    def reject(self, entry: Entry) -> None:
        self.master.reject(entry)
        self.master.wake()

    def wake(self) -> None:
        self.master.wake()

    def drain(self) -> None:
        self.master.drain()

    def check(self) -> None:
        """Raise `InvariantBroken` if the proxy contradicts itself."""
        window = self._kept
        window.check()
        if self._open and window.ever_sent != window.last_no:
            raise InvariantBroken(f"publishes up to {window.ever_sent} of {window.last_no} went to an open master")
        if self._open and isinstance(self.master, DirectMaster):
            self.master.check(window.size_bytes)

    # -- the end

    def close(self) -> None:
        if self.deleted:
            return
        self.deleted = True
        self._open = False
        self._stop_timer()
        self.master.close()
        if self.predecessor is not None:
            self.predecessor.close()
        for inquiry in list(self._inquiries):
            self._inquiries.pop(inquiry, None)
            inquiry.gone(self.down())
        for consumer in sorted(self._proxy_consumers, key=lambda one: one.tag):
            self.let_go(consumer)
        # this node cannot tell whether the master got these publishes before the queue was deleted
        self._kept.give_up(self.down().text)
        self._wake_waiting()

    def _wake_waiting(self) -> None:
        waiters = self._waiting_for_room
        self._waiting_for_room = []
        self._turn.inputs.extend(waiters)
