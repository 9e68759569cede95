"""A node's seat at a mirrored queue: sessions keep it, whoever is master.

::

    sessions ── Seat ── RemoteQueue ── link ── the master's node
                        (one for each master, one after another)

On every node, the master's included, sessions use a mirrored queue through the seat. What was published and is not
settled, confirmed or not, stays here, and so does whoever consumes. When there is another master the seat asks it how
much it has of what this node sent, and sends the rest again; consumers are attached again without their clients'
noticing, and what was asked and not answered is asked again. Acks of what an earlier master delivered are passed on.

If there is no master for `PATIENCE_MS`, the seat does what any queue does whose node is lost: publishes are refused,
questions answered with a fault, consumers cancelled.

Not here: one master's time (`remote.remote_queue`), what was published (`remote.kept_publishes`), consumers
(`remote.seated_consumer`), questions (`remote.inquiry`), what the master has of whom (`mirroring.marks`).
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.errors import ChannelFault
from warren.model.distant import CONSUME, GET, Answer, SettlementWaiter
from warren.model.message import Entry, Message
from warren.model.ports import AWAITED, CROWDED, REJECTED, SETTLED, UNREACHABLE, Consumer, OutputPort
from warren.model.reading_on import is_stream
from warren.model.turn import Timed, Timer, Turn
from warren.remote import records
from warren.remote.admission import LINK_BYTES_MAX
from warren.remote.inquiry import Inquiry
from warren.remote.kept_publishes import KeptPublishes, SentNumbers
from warren.remote.late_acks import LateAcks
from warren.remote.opening import Opening
from warren.remote.remote_queue import RemoteQueue
from warren.remote.seated_consumer import CANCEL_ON_FAILOVER, SeatedConsumer
from warren.remote.stand_in import StandIn
from warren.wire.values import Table

if TYPE_CHECKING:
    from warren.remote.links import Links

PATIENCE_MS: Final[i64] = 10_000
REUNION_MS: Final[i64] = 2_000
"""How long it may take until the consumers of all nodes have come to a new master."""

FIRST_EPOCH: Final = 1


@final
class Seat(StandIn, SettlementWaiter, Opening, Timed):
    """One node's, for as long as the queue is there."""

    def __init__(
        self,
        vhost: str,
        name: str,
        durable: bool,
        auto_delete: bool,
        arguments: Table,
        node: str,
        queue_id: int,
        links: "Links",
    ) -> None:
        super().__init__(vhost, name, durable, False, auto_delete, arguments, 0, node)
        self.queue_id = queue_id
        # what stood in for the queue before it was mirrored: who used it then does so to its end
        self.predecessor: RemoteQueue | None = None
        self._links: Links = links
        self._turn: Turn = links.turn
        self._kept: KeptPublishes = KeptPublishes()
        # numbers of what the master was sent and has not settled
        self._on_way: SentNumbers = SentNumbers()
        self._inquiries: dict[Inquiry, None] = {}
        self._seated: dict[Consumer, SeatedConsumer] = {}
        self._late: LateAcks = LateAcks()
        # somebody has consumed here
        self._used: bool = False
        self._longing: list[OutputPort] = []
        # of the master there is, or was last
        self.epoch: i64 = 0
        self._open: bool = False
        self._opened_ms: i64 = 0
        # there has been no master for too long
        self._given_up: bool = False
        self._timer: Timer | None = None
        self._run: RemoteQueue = self._new_run()
        self._await_master()

    def _new_run(self) -> RemoteQueue:
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
        number = self._kept.add(message, uncounted)
        if self._open:
            return self._send(number, message, uncounted)
        return AWAITED | CROWDED if self._kept.size_bytes > LINK_BYTES_MAX else AWAITED

    def fence(self) -> bool:
        if self.deleted or self._given_up:
            return False
        number = self._kept.add(None, False)
        if self._open:
            self._send(number, None, False)
        return True

    def _send(self, number: i64, message: Message | None, uncounted: bool) -> i64:
        run, kept = self._run, self._kept
        self._on_way.add(number)
        if number > kept.ever_sent:
            kept.ever_sent = number
        outcome: i64 = AWAITED
        if message is None:
            run.fence()
        else:
            if uncounted:
                run.uncounted = 1
            run.counts_from(number)
            outcome = run.publish(message)
        run.await_settlement(self, number)
        return outcome

    def answers_later(self) -> bool:
        return not self.deleted and not self._given_up

    def await_settlement(self, waiter: SettlementWaiter, place: i64) -> None:
        self._kept.await_last(waiter, place)

    def await_room(self, waiter: OutputPort) -> bool:
        if self._open:
            return self._run.await_room(waiter)
        if self._kept.size_bytes <= LINK_BYTES_MAX or self._given_up:
            return False
        self._longing.append(waiter)
        return True

    def await_home(self, waiter: OutputPort) -> None:
        self._longing.append(waiter)

    def reachable(self) -> bool:
        return not self._given_up

    # -- what becomes of publishes

    def settled(self, count: i64) -> None:
        """The master has settled so many more."""
        self._kept.settle_to(self._on_way.take(count))

    def held(self, count: i64) -> None:
        self._kept.confirm_to(count)

    def refused(self, place: i64) -> None:
        if not self._kept.refuse(place):
            self._turn.note("warning", "confirm.broken", {"vhost": self.vhost, "queue": self.name})

    def lost(self, reason: str) -> None:
        """With its master; another is waited for."""

    # -- masters

    def opened(self, mark: i64, known: bool, epoch: i64) -> None:
        """There is a master. It has what this node sent up to the mark, if it can tell."""
        self._open = True
        self.epoch = epoch
        self._opened_ms = self._turn.now_ms
        self._given_up = False
        self._stop_timer()
        if not known:
            self._kept.refuse_doubtful()
        self._skip_held(mark)
        for kept in self._kept.to_send(mark):
            self._send(kept.number, kept.message, kept.uncounted)
        self._late.tell(self._run)
        for seated in list(self._seated.values()):
            seated.attach(self._run)
        for inquiry in list(self._inquiries):
            inquiry.ask(self._run)
        if self.auto_delete and self._used and not self._seated:
            # the last of them may have left while there was no master
            self._run.tell(records.DESERTED, [])
        self._wake_longing()

    def reunited_at_ms(self) -> i64:
        """When those who consumed under the master before have come to this one, if they are going to."""
        follows = self.ring is not None and self.ring.epoch != FIRST_EPOCH
        return self._opened_ms + REUNION_MS if follows else 0

    def _skip_held(self, mark: i64) -> None:
        """What it has need not be sent again; when it is safe, a fence tells."""
        if mark >= self._kept.first_no:
            self._on_way.add(mark)
            self._run.fence()
            self._run.await_settlement(self, mark)

    def run_lost(self) -> None:
        """The master is not there any more."""
        if self._open:
            self._late.clear()
        self._open = False
        self._on_way.clear()
        for seated in list(self._seated.values()):
            seated.detach()
        for inquiry in self._inquiries:
            inquiry.detach()
        if not self.deleted:
            self._await_master()

    def rehome(self, node: str) -> None:
        """Another node is master; what the one before was sent and has not settled it has no more to settle."""
        run = self._run
        self.node = node
        if self._open:
            self.run_lost()
        run.retire()
        self._run = self._new_run()

    def _await_master(self) -> None:
        if self._timer is None and not self._given_up:
            self._timer = self._turn.set_timer(self._turn.now_ms + PATIENCE_MS, self)

    def timer_fired(self) -> None:
        """There has been no master for too long."""
        self._timer = None
        self._given_up = True
        self._kept.give_up(self.down().text)
        for inquiry in list(self._inquiries):
            self._inquiries.pop(inquiry, None)
            inquiry.fail(self.down())
        for consumer in list(self._seated):
            self.let_go(consumer)
        self._wake_longing()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._turn.cancel_timer(self._timer)
            self._timer = None

    # -- questions

    def ask(self, question: i64, asker: OutputPort, consumer: Consumer | None) -> Answer:
        if self.deleted or self._given_up:
            raise self.down()
        answer = Answer(self, question, asker, self._turn)
        answer.consumer = consumer
        seated: SeatedConsumer | None = None
        if consumer is not None:
            if question == CONSUME:
                seated = SeatedConsumer(self, consumer)
                self._seated[consumer] = seated
            else:
                seated = self._seated.pop(consumer, None)
                if seated is None or not seated.attached:
                    answer.counted(0, 0)
                    return answer
        inquiry = Inquiry(self, answer, seated)
        self._inquiries[inquiry] = None
        if self._open:
            inquiry.ask(self._run)
        return answer

    def inquiry_over(self, inquiry: Inquiry) -> None:
        self._inquiries.pop(inquiry, None)

    def abandon(self, answer: Answer) -> None:
        if answer.abandoned:
            return
        answer.abandoned = True
        for inquiry in list(self._inquiries):
            if inquiry.answer is answer:
                self._inquiries.pop(inquiry, None)
                inquiry.abandon(self._run)
        if answer.question == CONSUME and answer.consumer is not None:
            self.remove_consumer(answer.consumer)
        elif answer.question == GET and answer.entry is not None:
            self._run.give_back_unseen(answer.entry)

    def check_usable(self) -> None:
        if self.deleted or self._given_up:
            raise self.down()

    def down(self) -> ChannelFault:
        return self._run.down()

    # -- consumers

    def started(self, consumer: Consumer) -> None:
        seated = self._seated.get(consumer)
        if seated is not None:
            seated.known = self._used = True
            if seated.attached:
                self._run.started(seated)

    def stop(self, consumer: Consumer) -> None:
        seated = self._seated.get(consumer)
        if seated is not None and seated.attached:
            self._run.stop(seated)

    def limit(self, consumer: Consumer) -> None:
        seated = self._seated.get(consumer)
        if seated is not None and seated.attached:
            self._run.limit(seated)

    def remove_consumer(self, consumer: Consumer) -> None:
        seated = self._seated.pop(consumer, None)
        if seated is not None and seated.attached:
            self._run.remove_consumer(seated)

    def consumers(self) -> list[Consumer]:
        return list(self._seated)

    def take_over(self, consumer: Consumer, offset: i64) -> None:
        """One that consumed before the queue was mirrored, from a node that is master no more; a stream's reader was at
        that offset, if it is not -1."""
        consumer.moved(self)
        seated = SeatedConsumer(self, consumer)
        if seated.place is not None:
            seated.place.began(offset)
        seated.known = self._used = True
        self._seated[consumer] = seated
        if consumer.arguments.get(CANCEL_ON_FAILOVER) is True or self._given_up:
            self.let_go(consumer)
        elif self._open:
            seated.attach(self._run)

    def let_go(self, consumer: Consumer) -> None:
        """It consumes no more, and is told so, or, if it never knew that it did, why it does not."""
        seated = self._seated.pop(consumer, None)
        if seated is not None and seated.known:
            consumer.cancelled()

    # -- deliveries

    def ack(self, entry: Entry) -> None:
        if self._open and self._run.has_lent(entry):
            self._run.ack(entry)
        elif not is_stream(self.arguments):
            # what one reader of a stream is done with others are to be given all the same
            self._late.add(entry, self._run if self._open else None)
        # an earlier master's deliveries took room, too: what this one sent may have waited for that
        self._run.wake()

    def requeue(self, entries: list[Entry]) -> None:
        self._run.requeue(entries)
        self._run.wake()

    def reject(self, entry: Entry) -> None:
        self._run.reject(entry)
        self._run.wake()

    def wake(self) -> None:
        self._run.wake()

    def drain(self) -> None:
        self._run.drain()

    # -- the end

    def close(self) -> None:
        if self.deleted:
            return
        self.deleted = True
        self._open = False
        self._stop_timer()
        self._run.close()
        if self.predecessor is not None:
            self.predecessor.close()
        for inquiry in list(self._inquiries):
            self._inquiries.pop(inquiry, None)
            inquiry.gone(self.down())
        for consumer in sorted(self._seated, key=lambda one: one.tag):
            self.let_go(consumer)
        self._on_way.clear()
        # nobody knows whether it came before the end
        self._kept.give_up(self.down().text)
        self._wake_longing()

    def _wake_longing(self) -> None:
        longing = self._longing
        self._longing = []
        self._turn.inputs.extend(longing)
