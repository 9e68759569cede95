"""A channel in transaction mode: publishes and acks wait for tx.commit.

As RabbitMQ does it: a publish is routed when it arrives and enters its queues at commit; an acked delivery leaves the
ledger at once, is settled at commit and is outstanding again after rollback. It is not atomic across queues. The answer
to a commit waits until what it changed on disk is there.

Not here: the routing of a publish (`session.publishing`).
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.errors import PRECONDITION_FAILED, ChannelFault
from warren.model.ports import PENDING, REJECTED, SETTLED
from warren.model.turn import Turn
from warren.session import publishing, settling
from warren.session.ledger import Unacked
from warren.wire.methods import (
    ConfirmSelect,
    ConfirmSelectOk,
    Method,
    TxCommitOk,
    TxRollbackOk,
    TxSelectOk,
)

PUBLISH_BYTES: Final = 256
"""What a waiting publish costs besides its content."""

if TYPE_CHECKING:
    from warren.session.channel import Channel
    from warren.session.publishing import RoutedPublish


@final
class Refused:
    """Deliveries nacked or rejected inside the transaction."""

    def __init__(self, deliveries: list[Unacked], requeue: bool) -> None:
        self.deliveries = deliveries
        self.requeue = requeue


@final
class Transaction:
    """What waits for tx.commit."""

    def __init__(self, turn: Turn) -> None:
        self._turn: Turn = turn
        self.publishes: list[RoutedPublish] = []
        self.acks: list[list[Unacked]] = []
        self.refusals: list[Refused] = []

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
        self._turn.figures.received += len(self.publishes)
        self._turn.figures.received_confirm += len(self.publishes)

    def refuse(self, deliveries: list[Unacked], requeue: bool) -> None:
        self.refusals.append(Refused(deliveries, requeue))

    def lifted(self) -> list[Unacked]:
        """Every delivery that was taken out of the ledger since the transaction began."""
        taken: list[Unacked] = []
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
                holding = delivery.entry.holding
                if holding is not None and holding.durable:
                    return True
        return False


def tx_select(channel: "Channel", method: Method) -> None:
    if channel.confirms.on:
        raise ChannelFault(PRECONDITION_FAILED, "cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction(channel.node.turn)
    channel.send(TxSelectOk())


def tx_commit(channel: "Channel", method: Method) -> None:
    transaction = _open_transaction(channel)
    channel.transaction = Transaction(channel.node.turn)
    transaction.forget_publishes()
    outcome: i64 = PENDING if transaction.removes_durable() else SETTLED
    for publish in transaction.publishes:
        outcome = publishing.both(outcome, publishing.carry_out(channel, publish))
    for deliveries in transaction.acks:
        settling.settle_acked(channel, deliveries)
    for refusal in transaction.refusals:
        settling.settle_refused(channel, refusal.deliveries, refusal.requeue)
    if outcome == REJECTED:
        raise ChannelFault(PRECONDITION_FAILED, "partial tx completion")
    channel.send(TxCommitOk())
    if outcome == PENDING:
        channel.connection.gate()


def tx_rollback(channel: "Channel", method: Method) -> None:
    transaction = _open_transaction(channel)
    transaction.drop_publishes()
    channel.ledger.put_back(transaction.lifted())
    channel.transaction = Transaction(channel.node.turn)
    channel.send(TxRollbackOk())


def confirm_select(channel: "Channel", method: Method) -> None:
    assert isinstance(method, ConfirmSelect)
    if channel.transaction is not None:
        raise ChannelFault(PRECONDITION_FAILED, "cannot switch from tx to confirm mode")
    if not channel.confirms.on:
        channel.confirms.on = True
        channel.tallies.confirms_begin()
    if not method.nowait:
        channel.send(ConfirmSelectOk())


def _open_transaction(channel: "Channel") -> Transaction:
    if channel.transaction is None:
        raise ChannelFault(PRECONDITION_FAILED, "channel is not transactional")
    return channel.transaction
