"""The proxy of a queue on another node, for sessions of this node; and the port to a master on another node.

Without a link to the home, publishes are rejected and questions get RabbitMQ's fault. Consumers are cancelled when the
link is lost. A new link begins without any state of the old one.

For a mirrored queue this is the port to one master over a link (`MasterPort`): the proxy numbers and keeps the
publishes, and this object knows only which of these numbers went over the link, in which order.

A consumer's deliveries wait in its `RemoteSubscription` until the consumer is able, and until the client has its
basic.consume-ok. The home is told when half of the window is handed on. A delivery to a consumer without acks is acked
when it is handed on. Lemma: a waiting delivery arrived after every delivery that was handed on, so the number of the
last one handed on tells which ones the client has.

The deadline of an entry is the home's concern, so a delivery from another node does not use this field. For a mirrored
queue the field has the entry's position, marked with `AT_HOME`, so that it is not mistaken for a deadline. Positions
are the same for every master: `FailoverAcks` has the positions of an earlier master's deliveries that clients acked
since.

Not here: the theory of links (`broker.links.link`), the home's side (`broker.links.hosted_queue`).
"""

from typing import Final, final

from librt.strings import BytesWriter, write_i64_be
from mypy_extensions import i64

from warren.broker.links import records
from warren.broker.links.hosted_queue import WINDOW_BYTES, WINDOW_MESSAGES
from warren.broker.links.link_sender import DeliveryTarget, LinkDirectory, LinkSender
from warren.broker.links.publish_waiters import PublishWaiters
from warren.broker.links.queue_proxy import QueueProxy
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
from warren.broker.model.reader_positions import AT_HOME, ResumePoint, is_stream
from warren.broker.model.remote_queue import CANCEL, CONSUME, COUNT, GET, GET_NO_ACK, PURGE, REMOVE, QueueAnswer
from warren.broker.model.turn import Turn
from warren.errors import NOT_FOUND, ChannelFault, InvariantBroken, PeerFault
from warren.wire.field_tables import Table, write_table
from warren.wire.scalars import write_longstr, write_shortstr


@final
class RemoteSubscription(DeliveryTarget):
    """One consumer's share of a link."""

    def __init__(self, queue: "RemoteQueue", consumer: ConsumerPort, answer: QueueAnswer, link: LinkSender) -> None:
        self.queue: RemoteQueue = queue
        self.consumer: ConsumerPort = consumer
        self.number: i64 = link.subscribe(self)
        self.answer: QueueAnswer = answer
        self.started: bool = False
        # the queue refused the consumer, and a new master would refuse it too
        self.ended: bool = False
        # no reader gets a message of a stream twice, so deliveries need not keep its position
        self._of_stream: bool = is_stream(queue.arguments)
        # the last delivery that was handed on
        self.seen: i64 = 0
        # the reader of a stream that is not mirrored, but may be later
        self._place: ResumePoint | None = None
        if queue.opening is None and is_stream(queue.arguments):
            self._place = ResumePoint(consumer.arguments)
        self._link: LinkSender = link
        self._waiting: list[Entry] = []
        self._taken: i64 = 0
        self._taken_bytes: i64 = 0
        # handed on since the home was told
        self._unreported: i64 = 0
        self._unreported_bytes: i64 = 0

    def ask(self, ticket: i64, queue_no: i64) -> None:
        """Ask the home to add this consumer."""
        consumer = self.consumer
        payload = BytesWriter()
        for word in (ticket, queue_no, self.number, consumer.priority):
            write_i64_be(payload, word)
        write_i64_be(payload, consumer.unacked_max())
        write_shortstr(payload, consumer.tag)
        write_table(payload, consumer.arguments)
        flags: i64 = records.EXCLUSIVE if consumer.exclusive else 0
        if consumer.no_ack:
            flags |= records.NO_ACK
        records.write_text(self._link.output(), records.CONSUME, flags, payload.getvalue())

    def arrived(self, entry: Entry) -> None:
        if self._waiting or not self.started or not self.consumer.able():
            self._waiting.append(entry)
            if self.started:
                self.queue.await_drain()
        else:
            self._hand_on(entry)

    def gone(self, ended: bool) -> None:
        self.ended = ended
        self.queue.consumer_gone(self)

    def offset(self) -> i64:
        """The offset of a stream's reader; -1 if it is unknown."""
        place = self._place
        if place is None:
            return -1
        # the answer had the offset where the reader began
        place.began(self.answer.ready - 1)
        return place.offset()

    def let_go(self) -> None:
        if self.ended:
            self.consumer.ended()
        else:
            self.consumer.cancelled()

    def waits(self) -> bool:
        """Whether deliveries wait for a client that has its basic.consume-ok."""
        return self.started and len(self._waiting) > 0

    def hand_out(self) -> None:
        """Hand on as many deliveries as the consumer is able to take."""
        waiting = self._waiting
        count: i64 = 0
        while count < len(waiting) and (self.consumer.able() or self._was_acked(waiting[count])):
            self._hand_on(waiting[count])
            count += 1
        del waiting[:count]

    def _hand_on(self, entry: Entry) -> None:
        self.seen = entry.position
        size_bytes = len(entry.message.content)
        passed_over = self._was_acked(entry)
        if not passed_over:
            if self._place is not None:
                self._place.got(entry)
            self.consumer.deliver(entry)
            if self._of_stream:
                entry.drop_message()
        if passed_over or self.consumer.no_ack:
            self._link.ack(entry)
        self._unreported += 1
        self._unreported_bytes += size_bytes
        if self._unreported >= WINDOW_MESSAGES // 2 or self._unreported_bytes >= WINDOW_BYTES // 2:
            self._taken += self._unreported
            self._taken_bytes += self._unreported_bytes
            self._unreported = 0
            self._unreported_bytes = 0
            self._link.send_taken(self.number, self._taken, self._taken_bytes)

    def _was_acked(self, entry: Entry) -> bool:
        return self.queue.passes_over(entry)


def set_home_position(entry: Entry, position: i64) -> None:
    """Set the position of an entry in its queue at home."""
    entry.expires_at_ms = AT_HOME | position


def home_position(entry: Entry) -> i64:
    """The position of an entry in its queue at home."""
    return entry.expires_at_ms ^ AT_HOME


@final
class FailoverAcks:
    """Positions of an earlier master's deliveries that clients of this node acked; for one master."""

    def __init__(self) -> None:
        self._positions: dict[int, None] = {}

    def add(self, entry: Entry, master: MasterPort | None) -> None:
        """A client acked the entry: report it to the master, if there is one."""
        if entry.expires_at_ms < AT_HOME:
            # the position is unknown
            return
        position = int(entry.expires_at_ms ^ AT_HOME)
        self._positions[position] = None
        if master is not None:
            master.acked_late([position])

    def report_to(self, master: MasterPort) -> None:
        """Report the acks to a new master."""
        if self._positions:
            master.acked_late(list(self._positions))

    def clear(self) -> None:
        """The master that got the acks is lost: the next master knows their outcome."""
        self._positions = {}


@final
class NumberRange:
    """Numbers from `first` to `last`."""

    def __init__(self, number: i64) -> None:
        self.first: i64 = number
        self.last: i64 = number


@final
class SentNumbers:
    """The proxy's numbers of the publishes that a link carries and the master has not settled, in order."""

    def __init__(self) -> None:
        self._row: list[NumberRange] = []

    def add(self, number: i64) -> None:
        row = self._row
        if row:
            last = row[-1]
            assert last.last < number, "numbers are sent in order"
            if last.last + 1 == number:
                last.last = number
                return
        row.append(NumberRange(number))

    def take(self, count: i64) -> i64:
        """Settle the next `count` numbers, which exist; the last of them."""
        number: i64 = 0
        while count > 0:
            first = self._row[0]
            number = min(first.first + count - 1, first.last)
            count -= number - first.first + 1
            first.first = number + 1
            if first.first > first.last:
                self._row.pop(0)
        return number

    def number_of(self, place: i64) -> i64:
        """The number at this place, counted from 1; there is one."""
        for one in self._row:
            count = one.last - one.first + 1
            if place <= count:
                return one.first + place - 1
            place -= count
        raise InvariantBroken("a publish was not sent")

    def clear(self) -> None:
        self._row = []


ANOTHER_OWNER: Final = -1
"""The owner of an exclusive queue on another node: no connection of this node."""


@final
class RemoteQueue(QueueProxy, MasterPort):
    """The proxy of a queue on another node; for a mirrored queue, the port to one master during its term."""

    def __init__(
        self,
        vhost: str,
        name: str,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        arguments: Table,
        node: str,
        queue_id: int,
        links: LinkDirectory,
        opening: MasterListener | None = None,
    ) -> None:
        owner_id = ANOTHER_OWNER if exclusive else 0
        super().__init__(vhost, name, durable, exclusive, auto_delete, arguments, owner_id, node)
        # 0 means any queue of this name
        self.queue_id: int = queue_id
        # the proxy that takes over the consumers, because the queue is mirrored now
        self.successor: QueueProxy | None = None
        self._links: LinkDirectory = links
        self._turn: Turn = links.turn
        self._link: LinkSender | None = None
        # reports on publishes of a deleted queue still come over it
        self._last_link: LinkSender | None = None
        # its number on the link; 0 without a link
        self._number: i64 = 0
        # publishes and fences over this link, counted as they are sent and as they are settled, and their bytes
        self._sent: i64 = 0
        self._sent_bytes: i64 = 0
        self._settled: i64 = 0
        self._settled_bytes: i64 = 0
        # their waiters; for a mirrored queue, the proxy's numbers of them
        self._waiters: PublishWaiters = PublishWaiters()
        self._numbers: SentNumbers = SentNumbers()
        self._subscriptions: dict[ConsumerPort, RemoteSubscription] = {}
        self._woken: bool = False
        # waiters for the home
        self._waiting_for_room: list[OutputPort] = []
        # for a mirrored queue: its proxy, and the count that the master expects next
        self.opening: MasterListener | None = opening
        self._next_count: i64 = 1
        # positions of deliveries to skip, because clients acked them when an earlier master made them
        self._passed_over: set[int] = set()
        # the number of this link's last delivery before this master's first one
        self._since: i64 = 0
        links.add(self)

    # -- publishing

    def publish(self, message: Message) -> i64:
        flags: i64 = 0
        if self.uncounted != 0:
            # about this message only
            flags = records.UNCOUNTED
            self.uncounted = 0
        link = self._link
        if link is None:
            return SETTLED if self.deleted else REJECTED | UNREACHABLE
        return self._publish(link, flags, message)

    def _publish(self, link: LinkSender, flags: i64, message: Message) -> i64:
        if self._number == 0:
            self._define(link)
        link.send_publish(flags, self._number, message)
        size_bytes: i64 = len(message.content)
        self._sent += 1
        self._sent_bytes += size_bytes
        return AWAITED | CONGESTED if link.admission.sent(link.lane, size_bytes) else AWAITED

    def fence(self) -> bool:
        link = self._link
        if link is None:
            return False
        if self._number == 0:
            self._define(link)
        records.write_words(link.output(), records.FENCE, 0, [int(self._number)])
        self._sent += 1
        return True

    # -- for the proxy of a mirrored queue

    def send(self, number: i64, message: Message, uncounted: bool, kept_bytes: i64) -> i64:
        link = self._link
        assert link is not None, "the master is open"
        if number != self._next_count:
            self._send_record(records.NEXT, [int(number)])
        self._next_count = number + 1
        self._numbers.add(number)
        return self._publish(link, records.UNCOUNTED if uncounted else 0, message)

    def send_fence(self, number: i64) -> None:
        self._numbers.add(number)
        self.fence()

    def keeps(self, kept_bytes: i64) -> None:
        """The link counts its own bytes."""

    def settle(self, entry: Entry) -> bool:
        link = self._link
        if link is None or entry.position <= self._since or entry.position > link.delivered:
            return False
        link.ack(entry)
        # deliveries of an earlier master count for prefetch too, so deliveries of this one may wait for this ack
        self.wake()
        return True

    def acked_late(self, positions: list[int]) -> None:
        self._passed_over.update(positions)
        self._send_record(records.ACKED_BY_POSITION, positions)

    def passes_over(self, entry: Entry) -> bool:
        """Whether a client acked it when an earlier master delivered it."""
        return len(self._passed_over) > 0 and int(entry.expires_at_ms ^ AT_HOME) in self._passed_over

    def deserted(self) -> None:
        self._send_record(records.CONSUMERS_GONE, [])

    def answers_later(self) -> bool:
        return self._link is not None

    def await_settlement(self, waiter: PublishWaiter, place: i64) -> None:
        self._waiters.add(self._sent, waiter, place)

    def await_room(self, waiter: OutputPort) -> bool:
        link = self._link
        if link is None or not link.admission.crowded(link.lane):
            return False
        link.admission.hold(waiter, link.lane)
        return True

    def await_home(self, waiter: OutputPort) -> None:
        self._waiting_for_room.append(waiter)

    def reachable(self) -> bool:
        return self._link is not None

    # -- questions

    def ask(self, question: i64, asker: OutputPort, consumer: ConsumerPort | None) -> QueueAnswer:
        link = self._link
        if link is None:
            raise self.down()
        if self._number == 0:
            self._define(link)
        answer = QueueAnswer(self, question, asker, self._turn)
        answer.consumer = consumer
        if question == CONSUME:
            assert consumer is not None, "CONSUME has a consumer"
            self._subscribe(link, consumer, answer)
        elif question == CANCEL:
            assert consumer is not None, "CANCEL has a consumer"
            self._unsubscribe(link, consumer, answer)
        else:
            kind: i64 = records.COUNT
            flags: i64 = records.NO_ACK if question == GET_NO_ACK else 0
            if question == PURGE:
                kind = records.PURGE
            elif question >= REMOVE:
                kind = records.REMOVE
                flags = question - REMOVE
            elif question != COUNT:
                kind = records.GET
            ticket = link.ticket(answer)
            records.write_words(link.output(), kind, flags, [int(ticket), int(self._number)])
        return answer

    def abandon(self, answer: QueueAnswer) -> None:
        if answer.abandoned:
            return
        answer.abandoned = True
        if answer.question == CONSUME and answer.consumer is not None:
            self.remove_consumer(answer.consumer)
        elif answer.question == GET and answer.entry is not None:
            self.give_back_unseen(answer.entry)

    def give_back_unseen(self, entry: Entry) -> None:
        """Return an entry that the client never saw."""
        if self._link is not None:
            self._link.send_numbers(records.RETURNED, [entry])

    def check_usable(self) -> None:
        if self._link is None:
            raise self.down()

    def down(self) -> ChannelFault:
        """The fault if the home cannot be reached, or the queue is deleted."""
        if self.deleted:
            return ChannelFault(NOT_FOUND, f"no {self._where()}")
        kind = "durable " if self.durable else ""
        return ChannelFault(NOT_FOUND, f"home node '{self.node}' of {kind}{self._where()} is down or inaccessible")

    def _where(self) -> str:
        return f"queue '{self.name}' in vhost '{self.vhost}'"

    # -- consumers

    def started(self, consumer: ConsumerPort) -> None:
        subscription = self._subscriptions.get(consumer)
        if subscription is not None:
            subscription.started = True
            self.wake()

    def stop(self, consumer: ConsumerPort) -> None:
        subscription = self._subscriptions.get(consumer)
        if subscription is not None and self._link is not None:
            records.write_words(self._link.output(), records.STOP, 0, [int(subscription.number)])

    def limit(self, consumer: ConsumerPort) -> None:
        subscription = self._subscriptions.get(consumer)
        if subscription is not None and self._link is not None:
            words = [int(subscription.number), consumer.unacked_max()]
            records.write_words(self._link.output(), records.LIMIT, 0, words)

    def remove_consumer(self, consumer: ConsumerPort) -> None:
        if self._link is not None and consumer in self._subscriptions:
            self._unsubscribe(self._link, consumer, None)

    def consumers(self) -> list[ConsumerPort]:
        """The consumers on this node."""
        return list(self._subscriptions)

    def _subscribe(self, link: LinkSender, consumer: ConsumerPort, answer: QueueAnswer) -> None:
        subscription = RemoteSubscription(self, consumer, answer, link)
        self._subscriptions[consumer] = subscription
        subscription.ask(link.ticket(answer), self._number)

    def _unsubscribe(self, link: LinkSender, consumer: ConsumerPort, answer: QueueAnswer | None) -> None:
        subscription = self._subscriptions.pop(consumer, None)
        if subscription is None:
            if answer is not None:
                answer.counted(0, 0)
            return
        link.unsubscribe(subscription.number)
        ticket: i64 = 0 if answer is None else link.ticket(answer)
        seen: i64 = max(subscription.seen - link.base, 0)
        words = [int(ticket), int(subscription.number), int(seen)]
        records.write_words(link.output(), records.CANCEL, 0, words)

    # -- deliveries

    def ack(self, entry: Entry) -> None:
        if self._link is not None:
            self._link.ack(entry)

    def requeue(self, entries: list[Entry]) -> None:
        if self._link is not None:
            self._link.send_numbers(records.REQUEUED, entries)

    def reject(self, entry: Entry) -> None:
        if self._link is not None:
            self._link.send_numbers(records.REJECTED, [entry])

    def wake(self) -> None:
        if self._woken:
            return
        for subscription in self._subscriptions.values():
            if subscription.waits():
                self.await_drain()
                return

    def await_drain(self) -> None:
        """Deliveries wait for a consumer, which may be able at the end of the turn."""
        if not self._woken:
            self._woken = True
            self._turn.drains.append(self)

    def drain(self) -> None:
        self._woken = False
        for subscription in list(self._subscriptions.values()):
            if subscription.waits():
                subscription.hand_out()

    # -- records from the link

    def linked(self, link: LinkSender) -> None:
        """The link to the home is up."""
        self._link = link
        if self.opening is not None:
            self._define(link)
        self._wake_waiting()

    def opened(self, mark: i64, known: bool, epoch: i64) -> None:
        """The home is master of a mirrored queue, and accepts publishes."""
        self._next_count = mark + 1
        if self.opening is not None:
            self.opening.opened(mark, known, epoch)

    def _send_record(self, kind: i64, words: list[int]) -> None:
        """Send a record that is not answered."""
        if self._link is not None:
            records.write_words(self._link.output(), kind, 0, [int(self._number), *words])

    def settled_to(self, publish_no: i64, size_bytes: i64) -> None:
        """The home settled all publishes up to this one."""
        link = self._last_link if self._link is None else self._link
        if link is None:
            return
        if publish_no > self._sent or publish_no < self._settled or size_bytes > self._sent_bytes:
            raise PeerFault(f"publish {publish_no} of {self._sent} was settled")
        count: i64 = publish_no - self._settled
        self._settled = publish_no
        link.admission.arrived(link.lane, size_bytes - self._settled_bytes)
        self._settled_bytes = size_bytes
        if self.opening is None:
            self._waiters.settle_to(publish_no)
        elif count > 0:
            self.opening.committed(self._numbers.take(count))
        if self.deleted and self._settled == self._sent:
            self._last_link = None
            link.part(self._number)

    def refused(self, publish_no: i64) -> None:
        if publish_no > self._sent or publish_no <= self._settled:
            raise PeerFault(f"publish {publish_no} of {self._sent} was refused")
        if self.opening is None:
            self._waiters.refuse(publish_no)
        else:
            self.opening.refused(self._numbers.number_of(publish_no - self._settled))

    def consumer_gone(self, subscription: RemoteSubscription) -> None:
        """The queue drops a consumer: the queue is deleted, or cannot serve it."""
        gone = self._subscriptions.pop(subscription.consumer, None)
        # a client without basic.consume-ok asks the next master of a mirrored queue
        if gone is not None and (subscription.started or subscription.ended or self.opening is None):
            self._dismiss(subscription, ChannelFault(NOT_FOUND, f"no {self._where()}"))

    def link_lost(self) -> None:
        """The link to the home is lost."""
        if self.opening is not None:
            self.opening.run_lost()
        self._link = None
        self._last_link = None
        self._number = 0
        self._sent = self._sent_bytes = self._settled = self._settled_bytes = 0
        self._numbers.clear()
        waiters = self._waiters
        self._waiters = PublishWaiters()
        waiters.lose(self.down().text)
        self._dismiss_all()

    def rehome(self, node: str) -> None:
        """The queue moved to another node: everything ends as if the old home were lost."""
        self.retire()
        self.node = node
        self._links.add(self)

    def retire(self) -> None:
        """The queue is no longer at this home."""
        self._links.remove(self)
        if self._link is not None:
            self._withdraw(self._link)
            self.link_lost()

    # -- the end

    def close(self) -> None:
        """The queue was deleted. The home reports which publishes on their way arrived before that."""
        if self.deleted:
            return
        self.deleted = True
        self._links.remove(self)
        link = self._link
        self._link = None
        if link is not None:
            self._leave(link)
            if self._settled == self._sent or self.opening is not None:
                # the proxy of a mirrored queue drops its window itself
                link.admission.arrived(link.lane, self._sent_bytes - self._settled_bytes)
                link.part(self._number)
            else:
                self._last_link = link
        self._dismiss_all()
        self._wake_waiting()

    def _withdraw(self, link: LinkSender) -> None:
        """Send nothing more over this link, and expect nothing from it."""
        link.admission.arrived(link.lane, self._sent_bytes - self._settled_bytes)
        self._leave(link)
        link.part(self._number)
        self._number = 0

    def _leave(self, link: LinkSender) -> None:
        """Send nothing more over this link."""
        for subscription in self._subscriptions.values():
            link.unsubscribe(subscription.number)
        if self._number != 0:
            link.forget(self._number)

    def _define(self, link: LinkSender) -> None:
        self._number = link.define(self)
        self._since = link.delivered
        payload = BytesWriter()
        write_i64_be(payload, self._number)
        write_i64_be(payload, self.queue_id)
        write_longstr(payload, self.vhost.encode("utf-8", "surrogateescape"))
        write_longstr(payload, self.name.encode("utf-8", "surrogateescape"))
        flags: i64 = 0 if self.opening is None else records.MIRRORED
        records.write_text(link.output(), records.QUEUE, flags, payload.getvalue())

    def _dismiss_all(self) -> None:
        subscriptions = sorted(self._subscriptions.values(), key=lambda one: one.consumer.tag)
        self._subscriptions = {}
        for subscription in subscriptions:
            self._dismiss(subscription, self.down())

    def _dismiss(self, subscription: RemoteSubscription, fault: ChannelFault) -> None:
        if subscription.started and self.successor is not None and not self.deleted:
            self.successor.take_over(subscription.consumer, subscription.offset())
        elif subscription.started:
            subscription.let_go()
        else:
            # the client has no basic.consume-ok yet, and gets the reason instead of it
            subscription.answer.failed(fault)

    def _wake_waiting(self) -> None:
        waiters = self._waiting_for_room
        self._waiting_for_room = []
        self._turn.inputs.extend(waiters)
