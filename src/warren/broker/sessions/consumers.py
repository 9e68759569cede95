"""Consumers of a channel: basic.consume, cancel, get and qos, and the delivery of a message.

basic.consume of a stream accepts other arguments than that of a queue; faults are worded as RabbitMQ words them.

Not here: which consumer is next (`broker.queues.consumers`), the encoding of a delivery (`broker.sessions.output`),
acks (`broker.sessions.acks`), the offset that a stream reader begins at (`broker.streams.reader`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.access.rights import QUEUE
from warren.broker.model.erlang_terms import type_name
from warren.broker.model.message import Entry
from warren.broker.model.ports import ConsumerPort, PartitionConsumerListener, QueuePort
from warren.broker.model.reader_positions import POSITION, wants_position, with_position
from warren.broker.model.remote_queue import CONSUME, GET, GET_NO_ACK, RemoteQueuePort
from warren.broker.queues.arguments import STREAM, type_of
from warren.broker.sessions import direct_reply, firehose, remote_queues
from warren.broker.sessions.connection import Channel
from warren.broker.sessions.output import (
    EPOCH,
    SEPARATE_CHUNK_BYTES,
    DeliveryWriter,
    whole_content,
    with_epoch,
    write_message,
)
from warren.broker.sessions.ports import NodePort
from warren.broker.sessions.unacked import AckingConsumer
from warren.broker.streams.groups import GROUP, MEMBER
from warren.broker.streams.offsets import OFFSET_ARGUMENT
from warren.broker.streams.reader import (
    BODIES_ARGUMENT,
    CHUNKS_ARGUMENT,
    FILTER_ARGUMENT,
    PROBE_ARGUMENT,
    UNFILTERED_ARGUMENT,
)
from warren.broker.streams.stream_readers import NAME_ARGUMENT
from warren.errors import NOT_ALLOWED, NOT_IMPLEMENTED, PRECONDITION_FAILED, ChannelFault, ConnectionFault
from warren.wire.field_tables import Table
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

BOOLEANS: Final = (CHUNKS_ARGUMENT, BODIES_ARGUMENT, PROBE_ARGUMENT, UNFILTERED_ARGUMENT)
STRINGS: Final = (GROUP, MEMBER, NAME_ARGUMENT)
STREAM_ARGUMENTS: Final = (OFFSET_ARGUMENT, CHUNKS_ARGUMENT, PROBE_ARGUMENT)
"""Refused for queues: the client would wait for an answer that never comes, or take messages for one."""


def checked_stream_reader(queue: QueuePort, no_ack: bool, prefetch: i64, arguments: Table) -> i64:
    """The priority of a stream reader, which is 0; a fault if a stream cannot be read with these arguments."""
    where = f"queue '{queue.name}' in vhost '{queue.vhost}'"
    for name in ("x-priority", "x-cancel-on-ha-failover"):
        if name in arguments:
            text = f"invalid arg '{name}' for {where} of queue type rabbit_stream_queue"
            raise ChannelFault(PRECONDITION_FAILED, text)
    _check_types(where, arguments)
    if no_ack:
        raise unsupported("automatic acknowledgement", queue)
    # the limit of the channel does not count: deliveries to other consumers would hold up the reader
    if prefetch == 0:
        raise ChannelFault(PRECONDITION_FAILED, f"consumer prefetch count is not set for '{where}'")
    return 0


def _check_types(where: str, arguments: Table) -> None:
    """Raise a fault if the type of an argument would make it ineffective."""
    reason = ""
    for name, value in arguments.items():
        if value is None:
            continue
        if name in BOOLEANS and not isinstance(value, bool):
            reason = "not a boolean"
        elif name in STRINGS and not isinstance(value, str):
            reason = "not a string"
        elif name == FILTER_ARGUMENT and not _are_strings(value):
            reason = "neither a string nor a list of strings"
        if reason:
            raise ChannelFault(PRECONDITION_FAILED, f"invalid arg '{name}' for {where}: {reason}")


def _are_strings(value: object) -> bool:
    values = value if isinstance(value, list) else [value]
    return all(isinstance(one, str) for one in values)


def group_member_arguments(node: NodePort, tag: str, arguments: Table) -> Table:
    """The arguments of a reader. A group member without a name gets a unique one."""
    if GROUP not in arguments or MEMBER in arguments:
        return arguments
    named: Table = dict(arguments)
    named[MEMBER] = node.fresh_name(f"{tag}-")
    return named


def delivers_messages(arguments: Table) -> bool:
    """Whether a reader gets messages, and not chunks or an answer to a probe."""
    return arguments.get(CHUNKS_ARGUMENT) is not True and arguments.get(PROBE_ARGUMENT) is not True


def unsupported(what: str, queue: QueuePort) -> ConnectionFault:
    text = f"{what} not supported by stream queues queue '{queue.name}' in vhost '{queue.vhost}'"
    return ConnectionFault(NOT_IMPLEMENTED, text)


NOWHERE: Final[i64] = -1
"""The position of a delivery that no queue has any more."""


@final
class ChannelConsumer(AckingConsumer):
    """Takes messages of one queue for one channel."""

    def __init__(
        self,
        channel: Channel,
        queue: QueuePort,
        tag: str,
        no_ack: bool,
        exclusive: bool,
        priority: i64,
        prefetch: i64,
        arguments: Table,
    ) -> None:
        counter = channel.counters.of_queue(queue)
        super().__init__(tag, no_ack, exclusive, priority, arguments, queue, counter, channel.unacked_deliveries)
        self.channel: Channel = channel
        # 0 means no limit
        self.prefetch: i64 = prefetch
        # for a consumer of one partition: the consumer of the partitioned stream
        self.keeper: PartitionConsumerListener | None = None
        # its virtual host is traced, and it gets messages
        self.traced: bool = False
        self.trace(channel.vhost.tracing)
        self._sends_epoch: bool = arguments.get(EPOCH) is True
        self._sends_position: bool = wants_position(arguments)
        self._writer: DeliveryWriter = DeliveryWriter(channel.number, tag)

    def trace(self, on: bool) -> None:
        self.traced = on and delivers_messages(self.arguments)

    def able(self) -> bool:
        if self.stopped:
            return False
        channel = self.channel
        if channel.prefetch != 0 and self.ledger.consumers_unacked >= channel.prefetch:
            channel.starved = True
            return False
        if self.prefetch != 0 and self.unacked >= self.prefetch and not self.no_ack:
            return False
        return channel.connection.has_room()

    def unacked_max(self) -> int:
        own, shared = int(self.prefetch), int(self.channel.prefetch)
        if self.no_ack:
            return 0
        return min(own, shared) if own and shared else own or shared

    def deliver(self, entry: Entry) -> None:
        channel = self.channel
        connection = channel.connection
        counter = self.counter
        ledger = self.ledger
        if not counter.due:
            counter.begin()
        if self.no_ack:
            counter.delivered_no_ack += 1
            tag = ledger.skip()
        else:
            counter.delivered += 1
            tag = ledger.record(entry, self, connection.turn.now_ms)
            self.unacked += 1
            ledger.consumers_unacked += 1
        if entry.redelivered:
            counter.redelivered += 1
        message = with_position(entry) if self._sends_position else entry.message
        if self._sends_epoch and self.epoch != 0:
            message = with_epoch(message, self.epoch)
        out = connection.output()
        self._writer.write(out, message, tag, entry.redelivered)
        if len(message.content) < SEPARATE_CHUNK_BYTES:
            write_message(out, message, channel.number, connection.frame_max)
        else:
            connection.out.add_apart(whole_content(message, channel.number, connection.frame_max))
        if self.keeper is not None:
            self.keeper.partition_delivered(message)
        if self.traced:
            firehose.trace_delivered(channel, self.queue, entry)

    def moved(self, queue: QueuePort) -> None:
        """Another queue takes the place of its queue. Acks of earlier deliveries have no effect."""
        for entry, consumer in self.ledger.outstanding():
            if consumer is self:
                entry.position = NOWHERE
        self.queue = queue
        self.counter = self.channel.counters.of_queue(queue)

    def partition_consumer(self, queue: QueuePort, arguments: Table, keeper: PartitionConsumerListener) -> ConsumerPort:
        part = ChannelConsumer(
            self.channel, queue, self.tag, self.no_ack, self.exclusive, self.priority, self.prefetch, arguments
        )
        part.keeper = keeper
        return part

    def cancelled(self) -> None:
        if self.keeper is not None:
            self.keeper.partition_cancelled()
            return
        channel = self.channel
        channel.consumers.pop(self.tag, None)
        if channel.connection.capable("consumer_cancel_notify"):
            channel.send(BasicCancel(consumer_tag=self.tag, nowait=True))


TAG_PREFIX: Final = "amq.ctag-"


def basic_qos(channel: Channel, method: Method) -> None:
    assert isinstance(method, BasicQos)
    if method.prefetch_size:
        raise ConnectionFault(NOT_IMPLEMENTED, f"prefetch_size!=0 ({method.prefetch_size})")
    if method.global_:
        channel.prefetch = method.prefetch_count
    else:
        # a limit for consumers replaces the limit of the channel
        channel.consumer_prefetch = method.prefetch_count
        channel.prefetch = 0
    for consumer in channel.consumers.values():
        if isinstance(consumer.queue, RemoteQueuePort):
            consumer.queue.limit(consumer)
    if channel.starved:
        channel.wake_consumers()
    channel.send(BasicQosOk())


def basic_consume(channel: Channel, method: Method) -> None:
    assert isinstance(method, BasicConsume)
    # RabbitMQ resolves or refuses an empty name before all other checks
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
    # deliveries are written at the end of the turn, after this answer
    if not method.nowait:
        channel.send(BasicConsumeOk(consumer_tag=tag))


def _subscribed(channel: Channel, method: BasicConsume, tag: str) -> ChannelConsumer | None:
    """The consumer; None if the current frame waits for the queue to accept it."""
    queue = channel.queue(method.queue)
    if isinstance(queue, RemoteQueuePort):
        return _subscribed_remotely(channel, queue, method, tag)
    if remote_queues.waits_for_removal(channel, queue):
        return None
    consumer = _consumer(channel, queue, method, tag)
    queue.add_consumer(consumer)
    channel.consumers[tag] = consumer
    return consumer


def _subscribed_remotely(
    channel: Channel, queue: RemoteQueuePort, method: BasicConsume, tag: str
) -> ChannelConsumer | None:
    known = remote_queues.answer_to(channel, queue, CONSUME)
    consumer = _consumer(channel, queue, method, tag) if known is None else known.consumer
    answer = remote_queues.answer_from_home(channel, queue, CONSUME, consumer)
    if answer is None or not isinstance(consumer, ChannelConsumer):
        return None
    channel.consumers[consumer.tag] = consumer
    queue.started(consumer)
    return consumer


def _consumer(channel: Channel, queue: QueuePort, method: BasicConsume, tag: str) -> ChannelConsumer:
    arguments = method.arguments
    if type_of(queue.arguments) == STREAM:
        priority = checked_stream_reader(queue, method.no_ack, channel.consumer_prefetch, arguments)
        arguments = group_member_arguments(channel.node, tag, arguments)
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
    """The consumer's priority; a fault if an argument is invalid."""
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
    for name in STREAM_ARGUMENTS:
        if name in arguments:
            raise ChannelFault(PRECONDITION_FAILED, f"invalid arg '{name}' {where} of queue type rabbit_classic_queue")
    return priority


def basic_cancel(channel: Channel, method: Method) -> None:
    assert isinstance(method, BasicCancel)
    consumer = channel.consumers.get(method.consumer_tag)
    if consumer is not None:
        if not remote_queues.consumer_removed(channel, consumer.queue, consumer):
            return
        channel.consumers.pop(method.consumer_tag, None)
    elif channel.inbox is not None and channel.inbox.consumer_tag == method.consumer_tag:
        channel.close_inbox()
    if not method.nowait:
        channel.send(BasicCancelOk(consumer_tag=method.consumer_tag))


def basic_get(channel: Channel, method: Method) -> None:
    assert isinstance(method, BasicGet)
    name = channel.queue_name(method.queue)
    channel.rights.to_read(QUEUE, name)
    queue = channel.queue(name)
    if type_of(queue.arguments) == STREAM:
        raise unsupported("basic.get", queue)
    if isinstance(queue, RemoteQueuePort):
        answer = remote_queues.answer_from_home(channel, queue, GET_NO_ACK if method.no_ack else GET)
        if answer is not None:
            _answer_get(channel, answer.queue, answer.entry, method.no_ack)
        return
    queue.touch()
    if not queue.can_get():
        channel.connection.await_entry(queue)
        return
    _answer_get(channel, queue, queue.get(method.no_ack), method.no_ack)


def _answer_get(channel: Channel, queue: QueuePort, entry: Entry | None, no_ack: bool) -> None:
    if entry is None:
        channel.counters.of_queue(queue).count_empty_get()
        channel.send(BasicGetEmpty())
    else:
        _send_get_ok(channel, queue, entry, no_ack)


def _send_get_ok(channel: Channel, queue: QueuePort, entry: Entry, no_ack: bool) -> None:
    channel.counters.of_queue(queue).count_get(no_ack, entry.redelivered)
    if no_ack:
        tag = channel.unacked_deliveries.skip()
    else:
        consumer = ChannelConsumer(channel, queue, "", no_ack, False, 0, 0, {})
        consumer.unacked = 1
        tag = channel.unacked_deliveries.record(entry, consumer, channel.connection.turn.now_ms)
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
        firehose.trace_delivered(channel, queue, entry)
