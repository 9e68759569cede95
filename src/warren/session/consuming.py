"""basic.consume, cancel, get and qos: how a channel asks for messages.

Not here: the delivery itself (`session.consumer`), what happens to one afterwards (`session.settling`).
"""

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.access.rights import QUEUE
from warren.errors import NOT_ALLOWED, NOT_IMPLEMENTED, PRECONDITION_FAILED, ChannelFault, ConnectionFault
from warren.model.distant import CONSUME, GET, GET_NO_ACK, DistantQueue
from warren.model.message import Entry
from warren.model.ports import QueuePort
from warren.model.terms import type_name
from warren.model.told_position import POSITION
from warren.queue.arguments import type_of
from warren.queue.stream_arguments import STREAM
from warren.session import direct_reply, firehose, waiting
from warren.session.consumer import ChannelConsumer
from warren.session.delivery import EPOCH, write_message
from warren.session.reading import OF_STREAMS, checked_reader, member_arguments, unsupported
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
    for consumer in channel.consumers.values():
        if isinstance(consumer.queue, DistantQueue):
            consumer.queue.limit(consumer)
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
        consumer = _subscribed(channel, method, tag)
        if consumer is None:
            return
        tag = consumer.tag
    # deliveries wait for the end of the turn, so they cannot overtake this
    if not method.nowait:
        channel.send(BasicConsumeOk(consumer_tag=tag))


def _subscribed(channel: "Channel", method: BasicConsume, tag: str) -> ChannelConsumer | None:
    """The consumer; none if the frame at hand waits for the queue to take it."""
    queue = channel.queue(method.queue)
    if isinstance(queue, DistantQueue):
        return _subscribed_afar(channel, queue, method, tag)
    if waiting.decided_elsewhere(channel, queue):
        return None
    consumer = _consumer(channel, queue, method, tag)
    queue.add_consumer(consumer)
    channel.consumers[tag] = consumer
    return consumer


def _subscribed_afar(channel: "Channel", queue: DistantQueue, method: BasicConsume, tag: str) -> ChannelConsumer | None:
    known = waiting.asked(channel, queue, CONSUME)
    consumer = _consumer(channel, queue, method, tag) if known is None else known.consumer
    answer = waiting.answer_of(channel, queue, CONSUME, consumer)
    if answer is None or not isinstance(consumer, ChannelConsumer):
        return None
    channel.consumers[consumer.tag] = consumer
    queue.started(consumer)
    return consumer


def _consumer(channel: "Channel", queue: QueuePort, method: BasicConsume, tag: str) -> ChannelConsumer:
    arguments = method.arguments
    if type_of(queue.arguments) == STREAM:
        priority = checked_reader(queue, method.no_ack, channel.consumer_prefetch, arguments)
        arguments = member_arguments(channel.node, tag, arguments)
    else:
        priority = _checked_arguments(queue, method.arguments)
    return ChannelConsumer(
        channel,
        queue,
        tag,
        method.no_ack,
        method.exclusive,
        priority,
        channel.consumer_prefetch,
        arguments,
    )


def _checked_arguments(queue: QueuePort, arguments: Table) -> i64:
    """The consumer's priority, once its arguments are known to make sense."""
    where = f"for queue '{queue.name}' in vhost '{queue.vhost}'"
    priority = arguments.get("x-priority", 0)
    if isinstance(priority, bool) or not isinstance(priority, int):
        reason = f'"expected integer, got {type_name(priority)}"'
        raise ChannelFault(PRECONDITION_FAILED, f"invalid arg 'x-priority' {where}: {reason}")
    for name in ("x-cancel-on-ha-failover", EPOCH, POSITION):
        wanted = arguments.get(name, False)
        if not isinstance(wanted, bool):
            reason = f"{{unacceptable_type,{type_name(wanted)}}}"
            raise ChannelFault(PRECONDITION_FAILED, f"invalid arg '{name}' {where}: {reason}")
    for name in OF_STREAMS:
        if name in arguments:
            raise ChannelFault(PRECONDITION_FAILED, f"invalid arg '{name}' {where} of queue type rabbit_classic_queue")
    return priority


def basic_cancel(channel: "Channel", method: Method) -> None:
    assert isinstance(method, BasicCancel)
    consumer = channel.consumers.get(method.consumer_tag)
    if consumer is not None:
        if not waiting.has_left(channel, consumer.queue, consumer):
            return
        channel.consumers.pop(method.consumer_tag, None)
    elif channel.inbox is not None and channel.inbox.consumer_tag == method.consumer_tag:
        direct_reply.close_inbox(channel)
    if not method.nowait:
        channel.send(BasicCancelOk(consumer_tag=method.consumer_tag))


def basic_get(channel: "Channel", method: Method) -> None:
    assert isinstance(method, BasicGet)
    name = channel.queue_name(method.queue)
    channel.rights.to_read(QUEUE, name)
    queue = channel.queue(name)
    if type_of(queue.arguments) == STREAM:
        raise unsupported("basic.get", queue)
    if isinstance(queue, DistantQueue):
        answer = waiting.answer_of(channel, queue, GET_NO_ACK if method.no_ack else GET)
        if answer is not None:
            _answer_get(channel, queue, answer.entry, method.no_ack)
        return
    queue.touch()
    if not queue.at_hand():
        channel.connection.await_entry(queue)
        return
    _answer_get(channel, queue, queue.get(method.no_ack), method.no_ack)


def _answer_get(channel: "Channel", queue: QueuePort, entry: Entry | None, no_ack: bool) -> None:
    if entry is None:
        channel.tallies.of_queue(queue).count_empty_get()
        channel.send(BasicGetEmpty())
    else:
        _send_got(channel, queue, entry, no_ack)


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
