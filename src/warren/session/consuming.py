"""basic.consume, cancel, get and qos: how a channel asks for messages.

Not here: the delivery itself (`session.consumer`), what happens to one afterwards (`session.settling`).
"""

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.access.rights import QUEUE
from warren.errors import NOT_ALLOWED, NOT_IMPLEMENTED, PRECONDITION_FAILED, ChannelFault, ConnectionFault
from warren.model.message import Entry
from warren.model.ports import QueuePort
from warren.model.terms import type_name
from warren.session import direct_reply, firehose
from warren.session.consumer import ChannelConsumer
from warren.session.delivery import write_message
from warren.wire.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicQos,
    BasicQosOk,
    Method,
)
from warren.wire.values import Table

if TYPE_CHECKING:
    from warren.session.channel import Channel

TAG_PREFIX: Final = "amq.ctag-"


def basic_qos(channel: "Channel", method: Method) -> None:
    assert isinstance(method, BasicQos)
    if method.prefetch_size:
        raise ConnectionFault(NOT_IMPLEMENTED, f"prefetch_size!=0 ({method.prefetch_size})")
    if method.global_:
        channel.prefetch = method.prefetch_count
    else:
        # a limit for consumers replaces one for the channel
        channel.consumer_prefetch = method.prefetch_count
        channel.prefetch = 0
    if channel.starved:
        channel.wake_consumers()
    channel.send(BasicQosOk())


def basic_consume(channel: "Channel", method: Method) -> None:
    assert isinstance(method, BasicConsume)
    # an empty name is filled in, or refused, before anything else is looked at
    queue_name = channel.queue_name(method.queue)
    if method.consumer_tag in channel.consumers:
        raise ConnectionFault(NOT_ALLOWED, f"attempt to reuse consumer tag '{method.consumer_tag}'")
    tag = method.consumer_tag or channel.node.fresh_name(TAG_PREFIX)
    if queue_name == direct_reply.REPLY_TO:
        direct_reply.open_inbox(channel, method, tag)
    else:
        channel.rights.to_read(QUEUE, queue_name)
        _subscribe(channel, method, tag)
    # deliveries wait for the end of the turn, so they cannot overtake this
    if not method.nowait:
        channel.send(BasicConsumeOk(consumer_tag=tag))


def _subscribe(channel: "Channel", method: BasicConsume, tag: str) -> None:
    queue = channel.queue(method.queue)
    priority = _checked_arguments(queue, method.arguments)
    consumer = ChannelConsumer(
        channel,
        queue,
        tag,
        method.no_ack,
        method.exclusive,
        priority,
        channel.consumer_prefetch,
        method.arguments,
    )
    queue.add_consumer(consumer)
    channel.consumers[tag] = consumer


def _checked_arguments(queue: QueuePort, arguments: Table) -> i64:
    """The consumer's priority, once its arguments are known to make sense."""
    where = f"for queue '{queue.name}' in vhost '{queue.vhost}'"
    priority = arguments.get("x-priority", 0)
    if isinstance(priority, bool) or not isinstance(priority, int):
        reason = f'"expected integer, got {type_name(priority)}"'
        raise ChannelFault(PRECONDITION_FAILED, f"invalid arg 'x-priority' {where}: {reason}")
    failover = arguments.get("x-cancel-on-ha-failover", False)
    if not isinstance(failover, bool):
        reason = f"{{unacceptable_type,{type_name(failover)}}}"
        raise ChannelFault(PRECONDITION_FAILED, f"invalid arg 'x-cancel-on-ha-failover' {where}: {reason}")
    if "x-stream-offset" in arguments:
        raise ChannelFault(
            PRECONDITION_FAILED, f"invalid arg 'x-stream-offset' {where} of queue type rabbit_classic_queue"
        )
    return priority


def basic_cancel(channel: "Channel", method: Method) -> None:
    assert isinstance(method, BasicCancel)
    consumer = channel.consumers.pop(method.consumer_tag, None)
    if consumer is not None:
        consumer.queue.remove_consumer(consumer)
    elif channel.inbox is not None and channel.inbox.consumer_tag == method.consumer_tag:
        direct_reply.close_inbox(channel)
    if not method.nowait:
        channel.send(BasicCancelOk(consumer_tag=method.consumer_tag))


def basic_get(channel: "Channel", method: Method) -> None:
    assert isinstance(method, BasicGet)
    name = channel.queue_name(method.queue)
    channel.rights.to_read(QUEUE, name)
    queue = channel.queue(name)
    queue.touch()
    if not queue.at_hand():
        channel.connection.await_entry(queue)
        return
    entry = queue.get(method.no_ack)
    if entry is None:
        channel.tallies.of_queue(queue).count_empty_get()
        channel.send(BasicGetEmpty())
    else:
        _send_got(channel, queue, entry, method.no_ack)


def _send_got(channel: "Channel", queue: QueuePort, entry: Entry, no_ack: bool) -> None:
    channel.tallies.of_queue(queue).count_get(no_ack, entry.redelivered)
    if no_ack:
        tag = channel.ledger.skip()
    else:
        taker = ChannelConsumer(channel, queue, "", no_ack, False, 0, 0, {})
        taker.unacked = 1
        tag = channel.ledger.record(entry, taker, channel.connection.turn.now_ms)
    envelope = entry.message.envelope
    channel.send(
        BasicGetOk(
            delivery_tag=int(tag),
            redelivered=entry.redelivered,
            exchange=envelope.exchange,
            routing_key=envelope.routing_key,
            message_count=queue.ready_count(),
        )
    )
    write_message(channel.connection.output(), entry.message, channel.number, channel.connection.frame_max)
    if channel.vhost.tracing:
        firehose.delivered(channel, queue, entry)
