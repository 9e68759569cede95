"""The Firehose tracer: copies of the messages of a traced virtual host.

Copies go to the exchange `amq.rabbitmq.trace`. The routing key has the event and its place:

    publish.EXCHANGE   the message is published
    deliver.QUEUE      the message is delivered, or answers a basic.get
    ack.QUEUE          the delivery is acked; in a transaction, at commit
    reject.QUEUE       the delivery is rejected, requeued, or timed out
    dead.QUEUE         the message is dead-lettered, on the node that has the queue
    confirm.QUEUE      every node in sync has the message, on the node that has the master of a mirrored queue

A copy has the body of the message. Its headers have the message's properties and the event's details, in RabbitMQ's
names, types and order. Copies are transient, have no other properties, do not count, and are not traced themselves.

Not copied: acks of stream readers, since they remove nothing; chunks and probes of streams, since a reader of a stream
of copies would never reach its end; requeues of a closed channel, since no client asked for them.

Cost while tracing is off: nothing for a publish, since tracing is checked when it is routed; one comparison for a
delivery (`ChannelConsumer.traced`), for an ack or reject of any number of deliveries, for a dead letter, and for a
batch of a mirrored queue. While tracing is on, a copy that no queue is bound for is not made.

Differences from RabbitMQ: RabbitMQ has only `publish.` and `deliver.`. A key longer than 255 octets is cut, and headers
that are too deeply nested for a copy are left out.

Not here: switching it on (`broker.vhost`), trace files (`admin.tracing`).
"""

from typing import Final

from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i64

from warren.broker.model.message import DROPPED, NO_EXPIRATION, Entry, Envelope, Message
from warren.broker.model.ports import REJECTED, DeadLetter, QueuePort
from warren.broker.routing.exchanges import Exchange, Recipients
from warren.broker.routing.topology import Topology
from warren.broker.sessions.connection import Channel, Connection
from warren.broker.sessions.direct_reply import INBOX_PREFIX
from warren.broker.sessions.unacked import UnackedDelivery
from warren.errors import ConnectionFault
from warren.wire.field_tables import write_value
from warren.wire.field_types import TABLE, skip_table
from warren.wire.property_scan import HEADERS, PropertyScan
from warren.wire.scalars import patch_size, write_longlong, write_longstr, write_short, write_shortstr

TRACE: Final = "amq.rabbitmq.trace"
BASIC_CLASS: Final = 60
KEY_BYTES_MAX: Final = 255
DEPTH_OF_HEADERS: Final[i64] = 3
"""The message's headers are a table in the table `properties` in the headers of the copy."""

TraceHeaders = list[tuple[str, object]]


def trace_published(channel: Channel, message: Message, queues: list[QueuePort]) -> None:
    """Before a message enters these queues, or none."""
    headers = _location_headers(channel)
    headers.append(("routed_queues", _routed(message.envelope, queues)))
    _trace(channel, message, "publish." + message.envelope.exchange, headers)


def _routed(envelope: Envelope, queues: list[QueuePort]) -> list[object]:
    """The queues' names, sorted. For the default exchange RabbitMQ lists every routing key."""
    names = [queue.name for queue in queues]
    if envelope.exchange == "":
        names = [key for key in [envelope.routing_key, *envelope.copy_keys] if not key.startswith(INBOX_PREFIX)]
    return _sorted(names)


def _sorted(names: list[str]) -> list[object]:
    octets = sorted({name.encode("utf-8", "surrogateescape") for name in names})
    return [name.decode("utf-8", "surrogateescape") for name in octets]


def trace_delivered(channel: Channel, queue: QueuePort, entry: Entry) -> None:
    """After a message was taken from a queue."""
    _trace(channel, entry.message, "deliver." + queue.name, _of_delivery(channel, entry))


def trace_acked(channel: Channel, deliveries: list[UnackedDelivery]) -> None:
    """Before deliveries are acked."""
    for delivery in deliveries:
        if delivery.entry.message is not DROPPED:
            headers = _of_delivery(channel, delivery.entry)
            _trace(channel, delivery.entry.message, "ack." + delivery.consumer.queue.name, headers)


def trace_rejected(channel: Channel, deliveries: list[UnackedDelivery], requeue: bool) -> None:
    """Before deliveries are requeued, or rejected."""
    for delivery in deliveries:
        if delivery.entry.message is not DROPPED:
            headers = _of_delivery(channel, delivery.entry)
            headers.append(("requeue", 1 if requeue else 0))
            headers.append(("reason", "requeued" if requeue else "rejected"))
            _trace(channel, delivery.entry.message, "reject." + delivery.consumer.queue.name, headers)


def trace_dead_lettered(topology: Topology, node_name: str, letter: DeadLetter, queues: list[QueuePort]) -> None:
    """Before a dead letter enters these queues, or none."""
    message = letter.entry.message
    keys: list[object] = [message.envelope.routing_key]
    keys.extend(message.envelope.copy_keys)
    if letter.routing_key is not None:
        keys = [letter.routing_key]
    headers: TraceHeaders = [
        ("vhost", letter.queue.vhost),
        ("reason", letter.reason),
        ("dead_letter_exchange", letter.exchange),
        ("dead_letter_routing_keys", keys),
        ("routed_queues", _sorted([queue.name for queue in queues])),
    ]
    _publish(topology, node_name, message, "dead." + letter.queue.name, headers)


def trace_committed(
    topology: Topology, node_name: str, queue: QueuePort, message: Message, epoch: int, nodes: list[str]
) -> None:
    """A message of a mirrored queue is committed in this epoch, and these nodes have it."""
    holders: list[object] = list(nodes)
    headers: TraceHeaders = [("vhost", queue.vhost), ("epoch", epoch), ("nodes", holders)]
    _publish(topology, node_name, message, "confirm." + queue.name, headers)


def _of_delivery(channel: Channel, entry: Entry) -> TraceHeaders:
    headers: TraceHeaders = [("redelivered", 1 if entry.redelivered else 0)]
    headers.extend(_location_headers(channel))
    return headers


def _location_headers(channel: Channel) -> TraceHeaders:
    connection = channel.connection
    return [
        ("vhost", channel.vhost.name),
        ("connection", connection_name(connection)),
        ("channel", int(channel.number)),
        ("user", connection.user),
    ]


def connection_name(connection: Connection) -> str:
    """The connection's name for operators. That of an internal connection looks like an Erlang pid, as in RabbitMQ."""
    opened = connection.opened
    if opened.trusted:
        return f"<{connection.node.settings.node_name}.{connection.connected_at_ms // 1000}.{opened.connection_id}.0>"
    return f"{opened.peer_host}:{opened.peer_port} -> {opened.local_host}:{opened.local_port}"


def _trace(channel: Channel, message: Message, key: str, headers: TraceHeaders) -> None:
    _publish(channel.vhost.topology, channel.node.settings.node_name, message, key, headers)


def _publish(topology: Topology, node_name: str, message: Message, key: str, headers: TraceHeaders) -> None:
    exchange = topology.exchanges.get(TRACE)
    if exchange is None or not exchange.outgoing or message.envelope.exchange == TRACE:
        return
    key = _cut(key)
    route = topology.route(exchange, key, None)
    if route.cacheable and not route.queues:
        return
    copy = _copy_of(message, exchange, key, node_name, headers)
    if not route.cacheable:
        # an exchange that routes by headers needs the copy
        route = topology.route(exchange, key, copy)
    recipients = Recipients(route.queues, route.copies)
    for queue in recipients.row:
        queue.uncounted += 1
        if queue.publish(copy) & REJECTED == 0:
            recipients.taken_by(queue)


def _cut(key: str) -> str:
    octets = key.encode("utf-8", "surrogateescape")
    if len(octets) <= KEY_BYTES_MAX:
        return key
    return octets[:KEY_BYTES_MAX].decode("utf-8", "surrogateescape")


def _copy_of(message: Message, exchange: Exchange, key: str, node_name: str, headers: TraceHeaders) -> Message:
    envelope = message.envelope
    keys: list[object] = [envelope.routing_key]
    keys.extend(envelope.copy_keys)
    out = BytesWriter()
    write_short(out, BASIC_CLASS)
    write_short(out, 0)
    write_longlong(out, int(message.body_bytes))
    write_short(out, HEADERS)
    size_at: i64 = len(out)
    write_i32_be(out, 0)
    _write_field(out, "exchange_name", envelope.exchange)
    _write_field(out, "routing_keys", keys)
    write_shortstr(out, "properties")
    out.append(TABLE)
    _write_properties(out, message)
    _write_field(out, "node", node_name)
    for name, value in headers:
        _write_field(out, name, value)
    patch_size(out, size_at)
    copy = message.with_header_payload(out.getvalue())
    copy.envelope = Envelope(exchange.name, key)
    copy.persistent = False
    copy.priority = 0
    copy.expiration_ms = NO_EXPIRATION
    return copy


def _write_field(out: BytesWriter, name: str, value: object) -> None:
    write_shortstr(out, name)
    write_value(out, value)


def _write_properties(out: BytesWriter, message: Message) -> None:
    """The properties that are set, the last one first. Headers keep their types."""
    size_at: i64 = len(out)
    write_i32_be(out, 0)
    for name, value in reversed(message.properties().fields()):
        if value is None:
            continue
        if name == "headers":
            _write_headers(out, message.header_payload())
        elif isinstance(value, int):
            # RabbitMQ uses a signed 32-bit field for every integer, also for the 64 bits of a timestamp
            _write_field(out, name, (value & 0xFFFFFFFF ^ 0x80000000) - 0x80000000)
        else:
            _write_field(out, name, value)
    patch_size(out, size_at)


def _write_headers(out: BytesWriter, payload: bytes) -> None:
    scan = PropertyScan()
    scan.scan(payload, 0, len(payload))
    try:
        skip_table(payload, scan.headers_start, scan.headers_end, DEPTH_OF_HEADERS)
    except ConnectionFault:
        return
    write_shortstr(out, "headers")
    out.append(TABLE)
    write_longstr(out, payload[scan.headers_start : scan.headers_end])
