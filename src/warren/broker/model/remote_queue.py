"""A queue that lives on another node: what is asked of it, and what becomes of what was published to it.

Nothing about such a queue can be known at once. A *question* gets an `Answer` object that is empty at first; when the
home has said something, or is lost, the answer is done and the asker is put on `Turn.inputs`. A *publish* is numbered
by the queue in the order in which it was sent, and the home settles them in this order; whoever wants to know has
itself put down as the waiter of the publish that was sent last. Nobody has to: a publish nobody waits for costs
nothing more.

Not here: how it is done (`broker.links.remote_queue`), who asks (`broker.sessions.remote_queues`) and who waits
(`broker.sessions.confirms`, `broker.sessions.transactions`, `broker.dead_letters`).

Whether a queue may be deleted by somebody who sets a condition.

Not here: keeping the condition true while others agree (`broker.pending_deletes`), the deletion (`broker.vhost`).
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.message import Entry
from warren.broker.model.ports import ConsumerPort, OutputPort, PublishWaiter, QueuePort
from warren.broker.model.turn import Turn
from warren.errors import PRECONDITION_FAILED, ChannelFault, InvariantBroken

COUNT: Final[i64] = 1
"""How many messages are ready, and how many consumers there are; the queue counts as used."""

PURGE: Final[i64] = 2
GET: Final[i64] = 3
GET_NO_ACK: Final[i64] = 4
CONSUME: Final[i64] = 5
CANCEL: Final[i64] = 6
REMOVE: Final[i64] = 8
"""Delete it, under the conditions that are added to this; answered when every node knows."""

IF_EMPTY: Final[i64] = 1
IF_UNUSED: Final[i64] = 2


@final
class QueueAnswer:
    """What a distant queue's home says to one question."""

    def __init__(self, queue: "RemoteQueuePort", question: i64, asker: OutputPort, turn: Turn) -> None:
        self.queue: RemoteQueuePort = queue
        self.question: i64 = question
        self.done: bool = False
        # why there is no better one
        self.fault: ChannelFault | None = None
        # ready messages and consumers; for a purge, how many went
        self.ready: i64 = 0
        self.consumers: i64 = 0
        # what was got
        self.entry: Entry | None = None
        # who wants to consume, or wants to no more
        self.consumer: ConsumerPort | None = None
        # nobody wants to know any more
        self.abandoned: bool = False
        self._asker: OutputPort = asker
        self._turn: Turn = turn

    def counted(self, ready: i64, consumers: i64) -> None:
        if self.done:
            return
        self.ready = ready
        self.consumers = consumers
        self._tell()

    def got(self, entry: Entry | None, ready: i64) -> None:
        self.entry = entry
        self.ready = ready
        self._tell()

    def failed(self, fault: ChannelFault) -> None:
        """Also for an answer that was good, and of which nobody has made use yet."""
        self.fault = fault
        if not self.done:
            self._tell()

    def check(self) -> None:
        if self.fault is not None:
            raise self.fault

    def _tell(self) -> None:
        self.done = True
        if not self.abandoned:
            self._turn.inputs.append(self._asker)


class RemoteQueuePort(QueuePort):
    """A queue that lives elsewhere: counts are those it told last, and it is asked instead of being looked into."""

    @abstractmethod
    def ask(self, question: i64, asker: OutputPort, consumer: ConsumerPort | None) -> QueueAnswer:
        """Begin to find out; a `ChannelFault` if the home is not there."""

    @abstractmethod
    def abandon(self, answer: QueueAnswer) -> None:
        """Whoever asked is gone, or has lost interest: what the answer brings goes back."""

    @abstractmethod
    def started(self, consumer: ConsumerPort) -> None:
        """The client knows that it consumes: deliveries may come."""

    @abstractmethod
    def stop(self, consumer: ConsumerPort) -> None:
        """The consumer is about to leave: it is to be given nothing more."""

    @abstractmethod
    def limit(self, consumer: ConsumerPort) -> None:
        """The consumer's `unacked_max` may be another."""

    @abstractmethod
    def await_settlement(self, waiter: PublishWaiter, place: i64) -> None:
        """Tell the waiter what becomes of what was sent last; `place` is its own number for it."""

    @abstractmethod
    def fence(self) -> bool:
        """Send something that is settled when all that was done to the queue before is safe; False if it cannot be."""

    @abstractmethod
    def await_room(self, waiter: OutputPort) -> bool:
        """Put the waiter on `Turn.inputs` when less is on its way to the home; False if that is little enough."""

    @abstractmethod
    def await_home(self, waiter: OutputPort) -> None:
        """Put the waiter on `Turn.inputs` when the home is there again, or the queue is deleted."""

    @abstractmethod
    def reachable(self) -> bool:
        """Whether the home is there."""

    @abstractmethod
    def down(self) -> ChannelFault:
        """What whoever uses it is told while the home is not there."""

    @abstractmethod
    def told(self, question: i64, ready: i64, consumers: i64) -> None:
        """The home's answer to a question; its counts count until there are others."""

    # -- what the home alone can do

    def add_consumer(self, consumer: ConsumerPort) -> None:
        raise InvariantBroken("a distant queue is asked whether it takes a consumer")

    def at_hand(self) -> bool:
        return False

    def await_entry(self, waiter: OutputPort) -> None:
        raise InvariantBroken("a distant queue is asked for an entry")

    def get(self, no_ack: bool) -> Entry | None:
        raise InvariantBroken("a distant queue is asked for an entry")

    def purge(self) -> int:
        raise InvariantBroken("a distant queue is asked to purge itself")

    def dead_letter_published(self, entry: Entry) -> None:
        """What dies there is dead-lettered there."""

    def touch(self) -> None:
        """Whatever uses it makes itself known there."""

    def unacked_count(self) -> int:
        return 0


def check_removable(queue: QueuePort, if_empty: bool, if_unused: bool) -> None:
    """Raise the `ChannelFault` RabbitMQ would if the queue has messages, or consumers, and must not."""
    queue.drain()
    where = f"queue '{queue.name}' in vhost '{queue.vhost}'"
    if if_empty and queue.ready_count():
        raise ChannelFault(PRECONDITION_FAILED, f"{where} not empty")
    if if_unused and queue.consumer_count():
        raise ChannelFault(PRECONDITION_FAILED, f"{where} in use")
