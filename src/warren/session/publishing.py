"""The road of a publish from its frames to its queues.

A publisher sends the same `basic.publish` frame again and again, so what it means (exchange, key, route) is
remembered under the frame's own bytes, per connection, and looked at again only when the topology changed. Content
that arrived whole is sliced once; properties are scanned without being decoded, and only messages that carry
something the broker acts on (headers, expiration, user-id, reply-to) take the longer road.

Not here: assembling content that came in pieces (`session.content`), the route itself (`routing`), confirms
(`session.confirms`).
"""

from typing import TYPE_CHECKING, Final, final

from librt.strings import read_i64_be
from mypy_extensions import i64

from warren.access.rights import EXCHANGE, Rights
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
from warren.model.message import Envelope, Message
from warren.model.ports import AWAITED, PENDING, REJECTED, SETTLED, UNREACHABLE, QueuePort
from warren.routing.exchange import Exchange
from warren.routing.route import Recipients, Route
from warren.routing.topology import Topology
from warren.session import direct_reply, elsewhere, firehose, special_properties
from warren.session.delivery import write_message
from warren.session.tallies import PublishTally
from warren.wire.methods import BasicPublish, BasicReturn, decode_method

if TYPE_CHECKING:
    from warren.session.channel import Channel

REMEMBERED_BYTES_MAX: Final = 1024 * 1024
REMEMBERED_BYTES_EACH: Final = 600
UNRESOLVED: Final[i64] = -1
DELIVERY_MODE_ONLY: Final[i64] = 0x1000
PERSISTENT: Final[i64] = 2


@final
class Publishing:
    """What one basic.publish frame means."""

    def __init__(self, method: BasicPublish) -> None:
        self.envelope: Envelope = Envelope(method.exchange, method.routing_key)
        self.mandatory: bool = method.mandatory
        self.exchange: Exchange | None = None
        self.queues: list[QueuePort] = []
        # the topology version `queues` was true for
        self.version: i64 = UNRESOLVED
        # whether `queues` depends on exchange and key alone, and has no copies
        self.fixed: bool = False
        # the same with copies
        self.copied: Route | None = None
        self.tally: PublishTally | None = None


@final
class RoutedPublish:
    """A publish whose queues are known; in a transaction it waits in this form."""

    def __init__(
        self,
        message: Message,
        route: Route,
        mandatory: bool,
        tally: PublishTally,
    ) -> None:
        self.message = message
        self.route = route
        # all that were given it, copies included; those it was routed to until then
        self.queues: list[QueuePort] = route.queues
        self.delayed: list[Exchange] = route.delayed
        self.mandatory = mandatory
        self.tally = tally


def publishing_of(channel: "Channel", frame: bytes) -> Publishing:
    """What this basic.publish frame means, decoded once."""
    remembered = channel.connection.publishings
    found = remembered.get(frame)
    if found is not None:
        return found
    method = decode_method(frame, 7, len(frame) - 1)
    assert isinstance(method, BasicPublish)
    if method.immediate:
        raise ConnectionFault(NOT_IMPLEMENTED, "immediate=true")
    connection = channel.connection
    connection.publishings_bytes += len(frame) * 4 + REMEMBERED_BYTES_EACH
    if connection.publishings_bytes > REMEMBERED_BYTES_MAX:
        remembered.clear()
        connection.publishings_bytes = 0
    made = Publishing(method)
    remembered[frame] = made
    return made


def accept(
    channel: "Channel",
    publishing: Publishing,
    data: bytes,
    header_start: i64,
    header_end: i64,
    message: Message,
) -> None:
    """A publish is complete; `data[header_start:header_end]` is the payload of its content header."""
    topology = channel.vhost.topology
    if publishing.version != topology.version:
        resolve(publishing, topology, channel.vhost.name, channel.rights)
        assert publishing.exchange is not None
        publishing.tally = channel.tallies.of_exchange(publishing.exchange)
        if channel.vhost.tracing:
            # the longer road makes the copies
            publishing.fixed = False
    if message.body_bytes > channel.connection.message_bytes_max:
        raise too_large(message.body_bytes, channel.connection.message_bytes_max)
    # the property flags are the last two of these eight octets
    flags: i64 = read_i64_be(data, header_start + 6) & 0xFFFF
    properties_bytes: i64 = header_end - header_start - 14
    if flags == DELIVERY_MODE_ONLY and properties_bytes == 1 and data[header_start + 14] == PERSISTENT:
        message.persistent = True
    elif flags != 0 or properties_bytes != 0:
        scan = channel.connection.scan
        scan.scan(data, header_start, header_end)
        special_properties.check_sender(channel, data, scan)
        extra_keys = special_properties.copy_keys(data, scan)
        message = special_properties.applied(channel, message, data, header_start, header_end, scan)
        if extra_keys:
            _publish_routed(channel, publishing, message, extra_keys)
            return
    if publishing.fixed and channel.transaction is None:
        _enqueue(channel, message, publishing)
    else:
        _publish_routed(channel, publishing, message, [])


def resolve(publishing: Publishing, topology: Topology, vhost: str, rights: Rights) -> None:
    """Find the exchange and, where it depends on the key alone, the queues; a fault if the user may not."""
    envelope = publishing.envelope
    rights.to_write(EXCHANGE, envelope.exchange)
    exchange = topology.exchanges.get(envelope.exchange)
    if exchange is None:
        raise ChannelFault(NOT_FOUND, f"no exchange '{envelope.exchange}' in vhost '{vhost}'")
    if exchange.internal:
        raise ChannelFault(ACCESS_REFUSED, f"cannot publish to internal exchange '{exchange.name}' in vhost '{vhost}'")
    if exchange.type == "topic":
        rights.to_write_topic(exchange.name, envelope.routing_key)
    publishing.exchange = exchange
    publishing.fixed = False
    publishing.copied = None
    if not direct_reply.is_inbox_key(exchange, envelope.routing_key):
        route = topology.route(exchange, envelope.routing_key, None) if exchange.cacheable else None
        if route is not None and route.cacheable and not route.delayed:
            publishing.queues = route.queues
            publishing.fixed = route.copies is None
            publishing.copied = None if route.copies is None else route
    publishing.version = topology.version


def carry_out(channel: "Channel", publish: RoutedPublish) -> i64:
    """Put a routed message into its queues and their copies; what they say, together."""
    outcome: i64 = SETTLED
    for exchange in publish.delayed:
        outcome |= channel.vhost.delay(exchange, publish.message)
    routed: i64 = 0
    recipients = Recipients(publish.route.queues, publish.route.copies)
    for queue in recipients.row:
        # while a transaction was open its queues may have gone
        if not queue.deleted or queue.answers_later():
            routed += 1
            said = queue.publish(publish.message)
            outcome |= said
            if said & REJECTED == 0:
                recipients.taken_by(queue)
    publish.queues = recipients.row
    _count(publish.tally, routed)
    if routed == 0 and not publish.delayed:
        publish.tally.unroutable(publish.mandatory)
        if publish.mandatory:
            _give_back(channel, publish.message)
        if channel.node.may_be_behind():
            # there may be a queue for it by now
            outcome |= REJECTED
    elif outcome & UNREACHABLE and not publish.delayed:
        _tell_unreachable(channel, publish.message, publish.route.queues, publish.mandatory, publish.tally)
    return outcome


def _enqueue(channel: "Channel", message: Message, publishing: Publishing) -> None:
    """The ordinary road: no transaction, the queues known beforehand."""
    outcome: i64 = SETTLED
    queues = publishing.queues
    tally = publishing.tally
    assert tally is not None
    _count(tally, len(queues))
    for queue in queues:
        outcome |= queue.publish(message)
    if not queues:
        _tell_unroutable(channel, message, publishing.mandatory, tally)
    elif outcome >= AWAITED:
        if outcome & UNREACHABLE:
            _tell_unreachable(channel, message, queues, publishing.mandatory, tally)
        _published_elsewhere(channel, queues, outcome, tally)
    elif channel.confirms.on:
        _confirm(channel, outcome, tally)


def _count(tally: PublishTally, routed: i64) -> None:
    if tally.fresh == 0:
        tally.begin()
    tally.fresh += 1
    tally.fresh_routed += routed


def _publish_routed(channel: "Channel", publishing: Publishing, message: Message, extra_keys: list[str]) -> None:
    """The road of messages whose queues are not known beforehand, or have copies; CC and BCC name further keys."""
    exchange, tally = publishing.exchange, publishing.tally
    assert exchange is not None
    assert tally is not None
    route = publishing.copied
    if route is None or extra_keys:
        keys = [publishing.envelope.routing_key]
        if extra_keys:
            message.envelope = Envelope(publishing.envelope.exchange, publishing.envelope.routing_key, extra_keys)
            keys.extend(extra_keys)
        keys = direct_reply.deliver_to_inboxes(channel.node, exchange, keys, message)
        route = channel.vhost.topology.route_keys(exchange, keys, message)
    if channel.vhost.tracing:
        firehose.published(channel, message, route.queues)
    _hand_over(channel, RoutedPublish(message, route, publishing.mandatory, tally))


def _hand_over(channel: "Channel", publish: RoutedPublish) -> None:
    if channel.transaction is not None:
        channel.transaction.publish(publish)
        return
    if not publish.queues and not publish.delayed:
        _count(publish.tally, 0)
        _tell_unroutable(channel, publish.message, publish.mandatory, publish.tally)
        return
    outcome = carry_out(channel, publish)
    if outcome >= AWAITED:
        _published_elsewhere(channel, publish.queues, outcome, publish.tally)
    elif channel.confirms.on:
        _confirm(channel, outcome, publish.tally)


def _confirm(channel: "Channel", outcome: i64, tally: PublishTally) -> None:
    if outcome == PENDING:
        channel.await_batch()
        channel.confirms.pending()
        return
    if outcome == SETTLED:
        channel.confirms.settled()
    else:
        tally.refused += 1
        channel.confirms.rejected()
    channel.await_telling()


def _tell_unreachable(
    channel: "Channel", message: Message, queues: list[QueuePort], mandatory: bool, tally: PublishTally
) -> None:
    """Return a mandatory message if none of its queues can be given it now."""
    if not elsewhere.any_takes(queues):
        tally.unroutable(mandatory)
        if mandatory:
            _give_back(channel, message)


def _published_elsewhere(channel: "Channel", queues: list[QueuePort], outcome: i64, tally: PublishTally) -> None:
    """Some of its queues live on other nodes."""
    elsewhere.hold_if_crowded(channel.connection, queues, outcome)
    if not channel.confirms.on:
        return
    if outcome & REJECTED:
        _confirm(channel, REJECTED, tally)
    else:
        elsewhere.await_homes(channel, queues, outcome, tally)


def _tell_unroutable(channel: "Channel", message: Message, mandatory: bool, tally: PublishTally) -> None:
    """Return it if it is mandatory, and confirm it at once: clients pair each return with the ack that follows."""
    tally.unroutable(mandatory)
    if mandatory and channel.confirms.undecided():
        # its ack is a single one: those that are due anyway must not come between
        channel.tell_confirms()
    if mandatory:
        _give_back(channel, message)
    if channel.confirms.on:
        if channel.node.may_be_behind():
            # there may be a queue for it by now
            channel.confirms.rejected()
        else:
            channel.confirms.settled()
        channel.tell_confirms()


def _give_back(channel: "Channel", message: Message) -> None:
    """A mandatory message found no queue: it returns to its publisher, ahead of its confirm."""
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


def too_large(body_bytes: i64, limit: i64) -> ChannelFault:
    return ChannelFault(PRECONDITION_FAILED, f"message size {body_bytes} is larger than configured max size {limit}")
