"""A client's connection: handshake, frames to events, channels, heartbeats.

    greeting ──start──▶ login ──tune──▶ opening ──open-ok──▶ open ──close()──▶ closing ──close-ok──▶ closed

Every stage goes to closed when the broker closes the connection, when the transport is lost, when heartbeats are
missed, or when the broker breaks the protocol. `Closed` is the last event, and there is one.

**Handshake.**

    client                       broker
    AMQP 0 0 9 1          ->
                          <-     start (properties, mechanisms)
    start-ok (SASL)       ->
                          <-     tune (limits), or close: the login was refused
    tune-ok, open (vhost) ->
                          <-     open-ok, or close: the virtual host was refused

A broker closes a connection with a reason after a failed login only if the client has the capability
`authentication_failure_close`, so the client announces it. A limit of 0 means none; of two limits the smaller counts. A
client without a heartbeat of its own takes the broker's. A client with one takes the smaller of both, and none if its
own is 0.

**Frames.** Deliveries and confirms are recognised by their method ids and take a short path. Other methods are decoded
and dispatched. Reading raises nothing but a `ConnectionFault`, for any bytes.

**Heartbeats.** The machine sends something at least once an interval. A broker that is silent for two intervals is
gone. The caller calls `tick` several times an interval. A tick that is late by an interval means that the program did
not run and read nothing; the broker's silence is then counted from that tick.

Not here: the state of a channel (`machine.channel`), the errors that a user sees (`client.protocol`).
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i32_be, read_i64_be
from mypy_extensions import i64

from warren.client.machine.channel import CHANNEL_CLOSED, CHANNEL_CLOSING, CHANNEL_OPEN, ChannelMachine, MachineOutput
from warren.client.machine.deliveries import ContentMethod, Delivery, PartialContent, ReturnedMessage
from warren.client.machine.events import (
    BY_BROKER,
    BY_CLIENT,
    HEARTBEAT_MISSED,
    LOGIN_REFUSED,
    LOST,
    PROTOCOL_ERROR,
    Blocked,
    CallAnswered,
    Cancelled,
    ChannelClosedByBroker,
    ClientEvent,
    Closed,
    Confirmed,
    Delivered,
    FlowChanged,
    HandshakeCompleted,
    Returned,
    Unblocked,
)
from warren.client.machine.publishes import TAIL_AT
from warren.client.machine.settings import AS_SUGGESTED, EXTERNAL, ClientSettings
from warren.errors import CHANNEL_ERROR, COMMAND_INVALID, FRAME_ERROR, UNEXPECTED_FRAME, ConnectionFault
from warren.wire.field_tables import Table
from warren.wire.frames import (
    BODY,
    FRAME_MIN,
    HEADER,
    HEARTBEAT,
    HEARTBEAT_FRAME,
    METHOD,
    PROTOCOL_HEADER,
    FrameReader,
    unknown_frame,
)
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
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
    Method,
    decode_method,
    method_name,
    write_method,
)
from warren.wire.values import ArgumentReader

AWAIT_START: Final[i64] = 0
AWAIT_TUNE: Final[i64] = 1
AWAIT_OPEN_OK: Final[i64] = 2
IS_OPEN: Final[i64] = 3
CLOSING: Final[i64] = 4
CLOSED: Final[i64] = 5

# the stage of the handshake in which a connection ended
GREETING: Final = "greeting"
LOGIN: Final = "login"
OPENING: Final = "opening"
OPEN: Final = "open"


CAPABILITIES: Final = (
    "authentication_failure_close",
    "basic.nack",
    "connection.blocked",
    "consumer_cancel_notify",
    "exchange_exchange_bindings",
    "publisher_confirms",
)

FRAME_MAX_UNLIMITED: Final = 0x7FFFFFFF
CHANNEL_MAX_UNLIMITED: Final = 0xFFFF


def handle_handshake(connection: "ConnectionMachine", method: Method) -> None:
    """A method of channel 0 before the connection is open."""
    if connection.state == AWAIT_START and isinstance(method, ConnectionStart):
        _start(connection, method)
    elif connection.state == AWAIT_TUNE and isinstance(method, ConnectionTune):
        _tune(connection, method)
    elif connection.state == AWAIT_OPEN_OK and isinstance(method, ConnectionOpenOk):
        connection.enter(IS_OPEN)
        connection.events.append(
            HandshakeCompleted(
                connection.server_properties, connection.channel_max, connection.frame_max, connection.heartbeat_s
            )
        )
    else:
        raise ConnectionFault(COMMAND_INVALID, f"{method.name} during the handshake")


def _start(connection: "ConnectionMachine", method: ConnectionStart) -> None:
    settings = connection.settings
    connection.server_properties = method.server_properties
    theirs = method.server_properties.get("capabilities")
    connection.announces_refusals = isinstance(theirs, dict) and theirs.get("authentication_failure_close") is True
    offered = method.mechanisms.decode("utf-8", "replace").split()
    if settings.mechanism not in offered:
        connection.stage = LOGIN
        reason = f"the broker offers {', '.join(offered)} and not {settings.mechanism}"
        connection.end(PROTOCOL_ERROR, COMMAND_INVALID, reason)
        return
    capabilities: Table = dict.fromkeys(CAPABILITIES, True)
    properties: Table = dict(settings.client_properties)
    properties["capabilities"] = capabilities
    connection.send(ConnectionStartOk(settings.mechanism, _response(settings), properties))
    connection.enter(AWAIT_TUNE)


def _response(settings: ClientSettings) -> bytes:
    if settings.mechanism == EXTERNAL:
        return b""
    return b"\0" + settings.user.encode("utf-8") + b"\0" + settings.password.encode("utf-8")


def _tune(connection: "ConnectionMachine", method: ConnectionTune) -> None:
    settings = connection.settings
    channel_max = _smaller(settings.channel_max, method.channel_max)
    frame_max = _smaller(settings.frame_max, method.frame_max)
    heartbeat_s = method.heartbeat
    if settings.heartbeat_s != AS_SUGGESTED:
        heartbeat_s = _smaller(settings.heartbeat_s, method.heartbeat) if settings.heartbeat_s else 0
    if 0 < frame_max < FRAME_MIN:
        raise ConnectionFault(COMMAND_INVALID, f"frames of {frame_max} bytes, which is less than {FRAME_MIN}")
    connection.send(ConnectionTuneOk(channel_max, frame_max, heartbeat_s))
    connection.send(ConnectionOpen(settings.vhost))
    connection.tuned(channel_max or CHANNEL_MAX_UNLIMITED, frame_max or FRAME_MAX_UNLIMITED, heartbeat_s)


def _smaller(ours: int, theirs: int) -> int:
    """The smaller of two limits, where 0 means none."""
    if ours == 0 or theirs == 0:
        return max(ours, theirs)
    return min(ours, theirs)


DELIVER: Final[i64] = 60 << 16 | 60
ACK: Final[i64] = 60 << 16 | 80
NACK: Final[i64] = 60 << 16 | 120

CONFIRM_BYTES: Final[i64] = 13
GET_ROUTE_AT: Final[i64] = 13
"""The offset of exchange and routing key in basic.get-ok: after the ids, the tag and a flag."""

OTHER_PROTOCOL: Final = b"AMQP"


def receive_bytes(connection: "ConnectionMachine", data: bytes) -> None:
    """Handle all frames that one read completes."""
    reader = connection.reader
    if connection.state == AWAIT_START and data.startswith(OTHER_PROTOCOL):
        version = ".".join([str(octet) for octet in data[5:8]])
        connection.end(PROTOCOL_ERROR, FRAME_ERROR, f"the broker speaks AMQP {version}, not 0.9.1")
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
    connection.emit_confirms()


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
        handle_handshake(connection, method)
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
        channel.content = PartialContent(ContentMethod(method, b"", 0, False, b""))
    elif isinstance(method, BasicGetOk):
        route = reader.data[reader.start + GET_ROUTE_AT : reader.end - 4]
        channel.content = PartialContent(ContentMethod(method, b"", method.delivery_tag, method.redelivered, route))
    elif isinstance(method, BasicCancel):
        channel.unsubscribed(method.consumer_tag)
        if not method.nowait:
            write_method(connection.output.out, channel.number, BasicCancelOk(method.consumer_tag))
        connection.events.append(Cancelled(channel.number, method.consumer_tag))
    elif isinstance(method, ChannelFlow):
        write_method(connection.output.out, channel.number, ChannelFlowOk(method.active))
        connection.events.append(FlowChanged(channel.number, method.active))
    elif isinstance(method, ChannelClose):
        _channel_closed(connection, channel, method)
    else:
        _answer(connection, channel, method)


def _channel_closed(connection: "ConnectionMachine", channel: ChannelMachine, method: ChannelClose) -> None:
    write_method(connection.output.out, channel.number, ChannelCloseOk())
    if channel.state == CHANNEL_CLOSING:
        # both sides closed the channel at once: close-ok is still to come
        return
    connection.emit_confirms()
    connection.forget_channel(channel)
    blamed = method_name(method.blamed_class_id, method.blamed_method_id) if method.blamed_class_id else ""
    connection.events.append(ChannelClosedByBroker(channel.number, method.reply_code, method.reply_text, blamed))


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
        connection.emit_confirms()
        connection.forget_channel(channel)
    connection.events.append(CallAnswered(channel.number, call.ticket, method))


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
        channel.content = PartialContent(ContentMethod(None, consumer_tag, tag, redelivered, route))


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
    channel.record_delivery(tag, consumer.no_ack)
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
    """Whether a delivery joins the batch: same consumer and no event in between, which keeps the wire's order."""
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
    channel.record_delivery(method.delivery_tag, call.method.no_ack)
    route = content.opening.route
    delivery = Delivery(
        channel.number, "", method.delivery_tag, method.redelivered, route, content.header, content.body()
    )
    delivery.messages_left = method.message_count
    connection.events.append(CallAnswered(channel.number, call.ticket, method, delivery))


def _returned(
    connection: "ConnectionMachine", channel: ChannelMachine, method: BasicReturn, content: PartialContent
) -> None:
    header = content.header
    body = content.body()
    message = ReturnedMessage(method.reply_code, method.reply_text, method.exchange, method.routing_key, header, body)
    fingerprint = (method.exchange, method.routing_key, header[TAIL_AT:], body)
    message.publish_no = channel.mandatory.came_back(fingerprint)
    connection.events.append(Returned(channel.number, message))


def _route_fits(data: bytes, start: i64, end: i64) -> bool:
    """Whether two short strings fill `data[start:end]`."""
    if start >= end:
        return False
    key_at: i64 = start + 1 + data[start]
    return key_at < end and key_at + 1 + data[key_at] == end


FIRST_FRAME_MAX: Final = 131_072
"""The frame size limit until tune."""


@final
class ConnectionMachine:
    """One connection, from the protocol header to its end."""

    def __init__(self, settings: ClientSettings, now_ms: i64) -> None:
        self.settings: ClientSettings = settings
        self.state: i64 = AWAIT_START
        self.stage: str = GREETING
        self.output: MachineOutput = MachineOutput()
        self.events: list[ClientEvent] = []
        self.reader: FrameReader = FrameReader(FIRST_FRAME_MAX)
        self.channels: dict[int, ChannelMachine] = {}
        self.server_properties: Table = {}
        # whether the broker closes with a reason after a failed login
        self.announces_refusals: bool = False
        self.channel_max: int = 0
        self.frame_max: int = 0
        self.heartbeat_s: int = 0
        # the batch of the deliveries being read, and its consumer tag
        self.delivered: Delivered | None = None
        self.delivered_tag: bytes = b""
        # channels with publishes decided in this read
        self.confirmed: list[ChannelMachine] = []
        self._now_ms: i64 = now_ms
        self._heard_at_ms: i64 = now_ms
        self._sent_at_ms: i64 = now_ms
        self._ticked_at_ms: i64 = now_ms
        self._next_number: int = 1
        self._free_numbers: list[int] = []
        self.output.out.write(PROTOCOL_HEADER)

    # entry points

    def receive(self, data: bytes, now_ms: i64) -> list[ClientEvent]:
        """Handle the bytes of one read."""
        self._now_ms = now_ms
        self._heard_at_ms = now_ms
        if self.state != CLOSED:
            try:
                receive_bytes(self, data)
            except ConnectionFault as fault:
                self.fail(fault)
        return self._take_events()

    def tick(self, now_ms: i64) -> list[ClientEvent]:
        """Check heartbeats at this time."""
        interval_ms: i64 = self.heartbeat_s * 1000
        slept = now_ms - self._ticked_at_ms > interval_ms
        self._now_ms = now_ms
        self._ticked_at_ms = now_ms
        if interval_ms == 0 or self.state < AWAIT_OPEN_OK or self.state == CLOSED:
            return []
        if slept:
            self._heard_at_ms = now_ms
        if now_ms - self._heard_at_ms > 2 * interval_ms:
            self.end(HEARTBEAT_MISSED, 0, f"nothing was heard for {(now_ms - self._heard_at_ms) // 1000} s")
        elif 2 * (now_ms - self._sent_at_ms) >= interval_ms and len(self.output.out) == 0:
            self.output.out.write(HEARTBEAT_FRAME)
        return self._take_events()

    def restart_silence(self, now_ms: i64) -> None:
        """Reading was paused by the program: count the broker's silence from here."""
        self._heard_at_ms = now_ms

    def lose(self, reason: str) -> list[ClientEvent]:
        """The transport is lost."""
        if self.state == CLOSING:
            self.end(BY_CLIENT, 200, reason)
        elif self.state == AWAIT_TUNE and not self.announces_refusals:
            self.end(LOGIN_REFUSED, 0, reason)
        else:
            self.end(LOST, 0, reason)
        return self._take_events()

    def close(self, code: int = 200, text: str = "Goodbye") -> None:
        """Begin to close; `Closed` follows the broker's close-ok."""
        if self.state != IS_OPEN:
            raise ValueError("the connection is not open")
        for channel in list(self.channels.values()):
            channel.output()
        self.send(ConnectionClose(reply_code=code, reply_text=text))
        self.state = CLOSING

    def take_output(self) -> bytes:
        """All bytes to send, in one piece."""
        output = self.output
        if output.acking:
            for channel in output.acking:
                if channel.state < CHANNEL_CLOSED and self.state == IS_OPEN:
                    channel.output()
            output.acking = []
        if len(output.out) == 0:
            return b""
        self._sent_at_ms = self._now_ms
        data = output.out.getvalue()
        output.out = BytesWriter()
        return data

    # channels

    def open_channel(self) -> tuple[ChannelMachine, int]:
        """A channel, and the ticket of its channel.open."""
        if self.state != IS_OPEN:
            raise ValueError("the connection is not open")
        number = self._number()
        channel = ChannelMachine(self.output, number, self.frame_max)
        self.channels[number] = channel
        return channel, channel.call(ChannelOpen())

    def forget_channel(self, channel: ChannelMachine) -> None:
        channel.state = CHANNEL_CLOSED
        if self.channels.pop(channel.number, None) is not None:
            self._free_numbers.append(channel.number)

    def _number(self) -> int:
        if self._free_numbers:
            return self._free_numbers.pop()
        if self.channel_max and self._next_number > self.channel_max:
            raise ValueError(f"all {self.channel_max} channels of the connection are in use")
        number = self._next_number
        self._next_number += 1
        return number

    # for the functions above

    def send(self, method: Method) -> None:
        """Write a method on channel 0."""
        write_method(self.output.out, 0, method)

    def tuned(self, channel_max: int, frame_max: int, heartbeat_s: int) -> None:
        self.channel_max = channel_max
        self.frame_max = frame_max
        self.heartbeat_s = heartbeat_s
        self.reader.payload_max = frame_max
        self._ticked_at_ms = self._now_ms
        self.enter(AWAIT_OPEN_OK)

    def enter(self, state: i64) -> None:
        self.state = state
        self.stage = LOGIN if state == AWAIT_TUNE else OPENING if state == AWAIT_OPEN_OK else OPEN

    def fail(self, fault: ConnectionFault) -> None:
        """The broker broke the protocol: close the connection with a reason if it is open."""
        if self.state == IS_OPEN:
            self.send(ConnectionClose(reply_code=fault.code, reply_text=fault.reply_text()))
        self.end(PROTOCOL_ERROR, fault.code, fault.text)

    def end(self, cause: str, code: int, text: str) -> None:
        if self.state == CLOSED:
            return
        self.emit_confirms()
        self.state = CLOSED
        for channel in self.channels.values():
            channel.state = CHANNEL_CLOSED
        self.channels = {}
        self.output.acking = []
        self.events.append(Closed(cause, self.stage, code, text))

    def emit_confirms(self) -> None:
        """Add the events of pending confirms before an event that must follow them."""
        for channel in self.confirmed:
            ranges = channel.take_confirms()
            if ranges:
                self.events.append(Confirmed(channel.number, ranges))
        self.confirmed = []

    def check(self) -> None:
        for channel in self.channels.values():
            channel.check()

    def _take_events(self) -> list[ClientEvent]:
        events = self.events
        self.events = []
        self.delivered = None
        return events
