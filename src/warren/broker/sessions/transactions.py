"""The state of a channel in transaction mode.

As in RabbitMQ, a publish is routed when it arrives and enters its queues at tx.commit. An acked delivery leaves the
ledger at once, is settled at commit, and is outstanding again after tx.rollback. A transaction is not atomic across
queues.

`PendingTxCommit` waits for queues of other nodes: their home nodes must have the changes on disk before tx.commit-ok.

Not here: the methods (`broker.sessions.tx_methods`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.ports import SETTLED, OutputPort, PublishWaiter, QueuePort
from warren.broker.model.remote_queue import RemoteQueuePort
from warren.broker.model.turn import Turn
from warren.broker.sessions.incoming_publishes import RoutedPublish
from warren.broker.sessions.unacked import UnackedDelivery

PUBLISH_BYTES: Final = 256
"""The memory of a waiting publish besides its content."""


@final
class RejectedDeliveries:
    """Deliveries nacked or rejected inside the transaction."""

    def __init__(self, deliveries: list[UnackedDelivery], requeue: bool) -> None:
        self.deliveries = deliveries
        self.requeue = requeue


@final
class ChannelTransaction:
    """The publishes, acks and rejects that wait for tx.commit."""

    def __init__(self, turn: Turn) -> None:
        self._turn: Turn = turn
        self.publishes: list[RoutedPublish] = []
        self.acks: list[list[UnackedDelivery]] = []
        self.refusals: list[RejectedDeliveries] = []
        # of the publishes that entered their queues in earlier turns
        self.outcome: i64 = SETTLED

    def publish(self, publish: RoutedPublish) -> None:
        self.publishes.append(publish)
        self._turn.held_bytes += len(publish.message.content) + PUBLISH_BYTES

    def forget_publishes(self) -> None:
        """The publishes no longer count as held by the node."""
        for publish in self.publishes:
            self._turn.held_bytes -= len(publish.message.content) + PUBLISH_BYTES

    def take_publishes(self, most: int) -> list[RoutedPublish]:
        """The first publishes, which no longer count as held."""
        taken, self.publishes = self.publishes[:most], self.publishes[most:]
        for publish in taken:
            self._turn.held_bytes -= len(publish.message.content) + PUBLISH_BYTES
        return taken

    def drop_publishes(self) -> None:
        """Count the publishes as received; they enter no queue."""
        self.forget_publishes()
        self._turn.stats.received += len(self.publishes)
        self._turn.stats.received_confirm += len(self.publishes)

    def refuse(self, deliveries: list[UnackedDelivery], requeue: bool) -> None:
        self.refusals.append(RejectedDeliveries(deliveries, requeue))

    def taken_out(self) -> list[UnackedDelivery]:
        """Every delivery taken out of the ledger since the transaction began."""
        taken: list[UnackedDelivery] = []
        for deliveries in self.acks:
            taken.extend(deliveries)
        for refusal in self.refusals:
            taken.extend(refusal.deliveries)
        return taken

    def check(self) -> None:
        tags = [delivery.tag for delivery in self.taken_out()]
        assert len(tags) == len(set(tags)), "a delivery is settled twice in a transaction"

    def removes_durable(self) -> bool:
        """Whether the commit removes an entry that is on disk."""
        settled = list(self.acks)
        settled.extend([refusal.deliveries for refusal in self.refusals if not refusal.requeue])
        for deliveries in settled:
            for delivery in deliveries:
                extent = delivery.entry.extent
                if extent is not None and extent.durable:
                    return True
        return False

    def remote_queues_settled(self) -> list[RemoteQueuePort]:
        """The queues of other nodes from which the commit removes deliveries."""
        settled = list(self.acks)
        settled.extend([refusal.deliveries for refusal in self.refusals if not refusal.requeue])
        queues: dict[RemoteQueuePort, None] = {}
        for deliveries in settled:
            for delivery in deliveries:
                queue = delivery.consumer.queue
                if isinstance(queue, RemoteQueuePort):
                    queues[queue] = None
        return list(queues)


@final
class PendingTxCommit(PublishWaiter):
    """A commit that waits for queues of other nodes."""

    def __init__(self, turn: Turn, connection: OutputPort) -> None:
        # changes of this node are on disk when this turn's batch is
        self.pending: bool = False
        # the reason why the commit failed in part
        self.failure: str = ""
        self._turn: Turn = turn
        self._connection: OutputPort = connection
        self._open: i64 = 0
        self._abandoned: bool = False

    def await_queues(self, queues: list[QueuePort]) -> None:
        """Wait until each queue has settled the last record sent to it."""
        assert self._open >= 0, "no queue has been lost yet"
        for queue in queues:
            self._open += 1
            queue.await_settlement(self, self._open)

    def undecided(self) -> bool:
        return self._open > 0

    def abandon(self) -> None:
        """The channel is closed: input that follows on the connection is handled."""
        if self._open > 0:
            self._resume_input()
        self._abandoned = True

    def forget(self) -> None:
        """The commit failed already: outcomes of remote queues change nothing."""
        self._abandoned = True

    def settled(self, count: i64) -> None:
        self._open -= count
        if self._open == 0:
            self._resume_input()

    def refused(self, place: i64) -> None:
        self.failure = self.failure or "partial tx completion"

    def lost(self, reason: str) -> None:
        if self._open > 0:
            self.failure = f"partial tx completion: {reason}"
            self._open = 0
            self._resume_input()

    def _resume_input(self) -> None:
        if not self._abandoned:
            self._turn.inputs.append(self._connection)
