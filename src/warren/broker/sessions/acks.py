"""basic.ack, nack, reject and recover, and the timeout for acks.

Not here: the ledger of unacked deliveries (`broker.sessions.unacked`), the effect on a queue (`broker.queues.queue`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.settings import REQUEUE_DELIVERY, BrokerSettings
from warren.broker.model.turn import TimerTarget, Turn
from warren.broker.queues.arguments import STREAM, type_of
from warren.broker.sessions import firehose
from warren.broker.sessions.connection import Channel, Connection
from warren.broker.sessions.consumers import unsupported
from warren.broker.sessions.unacked import UnackedDelivery, requeue_all
from warren.errors import NOT_IMPLEMENTED, PRECONDITION_FAILED, ChannelFault, ConnectionFault
from warren.wire.methods import BasicNack, BasicRecover, BasicRecoverAsync, BasicRecoverOk, BasicReject, Method

TIMEOUT_CHECK_EVERY_MS: Final[i64] = 60_000
TIMEOUT_CHECK_AT_LEAST_EVERY_MS: Final[i64] = 100


def ack(channel: Channel, tag: i64, multiple: bool) -> None:
    """Ack one delivery, or all up to its tag."""
    unacked_deliveries = channel.unacked_deliveries
    if channel.starved:
        # before deliveries are settled: the settling queue would otherwise always come first and take the room
        channel.wake_consumers()
    if channel.transaction is not None:
        channel.transaction.acks.append(_taken_out(channel, tag, multiple))
    elif channel.vhost.tracing:
        settle_acked(channel, _taken_out(channel, tag, multiple))
    elif not multiple:
        if not unacked_deliveries.ack(tag):
            _check_tolerated(channel, tag)
    elif tag == 0 or unacked_deliveries.has(tag):
        unacked_deliveries.ack_to(tag)
    else:
        _check_tolerated(channel, tag)
        unacked_deliveries.ack_to(tag)


def basic_nack(channel: Channel, method: Method) -> None:
    assert isinstance(method, BasicNack)
    _reject(channel, method.delivery_tag, method.multiple, method.requeue)


def basic_reject(channel: Channel, method: Method) -> None:
    assert isinstance(method, BasicReject)
    _reject(channel, method.delivery_tag, False, method.requeue)


def basic_recover(channel: Channel, method: Method) -> None:
    assert isinstance(method, BasicRecover)
    _check_recover(method.requeue)
    # redeliveries follow the answer, so the answer goes first
    channel.send(BasicRecoverOk())
    settle_rejected(channel, channel.unacked_deliveries.take_out_to(0), True)


def basic_recover_async(channel: Channel, method: Method) -> None:
    assert isinstance(method, BasicRecoverAsync)
    _check_recover(method.requeue)
    settle_rejected(channel, channel.unacked_deliveries.take_out_to(0), True)


def settle_acked(channel: Channel, deliveries: list[UnackedDelivery]) -> None:
    if channel.starved:
        channel.wake_consumers()
    if channel.vhost.tracing:
        firehose.trace_acked(channel, deliveries)
    for delivery in deliveries:
        delivery.consumer.acked(delivery.entry)


def settle_rejected(channel: Channel, deliveries: list[UnackedDelivery], requeue: bool) -> None:
    """Requeue or dead-letter deliveries that were taken out of the ledger."""
    if channel.starved:
        channel.wake_consumers()
    if channel.vhost.tracing:
        firehose.trace_rejected(channel, deliveries, requeue)
    if requeue:
        requeue_all(deliveries)
    else:
        for delivery in deliveries:
            delivery.consumer.settled()
            delivery.consumer.queue.reject(delivery.entry)


def _reject(channel: Channel, tag: int, multiple: bool, requeue: bool) -> None:
    deliveries = _taken_out(channel, tag, multiple)
    for delivery in deliveries:
        if type_of(delivery.consumer.queue.arguments) == STREAM:
            raise unsupported("basic.nack and basic.reject", delivery.consumer.queue)
    if channel.transaction is not None:
        channel.transaction.refuse(deliveries, requeue)
        return
    settle_rejected(channel, deliveries, requeue)


def _check_recover(requeue: bool) -> None:
    if not requeue:
        raise ConnectionFault(NOT_IMPLEMENTED, "requeue=false")


def _taken_out(channel: Channel, tag: i64, multiple: bool) -> list[UnackedDelivery]:
    unacked_deliveries = channel.unacked_deliveries
    if multiple and tag == 0:
        return unacked_deliveries.take_out_to(0)
    if not unacked_deliveries.has(tag):
        _check_tolerated(channel, tag)
        return unacked_deliveries.take_out_to(tag) if multiple else []
    return unacked_deliveries.take_out_to(tag) if multiple else [unacked_deliveries.take_out(tag)]


def _check_tolerated(channel: Channel, tag: i64) -> None:
    """Raise a fault for a tag that is not outstanding, unless the delivery timed out and was requeued."""
    if int(tag) not in channel.tolerated_tags:
        # tags are unsigned on the wire
        raise ChannelFault(PRECONDITION_FAILED, f"unknown delivery tag {int(tag) & 0xFFFFFFFFFFFFFFFF}")
    del channel.tolerated_tags[int(tag)]


@final
class ConsumerTimeouts(TimerTarget):
    """The timeout for acks of deliveries.

    The oldest delivery of each channel is checked at intervals, as in RabbitMQ. Depending on the settings, the channel
    is closed with 406, or only the late deliveries are requeued.
    """

    def __init__(self, settings: BrokerSettings, turn: Turn, connections: dict[int, Connection]) -> None:
        self._limit_ms: i64 = settings.consumer_timeout_ms
        self._requeue: bool = settings.consumer_timeout_action == REQUEUE_DELIVERY
        self._turn: Turn = turn
        self._connections: dict[int, Connection] = connections
        self._started: bool = False

    def start(self) -> None:
        if not self._started and self._limit_ms:
            self._started = True
            self._arm()

    def timer_fired(self) -> None:
        before_ms = self._turn.now_ms - self._limit_ms
        for connection in list(self._connections.values()):
            for channel in list(connection.channels.values()):
                last_tag = channel.unacked_deliveries.overdue_tag(before_ms)
                if last_tag:
                    self._act(channel, last_tag)
        self._arm()

    def _act(self, channel: Channel, last_tag: i64) -> None:
        if self._requeue:
            deliveries = channel.unacked_deliveries.take_out_to(last_tag)
            channel.connection.note(
                "warning", "delivery.timed_out", {"channel": int(channel.number), "count": len(deliveries)}
            )
            channel.tolerate_tags(deliveries)
            settle_rejected(channel, deliveries, True)
            return
        text = (
            f"delivery acknowledgement on channel {channel.number} timed out. Timeout value used: {self._limit_ms} ms. "
            "This timeout value can be configured, see consumers doc guide to learn more"
        )
        channel.fail(ChannelFault(PRECONDITION_FAILED, text), 0, 0)

    def _arm(self) -> None:
        every_ms = min(TIMEOUT_CHECK_EVERY_MS, max(self._limit_ms // 2, TIMEOUT_CHECK_AT_LEAST_EVERY_MS))
        self._turn.set_timer(self._turn.now_ms + every_ms, self)
