"""The seams between the master of a mirrored queue and those who use the queue.

Whoever has publishes for it hands them to its `MasterIntake`, with their origin: a node, and which run of it, counts
what it sends to a queue, so that another master can tell what it has of that.

Not here: the ring (`mirroring`), the way from a session to the master (`remote`), the queue itself
(`broker.model.ports`).
"""

from abc import abstractmethod

from mypy_extensions import i64, mypyc_attr, trait

from warren.broker.model.message import Message
from warren.broker.model.ports import QueuePort
from warren.broker.model.turn import FlushWaiter


@mypyc_attr(allow_interpreted_subclasses=True)
class MasterIntake:
    """Where the master of a queue takes in what one run of a node publishes."""

    # of the master
    epoch: int = 0

    @abstractmethod
    def publish(self, count: i64, message: Message, counted: bool) -> i64:
        """Take a message, as `QueuePort.publish` does: `PENDING`, or `REJECTED`.

        `count` is the origin's own; `counted`, whether a channel published it.
        """

    @abstractmethod
    def await_commit(self, waiter: FlushWaiter) -> None:
        """Tell the waiter when all that was done to the queue up to the end of this turn is settled."""

    @abstractmethod
    def acked_late(self, positions: list[int]) -> None:
        """Clients of that run are done with what an earlier master handed out."""

    @abstractmethod
    def deserted(self) -> None:
        """Clients of that run consumed from the queue, under an earlier master perhaps, and none does any more."""


@trait
class MasterWaiter:
    """Whoever wants to use a mirrored queue where its master is, or will be."""

    @abstractmethod
    def opened(self, queue: QueuePort, intake: MasterIntake, mark: int, known: bool) -> None:
        """The queue is open here. `mark`: how much of what this waiter's node sent it has; `known`: if it can tell."""

    @abstractmethod
    def held(self, count: i64) -> None:
        """What this waiter's node sent up to this count is held here, which is enough for a confirm."""
