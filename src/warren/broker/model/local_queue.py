"""A queue or stream on this node, as other parts of the node use it.

Sessions use only the `QueuePort` of a queue, which is all there is of a queue on another node.

Not here: classic queues (`broker.queues.queue`), streams (`broker.streams.stream`).
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.message import Entry, Message
from warren.broker.model.ports import ConsumerPort, FetchWaiter, QueueLog, QueuePort
from warren.broker.model.replica_contents import PromotionTarget

RUNNING: Final = "running"
STOPPED: Final = "stopped"

QUEUE_BYTES: Final[i64] = 4096
"""About how much memory a queue needs besides its messages."""


@final
class QueueReport:
    """The state of a queue at one moment, for display. Bytes are those of bodies, except `memory_bytes`."""

    def __init__(self) -> None:
        self.ready: i64 = 0
        self.ready_bytes: i64 = 0
        self.unacked: i64 = 0
        self.unacked_bytes: i64 = 0
        # ready, and on disk only
        self.paged: i64 = 0
        self.paged_bytes: i64 = 0
        # ready or unacked, and will survive a restart
        self.persistent: i64 = 0
        self.persistent_bytes: i64 = 0
        self.memory_bytes: i64 = 0
        # RabbitMQ's consumer capacity: the share of time in which consumers could take more, 0 to 1
        self.capacity: float = 1.0
        # the time of the last use
        self.used_at_ms: i64 = 0
        self.state: str = RUNNING
        # the first ready message, if it is in memory
        self.head: Message | None = None

    @property
    def in_memory(self) -> i64:
        return self.ready + self.unacked - self.paged

    @property
    def in_memory_bytes(self) -> i64:
        return self.ready_bytes + self.unacked_bytes - self.paged_bytes

    def head_timestamp(self) -> int | None:
        """The timestamp property of the first ready message, if it is in memory and has one."""
        return None if self.head is None else self.head.properties().timestamp


class LocalQueue(QueuePort, FetchWaiter, PromotionTarget):
    """A queue or stream on this node."""

    @abstractmethod
    def close(self) -> None:
        """The queue was deleted: cancel its consumers, and drop its messages."""

    def expire_again(self) -> None:
        """The expired queue could not be deleted: call its owner again, unless it was used meanwhile."""
        return

    # -- as the queue of a master replica

    @abstractmethod
    def log(self) -> QueueLog | None: ...

    @abstractmethod
    def reserve(self, message: Message) -> Entry | None:
        """Give a message its position; `arrive` adds it once it is committed. None if the queue refuses the message."""

    @abstractmethod
    def arrive(self, entries: list[Entry]) -> None:
        """Add these entries, in the order in which they were reserved."""

    @abstractmethod
    def begin_epoch(self, first_position: i64) -> None:
        """Use the positions of a new epoch, which start with this one."""

    @abstractmethod
    def acked_late(self, positions: list[int]) -> None:
        """Consumers acked these positions, which an earlier master delivered."""

    # -- consumers and reports

    @abstractmethod
    def remove_all_consumers(self) -> list[ConsumerPort]:
        """Remove all consumers, and return them; the caller must tell them."""

    @abstractmethod
    def report(self) -> QueueReport: ...

    @abstractmethod
    def ready_bytes(self) -> int: ...

    @abstractmethod
    def unacked_bytes(self) -> int: ...

    @abstractmethod
    def has_exclusive_consumer(self) -> bool: ...

    @abstractmethod
    def consumers(self) -> list[tuple[ConsumerPort, bool]]:
        """Each consumer in the order of subscription, and whether it is active."""

    @abstractmethod
    def check(self) -> None:
        """Raise `InvariantBroken` if an invariant of this queue does not hold."""
