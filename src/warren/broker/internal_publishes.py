"""Messages that the broker itself sends to queues of other nodes: dead letters, and what was delayed.

What is on its way is still where it came from, and is forgotten there only when its last queue has it as safely as it
promises. If the home of one of them is not there, or is lost before it said so, or nobody knows after that what it had,
the message waits and is sent again when the home is back; so it may arrive twice, but it arrives. A queue that refuses,
or is deleted, has had it.

Not here: a client's publishes, which are the client's to repeat (`broker.sessions.remote_queues`).
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.message import Message
from warren.broker.model.ports import AWAITED, REJECTED, UNREACHABLE, OutputPort, PublishWaiter, QueuePort
from warren.broker.model.remote_queue import RemoteQueuePort
from warren.broker.model.turn import Turn

PENDING_PUBLISH_BYTES: Final[i64] = 256
"""What a message on its way holds besides its content."""


class InternalPublish:
    """One message on its way to one queue after another."""

    def __init__(self, message: Message, turn: Turn, counted: bool) -> None:
        self.message: Message = message
        self.turn: Turn = turn
        # whether it counts as published to its queues
        self._counted: bool = counted
        self._open: i64 = 0
        self._sent: bool = False

    @abstractmethod
    def arrived(self) -> None:
        """All queues have it."""

    def publish(self, queue: QueuePort) -> bool:
        """Whether it has the message, or will."""
        outcome = self.send(queue)
        if outcome >= AWAITED:
            self._open += 1
            RemoteInternalPublish(self, queue).begun(outcome)
        return outcome & REJECTED == 0 or outcome & UNREACHABLE != 0

    def send(self, queue: QueuePort) -> i64:
        """To one of its queues, for the first time or once more; what came of it."""
        if not self._counted:
            queue.uncounted += 1
        return queue.publish(self.message)

    def end(self) -> None:
        """It was sent to all its queues."""
        self._sent = True
        if self._open == 0:
            self.arrived()

    def remote_ended(self) -> None:
        self._open -= 1
        if self._sent and self._open == 0:
            self.arrived()


@final
class RemoteInternalPublish(OutputPort, PublishWaiter):
    """The way to one queue elsewhere."""

    def __init__(self, publish: InternalPublish, queue: QueuePort) -> None:
        self._publish: InternalPublish = publish
        self._queue: QueuePort = queue
        self._size_bytes: i64 = len(publish.message.content) + PENDING_PUBLISH_BYTES
        # nobody knows whether it has arrived
        self._doubted: bool = False

    def begun(self, outcome: i64) -> None:
        self._publish.turn.held_bytes += self._size_bytes
        self._await(outcome)

    def flush(self) -> None:
        """It has no output."""

    def go_on(self) -> None:
        """The home is there, or the queue is not."""
        self._await(self._publish.send(self._queue))

    def settled(self, count: i64) -> None:
        if self._doubted:
            self._doubted = False
            self._await_home()
        else:
            self._end()

    def refused(self, place: i64) -> None:
        """That is an end as good as any other; `settled` follows."""

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
        assert isinstance(self._queue, RemoteQueuePort), "one that lives here is always to be reached"
        self._queue.await_home(self)

    def _end(self) -> None:
        self._publish.turn.held_bytes -= self._size_bytes
        self._publish.remote_ended()
