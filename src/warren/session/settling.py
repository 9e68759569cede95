"""Ack, nack, reject and recover: what a consumer says about its deliveries.

Not here: where unacked deliveries are kept (`session.ledger`), what a queue then does (`queue.queue`).
"""

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.errors import NOT_IMPLEMENTED, PRECONDITION_FAILED, ChannelFault, ConnectionFault
from warren.model.message import Entry
from warren.model.ports import QueuePort
from warren.queue.arguments import type_of
from warren.queue.stream_arguments import STREAM
from warren.session import firehose
from warren.session.ledger import Unacked
from warren.session.reading import unsupported
from warren.wire.methods import BasicNack, BasicRecover, BasicRecoverAsync, BasicRecoverOk, BasicReject, Method

if TYPE_CHECKING:
    from warren.session.channel import Channel


def ack(channel: "Channel", tag: i64, multiple: bool) -> None:
    """The consumer has dealt with a delivery, or with all up to it."""
    ledger = channel.ledger
    _wake_starved(channel)
    if channel.transaction is not None:
        channel.transaction.acks.append(_lifted(channel, tag, multiple))
    elif channel.vhost.tracing:
        settle_acked(channel, _lifted(channel, tag, multiple))
    elif not multiple:
        if not ledger.ack(tag):
            _check_forgiven(channel, tag)
    elif tag == 0 or ledger.has(tag):
        ledger.ack_to(tag)
    else:
        _check_forgiven(channel, tag)
        ledger.ack_to(tag)


def basic_nack(channel: "Channel", method: Method) -> None:
    assert isinstance(method, BasicNack)
    _refuse(channel, method.delivery_tag, method.multiple, method.requeue)


def basic_reject(channel: "Channel", method: Method) -> None:
    assert isinstance(method, BasicReject)
    _refuse(channel, method.delivery_tag, False, method.requeue)


def basic_recover(channel: "Channel", method: Method) -> None:
    assert isinstance(method, BasicRecover)
    _check_recover(method.requeue)
    # what follows the answer is a new delivery, so the answer goes first
    channel.send(BasicRecoverOk())
    settle_refused(channel, channel.ledger.lift_to(0), True)


def basic_recover_async(channel: "Channel", method: Method) -> None:
    assert isinstance(method, BasicRecoverAsync)
    _check_recover(method.requeue)
    settle_refused(channel, channel.ledger.lift_to(0), True)


def settle_acked(channel: "Channel", deliveries: list[Unacked]) -> None:
    _wake_starved(channel)
    if channel.vhost.tracing:
        firehose.acked(channel, deliveries)
    for delivery in deliveries:
        delivery.taker.acked(delivery.entry)


def settle_refused(channel: "Channel", deliveries: list[Unacked], requeue: bool) -> None:
    """Requeue or dead-letter deliveries that were lifted out of the ledger."""
    _wake_starved(channel)
    if channel.vhost.tracing:
        firehose.rejected(channel, deliveries, requeue)
    if requeue:
        requeue_all(deliveries)
    else:
        for delivery in deliveries:
            delivery.taker.settled()
            delivery.taker.queue.reject(delivery.entry)


def requeue_all(deliveries: list[Unacked]) -> None:
    """Give deliveries back to their queues, one call a queue, in delivery order."""
    by_queue: dict[QueuePort, list[Entry]] = {}
    for delivery in deliveries:
        delivery.taker.settled()
        by_queue.setdefault(delivery.taker.queue, []).append(delivery.entry)
    for queue, entries in by_queue.items():
        queue.requeue(entries)


def _refuse(channel: "Channel", tag: int, multiple: bool, requeue: bool) -> None:
    deliveries = _lifted(channel, tag, multiple)
    for delivery in deliveries:
        if type_of(delivery.taker.queue.arguments) == STREAM:
            raise unsupported("basic.nack and basic.reject", delivery.taker.queue)
    if channel.transaction is not None:
        channel.transaction.refuse(deliveries, requeue)
        return
    settle_refused(channel, deliveries, requeue)


def _wake_starved(channel: "Channel") -> None:
    """Before settling: else the queue that settles comes first each time and takes what was freed."""
    if channel.starved:
        channel.wake_consumers()


def _check_recover(requeue: bool) -> None:
    if not requeue:
        raise ConnectionFault(NOT_IMPLEMENTED, "requeue=false")


def _lifted(channel: "Channel", tag: i64, multiple: bool) -> list[Unacked]:
    ledger = channel.ledger
    if multiple and tag == 0:
        return ledger.lift_to(0)
    if not ledger.has(tag):
        _check_forgiven(channel, tag)
        return ledger.lift_to(tag) if multiple else []
    return ledger.lift_to(tag) if multiple else [ledger.lift(tag)]


def _check_forgiven(channel: "Channel", tag: i64) -> None:
    """A tag that is not outstanding is a fault, unless its delivery was requeued for being late."""
    if int(tag) not in channel.forgiven:
        # tags are unsigned on the wire
        raise ChannelFault(PRECONDITION_FAILED, f"unknown delivery tag {int(tag) & 0xFFFFFFFFFFFFFFFF}")
    del channel.forgiven[int(tag)]
