"""A channel in transaction mode: publishes and acks wait for tx.commit.

As RabbitMQ does it: a publish is routed when it arrives and enters its queues at commit; an acked delivery leaves the
ledger at once, is settled at commit and is outstanding again after rollback. It is not atomic across queues. The answer
to a commit waits until what it changed on disk is there. Where queues of other nodes take part, their homes must have
said that it is there on theirs: until then the frame of the commit waits, and is handled again.

Not here: the routing of a publish (`broker.sessions.publishes`).
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.broker.model.ports import AWAITED, PENDING, REJECTED, SETTLED, UNREACHABLE, PublishWaiter, QueuePort
from warren.broker.model.remote_queue import RemoteQueuePort
from warren.broker.model.turn import Turn
from warren.broker.sessions import publishes, remote_queues, unacked
from warren.broker.sessions.unacked import UnackedDelivery
from warren.errors import PRECONDITION_FAILED, ChannelFault
from warren.wire.methods import ConfirmSelect, ConfirmSelectOk, Method, TxCommitOk, TxRollbackOk, TxSelectOk

if TYPE_CHECKING:
    from warren.broker.sessions.channel import Channel
    from warren.broker.sessions.publishes import RoutedPublish


PUBLISH_BYTES: Final = 256
"""What a waiting publish costs besides its content."""


@final
class RefusedPublish:
    """Deliveries nacked or rejected inside the transaction."""

    def __init__(self, deliveries: list[UnackedDelivery], requeue: bool) -> None:
        self.deliveries = deliveries
        self.requeue = requeue


@final
class ChannelTransaction:
    """What waits for tx.commit."""

    def __init__(self, turn: Turn) -> None:
        self._turn: Turn = turn
        self.publishes: list[RoutedPublish] = []
        self.acks: list[list[UnackedDelivery]] = []
        self.refusals: list[RefusedPublish] = []

    def publish(self, publish: "RoutedPublish") -> None:
        self.publishes.append(publish)
        self._turn.held_bytes += len(publish.message.content) + PUBLISH_BYTES

    def forget_publishes(self) -> None:
        """They wait no longer."""
        for publish in self.publishes:
            self._turn.held_bytes -= len(publish.message.content) + PUBLISH_BYTES

    def drop_publishes(self) -> None:
        """They go nowhere, but they were received."""
        self.forget_publishes()
        self._turn.stats.received += len(self.publishes)
        self._turn.stats.received_confirm += len(self.publishes)

    def refuse(self, deliveries: list[UnackedDelivery], requeue: bool) -> None:
        self.refusals.append(RefusedPublish(deliveries, requeue))

    def lifted(self) -> list[UnackedDelivery]:
        """Every delivery that was taken out of the ledger since the transaction began."""
        taken: list[UnackedDelivery] = []
        for deliveries in self.acks:
            taken.extend(deliveries)
        for refusal in self.refusals:
            taken.extend(refusal.deliveries)
        return taken

    def removes_durable(self) -> bool:
        """Whether a delivery it settles for good is on disk."""
        settled = list(self.acks)
        settled.extend([refusal.deliveries for refusal in self.refusals if not refusal.requeue])
        for deliveries in settled:
            for delivery in deliveries:
                extent = delivery.entry.extent
                if extent is not None and extent.durable:
                    return True
        return False

    def settled_afar(self) -> list[RemoteQueuePort]:
        """The queues of other nodes whose deliveries it settles for good."""
        settled = list(self.acks)
        settled.extend([refusal.deliveries for refusal in self.refusals if not refusal.requeue])
        queues: dict[RemoteQueuePort, None] = {}
        for deliveries in settled:
            for delivery in deliveries:
                queue = delivery.taker.queue
                if isinstance(queue, RemoteQueuePort):
                    queues[queue] = None
        return list(queues)


@final
class PendingTxCommit(PublishWaiter):
    """A commit that other nodes have a part in: what they have not said yet."""

    def __init__(self, channel: "Channel") -> None:
        # what was to be written here is on disk when this turn's batch is
        self.pending: bool = False
        # why it did not come about as a whole
        self.failure: str = ""
        self._channel: Channel = channel
        self._open: i64 = 0
        self._abandoned: bool = False

    def await_homes(self, queues: list[QueuePort]) -> None:
        """Of what was sent last to each of these."""
        for queue in queues:
            self._open += 1
            queue.await_settlement(self, self._open)

    def undecided(self) -> bool:
        return self._open > 0

    def abandon(self) -> None:
        """Its channel is over: what follows on the connection has nothing to wait for."""
        if self._open > 0:
            self._go_on()
        self._abandoned = True

    def forget(self) -> None:
        """Nobody waits for it."""
        self._abandoned = True

    def settled(self, count: i64) -> None:
        self._open -= count
        if self._open == 0:
            self._go_on()

    def refused(self, place: i64) -> None:
        self.failure = self.failure or "partial tx completion"

    def lost(self, reason: str) -> None:
        if self._open > 0:
            self.failure = f"partial tx completion: {reason}"
            self._open = 0
            self._go_on()

    def _go_on(self) -> None:
        if not self._abandoned:
            self._channel.node.turn.inputs.append(self._channel.connection)


def tx_select(channel: "Channel", method: Method) -> None:
    if channel.confirms.on:
        raise ChannelFault(PRECONDITION_FAILED, "cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = ChannelTransaction(channel.node.turn)
    channel.send(TxSelectOk())


def tx_commit(channel: "Channel", method: Method) -> None:
    transaction = _open_transaction(channel)
    commit = channel.commit
    if commit is None:
        commit = _committed(channel, transaction)
    if commit.undecided():
        channel.commit = commit
        channel.connection.await_again()
        return
    channel.commit = None
    if commit.failure:
        raise ChannelFault(PRECONDITION_FAILED, commit.failure)
    channel.send(TxCommitOk())
    if commit.pending:
        channel.connection.gate()


def _committed(channel: "Channel", transaction: ChannelTransaction) -> PendingTxCommit:
    """Carry out what waited; a fault if a queue refuses."""
    channel.transaction = ChannelTransaction(channel.node.turn)
    transaction.forget_publishes()
    commit = PendingTxCommit(channel)
    settled_afar = transaction.settled_afar()
    outcome: i64 = PENDING if transaction.removes_durable() else SETTLED
    for publish in transaction.publishes:
        one = publishes.publish_routed(channel, publish)
        if one & AWAITED:
            commit.await_homes(remote_queues.queues_awaited(publish.queues))
        outcome |= one
    for deliveries in transaction.acks:
        unacked.settle_acked(channel, deliveries)
    for refusal in transaction.refusals:
        unacked.settle_rejected(channel, refusal.deliveries, refusal.requeue)
    if outcome & REJECTED:
        commit.forget()
        why = ": the home node of a queue is down or inaccessible" if outcome & UNREACHABLE else ""
        raise ChannelFault(PRECONDITION_FAILED, f"partial tx completion{why}")
    commit.await_homes([queue for queue in settled_afar if queue.fence()])
    commit.pending = outcome & PENDING != 0
    return commit


def tx_rollback(channel: "Channel", method: Method) -> None:
    transaction = _open_transaction(channel)
    transaction.drop_publishes()
    channel.unacked_deliveries.put_back(transaction.lifted())
    channel.transaction = ChannelTransaction(channel.node.turn)
    channel.send(TxRollbackOk())


def confirm_select(channel: "Channel", method: Method) -> None:
    assert isinstance(method, ConfirmSelect)
    if channel.transaction is not None:
        raise ChannelFault(PRECONDITION_FAILED, "cannot switch from tx to confirm mode")
    if not channel.confirms.on:
        channel.confirms.on = True
        channel.counters.confirms_begin()
    if not method.nowait:
        channel.send(ConfirmSelectOk())


def _open_transaction(channel: "Channel") -> ChannelTransaction:
    if channel.transaction is None:
        raise ChannelFault(PRECONDITION_FAILED, "channel is not transactional")
    return channel.transaction
