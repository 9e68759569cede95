"""A queue on another node, as sessions use it.

No operation on such a queue completes at once. A *question* returns a `QueueAnswer`, which is empty at first; when the
queue's node has answered, or is lost, the answer is done and the asker is on `Turn.inputs`. *Publishes* are numbered
by the queue in the order of sending, and the queue's node settles them in this order. A publisher that needs the
outcome registers a `PublishWaiter` after each publish; a publish without a waiter costs nothing more.

Not here: the implementation (`broker.links.remote_queue`), the code that asks (`broker.sessions.remote_queues`) and the
code that waits (`broker.sessions.confirms`, `broker.sessions.transactions`, `broker.dead_letters`); keeping a condition
of a deletion true while the cluster agrees on it (`broker.pending_deletes`).
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.message import Entry
from warren.broker.model.ports import ConsumerPort, OutputPort, PublishWaiter, QueuePort
from warren.broker.model.turn import Turn
from warren.errors import PRECONDITION_FAILED, ChannelFault, InvariantBroken

COUNT: Final[i64] = 1
"""The number of ready messages and of consumers. The question counts as a use of the queue."""

PURGE: Final[i64] = 2
GET: Final[i64] = 3
GET_NO_ACK: Final[i64] = 4
CONSUME: Final[i64] = 5
CANCEL: Final[i64] = 6
REMOVE: Final[i64] = 8
"""Delete the queue, with `IF_EMPTY` and `IF_UNUSED` added; answered when every node knows."""

IF_EMPTY: Final[i64] = 1
IF_UNUSED: Final[i64] = 2


@final
class QueueAnswer:
    """The answer of a remote queue's node to one question."""

    def __init__(self, queue: "RemoteQueuePort", question: i64, asker: OutputPort, turn: Turn) -> None:
        self.queue: RemoteQueuePort = queue
        self.question: i64 = question
        self.done: bool = False
        # the reason if the question failed
        self.fault: ChannelFault | None = None
        # the counts of ready messages and consumers; for a purge, `ready` is the number of messages dropped
        self.ready: i64 = 0
        self.consumers: i64 = 0
        # the result of a get
        self.entry: Entry | None = None
        # the consumer that is added or cancelled
        self.consumer: ConsumerPort | None = None
        # the asker is gone
        self.abandoned: bool = False
        self._asker: OutputPort = asker
        self._turn: Turn = turn

    def counted(self, ready: i64, consumers: i64) -> None:
        if self.done:
            return
        self.ready = ready
        self.consumers = consumers
        self._complete()

    def got(self, entry: Entry | None, ready: i64) -> None:
        self.entry = entry
        self.ready = ready
        self._complete()

    def failed(self, fault: ChannelFault) -> None:
        """Record a fault, also in an answer that is done but not used yet."""
        self.fault = fault
        if not self.done:
            self._complete()

    def check(self) -> None:
        if self.fault is not None:
            raise self.fault

    def _complete(self) -> None:
        self.done = True
        if not self.abandoned:
            self._turn.inputs.append(self._asker)


class RemoteQueuePort(QueuePort):
    """A queue on another node. Its counts are the last ones that the node reported."""

    @abstractmethod
    def ask(self, question: i64, asker: OutputPort, consumer: ConsumerPort | None) -> QueueAnswer:
        """Send a question; a `ChannelFault` if the queue's node is down."""

    @abstractmethod
    def abandon(self, answer: QueueAnswer) -> None:
        """The asker is gone: requeue a message that the answer brings."""

    @abstractmethod
    def started(self, consumer: ConsumerPort) -> None:
        """The client has its consume-ok: deliveries may start."""

    @abstractmethod
    def stop(self, consumer: ConsumerPort) -> None:
        """The consumer is about to be cancelled: deliver nothing more to it."""

    @abstractmethod
    def limit(self, consumer: ConsumerPort) -> None:
        """The consumer's `unacked_max` may have changed."""

    @abstractmethod
    def await_settlement(self, waiter: PublishWaiter, place: i64) -> None:
        """Report the outcome of the last publish; `place` is the waiter's number for it."""

    @abstractmethod
    def fence(self) -> bool:
        """Send a fence: it is settled when all operations before it are safe. False if the queue's node is down."""

    @abstractmethod
    def await_room(self, waiter: OutputPort) -> bool:
        """Put the waiter on `Turn.inputs` when the link is no longer congested; False if it is not congested."""

    @abstractmethod
    def await_home(self, waiter: OutputPort) -> None:
        """Put the waiter on `Turn.inputs` when the queue's node is back, or the queue is deleted."""

    @abstractmethod
    def reachable(self) -> bool:
        """Whether the queue's node is up."""

    @abstractmethod
    def down(self) -> ChannelFault:
        """The fault for operations while the queue's node is down."""

    @abstractmethod
    def counts_received(self, question: i64, ready: i64, consumers: i64) -> None:
        """Handle the node's answer to a question; its counts are valid until the next ones arrive."""

    # -- operations that only the queue's node can do

    def add_consumer(self, consumer: ConsumerPort) -> None:
        raise InvariantBroken("add_consumer on a remote queue: ask CONSUME")

    def can_get(self) -> bool:
        return False

    def await_entry(self, waiter: OutputPort) -> None:
        raise InvariantBroken("get on a remote queue: ask GET")

    def get(self, no_ack: bool) -> Entry | None:
        raise InvariantBroken("get on a remote queue: ask GET")

    def purge(self) -> int:
        raise InvariantBroken("purge on a remote queue: ask PURGE")

    def dead_letter_published(self, entry: Entry) -> None:
        """The queue's node dead-letters its own messages."""

    def touch(self) -> None:
        """Every operation touches the queue on its own node."""

    def unacked_count(self) -> int:
        return 0


def check_removable(queue: QueuePort, if_empty: bool, if_unused: bool) -> None:
    """Raise RabbitMQ's `ChannelFault` if the queue breaks the conditions of a delete."""
    queue.drain()
    where = f"queue '{queue.name}' in vhost '{queue.vhost}'"
    if if_empty and queue.ready_count():
        raise ChannelFault(PRECONDITION_FAILED, f"{where} not empty")
    if if_unused and queue.consumer_count():
        raise ChannelFault(PRECONDITION_FAILED, f"{where} in use")
