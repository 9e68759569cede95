"""The seams between the master of a mirrored queue and the proxies that sessions use.

::

    MirroredQueueProxy ──MasterPort──► DirectMaster ──MasterIntake──► the master replica on this node
                       ◄─MasterListener─            ◄─MasterWaiter──
    MirroredQueueProxy ──MasterPort──► RemoteQueue ══link══ HostedQueue ──MasterIntake──► the master replica there

A proxy numbers its publishes once. These numbers are the origin counts by which masters know how much of a node's
publishes they hold, and in which a `MasterPort` reports commits: cumulatively, one number for all up to it.

Not here: replica sets (`broker.replication.replica_sets`), the ports (`broker.links.direct_master`,
`broker.links.remote_queue`), the queue itself (`broker.model.ports`).
"""

from abc import abstractmethod

from mypy_extensions import i64, mypyc_attr, trait

from warren.broker.model.message import Entry, Message
from warren.broker.model.ports import ConsumerPort, OutputPort, QueuePort
from warren.broker.model.remote_queue import QueueAnswer
from warren.broker.model.turn import FlushWaiter
from warren.errors import ChannelFault


@mypyc_attr(allow_interpreted_subclasses=True)
class MasterIntake:
    """Accepts the publishes of one incarnation of a node, at the master."""

    # of the master
    epoch: int = 0

    @abstractmethod
    def publish(self, count: i64, place: i64, message: Message, counted: bool) -> i64:
        """Take a message, as `QueuePort.publish` does: `PENDING`, or `REJECTED`.

        `count` is the origin's number for it, `place` the one that `MasterWaiter.committed` reports, also for a message
        that was rejected. `counted`: a channel published it.
        """

    @abstractmethod
    def fence(self, place: i64) -> None:
        """Report `place` when everything done to the queue up to the end of this turn is committed."""

    @abstractmethod
    def await_commit(self, waiter: FlushWaiter) -> None:
        """Call the waiter when everything done to the queue up to the end of this turn is committed."""

    @abstractmethod
    def acked_late(self, positions: list[int]) -> None:
        """Clients of that node acked deliveries of an earlier master."""

    @abstractmethod
    def deserted(self) -> None:
        """The last consumer of that node is gone; it may have consumed under an earlier master only."""


@trait
class MasterWaiter:
    """Waits for the master of a queue, and gets the outcome of publishes."""

    @abstractmethod
    def opened(self, queue: QueuePort, intake: MasterIntake, mark: int, known: bool) -> None:
        """The queue is open here. If `known`, the master has this node's publishes up to `mark`."""

    @abstractmethod
    def committed(self, place: i64) -> None:
        """All publishes and fences up to this place are committed, or were rejected."""

    @abstractmethod
    def held(self, count: i64) -> None:
        """The master holds this node's publishes up to this count, which is enough for a confirm."""


@trait
class MasterListener:
    """The proxy, as its port to one master sees it."""

    @abstractmethod
    def opened(self, mark: i64, known: bool, epoch: i64) -> None:
        """The master of this epoch accepts publishes. If `known`, it has this node's publishes up to `mark`."""

    @abstractmethod
    def run_lost(self) -> None:
        """The master cannot be reached any more."""

    @abstractmethod
    def committed(self, number: i64) -> None:
        """All publishes up to this number are committed, or were refused."""

    @abstractmethod
    def refused(self, number: i64) -> None:
        """The master refused this publish; `committed` will pass it."""

    @abstractmethod
    def held(self, number: i64) -> None:
        """The master holds all publishes up to this number, and that is enough for a confirm."""


@trait
class MasterPort:
    """One term of one master, as the proxy uses it; nothing but `down` before `MasterListener.opened`."""

    @abstractmethod
    def send(self, number: i64, message: Message, uncounted: bool, kept_bytes: i64) -> i64:
        """Send the publish of that number: `AWAITED`, with `CONGESTED` if too much is unconfirmed.

        `kept_bytes`: the size of the proxy's window, this publish included.
        """

    @abstractmethod
    def send_fence(self, number: i64) -> None:
        """Send a fence: it commits when everything done to the queue before is committed."""

    @abstractmethod
    def keeps(self, kept_bytes: i64) -> None:
        """Count the proxy's window as this many bytes."""

    @abstractmethod
    def await_room(self, waiter: OutputPort) -> bool:
        """Put the waiter on `Turn.inputs` when less is unconfirmed; False if there is room."""

    @abstractmethod
    def ask(self, question: i64, asker: OutputPort, consumer: ConsumerPort | None) -> QueueAnswer: ...

    @abstractmethod
    def abandon(self, answer: QueueAnswer) -> None: ...

    @abstractmethod
    def give_back_unseen(self, entry: Entry) -> None:
        """Return an entry that was delivered, and that the client never saw."""

    @abstractmethod
    def started(self, consumer: ConsumerPort) -> None: ...

    @abstractmethod
    def stop(self, consumer: ConsumerPort) -> None: ...

    @abstractmethod
    def limit(self, consumer: ConsumerPort) -> None: ...

    @abstractmethod
    def remove_consumer(self, consumer: ConsumerPort) -> None: ...

    @abstractmethod
    def settle(self, entry: Entry) -> bool:
        """Ack a delivery; False if another master made it."""

    @abstractmethod
    def requeue(self, entries: list[Entry]) -> None:
        """Deliveries of other masters among these are passed over: their successor has them."""

    @abstractmethod
    def reject(self, entry: Entry) -> None: ...

    @abstractmethod
    def acked_late(self, positions: list[int]) -> None:
        """Clients acked deliveries that an earlier master made."""

    @abstractmethod
    def deserted(self) -> None:
        """The last consumer of this node is gone."""

    @abstractmethod
    def wake(self) -> None: ...

    @abstractmethod
    def drain(self) -> None: ...

    @abstractmethod
    def down(self) -> ChannelFault: ...

    @abstractmethod
    def retire(self) -> None:
        """Another master follows: nothing more is expected of this one."""

    @abstractmethod
    def close(self) -> None:
        """The queue was deleted."""
