"""A queue that lives on another node, as sessions of this one see it.

While the home is not there publishes are rejected and questions get the fault that RabbitMQ has for it; consumers were
cancelled when it was lost. When it is there again everything begins anew.

Not here: the theory (`remote.links`), what waits for one consumer (`remote.subscription`).
"""

from typing import TYPE_CHECKING, Final, final

from librt.strings import BytesWriter, write_i64_be
from mypy_extensions import i64

from warren.errors import NOT_FOUND, ChannelFault
from warren.model.distant import CANCEL, CONSUME, COUNT, GET, GET_NO_ACK, PURGE, REMOVE, Answer, SettlementWaiter
from warren.model.message import Entry, Message
from warren.model.ports import AWAITED, CROWDED, REJECTED, SETTLED, UNREACHABLE, Consumer, OutputPort
from warren.model.turn import Turn
from warren.remote import records
from warren.remote.late_acks import LateAcks
from warren.remote.opening import Opening
from warren.remote.publishes import Publishes
from warren.remote.stand_in import StandIn
from warren.remote.subscription import Subscription
from warren.wire.values import Table, write_longstr

if TYPE_CHECKING:
    from warren.remote.link import Link
    from warren.remote.links import Links
    from warren.remote.seat import Seat

SOMEBODY_ELSE: Final = -1
"""The owner of an exclusive queue elsewhere: no connection of this node."""


@final
class RemoteQueue(StandIn):
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
        links: "Links",
        opening: Opening | None = None,
    ) -> None:
        owner_id = SOMEBODY_ELSE if exclusive else 0
        super().__init__(vhost, name, durable, exclusive, auto_delete, arguments, owner_id, node)
        # 0 if whatever has this name there will do
        self.queue_id: int = queue_id
        # who goes on with its consumers when it ends, because the queue has come to be mirrored
        self.successor: Seat | None = None
        self._links: Links = links
        self._turn: Turn = links.turn
        self._link: Link | None = None
        # over which it will still be told of publishes, though it is deleted
        self._last_link: Link | None = None
        # its number on the link; 0 while there is none
        self._number: i64 = 0
        self._publishes: Publishes = Publishes()
        self._subscriptions: dict[Consumer, Subscription] = {}
        self._woken: bool = False
        # who waits for the home
        self._longing: list[OutputPort] = []
        # of a mirrored one: who uses it, and the count that its master expects next
        self.opening: Opening | None = opening
        self._next_count: i64 = 1
        # acks of what was delivered before it; and the last of these over this link
        self.late: LateAcks | None = None
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
        return AWAITED | CROWDED if admission.crowded(link) else AWAITED

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

    def await_settlement(self, waiter: SettlementWaiter, place: i64) -> None:
        self._publishes.await_last(waiter, place)

    def await_room(self, waiter: OutputPort) -> bool:
        link = self._link
        if link is None or not link.admission.crowded(link):
            return False
        link.admission.hold(waiter, link)
        return True

    def await_home(self, waiter: OutputPort) -> None:
        self._longing.append(waiter)

    def reachable(self) -> bool:
        return self._link is not None

    # -- questions

    def ask(self, question: i64, asker: OutputPort, consumer: Consumer | None) -> Answer:
        link = self._link
        if link is None:
            raise self.down()
        if self._number == 0:
            self._define(link)
        answer = Answer(self, question, asker, self._turn)
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

    def abandon(self, answer: Answer) -> None:
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

    def started(self, consumer: Consumer) -> None:
        subscription = self._subscriptions.get(consumer)
        if subscription is not None:
            subscription.started = True
            self.wake()

    def stop(self, consumer: Consumer) -> None:
        subscription = self._subscriptions.get(consumer)
        if subscription is not None and self._link is not None:
            records.write_words(self._link.output(), records.STOP, 0, [int(subscription.number)])

    def limit(self, consumer: Consumer) -> None:
        subscription = self._subscriptions.get(consumer)
        if subscription is not None and self._link is not None:
            words = [int(subscription.number), consumer.unacked_max()]
            records.write_words(self._link.output(), records.LIMIT, 0, words)

    def remove_consumer(self, consumer: Consumer) -> None:
        if self._link is not None and consumer in self._subscriptions:
            self._unsubscribe(self._link, consumer, None)

    def consumers(self) -> list[Consumer]:
        """Those of this node."""
        return list(self._subscriptions)

    def _subscribe(self, link: "Link", consumer: Consumer, answer: Answer) -> None:
        subscription = Subscription(self, consumer, answer, link)
        self._subscriptions[consumer] = subscription
        subscription.ask(link.ticket(answer), self._number)

    def _unsubscribe(self, link: "Link", consumer: Consumer, answer: Answer | None) -> None:
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

    def linked(self, link: "Link") -> None:
        """The home is there."""
        self._link = link
        if self.opening is not None:
            self._define(link)
        self._wake_longing()

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

    def consumer_gone(self, subscription: Subscription) -> None:
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
        self._publishes = Publishes()
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
        self._wake_longing()

    def _withdraw(self, link: "Link") -> None:
        """Nothing more goes over this link, or is expected from it."""
        link.admission.arrived(link, self._publishes.unsettled_bytes())
        self._leave(link)
        link.part(self._number)
        self._number = 0

    def _leave(self, link: "Link") -> None:
        """Nothing more goes over this link."""
        for subscription in self._subscriptions.values():
            link.unsubscribe(subscription.number)
        if self._number != 0:
            link.forget(self._number)

    def _define(self, link: "Link") -> None:
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

    def _dismiss(self, subscription: Subscription, fault: ChannelFault) -> None:
        if subscription.started and self.successor is not None and not self.deleted:
            self.successor.take_over(subscription.consumer, subscription.offset())
        elif subscription.started:
            subscription.let_go()
        else:
            # the client does not know of it yet, and will be told why it does not consume
            subscription.answer.failed(fault)

    def _wake_longing(self) -> None:
        longing = self._longing
        self._longing = []
        self._turn.inputs.extend(longing)
