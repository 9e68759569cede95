"""The one door for what a broker sends: frames become events.

Deliveries and confirms are known by their ids and take the short road; all else is decoded and dispatched.

Invariant: nothing leaves here but a `ConnectionFault`, whatever the bytes are.

Not here: the handshake (`machine.handshake`), what a channel remembers (`machine.channel`).
"""

from typing import TYPE_CHECKING, Final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from warren.client.machine import handshake
from warren.client.machine.channel import CHANNEL_CLOSING, CHANNEL_OPEN, ChannelMachine
from warren.client.machine.content import Opening, PartialContent
from warren.client.machine.deliveries import Delivery, ReturnedMessage
from warren.client.machine.events import (
    BY_BROKER,
    BY_CLIENT,
    MISUNDERSTOOD,
    Answered,
    Blocked,
    Cancelled,
    ChannelClosed,
    Delivered,
    FlowChanged,
    Returned,
    Unblocked,
)
from warren.client.machine.publishing import TAIL_AT
from warren.client.machine.stages import AWAIT_START, CLOSED, CLOSING, IS_OPEN
from warren.errors import CHANNEL_ERROR, COMMAND_INVALID, FRAME_ERROR, UNEXPECTED_FRAME, ConnectionFault
from warren.wire.frames import BODY, HEADER, HEARTBEAT, METHOD, FrameReader, unknown_frame
from warren.wire.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetOk,
    BasicRecoverOk,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUnblocked,
    Method,
    decode_method,
    method_name,
    write_method,
)
from warren.wire.values import ArgumentReader

if TYPE_CHECKING:
    from warren.client.machine.connection import ConnectionMachine

DELIVER: Final[i64] = 60 << 16 | 60
ACK: Final[i64] = 60 << 16 | 80
NACK: Final[i64] = 60 << 16 | 120

CONFIRM_BYTES: Final[i64] = 13
GET_ROUTE_AT: Final[i64] = 13
"""Where exchange and routing key stand in a basic.get-ok: behind the ids, the tag and a flag."""

OTHER_PROTOCOL: Final = b"AMQP"


def receive(connection: "ConnectionMachine", data: bytes) -> None:
    """Everything that one read completes."""
    reader = connection.reader
    if connection.state == AWAIT_START and data.startswith(OTHER_PROTOCOL):
        version = ".".join([str(octet) for octet in data[5:8]])
        connection.end(MISUNDERSTOOD, FRAME_ERROR, f"the broker speaks AMQP {version}, not 0.9.1")
        return
    reader.feed(data)
    while connection.state != CLOSED and reader.next():
        channel = connection.channels.get(int(reader.channel))
        if channel is None:
            _connection_frame(connection, reader)
        elif reader.frame_type == METHOD:
            _channel_method(connection, channel, reader)
        else:
            _content_frame(connection, channel, reader)
    connection.tell_confirms()


def _connection_frame(connection: "ConnectionMachine", reader: FrameReader) -> None:
    """A frame of channel 0."""
    if reader.channel != 0:
        raise ConnectionFault(CHANNEL_ERROR, f"a frame of channel {reader.channel}, which is not open")
    if reader.frame_type == HEARTBEAT:
        return
    if reader.frame_type != METHOD:
        raise unknown_frame(reader.frame_type, reader.payload())
    method = decode_method(reader.data, reader.start, reader.end)
    if isinstance(method, ConnectionClose):
        connection.send(ConnectionCloseOk())
        connection.end(BY_BROKER, method.reply_code, method.reply_text)
    elif connection.state == CLOSING:
        if isinstance(method, ConnectionCloseOk):
            connection.end(BY_CLIENT, 200, "")
    elif connection.state < IS_OPEN:
        handshake.handle(connection, method)
    elif isinstance(method, ConnectionBlocked):
        connection.events.append(Blocked(method.reason))
    elif isinstance(method, ConnectionUnblocked):
        connection.events.append(Unblocked())
    else:
        raise ConnectionFault(COMMAND_INVALID, f"{method.name} from a broker")


def _channel_method(connection: "ConnectionMachine", channel: ChannelMachine, reader: FrameReader) -> None:
    if channel.content is not None:
        raise ConnectionFault(UNEXPECTED_FRAME, "a method in the midst of content")
    if reader.end - reader.start < 4:
        raise unknown_frame(METHOD, reader.payload())
    method_id: i64 = i64(read_i32_be(reader.data, reader.start))
    if method_id == DELIVER:
        _deliver(connection, channel, reader)
    elif method_id in (ACK, NACK) and reader.end - reader.start == CONFIRM_BYTES:
        number: i64 = read_i64_be(reader.data, reader.start + 4)
        multiple = reader.data[reader.start + 12] & 1 != 0
        if not channel.confirming:
            raise ConnectionFault(UNEXPECTED_FRAME, "a confirm on a channel that asked for none")
        channel.confirms.decide(number, multiple, method_id == ACK)
        if not connection.confirmed or connection.confirmed[-1] is not channel:
            connection.confirmed.append(channel)
    else:
        _decoded(connection, channel, reader, decode_method(reader.data, reader.start, reader.end))


def _decoded(connection: "ConnectionMachine", channel: ChannelMachine, reader: FrameReader, method: Method) -> None:
    if isinstance(method, BasicReturn):
        channel.content = PartialContent(Opening(method, b"", 0, False, b""))
    elif isinstance(method, BasicGetOk):
        route = reader.data[reader.start + GET_ROUTE_AT : reader.end - 4]
        channel.content = PartialContent(Opening(method, b"", method.delivery_tag, method.redelivered, route))
    elif isinstance(method, BasicCancel):
        channel.unsubscribed(method.consumer_tag)
        if not method.nowait:
            write_method(connection.out, channel.number, BasicCancelOk(method.consumer_tag))
        connection.events.append(Cancelled(channel.number, method.consumer_tag))
    elif isinstance(method, ChannelFlow):
        write_method(connection.out, channel.number, ChannelFlowOk(method.active))
        connection.events.append(FlowChanged(channel.number, method.active))
    elif isinstance(method, ChannelClose):
        _channel_closed(connection, channel, method)
    else:
        _answer(connection, channel, method)


def _channel_closed(connection: "ConnectionMachine", channel: ChannelMachine, method: ChannelClose) -> None:
    write_method(connection.out, channel.number, ChannelCloseOk())
    if channel.state == CHANNEL_CLOSING:
        # both sides closed it at once: the answer to ours is still to come
        return
    connection.tell_confirms()
    connection.forget_channel(channel)
    blamed = method_name(method.blamed_class_id, method.blamed_method_id) if method.blamed_class_id else ""
    connection.events.append(ChannelClosed(channel.number, method.reply_code, method.reply_text, blamed))


def _answer(connection: "ConnectionMachine", channel: ChannelMachine, method: Method) -> None:
    call = channel.answered_call(method)
    if call is None:
        raise ConnectionFault(UNEXPECTED_FRAME, f"{method.name} answers no call of channel {channel.number}")
    if isinstance(method, ChannelOpenOk):
        channel.state = CHANNEL_OPEN
    elif isinstance(method, BasicConsumeOk) and isinstance(call.method, BasicConsume):
        channel.subscribed(method.consumer_tag, call.method)
    elif isinstance(method, BasicCancelOk):
        channel.unsubscribed(method.consumer_tag)
    elif isinstance(method, BasicRecoverOk):
        channel.acks.forget_all()
    elif isinstance(method, ChannelCloseOk):
        connection.tell_confirms()
        connection.forget_channel(channel)
    connection.events.append(Answered(channel.number, call.ticket, method))


def _deliver(connection: "ConnectionMachine", channel: ChannelMachine, reader: FrameReader) -> None:
    data = reader.data
    start: i64 = reader.start + 5
    end: i64 = reader.end
    tag_end: i64 = start + data[start - 1]
    route_start: i64 = tag_end + 9
    if not _route_fits(data, route_start, end):
        raise ArgumentReader(data, reader.start + 4, end).fault()
    consumer_tag = data[start:tag_end]
    tag: i64 = read_i64_be(data, tag_end)
    redelivered = data[tag_end + 8] & 1 != 0
    route = data[route_start:end]
    if channel.state == CHANNEL_OPEN and reader.take_content():
        header = data[reader.header_start : reader.header_end]
        body_start: i64 = reader.position - reader.body_bytes - 1
        body = data[body_start : reader.position - 1] if reader.body_bytes else b""
        _delivered(connection, channel, consumer_tag, tag, redelivered, route, header, body)
    else:
        channel.content = PartialContent(Opening(None, consumer_tag, tag, redelivered, route))


def _delivered(
    connection: "ConnectionMachine",
    channel: ChannelMachine,
    consumer_tag: bytes,
    tag: i64,
    redelivered: bool,
    route: bytes,
    header: bytes,
    body: bytes,
) -> None:
    consumer = channel.consumers.get(consumer_tag)
    if consumer is None:
        raise ConnectionFault(UNEXPECTED_FRAME, "a delivery for a consumer that does not exist")
    channel.came(tag, consumer.no_ack)
    delivery = Delivery(channel.number, consumer.tag, tag, redelivered, route, header, body)
    batch = connection.delivered
    if batch is None or not _goes_on(connection, batch, channel.number, consumer_tag):
        batch = Delivered(channel.number, consumer.tag, [])
        connection.delivered = batch
        connection.delivered_tag = consumer_tag
        connection.events.append(batch)
    batch.deliveries.append(delivery)
    batch.body_bytes += len(body)


def _goes_on(connection: "ConnectionMachine", batch: Delivered, channel: int, consumer_tag: bytes) -> bool:
    """Whether it is the same consumer's, and nothing came between: events stay in the order of the wire."""
    return batch.channel == channel and connection.delivered_tag == consumer_tag and connection.events[-1] is batch


def _content_frame(connection: "ConnectionMachine", channel: ChannelMachine, reader: FrameReader) -> None:
    content = channel.content
    if content is None:
        raise ConnectionFault(UNEXPECTED_FRAME, "content that no method announced")
    if reader.frame_type == HEADER:
        content.add_header(reader.payload())
    elif reader.frame_type == BODY:
        content.add_body(reader.payload())
    else:
        raise unknown_frame(reader.frame_type, reader.payload())
    if content.complete():
        channel.content = None
        _complete(connection, channel, content)


def _complete(connection: "ConnectionMachine", channel: ChannelMachine, content: PartialContent) -> None:
    opening = content.opening
    method = opening.method
    if isinstance(method, BasicReturn):
        _returned(connection, channel, method, content)
    elif isinstance(method, BasicGetOk):
        _got(connection, channel, method, content)
    elif channel.state == CHANNEL_OPEN:
        tag: i64 = opening.delivery_tag
        consumer_tag, redelivered, route = opening.consumer_tag, opening.redelivered, opening.route
        _delivered(connection, channel, consumer_tag, tag, redelivered, route, content.header, content.body())


def _got(connection: "ConnectionMachine", channel: ChannelMachine, method: BasicGetOk, content: PartialContent) -> None:
    call = channel.answered_call(method)
    if call is None or not isinstance(call.method, BasicGet):
        raise ConnectionFault(UNEXPECTED_FRAME, "basic.get-ok answers no call")
    channel.came(method.delivery_tag, call.method.no_ack)
    route = content.opening.route
    delivery = Delivery(
        channel.number, "", method.delivery_tag, method.redelivered, route, content.header, content.body()
    )
    delivery.messages_left = method.message_count
    connection.events.append(Answered(channel.number, call.ticket, method, delivery))


def _returned(
    connection: "ConnectionMachine", channel: ChannelMachine, method: BasicReturn, content: PartialContent
) -> None:
    header = content.header
    body = content.body()
    message = ReturnedMessage(method.reply_code, method.reply_text, method.exchange, method.routing_key, header, body)
    looks = (method.exchange, method.routing_key, header[TAIL_AT:], body)
    message.publish_no = channel.mandatory.came_back(looks)
    connection.events.append(Returned(channel.number, message))


def _route_fits(data: bytes, start: i64, end: i64) -> bool:
    """Whether two short strings fill `data[start:end]`."""
    if start >= end:
        return False
    key_at: i64 = start + 1 + data[start]
    return key_at < end and key_at + 1 + data[key_at] == end
