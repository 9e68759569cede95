"""A queue that lives on another node, as sessions of this one see it.

While the home is not there publishes are rejected and questions get the fault that RabbitMQ has for it; consumers were
cancelled when it was lost. When it is there again everything begins anew.

Not here: the theory (`broker.links.link`), what waits for one consumer (`broker.links.remote_queue`).

A consumer of this node on a queue of another: what has come for it and waits until it is able.

Nothing is handed on before the client knows that it consumes. Whenever half of the window has been handed on, the home
is told; a delivery to a consumer without acks is acked as it is handed on.

Invariant: what waits was delivered after what was handed on, so the number of the last one handed on says all.

Not here: the home's side (`broker.links.hosted_queue`).

Acks of what an earlier master of a mirrored queue delivered: by positions, which are the same for every master.

A new master takes back all that the one before had handed out. What clients are done with meanwhile, it is told: it
passes that over, unless it has handed it to somebody again. On its way to this node it is passed over here.

An entry that another node has lent needs no deadline, which its home looks after. Of one from a mirrored queue the
field says where it stands there, marked so that no deadline can be mistaken for it.

Not here: acks of what the present master delivered, which go by the numbers of deliveries (`broker.links.link`).
"""

from typing import TYPE_CHECKING, Final, final

from librt.strings import BytesWriter, write_i64_be
from mypy_extensions import i64

from warren.broker.links import records
from warren.broker.links.hosted_queue import WINDOW_BYTES, WINDOW_MESSAGES
from warren.broker.links.queue_proxy import MasterListener, QueueProxy
from warren.broker.links.unconfirmed_publishes import UnconfirmedPublishes
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
from warren.errors import NOT_FOUND, ChannelFault
from warren.wire.field_tables import Table, write_table
from warren.wire.scalars import write_longstr, write_shortstr

if TYPE_CHECKING:
    from warren.broker.links.link import NodeLink, NodeLinks
    from warren.broker.links.mirrored_queue_proxy import MirroredQueueProxy


@final
class RemoteSubscription:
    """One consumer's share of a link."""

    def __init__(self, queue: "RemoteQueue", consumer: ConsumerPort, answer: QueueAnswer, link: "NodeLink") -> None:
        self.queue: RemoteQueue = queue
        self.consumer: ConsumerPort = consumer
        self.number: i64 = link.subscribe(self)
        self.answer: QueueAnswer = answer
        self.started: bool = False
        # its queue cannot serve it, whoever is master
        self.ended: bool = False
        # nobody is given anything of a stream twice, so what a client has need not be kept for it
        self._of_stream: bool = is_stream(queue.arguments)
        # the last delivery that was handed on
        self.seen: i64 = 0
        # of a stream that is not mirrored, but may come to be
        self._place: ResumePoint | None = None
        if queue.opening is None and is_stream(queue.arguments):
            self._place = ResumePoint(consumer.arguments)
        self._link: NodeLink = link
        self._waiting: list[Entry] = []
        self._taken: i64 = 0
        self._taken_bytes: i64 = 0
        # of that, what the home does not know yet
        self._untold: i64 = 0
        self._untold_bytes: i64 = 0

    def ask(self, ticket: i64, queue_no: i64) -> None:
        """Ask the home to take it."""
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

    def offset(self) -> i64:
        """Where a stream's reader is; -1 if that is not known."""
        place = self._place
        if place is None:
            return -1
        # where it began was told with the answer
        place.began(self.answer.ready - 1)
        return place.offset()

    def let_go(self) -> None:
        if self.ended:
            self.consumer.ended()
        else:
            self.consumer.cancelled()

    def waits(self) -> bool:
        """Whether something is there for a client that knows of it."""
        return self.started and len(self._waiting) > 0

    def hand_out(self) -> None:
        """Everything goes that the consumer is able to take."""
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
        self._untold += 1
        self._untold_bytes += size_bytes
        if self._untold >= WINDOW_MESSAGES // 2 or self._untold_bytes >= WINDOW_BYTES // 2:
            self._taken += self._untold
            self._taken_bytes += self._untold_bytes
            self._untold = 0
            self._untold_bytes = 0
            self._link.send_taken(self.number, self._taken, self._taken_bytes)

    def _was_acked(self, entry: Entry) -> bool:
        late = self.queue.late
        return late is not None and late.has(entry)


def set_home_position(entry: Entry, position: i64) -> None:
    """It stands there in its queue."""
    entry.expires_at_ms = AT_HOME | position


def home_position(entry: Entry) -> i64:
    """Where it stands there."""
    return entry.expires_at_ms ^ AT_HOME


@final
class FailoverAcks:
    """One node's, to one master."""

    def __init__(self) -> None:
        self._positions: dict[int, None] = {}

    def add(self, entry: Entry, run: "RemoteQueue | None") -> None:
        """A client is done with it: tell the master, if there is one."""
        if entry.expires_at_ms < AT_HOME:
            # nobody said where it stands
            return
        position = int(entry.expires_at_ms ^ AT_HOME)
        self._positions[position] = None
        if run is not None:
            run.tell(records.ACKED_BY_POSITION, [position])

    def tell(self, run: "RemoteQueue") -> None:
        """There is a master; what it delivers nevertheless is passed over."""
        run.late = self
        if self._positions:
            run.tell(records.ACKED_BY_POSITION, list(self._positions))

    def clear(self) -> None:
        """Whoever was told is master no more: what came of it is its successor's."""
        self._positions = {}

    def has(self, entry: Entry) -> bool:
        return len(self._positions) > 0 and int(entry.expires_at_ms ^ AT_HOME) in self._positions


ANOTHER_OWNER: Final = -1
"""The owner of an exclusive queue elsewhere: no connection of this node."""


@final
class RemoteQueue(QueueProxy):
    """Stands in for a queue of another node; of a mirrored one, as long as one node is its master."""

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
        links: "NodeLinks",
        opening: MasterListener | None = None,
    ) -> None:
        owner_id = ANOTHER_OWNER if exclusive else 0
        super().__init__(vhost, name, durable, exclusive, auto_delete, arguments, owner_id, node)
        # 0 if whatever has this name there will do
        self.queue_id: int = queue_id
        # who goes on with its consumers when it ends, because the queue has come to be mirrored
        self.successor: MirroredQueueProxy | None = None
        self._links: NodeLinks = links
        self._turn: Turn = links.turn
        self._link: NodeLink | None = None
        # over which it will still be told of publishes, though it is deleted
        self._last_link: NodeLink | None = None
        # its number on the link; 0 while there is none
        self._number: i64 = 0
        self._publishes: UnconfirmedPublishes = UnconfirmedPublishes()
        self._subscriptions: dict[ConsumerPort, RemoteSubscription] = {}
        self._woken: bool = False
        # who waits for the home
        self._waiting_for_room: list[OutputPort] = []
        # of a mirrored one: who uses it, and the count that its master expects next
        self.opening: MasterListener | None = opening
        self._next_count: i64 = 1
        # acks of what was delivered before it; and the last of these over this link
        self.late: FailoverAcks | None = None
        self._since: i64 = 0
        links.add(self)

    # -- publishing

    def publish(self, message: Message) -> i64:
        flags: i64 = 0
        if self.uncounted != 0:
            # said of this message, whatever becomes of it
            flags = records.UNCOUNTED
            self.uncounted = 0
        link = self._link
        if link is None:
            return SETTLED if self.deleted else REJECTED | UNREACHABLE
        if self._number == 0:
            self._define(link)
        link.send_publish(flags, self._number, message)
        size_bytes: i64 = len(message.content)
        self._publishes.sent(size_bytes)
        admission = link.admission
        admission.sent(link, size_bytes)
        return AWAITED | CONGESTED if admission.crowded(link) else AWAITED

    def fence(self) -> bool:
        link = self._link
        if link is None:
            return False
        if self._number == 0:
            self._define(link)
        records.write_words(link.output(), records.FENCE, 0, [int(self._number)])
        self._publishes.sent(0)
        return True

    def answers_later(self) -> bool:
        return self._link is not None

    def await_settlement(self, waiter: PublishWaiter, place: i64) -> None:
        self._publishes.await_last(waiter, place)

    def await_room(self, waiter: OutputPort) -> bool:
        link = self._link
        if link is None or not link.admission.crowded(link):
            return False
        link.admission.hold(waiter, link)
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
            assert consumer is not None, "somebody consumes"
            self._subscribe(link, consumer, answer)
        elif question == CANCEL:
            assert consumer is not None, "somebody consumes no more"
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
        """The client never saw it."""
        if self._link is not None:
            self._link.send_numbers(records.RETURNED, [entry])

    def check_usable(self) -> None:
        if self._link is None:
            raise self.down()

    def down(self) -> ChannelFault:
        """What there is to say while the home is not there, or the queue is not."""
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
        """Those of this node."""
        return list(self._subscriptions)

    def _subscribe(self, link: "NodeLink", consumer: ConsumerPort, answer: QueueAnswer) -> None:
        subscription = RemoteSubscription(self, consumer, answer, link)
        self._subscriptions[consumer] = subscription
        subscription.ask(link.ticket(answer), self._number)

    def _unsubscribe(self, link: "NodeLink", consumer: ConsumerPort, answer: QueueAnswer | None) -> None:
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
        """Something waits for a consumer, which may be able when the turn ends."""
        if not self._woken:
            self._woken = True
            self._turn.drains.append(self)

    def drain(self) -> None:
        self._woken = False
        for subscription in list(self._subscriptions.values()):
            if subscription.waits():
                subscription.hand_out()

    # -- what the link tells

    def linked(self, link: "NodeLink") -> None:
        """The home is there."""
        self._link = link
        if self.opening is not None:
            self._define(link)
        self._wake_waiting()

    def opened(self, mark: i64, known: bool, epoch: i64) -> None:
        """The home is the master of a mirrored queue, and takes publishes."""
        self._next_count = mark + 1
        if self.opening is not None:
            self.opening.opened(mark, known, epoch)

    def counts_from(self, count: i64) -> None:
        """What is published next has this count, of all that this node sends to a mirrored queue."""
        if count != self._next_count:
            self.tell(records.NEXT, [int(count)])
        self._next_count = count + 1

    def has_lent(self, entry: Entry) -> bool:
        """Whether that was delivered since this one began."""
        return self._link is not None and self._since < entry.position <= self._link.delivered

    def tell(self, kind: i64, words: list[int]) -> None:
        """Something that is not answered."""
        if self._link is not None:
            records.write_words(self._link.output(), kind, 0, [int(self._number), *words])

    def settled_to(self, publish_no: i64, size_bytes: i64) -> None:
        link = self._last_link if self._link is None else self._link
        if link is not None:
            link.admission.arrived(link, self._publishes.settled_to(publish_no, size_bytes))
            if self.deleted and self._publishes.all_settled():
                self._last_link = None
                link.part(self._number)

    def refused(self, publish_no: i64) -> None:
        self._publishes.refused(publish_no)

    def consumer_gone(self, subscription: RemoteSubscription) -> None:
        """The queue lets go of its consumers: it is no more, or cannot go on."""
        gone = self._subscriptions.pop(subscription.consumer, None)
        # whoever does not know yet that it consumes asks the next master, if this one is no more
        if gone is not None and (subscription.started or subscription.ended or self.opening is None):
            self._dismiss(subscription, ChannelFault(NOT_FOUND, f"no {self._where()}"))

    def link_lost(self) -> None:
        """The home is not there any more."""
        if self.opening is not None:
            self.opening.run_lost()
        self._link = None
        self._last_link = None
        self._number = 0
        publishes = self._publishes
        self._publishes = UnconfirmedPublishes()
        publishes.lost(self.down().text)
        self._dismiss_all()

    def rehome(self, node: str) -> None:
        """It lives on another node from here on; with the old one everything ends as if that were lost."""
        self.retire()
        self.node = node
        self._links.add(self)

    def retire(self) -> None:
        """The queue is not there any more."""
        self._links.remove(self)
        if self._link is not None:
            self._withdraw(self._link)
            self.link_lost()

    # -- the end

    def close(self) -> None:
        """The queue was deleted. What is on its way there arrives after that, or before: the home says which."""
        if self.deleted:
            return
        self.deleted = True
        self._links.remove(self)
        link = self._link
        self._link = None
        if link is not None:
            self._leave(link)
            if self._publishes.all_settled():
                link.part(self._number)
            else:
                self._last_link = link
        self._dismiss_all()
        self._wake_waiting()

    def _withdraw(self, link: "NodeLink") -> None:
        """Nothing more goes over this link, or is expected from it."""
        link.admission.arrived(link, self._publishes.unsettled_bytes())
        self._leave(link)
        link.part(self._number)
        self._number = 0

    def _leave(self, link: "NodeLink") -> None:
        """Nothing more goes over this link."""
        for subscription in self._subscriptions.values():
            link.unsubscribe(subscription.number)
        if self._number != 0:
            link.forget(self._number)

    def _define(self, link: "NodeLink") -> None:
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
            # the client does not know of it yet, and will be told why it does not consume
            subscription.answer.failed(fault)

    def _wake_waiting(self) -> None:
        longing = self._waiting_for_room
        self._waiting_for_room = []
        self._turn.inputs.extend(longing)
