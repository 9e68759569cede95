"""A queue that is on this node, of whichever type, as the node's other parts see it.

Sessions see less of it (`broker.model.ports.QueuePort`), and of a queue that is elsewhere nobody sees more than that.

Not here: queues that are emptied (`broker.queues.queue`), streams (`broker.streams.stream`).
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
"""What a queue takes in memory besides its messages, about."""


@final
class QueueReport:
    """What there is to know of a queue at one moment. Bytes are those of bodies, but for `memory_bytes`."""

    def __init__(self) -> None:
        self.ready: i64 = 0
        self.ready_bytes: i64 = 0
        self.unacked: i64 = 0
        self.unacked_bytes: i64 = 0
        # ready and on disk only
        self.paged: i64 = 0
        self.paged_bytes: i64 = 0
        # ready or unacked, and still there after a restart
        self.persistent: i64 = 0
        self.persistent_bytes: i64 = 0
        self.memory_bytes: i64 = 0
        # how much of the time its consumers could have taken more, between 0 and 1
        self.capacity: float = 1.0
        # when something last happened to it
        self.used_at_ms: i64 = 0
        self.state: str = RUNNING
        # the message that goes next, if it is in memory
        self.head: Message | None = None

    @property
    def in_memory(self) -> i64:
        return self.ready + self.unacked - self.paged

    @property
    def in_memory_bytes(self) -> i64:
        return self.ready_bytes + self.unacked_bytes - self.paged_bytes

    def head_timestamp(self) -> int | None:
        """The timestamp property of the message that goes next, if it is in memory and has one."""
        return None if self.head is None else self.head.properties().timestamp


class LocalQueue(QueuePort, FetchWaiter, PromotionTarget):
    """A queue held by this node."""

    @abstractmethod
    def close(self) -> None:
        """The queue was deleted: consumers are told, contents dropped."""

    # -- as the master's of a ring

    @abstractmethod
    def log(self) -> QueueLog | None: ...

    @abstractmethod
    def reserve(self, message: Message) -> Entry | None:
        """Take a message that comes in later, by `arrive`; None if it is refused."""

    @abstractmethod
    def arrive(self, entries: list[Entry]) -> None:
        """These come in, in the order in which they were reserved."""

    @abstractmethod
    def begin_epoch(self, first_position: i64) -> None:
        """Positions are those of another epoch from here on, which has none below this one."""

    @abstractmethod
    def acked_late(self, positions: list[int]) -> None:
        """Of what another had handed out who held this queue before, this is dealt with."""

    # -- its life

    @abstractmethod
    def dismiss(self) -> list[ConsumerPort]:
        """Nobody consumes any more; who did, to be told by whoever asks."""

    @abstractmethod
    def report(self) -> QueueReport:
        """What there is to know of it at this moment."""

    @abstractmethod
    def ready_bytes(self) -> int: ...

    @abstractmethod
    def unacked_bytes(self) -> int: ...

    @abstractmethod
    def has_exclusive_consumer(self) -> bool: ...

    @abstractmethod
    def consumers(self) -> list[tuple[ConsumerPort, bool]]:
        """Each consumer in the order they came, and whether messages may go to it."""

    @abstractmethod
    def check(self) -> None:
        """Raise `InvariantBroken` if this queue contradicts itself."""
