"""The port between the master of a mirrored queue and the nodes that use the queue.

A node hands its publishes to the master's `MasterIntake`. Each node incarnation numbers the publishes that it sends to
a queue, so after a promotion the new master can tell which of them it has.

Not here: replication (`broker.replication`), the way from a session to the master (`broker.links`), the queue itself
(`broker.model.ports`).
"""

from abc import abstractmethod

from mypy_extensions import i64, mypyc_attr, trait

from warren.broker.model.message import Message
from warren.broker.model.ports import QueuePort
from warren.broker.model.turn import FlushWaiter


@mypyc_attr(allow_interpreted_subclasses=True)
class MasterIntake:
    """The master's side of the publishes of one node incarnation."""

    # the master's
    epoch: int = 0

    @abstractmethod
    def publish(self, count: i64, message: Message, counted: bool) -> i64:
        """Take a message; the result is `PENDING` or `REJECTED`, as for `QueuePort.publish`.

        `count` is the number that the sending node gave the message; `counted` says whether a channel published it.
        """

    @abstractmethod
    def await_commit(self, waiter: FlushWaiter) -> None:
        """Call the waiter when all operations on the queue up to the end of this turn are committed."""

    @abstractmethod
    def acked_late(self, positions: list[int]) -> None:
        """Clients of the sending node acked these positions, which an earlier master delivered."""

    @abstractmethod
    def deserted(self) -> None:
        """Clients of the sending node consumed from the queue, perhaps under an earlier master, and none does now."""


@trait
class MasterWaiter:
    """A node's user of a mirrored queue, on the node of the master."""

    @abstractmethod
    def opened(self, queue: QueuePort, intake: MasterIntake, mark: int, known: bool) -> None:
        """The master is ready. It has the waiter's node's publishes up to `mark`, if `known`."""

    @abstractmethod
    def held(self, count: i64) -> None:
        """The master holds the node's publishes up to this number, which is enough for a confirm."""
