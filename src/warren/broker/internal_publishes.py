"""Publishes of the broker itself: dead letters and delayed messages.

The message stays where it came from until its last queue has it as safely as it promises. If the home node of a queue
is down, is lost before it confirmed, or the outcome is unknown, the message waits and is published again when the home
node is back. So it may arrive twice, but it arrives. A queue that rejects the message, or is deleted, counts as done.

Not here: publishes of clients, who repeat them themselves (`broker.sessions.remote_queues`).
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.message import Message
from warren.broker.model.ports import AWAITED, REJECTED, UNREACHABLE, OutputPort, PublishWaiter, QueuePort
from warren.broker.model.remote_queue import RemoteQueuePort
from warren.broker.model.turn import Turn

PENDING_PUBLISH_BYTES: Final[i64] = 256
"""The memory of a waiting publish besides its content."""


class InternalPublish:
    """One message that is published to several queues."""

    def __init__(self, message: Message, turn: Turn, counted: bool) -> None:
        self.message: Message = message
        self.turn: Turn = turn
        # it counts as published in the stats of its queues
        self._counted: bool = counted
        self._open: i64 = 0
        self._sent: bool = False

    @abstractmethod
    def arrived(self) -> None:
        """All queues have the message."""

    def publish(self, queue: QueuePort) -> bool:
        """Whether the queue has the message, or will have it."""
        outcome = self.send(queue)
        if outcome >= AWAITED:
            self._open += 1
            RemoteInternalPublish(self, queue).begin(outcome)
        return outcome & REJECTED == 0 or outcome & UNREACHABLE != 0

    def send(self, queue: QueuePort) -> i64:
        """Publish to one queue, for the first time or again; the outcome."""
        if not self._counted:
            queue.uncounted += 1
        return queue.publish(self.message)

    def end(self) -> None:
        """The message was published to all its queues."""
        self._sent = True
        if self._open == 0:
            self.arrived()

    def remote_ended(self) -> None:
        self._open -= 1
        if self._sent and self._open == 0:
            self.arrived()


@final
class RemoteInternalPublish(OutputPort, PublishWaiter):
    """A publish to one queue of another node."""

    def __init__(self, publish: InternalPublish, queue: QueuePort) -> None:
        self._publish: InternalPublish = publish
        self._queue: QueuePort = queue
        self._size_bytes: i64 = len(publish.message.content) + PENDING_PUBLISH_BYTES
        # it is unknown whether the message arrived
        self._doubted: bool = False

    def begin(self, outcome: i64) -> None:
        self._publish.turn.held_bytes += self._size_bytes
        self._await(outcome)

    def flush(self) -> None:
        """There is no output."""

    def go_on(self) -> None:
        """The home node is back, or the queue is deleted."""
        self._await(self._publish.send(self._queue))

    def settled(self, count: i64) -> None:
        if self._doubted:
            self._doubted = False
            self._await_home()
        else:
            self._end()

    def refused(self, place: i64) -> None:
        """A rejection counts as done; `settled` follows."""

    def doubted(self, place: i64) -> None:
        self._doubted = True

    def lost(self, reason: str) -> None:
        self._await_home()

    def _await(self, outcome: i64) -> None:
        if outcome & AWAITED:
            self._queue.await_settlement(self, 0)
        elif self._queue.deleted:
            self._end()
        else:
            self._await_home()

    def _await_home(self) -> None:
        assert isinstance(self._queue, RemoteQueuePort), "only a queue on another node can be unreachable"
        self._queue.await_home(self)

    def _end(self) -> None:
        self._publish.turn.held_bytes -= self._size_bytes
        self._publish.remote_ended()
