"""The input of a connection: from one socket read to the methods in it.

Everything that a client sends comes through `receive`. Protocol faults are caught here, in two places, and nowhere
else. Publishes and acks, which are nearly all of the input, are recognised by their ids and not decoded into methods.
`HANDLERS` has the function for every other method of an open channel.

A permission may have to be asked for (`PermissionUnknown`). The frame is handled again when the answer is there, and
all input behind it waits, so that the order is kept. One frame may wait for `PERMISSIONS_A_FRAME_MAX` answers.

Not here: the handshake (`broker.sessions.handshake`), publishes (`broker.sessions.publishes`).
"""

from collections.abc import Callable
from typing import Final, final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from warren.broker.access.rights import AnswerWaiter, PermissionUnknown
from warren.broker.model.message import Message
from warren.broker.model.turn import METHOD_WORK, SETTLE_WORK
from warren.broker.sessions import acks, consumers, declares, handshake, publishes, tx_methods
from warren.broker.sessions.connection import (
    AWAIT_HEADER,
    AWAIT_OPEN,
    AWAIT_START_OK,
    AWAIT_TUNE_OK,
    CLOSING,
    IGNORING,
    RUNNING,
    Channel,
    Connection,
)
from warren.broker.sessions.incoming_publishes import IncomingContent
from warren.errors import (
    CHANNEL_ERROR,
    COMMAND_INVALID,
    NOT_ALLOWED,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    UNEXPECTED_FRAME,
    ChannelFault,
    ConnectionFault,
    Distrusted,
)
from warren.wire.frames import BODY, HEADER, HEARTBEAT, METHOD, PROTOCOL_HEADER, FrameReader, described, unknown_frame
from warren.wire.methods import (
    AccessRequestOk,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUpdateSecret,
    Method,
    decode_method,
)


def access_request(channel: Channel, method: Method) -> None:
    """Clients of AMQP 0-8 ask for a ticket. The ticket has no effect."""
    channel.send(AccessRequestOk(ticket=1))


def channel_flow(channel: Channel, method: Method) -> None:
    assert isinstance(method, ChannelFlow)
    if not method.active:
        raise ConnectionFault(NOT_IMPLEMENTED, "active=false")
    channel.send(ChannelFlowOk(active=True))


HANDLERS: Final[dict[str, Callable[[Channel, Method], None]]] = {
    "access.request": access_request,
    "channel.flow": channel_flow,
    "exchange.declare": declares.exchange_declare,
    "exchange.delete": declares.exchange_delete,
    "exchange.bind": declares.exchange_bind,
    "exchange.unbind": declares.exchange_unbind,
    "queue.declare": declares.queue_declare,
    "queue.bind": declares.queue_bind,
    "queue.unbind": declares.queue_unbind,
    "queue.purge": declares.queue_purge,
    "queue.delete": declares.queue_delete,
    "basic.qos": consumers.basic_qos,
    "basic.consume": consumers.basic_consume,
    "basic.cancel": consumers.basic_cancel,
    "basic.get": consumers.basic_get,
    "basic.nack": acks.basic_nack,
    "basic.reject": acks.basic_reject,
    "basic.recover": acks.basic_recover,
    "basic.recover-async": acks.basic_recover_async,
    "tx.select": tx_methods.tx_select,
    "tx.commit": tx_methods.tx_commit,
    "tx.rollback": tx_methods.tx_rollback,
    "confirm.select": tx_methods.confirm_select,
}


def handle_channel_method(channel: Channel, method: Method) -> None:
    handler = HANDLERS.get(method.name)
    if handler is None:
        raise ConnectionFault(COMMAND_INVALID, "unimplemented method")
    handler(channel, method)


CONNECTION_CLOSE: Final[i64] = 10 << 16 | 50
CONNECTION_CLOSE_OK: Final[i64] = 10 << 16 | 51


def handle_connection_method(connection: Connection, method: Method) -> None:
    if isinstance(method, ConnectionClose):
        connection.note("info", "connection.closed", {"code": method.reply_code})
        connection.send_confirms()
        connection.end_channels()
        connection.send(ConnectionCloseOk())
        # the client closes the socket when it has read the answer; closing it first could lose the answer
        connection.ignore_input()
    elif isinstance(method, ConnectionUpdateSecret):
        handshake.update_secret(connection, method)
    else:
        raise ConnectionFault(CHANNEL_ERROR, "unexpected method in connection state running")


def handle_while_closing(connection: Connection, reader: FrameReader) -> None:
    """connection.close was sent: ignore everything except close and close-ok."""
    if reader.channel != 0 or reader.frame_type != METHOD or reader.end - reader.start < 4:
        return
    method_id: i64 = read_i64_be(reader.data, reader.start - 4) & 0xFFFFFFFF
    if method_id == CONNECTION_CLOSE:
        connection.send(ConnectionCloseOk())
    elif method_id == CONNECTION_CLOSE_OK:
        connection.hang_up()


BASIC_PUBLISH: Final[i64] = 60 << 16 | 40
BASIC_ACK: Final[i64] = 60 << 16 | 80
CHANNEL_OPEN: Final[i64] = 20 << 16 | 10
CHANNEL_CLOSE: Final[i64] = 20 << 16 | 40
CHANNEL_CLOSE_OK: Final[i64] = 20 << 16 | 41
BASIC_REJECT: Final[i64] = 60 << 16 | 90
BASIC_RECOVER_ASYNC: Final[i64] = 60 << 16 | 100
BASIC_NACK: Final[i64] = 60 << 16 | 120


def receive(connection: Connection, data: bytes) -> None:
    """Handle one read of the client's socket."""
    connection.timer.received_at_ms = connection.turn.now_ms
    connection.counters.count_received(len(data))
    if connection.state == AWAIT_HEADER:
        data = _read_header(connection, data)
    if not data or connection.state >= IGNORING:
        return
    connection.reader.feed(data)
    if not connection.held:
        connection.permissions_awaited = 0
        _step(connection)


def resume(connection: Connection) -> None:
    """Handle input that was held."""
    if connection.state >= IGNORING:
        return
    connection.release_input()
    _step(connection)


def _step(connection: Connection) -> None:
    reader = connection.reader
    begun_at: i64 = reader.position
    while connection.state < IGNORING:
        try:
            _handle_frames(connection, reader)
            return
        except ConnectionFault as fault:
            _connection_failed(connection, reader, fault)
        except ChannelFault as channel_fault:
            _channel_failed(connection, reader, channel_fault)
        except PermissionUnknown as unknown:
            if reader.frame_start != begun_at:
                connection.permissions_awaited = 0
            if _await_permission(connection, reader, unknown):
                return
        except Distrusted as distrusted:
            connection.distrust(str(distrusted))


PERMISSIONS_A_FRAME_MAX: Final = 128
"""A frame that names more objects is refused: it would be handled as often as it has objects."""


def _await_permission(connection: Connection, reader: FrameReader, unknown: PermissionUnknown) -> bool:
    """Ask, and handle the current frame again when the answer is there; False if the frame asked too often."""
    connection.permissions_awaited += 1
    if connection.permissions_awaited > PERMISSIONS_A_FRAME_MAX:
        text = f"a method may need {PERMISSIONS_A_FRAME_MAX} permissions, this one needs more"
        _channel_failed(connection, reader, ChannelFault(PRECONDITION_FAILED, text))
        return False
    connection.await_again()
    unknown.question.ask(AwaitedPermission(connection))
    return True


@final
class AwaitedPermission(AnswerWaiter):
    """The input of a connection, which may have ended when the answer is there."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection = connection

    def still_waits(self) -> bool:
        return self._connection.state == RUNNING

    def answered(self, allowed: bool) -> None:
        if self.still_waits():
            self._connection.turn.inputs.append(self._connection)


def _read_header(connection: Connection, data: bytes) -> bytes:
    """Check the protocol header; the bytes after it."""
    data = connection.partial_header + data
    if len(data) < 8:
        connection.partial_header = data
        return b""
    connection.partial_header = b""
    if data[:8] not in handshake.HEADERS:
        connection.note("warning", "handshake.refused", {"header": repr(data[:8])})
        connection.output().write(PROTOCOL_HEADER)
        connection.hang_up()
        return b""
    handshake.start(connection)
    connection.awaits_start_ok()
    return data[8:]


def _handle_frames(connection: Connection, reader: FrameReader) -> None:
    """Handle complete frames until there are no more, or until input must wait."""
    turn = connection.turn
    work_max = turn.work_limit()
    while connection.state < IGNORING and reader.next():
        if connection.state == RUNNING and reader.channel != 0:
            _channel_frame(connection, reader)
        else:
            _connection_frame(connection, reader)
        if connection.must_wait():
            connection.hold_input()
            return
        if turn.work >= work_max:
            connection.await_budget()
            return


def _channel_frame(connection: Connection, reader: FrameReader) -> None:
    channel = connection.channels.get(int(reader.channel))
    kind = reader.frame_type
    if channel is None:
        _frame_without_channel(connection, reader)
    elif kind == METHOD and reader.end - reader.start >= 4:
        if channel.content is not None and not channel.closing:
            raise channel.content.interrupted()
        # class and method, read together with the frame size before them
        method_id: i64 = read_i64_be(reader.data, reader.start - 4) & 0xFFFFFFFF
        if channel.closing:
            _closing_channel_method(connection, channel, method_id)
        elif method_id == BASIC_PUBLISH:
            _publish(connection, channel, reader)
        elif method_id == BASIC_ACK and reader.end - reader.start == 13:
            tag = read_i64_be(reader.data, reader.start + 4)
            acks.ack(channel, tag, reader.data[reader.start + 12] & 1 == 1)
        else:
            _method(connection, channel, reader, method_id)
    elif channel.closing and kind != METHOD:
        return
    elif kind in (HEADER, BODY):
        _content_frame(channel, reader)
    elif kind == HEARTBEAT:
        raise ConnectionFault(UNEXPECTED_FRAME, described(kind, reader.payload()))
    else:
        raise unknown_frame(kind, reader.payload())


def _publish(connection: Connection, channel: Channel, reader: FrameReader) -> None:
    if connection.node.alarm and not connection.blocked:
        connection.block()
    frame = reader.data[reader.frame_start : reader.position]
    cached = connection.cached_publishes.get(frame)
    if cached is None:
        cached = publishes.decode_publish(connection, frame)
    if reader.take_content():
        content = reader.data[reader.content_start : reader.position]
        body_frame: i64 = reader.position - reader.header_end - 1
        message = Message(cached.envelope, content, channel.number, reader.body_bytes, body_frame)
        publishes.accept_publish(channel, cached, reader.data, reader.header_start, reader.header_end, message)
    else:
        channel.content = IncomingContent(cached, connection.message_bytes_max, connection.turn)


def _content_frame(channel: Channel, reader: FrameReader) -> None:
    content = channel.content
    if content is None:
        raise ConnectionFault(UNEXPECTED_FRAME, "expected method frame, got non method frame instead")
    # complete content waited for the permission to publish, and its last frame is handled again
    if not content.complete():
        content.add(reader.frame_type == HEADER, reader.frame())
    if content.complete():
        publishes.route_if_changed(channel, content.cached)
        channel.content = None
        message = Message(
            content.cached.envelope, content.release(), channel.number, content.body_bytes, content.frame_bytes_max
        )
        header = content.header_frame
        publishes.accept_publish(channel, content.cached, header, 7, len(header) - 1, message)
    elif channel.node.alarm and not channel.connection.blocked:
        channel.connection.block()


def _method(connection: Connection, channel: Channel, reader: FrameReader, method_id: i64) -> None:
    turn = connection.turn
    if method_id in (BASIC_NACK, BASIC_REJECT, BASIC_RECOVER_ASYNC):
        turn.work += SETTLE_WORK
    else:
        turn.work += METHOD_WORK
        # the method has a reply: deliveries of messages that were published before it go out first, as in RabbitMQ
        turn.drain_before_reply()
    if method_id == CHANNEL_CLOSE:
        decode_method(reader.data, reader.start, reader.end)
        channel.send_confirms()
        _forget_channel(connection, channel)
        connection.closed_numbers.add(int(channel.number))
        channel.close()
        channel.send(ChannelCloseOk())
    elif method_id == CHANNEL_OPEN:
        raise ConnectionFault(CHANNEL_ERROR, "second 'channel.open' seen")
    else:
        handle_channel_method(channel, decode_method(reader.data, reader.start, reader.end))


def _closing_channel_method(connection: Connection, channel: Channel, method_id: i64) -> None:
    """channel.close was sent: only the client's close and close-ok have an effect."""
    if method_id == CHANNEL_CLOSE_OK:
        _forget_channel(connection, channel)
    elif method_id == CHANNEL_CLOSE:
        channel.send(ChannelCloseOk())
    elif method_id == CHANNEL_OPEN:
        raise ConnectionFault(CHANNEL_ERROR, "second 'channel.open' seen")


def _forget_channel(connection: Connection, channel: Channel) -> None:
    connection.channels.pop(int(channel.number), None)
    connection.counters.count_channels_closed(1)


def _frame_without_channel(connection: Connection, reader: FrameReader) -> None:
    if reader.frame_type == HEARTBEAT:
        raise ConnectionFault(UNEXPECTED_FRAME, described(HEARTBEAT, reader.payload()))
    if reader.frame_type == HEADER or reader.frame_type == BODY:
        if int(reader.channel) in connection.closed_numbers:
            return
        raise ConnectionFault(UNEXPECTED_FRAME, "expected method frame, got non method frame instead")
    if reader.frame_type != METHOD:
        raise unknown_frame(reader.frame_type, reader.payload())
    method = decode_method(reader.data, reader.start, reader.end)
    if not isinstance(method, ChannelOpen):
        if int(reader.channel) in connection.closed_numbers:
            return
        raise ConnectionFault(CHANNEL_ERROR, "expected 'channel.open'")
    limit = connection.channel_max
    if len(connection.channels) >= limit:
        raise ConnectionFault(
            NOT_ALLOWED,
            f"number of channels opened ({limit}) has reached the negotiated channel_max ({limit})",
            blames_method=False,
        )
    connection.node.check_channel_room(connection)
    vhost = connection.vhost
    assert vhost is not None
    channel = Channel(connection, reader.channel, vhost)
    connection.channels[int(reader.channel)] = channel
    connection.turn.work += METHOD_WORK
    channel.rights.channel_opened()
    connection.counters.count_channel_opened()
    channel.send(ChannelOpenOk())


def _connection_frame(connection: Connection, reader: FrameReader) -> None:
    """A frame of channel 0, or a frame before connection.open-ok or after connection.close."""
    if connection.state == CLOSING:
        handle_while_closing(connection, reader)
        return
    if reader.frame_type == HEARTBEAT and reader.channel == 0 and connection.state >= AWAIT_OPEN:
        if reader.start != reader.end:
            raise unknown_frame(HEARTBEAT, reader.payload())
        return
    if reader.channel != 0 or reader.frame_type != METHOD:
        _wrong_frame(connection, reader)
    method = decode_method(reader.data, reader.start, reader.end)
    if connection.state == AWAIT_START_OK:
        handshake.start_ok(connection, method)
    elif connection.state == AWAIT_TUNE_OK:
        handshake.tune_ok(connection, method)
    elif connection.state == AWAIT_OPEN:
        handshake.open_vhost(connection, method)
    else:
        handle_connection_method(connection, method)


def _wrong_frame(connection: Connection, reader: FrameReader) -> None:
    kind = reader.frame_type
    if connection.state < AWAIT_OPEN:
        raise Distrusted(f"{described(kind, reader.payload())} during the handshake")
    if kind in (METHOD, HEADER, BODY, HEARTBEAT):
        raise ConnectionFault(UNEXPECTED_FRAME, described(kind, reader.payload()))
    raise unknown_frame(kind, reader.payload())


def _connection_failed(connection: Connection, reader: FrameReader, fault: ConnectionFault) -> None:
    if connection.state < AWAIT_OPEN:
        connection.distrust(fault.text)
        return
    if connection.state == CLOSING:
        connection.ignore_input()
        return
    broken = reader.broken
    class_id, method_id = (0, 0) if broken else _blamed(connection, reader, fault)
    connection.fault(fault, class_id, method_id)
    if broken:
        connection.ignore_input()


def _blamed(connection: Connection, reader: FrameReader, fault: ConnectionFault) -> tuple[int, int]:
    """The class and method in a connection.close: those of the frame, or basic.publish if content was due."""
    if reader.channel != 0 and not fault.blames_method:
        return 0, 0
    if reader.frame_type == METHOD and reader.end - reader.start >= 4 and fault.code != UNEXPECTED_FRAME:
        method_id = int(read_i32_be(reader.data, reader.start))
        return method_id >> 16 & 0xFFFF, method_id & 0xFFFF
    channel = connection.channels.get(int(reader.channel))
    if channel is not None and channel.content is not None:
        return 60, 40
    return 0, 0


def _channel_failed(connection: Connection, reader: FrameReader, fault: ChannelFault) -> None:
    channel = connection.channels[int(reader.channel)]
    class_id, method_id = 60, 40
    if reader.frame_type == METHOD:
        found = int(read_i32_be(reader.data, reader.start))
        class_id, method_id = found >> 16 & 0xFFFF, found & 0xFFFF
    if class_id == 60 and method_id == 40:
        # the message enters no queue, but it was received
        connection.turn.stats.received += 1
    channel.fail(fault, class_id, method_id)
