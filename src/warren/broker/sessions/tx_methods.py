"""tx.select, tx.commit, tx.rollback and confirm.select.

tx.commit-ok is sent when the changes are on disk. If queues of other nodes take part, the frame of tx.commit waits and
is handled again when they have answered.

Not here: the state of a transaction (`broker.sessions.transactions`), confirms (`broker.sessions.confirms`).
"""

from typing import Final

from mypy_extensions import i64

from warren.broker.model.ports import AWAITED, PENDING, REJECTED, SETTLED, UNREACHABLE
from warren.broker.sessions import acks, publishes, remote_queues
from warren.broker.sessions.connection import Channel
from warren.broker.sessions.transactions import ChannelTransaction, PendingTxCommit
from warren.errors import PRECONDITION_FAILED, ChannelFault
from warren.wire.methods import ConfirmSelect, ConfirmSelectOk, Method, TxCommitOk, TxRollbackOk, TxSelectOk


def tx_select(channel: Channel, method: Method) -> None:
    if channel.confirms.on:
        raise ChannelFault(PRECONDITION_FAILED, "cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = ChannelTransaction(channel.node.turn)
        channel.counters.confirmed_mode = True
    channel.send(TxSelectOk())


COMMITTED_AT_ONCE: Final = 10_000
"""The publishes of a larger transaction enter their queues in several turns. A crash before tx.commit-ok may then leave
some of them, as in RabbitMQ."""


def tx_commit(channel: Channel, method: Method) -> None:
    transaction = _open_transaction(channel)
    commit = channel.commit
    if commit is None:
        if len(transaction.publishes) > COMMITTED_AT_ONCE and channel.vhost.applies_immediately():
            for publish in transaction.take_publishes(COMMITTED_AT_ONCE):
                transaction.outcome |= publishes.publish_routed(channel, publish)
            channel.connection.continue_later()
            return
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


def _committed(channel: Channel, transaction: ChannelTransaction) -> PendingTxCommit:
    """Apply the publishes, acks and rejects; a fault if a queue rejects a publish."""
    channel.transaction = ChannelTransaction(channel.node.turn)
    transaction.forget_publishes()
    commit = PendingTxCommit(channel.node.turn, channel.connection)
    remote_queues_settled = transaction.remote_queues_settled()
    outcome: i64 = transaction.outcome | (PENDING if transaction.removes_durable() else SETTLED)
    for publish in transaction.publishes:
        one = publishes.publish_routed(channel, publish)
        if one & AWAITED:
            commit.await_queues(remote_queues.queues_awaited(publish.queues))
        outcome |= one
    for deliveries in transaction.acks:
        acks.settle_acked(channel, deliveries)
    for refusal in transaction.refusals:
        acks.settle_rejected(channel, refusal.deliveries, refusal.requeue)
    if outcome & REJECTED:
        commit.forget()
        why = ": the home node of a queue is down or inaccessible" if outcome & UNREACHABLE else ""
        raise ChannelFault(PRECONDITION_FAILED, f"partial tx completion{why}")
    commit.await_queues([queue for queue in remote_queues_settled if queue.fence()])
    commit.pending = outcome & PENDING != 0
    return commit


def tx_rollback(channel: Channel, method: Method) -> None:
    transaction = _open_transaction(channel)
    transaction.drop_publishes()
    channel.unacked_deliveries.put_back(transaction.taken_out())
    channel.transaction = ChannelTransaction(channel.node.turn)
    channel.send(TxRollbackOk())


def confirm_select(channel: Channel, method: Method) -> None:
    assert isinstance(method, ConfirmSelect)
    if channel.transaction is not None:
        raise ChannelFault(PRECONDITION_FAILED, "cannot switch from tx to confirm mode")
    if not channel.confirms.on:
        channel.confirms.on = True
        channel.counters.confirmed_mode = True
        channel.counters.confirms_begin()
    if not method.nowait:
        channel.send(ConfirmSelectOk())


def _open_transaction(channel: Channel) -> ChannelTransaction:
    if channel.transaction is None:
        raise ChannelFault(PRECONDITION_FAILED, "channel is not transactional")
    return channel.transaction
