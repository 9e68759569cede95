"""The way of a publish from its frames to its queues.

A publisher sends the same basic.publish frame again and again. Its meaning (exchange, routing key, route) is cached
under the bytes of the frame, for each connection, and routed again only when the topology changed. Content that arrives
in one read is sliced once. Properties are scanned without being decoded.

Some properties have an effect here. Delivery mode, priority and expiration are stored in the message. user-id is
checked. CC and BCC add routing keys, at most `COPY_KEYS_MAX`, and BCC is removed. The reply-to `amq.rabbitmq.reply-to`
is replaced by the name of the channel's inbox. The deduplication headers are validated. All other bytes stay as they
are.

Routing is counted in steps of the matchers. When a turn has used `ROUTING_STEPS_A_TURN`, the input of a client whose
publish must be routed waits for the next turn, and the routing of a message with many keys continues there.

Not here: the forms of a publish (`broker.sessions.incoming_publishes`), routing (`broker.routing`), the property scan
(`wire.property_scan`), confirms (`broker.sessions.confirms`), dead-letter headers (`broker.dead_letters`).
"""

from typing import Final, final

from librt.strings import read_i64_be
from mypy_extensions import i64

from warren.broker.access.rights import EXCHANGE, Rights
from warren.broker.model.deduplication import NO_IDENTITY, PUBLISHER, PUBLISHING_ID, identity_in, is_text_or_number
from warren.broker.model.message import Envelope, Message
from warren.broker.model.ports import AWAITED, CONGESTED, PENDING, REJECTED, SETTLED, UNREACHABLE, OutputPort, QueuePort
from warren.broker.model.turn import ROUTING_STEPS_A_TURN
from warren.broker.routing.exchanges import Recipients, Route, RoutedMessage
from warren.broker.routing.topology import Topology
from warren.broker.sessions import direct_reply, firehose, remote_queues
from warren.broker.sessions.connection import Channel, Connection
from warren.broker.sessions.counters import PublishCounter
from warren.broker.sessions.incoming_publishes import CachedPublish, RoutedPublish, body_too_large
from warren.broker.sessions.output import write_message
from warren.errors import (
    ACCESS_REFUSED,
    NO_ROUTE,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    REPLY_NAMES,
    ChannelFault,
    ConnectionFault,
)
from warren.wire.field_tables import decode_table
from warren.wire.methods import BasicPublish, BasicReturn, decode_method
from warren.wire.properties import edit_headers, find_header
from warren.wire.property_scan import PropertyScan

DELIVERY_MODE: Final[i64] = 0x1000
EXPIRATION: Final[i64] = 0x0100

COPY_KEYS_MAX: Final = 256
COPY_KEY_BYTES_MAX: Final = 255

EXPIRATION_MAX_MS: Final = 315_360_000_000
"""Ten years: RabbitMQ's maximum for a time to live."""

TYPE_NAMES: Final[dict[str, str]] = {
    "t": "bool",
    "b": "byte",
    "B": "unsignedbyte",
    "s": "short",
    "u": "unsignedshort",
    "I": "signedint",
    "i": "unsignedint",
    "l": "long",
    "f": "float",
    "d": "double",
    "D": "decimal",
    "S": "longstr",
    "A": "array",
    "T": "timestamp",
    "F": "table",
    "V": "void",
    "x": "binary",
}


def check_sender(channel: Channel, data: bytes, scan: PropertyScan) -> None:
    """Check the properties about the publisher (reply-to, user-id) and the expiration."""
    if _asks_direct_reply(data, scan) and channel.inbox is None:
        raise ChannelFault(PRECONDITION_FAILED, "fast reply consumer does not exist")
    if scan.user_id_end:
        _check_user_id(channel, data[scan.user_id_start : scan.user_id_end].decode("utf-8", "surrogateescape"))
    if scan.flags & EXPIRATION:
        _expiration_ms(data[scan.expiration_start : scan.expiration_end])


def with_properties_applied(
    channel: Channel, message: Message, data: bytes, start: i64, end: i64, scan: PropertyScan
) -> Message:
    """The message with its properties applied; a new one if its content changed."""
    if scan.flags & EXPIRATION:
        message.expiration_ms = _expiration_ms(data[scan.expiration_start : scan.expiration_end])
    if scan.flags & DELIVERY_MODE:
        if scan.delivery_mode != 1 and scan.delivery_mode != 2:
            raise _invalid_message(f"{{delivery_mode_unknown,{scan.delivery_mode}}}")
        message.persistent = scan.delivery_mode == 2
    if scan.priority > 0:
        message.priority = scan.priority
    identified = scan.headers_end != 0 and _has_identity(data, scan)
    blind = scan.headers_end != 0 and find_header(data, scan.headers_start, scan.headers_end, b"BCC") >= 0
    asks_reply = _asks_direct_reply(data, scan)
    if not blind and not asks_reply:
        message.identified = identified
        return message
    payload = data[start:end]
    if blind:
        payload = edit_headers(payload, ["BCC"], {})
    if asks_reply:
        payload = _with_inbox(channel, payload)
    message = message.with_header_payload(payload)
    message.identified = identified
    return message


def cc_keys(data: bytes, scan: PropertyScan) -> list[str]:
    """The routing keys in the headers CC and BCC."""
    if not scan.headers_end:
        return []
    keys = _keys_in(data, scan, b"CC") + _keys_in(data, scan, b"BCC")
    if len(keys) > COPY_KEYS_MAX:
        raise ChannelFault(
            PRECONDITION_FAILED,
            f"a message may have {COPY_KEYS_MAX} routing keys in the headers CC and BCC, this one has {len(keys)}",
        )
    for key in keys:
        # a longer one could match a binding only by `#`, and its words would cost as much as many keys
        if len(key) > COPY_KEY_BYTES_MAX or len(key.encode("utf-8", "surrogateescape")) > COPY_KEY_BYTES_MAX:
            raise ChannelFault(
                PRECONDITION_FAILED,
                f"a routing key in the headers CC and BCC may have {COPY_KEY_BYTES_MAX} bytes, as in basic.publish",
            )
    return keys


def _has_identity(data: bytes, scan: PropertyScan) -> bool:
    """Whether both deduplication headers are present; a fault if one has the wrong type."""
    publisher_at = find_header(data, scan.headers_start, scan.headers_end, PUBLISHER)
    if publisher_at < 0:
        return False
    id_at = find_header(data, scan.headers_start, scan.headers_end, PUBLISHING_ID)
    if id_at < 0:
        return False
    for at, name in ((publisher_at, PUBLISHER), (id_at, PUBLISHING_ID)):
        if not is_text_or_number(data[at]):
            raise _unacceptable_type(data, at, name)
    return identity_in(data, scan.headers_start, scan.headers_end) != NO_IDENTITY


def _check_user_id(channel: Channel, claimed: str) -> None:
    user = channel.connection.user
    if claimed != user and not channel.rights.to_impersonate():
        raise ChannelFault(
            PRECONDITION_FAILED, f"user_id property set to '{claimed}' but authenticated user was '{user}'"
        )


def _expiration_ms(raw: bytes) -> int:
    text = raw.decode("utf-8", "replace")
    digits = text[1:] if text[:1] in ("+", "-") else text
    length = 0
    while length < len(digits) and digits[length] in "0123456789":
        length += 1
    if length == 0:
        raise _invalid_expiration(text, "no_integer")
    if length < len(digits):
        raise _invalid_expiration(text, f'{{leftover_string,"{digits[length:]}"}}')
    value = int(digits) if text[:1] != "-" else -int(digits)
    if value < 0:
        raise _invalid_expiration(text, f"{{value_negative,{value}}}")
    if value > EXPIRATION_MAX_MS:
        raise _invalid_expiration(text, f"{{value_too_large,{value}}}")
    return value


def _keys_in(data: bytes, scan: PropertyScan, name: bytes) -> list[str]:
    at = find_header(data, scan.headers_start, scan.headers_end, name)
    if at < 0:
        return []
    if chr(data[at]) != "A":
        raise _unacceptable_type(data, at, name)
    values = decode_table(data, scan.headers_start, scan.headers_end)[name.decode()]
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _asks_direct_reply(data: bytes, scan: PropertyScan) -> bool:
    if scan.reply_to_end - scan.reply_to_start != len(direct_reply.REPLY_TO_BYTES):
        return False
    return data[scan.reply_to_start : scan.reply_to_end] == direct_reply.REPLY_TO_BYTES


def _with_inbox(channel: Channel, payload: bytes) -> bytes:
    """The header payload with the name of the channel's inbox as reply-to."""
    inbox = channel.inbox
    assert inbox is not None, "check_sender found the inbox"
    scan = PropertyScan()
    scan.scan(payload, 0, len(payload))
    name = inbox.name.encode()
    return payload[: scan.reply_to_start - 1] + bytes([len(name)]) + name + payload[scan.reply_to_end :]


def _invalid_expiration(text: str, reason: str) -> ChannelFault:
    return ChannelFault(PRECONDITION_FAILED, f"invalid expiration '{text}': {reason}")


def _unacceptable_type(data: bytes, at: i64, name: bytes) -> ChannelFault:
    kind = chr(data[at])
    found = TYPE_NAMES.get(kind, kind)
    return _invalid_message(f'{{unacceptable_type_in_header,"{name.decode()}",{found}}}')


def _invalid_message(reason: str) -> ChannelFault:
    return ChannelFault(PRECONDITION_FAILED, f"invalid message: {reason}")


PUBLISH_CACHE_BYTES_MAX: Final = 1024 * 1024
CACHED_PUBLISH_BYTES: Final = 600
DELIVERY_MODE_ONLY: Final[i64] = 0x1000
PERSISTENT: Final[i64] = 2


def decode_publish(connection: Connection, frame: bytes) -> CachedPublish:
    """The meaning of a basic.publish frame, which is put into the cache of its connection."""
    method = decode_method(frame, 7, len(frame) - 1)
    assert isinstance(method, BasicPublish)
    if method.immediate:
        raise ConnectionFault(NOT_IMPLEMENTED, "immediate=true")
    connection.cached_publishes_bytes += len(frame) * 4 + CACHED_PUBLISH_BYTES
    if connection.cached_publishes_bytes > PUBLISH_CACHE_BYTES_MAX:
        connection.clear_cached_publishes()
    made = CachedPublish(method)
    connection.cached_publishes[frame] = made
    return made


def accept_publish(
    channel: Channel,
    cached: CachedPublish,
    data: bytes,
    header_start: i64,
    header_end: i64,
    message: Message,
) -> None:
    """Handle a complete publish; `data[header_start:header_end]` is the payload of its content header."""
    if cached.version != channel.vhost.topology.version:
        route_if_changed(channel, cached)
    if message.body_bytes > channel.connection.message_bytes_max:
        raise body_too_large(message.body_bytes, channel.connection.message_bytes_max)
    # the property flags are the last two of these eight octets
    flags: i64 = read_i64_be(data, header_start + 6) & 0xFFFF
    properties_bytes: i64 = header_end - header_start - 14
    if flags == DELIVERY_MODE_ONLY and properties_bytes == 1 and data[header_start + 14] == PERSISTENT:
        message.persistent = True
    elif flags != 0 or properties_bytes != 0:
        scan = channel.connection.scan
        scan.scan(data, header_start, header_end)
        check_sender(channel, data, scan)
        extra_keys = cc_keys(data, scan)
        message = with_properties_applied(channel, message, data, header_start, header_end, scan)
        if extra_keys:
            _publish_routed(channel, cached, message, extra_keys)
            return
    if cached.fixed and channel.transaction is None:
        _enqueue(channel, message, cached)
    else:
        _publish_routed(channel, cached, message, [])


def route_if_changed(channel: Channel, cached: CachedPublish) -> None:
    """Check the permissions and find the route, unless both are known. An exception changes nothing."""
    topology = channel.vhost.topology
    if cached.version == topology.version:
        return
    steps_before = topology.steps
    route_publish(cached, topology, channel.vhost.name, channel.rights)
    _count_steps(channel, topology.steps - steps_before)
    assert cached.exchange is not None
    cached.counter = channel.counters.of_exchange(cached.exchange)
    if channel.vhost.tracing:
        # `_publish_routed` makes the trace copies
        cached.fixed = False


def route_publish(cached: CachedPublish, topology: Topology, vhost: str, rights: Rights) -> None:
    """Find the exchange and, if the routing key decides, the queues; a fault if the user may not publish."""
    envelope = cached.envelope
    rights.to_write(EXCHANGE, envelope.exchange)
    exchange = topology.exchanges.get(envelope.exchange)
    if exchange is None:
        raise ChannelFault(NOT_FOUND, f"no exchange '{envelope.exchange}' in vhost '{vhost}'")
    if exchange.internal:
        raise ChannelFault(ACCESS_REFUSED, f"cannot publish to internal exchange '{exchange.name}' in vhost '{vhost}'")
    if exchange.type == "topic":
        rights.to_write_topic(exchange.name, envelope.routing_key)
    cached.exchange = exchange
    cached.fixed = False
    cached.copied = None
    if not direct_reply.is_inbox_key(exchange, envelope.routing_key):
        route = topology.route(exchange, envelope.routing_key, None) if exchange.cacheable else None
        if route is not None and route.cacheable and not route.delayed:
            cached.queues = route.queues
            cached.fixed = route.copies is None
            cached.copied = None if route.copies is None else route
    cached.version = topology.version


def publish_routed(channel: Channel, publish: RoutedPublish) -> i64:
    """Put a message into its queues and their copies; their outcomes, combined."""
    outcome: i64 = SETTLED
    for exchange in publish.delayed:
        outcome |= channel.vhost.delay(exchange, publish.message)
    routed: i64 = 0
    recipients = Recipients(publish.route.queues, publish.route.copies)
    for queue in recipients.row:
        # queues may have been deleted while the transaction was open
        if not queue.deleted or queue.answers_later():
            routed += 1
            said = queue.publish(publish.message)
            outcome |= said
            if said & REJECTED == 0:
                recipients.taken_by(queue)
    publish.queues = recipients.row
    channel.connection.turn.work += routed
    _count(publish.counter, routed)
    if routed == 0 and not publish.delayed:
        publish.counter.unroutable(publish.mandatory)
        if publish.mandatory:
            _return_to_publisher(channel, publish.message)
        if channel.node.may_be_behind():
            # this node may not know the queue yet
            outcome |= REJECTED
    elif outcome & UNREACHABLE and not publish.delayed:
        _handle_unreachable(channel, publish.message, publish.route.queues, publish.mandatory, publish.counter)
    return outcome


def _enqueue(channel: Channel, message: Message, cached: CachedPublish) -> None:
    """The ordinary case: no transaction, and the queues are cached."""
    outcome: i64 = SETTLED
    queues = cached.queues
    counter = cached.counter
    assert counter is not None
    if counter.fresh == 0:
        counter.begin()
    counter.fresh += 1
    counter.fresh_routed += len(queues)
    channel.connection.turn.work += len(queues)
    for queue in queues:
        outcome |= queue.publish(message)
    if not queues:
        _handle_unroutable(channel, message, cached.mandatory, counter)
    elif outcome >= AWAITED:
        if outcome & UNREACHABLE:
            _handle_unreachable(channel, message, queues, cached.mandatory, counter)
        _published_remotely(channel, queues, outcome, counter)
    elif channel.confirms.on:
        _confirm(channel, outcome, counter)


def _count(counter: PublishCounter, routed: i64) -> None:
    if counter.fresh == 0:
        counter.begin()
    counter.fresh += 1
    counter.fresh_routed += routed


def _publish_routed(channel: Channel, cached: CachedPublish, message: Message, extra_keys: list[str]) -> None:
    """Publish a message whose queues are not cached or have copies. CC and BCC add routing keys."""
    exchange = cached.exchange
    assert exchange is not None
    route = cached.copied
    if extra_keys:
        message.envelope = Envelope(cached.envelope.exchange, cached.envelope.routing_key, extra_keys)
        # each key once, the published one first
        keys = list(dict.fromkeys([cached.envelope.routing_key, *extra_keys]))
        keys = direct_reply.deliver_to_inboxes(channel.node, exchange, keys, message)
        SlicedPublish(channel, cached, RoutedMessage(keys, message), message).begin()
        return
    if route is None:
        keys = direct_reply.deliver_to_inboxes(channel.node, exchange, [cached.envelope.routing_key], message)
        topology = channel.vhost.topology
        steps_before = topology.steps
        route = topology.route_keys(exchange, keys, message)
        _count_steps(channel, topology.steps - steps_before)
    _publish_on_route(channel, cached, message, route)


def _publish_on_route(channel: Channel, cached: CachedPublish, message: Message, route: Route) -> None:
    counter = cached.counter
    assert counter is not None
    if channel.vhost.tracing:
        firehose.trace_published(channel, message, route.queues)
    _enqueue_in_all(channel, RoutedPublish(message, route, cached.mandatory, counter))


def _count_steps(channel: Channel, steps: i64) -> None:
    """Count what a route cost. A client whose routes cost much is continued in the next turn, after others."""
    turn = channel.connection.turn
    turn.routing_steps += steps
    if steps > 0 and turn.routing_steps >= ROUTING_STEPS_A_TURN:
        channel.connection.await_budget()


@final
class SlicedPublish(OutputPort):
    """A publish with keys in CC or BCC. Its route may take several turns; the input of its connection waits for it."""

    def __init__(self, channel: Channel, cached: CachedPublish, subject: RoutedMessage, message: Message) -> None:
        self._channel: Channel = channel
        self._cached: CachedPublish = cached
        self._subject: RoutedMessage = subject
        self._message: Message = message

    def flush(self) -> None:
        """It has no output."""

    def begin(self) -> None:
        if not self._advance():
            connection = self._channel.connection
            turn = connection.turn
            turn.held_bytes += len(self._message.content)
            connection.await_answer()
            # the route of the published key alone may have used the budget; input waits for this message now
            connection.waits_for_budget = False
            turn.inputs = [waiting for waiting in turn.inputs if waiting is not connection]
            turn.inputs.append(self)

    def go_on(self) -> None:
        connection = self._channel.connection
        if not self._channel.closed and not self._advance():
            connection.turn.inputs.append(self)
            return
        # a message of a closed channel was not confirmed and is dropped
        connection.turn.held_bytes -= len(self._message.content)
        connection.turn.inputs.append(connection)

    def _advance(self) -> bool:
        """Compare as many keys as the turn has steps for; True when the message is published."""
        turn = self._channel.connection.turn
        subject = self._subject
        exchange = self._cached.exchange
        assert exchange is not None
        steps_before = subject.steps
        subject.steps_max = steps_before + ROUTING_STEPS_A_TURN - turn.routing_steps
        route = self._channel.vhost.topology.route_subject(exchange, subject)
        turn.routing_steps += subject.steps - steps_before
        if subject.unfinished:
            return False
        _publish_on_route(self._channel, self._cached, self._message, route)
        return True


def _enqueue_in_all(channel: Channel, publish: RoutedPublish) -> None:
    if channel.transaction is not None:
        channel.transaction.publish(publish)
        return
    if not publish.queues and not publish.delayed:
        _count(publish.counter, 0)
        _handle_unroutable(channel, publish.message, publish.mandatory, publish.counter)
        return
    outcome = publish_routed(channel, publish)
    if outcome >= AWAITED:
        _published_remotely(channel, publish.queues, outcome, publish.counter)
    elif channel.confirms.on:
        _confirm(channel, outcome, publish.counter)


def _confirm(channel: Channel, outcome: i64, counter: PublishCounter) -> None:
    if outcome == PENDING:
        channel.await_batch()
        channel.confirms.pending()
        return
    if outcome == SETTLED:
        channel.confirms.settled()
    else:
        counter.refused += 1
        channel.confirms.rejected()
    channel.schedule_confirms()


def _handle_unreachable(
    channel: Channel, message: Message, queues: list[QueuePort], mandatory: bool, counter: PublishCounter
) -> None:
    """Return a mandatory message if none of its queues accepts it."""
    if not remote_queues.any_accepts(queues):
        counter.unroutable(mandatory)
        if mandatory:
            _return_to_publisher(channel, message)


def _published_remotely(channel: Channel, queues: list[QueuePort], outcome: i64, counter: PublishCounter) -> None:
    """Confirm, or hold the connection, when a queue is on another node."""
    if outcome & CONGESTED:
        remote_queues.hold_while_links_full(channel.connection, queues)
    if not channel.confirms.on:
        return
    if outcome & REJECTED:
        _confirm(channel, REJECTED, counter)
    elif len(queues) == 1 and outcome & PENDING == 0:
        channel.confirms.remote(queues[0], channel, counter)
    else:
        remote_queues.await_home_nodes(channel, queues, outcome, counter)


def _handle_unroutable(channel: Channel, message: Message, mandatory: bool, counter: PublishCounter) -> None:
    """Return a mandatory message, and confirm it at once: clients pair a return with the ack that follows it."""
    counter.unroutable(mandatory)
    if mandatory and channel.confirms.undecided():
        # the ack of this message is a single one: other acks that are due must not come between
        channel.send_confirms()
    if mandatory:
        _return_to_publisher(channel, message)
    if channel.confirms.on:
        if channel.node.may_be_behind():
            # this node may not know the queue yet
            channel.confirms.rejected()
        else:
            channel.confirms.settled()
        channel.send_confirms()


def _return_to_publisher(channel: Channel, message: Message) -> None:
    """Send basic.return, ahead of the confirm."""
    envelope = message.envelope
    channel.send(
        BasicReturn(
            reply_code=NO_ROUTE,
            reply_text=REPLY_NAMES[NO_ROUTE],
            exchange=envelope.exchange,
            routing_key=envelope.routing_key,
        )
    )
    write_message(channel.connection.output(), message, channel.number, channel.connection.frame_max)
