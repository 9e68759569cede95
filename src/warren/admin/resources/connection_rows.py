"""Rows of connections, channels and consumers, and the message rates between channels and one queue or exchange.

RabbitMQ reports rates by channel when its `rates_mode` is `detailed`. Here they cost a visit to every channel of the
virtual host, so only the row of one queue or exchange has them. The queues that an exchange's messages went to are not
counted.

Not here: the paths (`resources.connections`).
"""

from collections.abc import Iterator
from typing import Any

from warren.admin import message_stats
from warren.admin.listing.lists import in_slices
from warren.admin.ports import HistoryPort, SampleSpans
from warren.admin.rabbitmq_json import GARBAGE_COLLECTION, NO_RATE, amqp_json, suite_words
from warren.broker.broker import Broker
from warren.broker.model.ports import ConsumerPort, QueuePort
from warren.broker.queues.queue import Queue
from warren.broker.routing.exchanges import Exchange
from warren.broker.sessions.connection import RUNNING, Channel, Connection
from warren.broker.sessions.consumers import ChannelConsumer
from warren.broker.sessions.firehose import connection_name
from warren.broker.snapshots import is_client
from warren.broker.streams.stream import Stream

_OF_CERTIFICATES = (
    "peer_cert_issuer",
    "peer_cert_subject",
    "peer_cert_validity",
    "ssl_cipher",
    "ssl_hash",
    "ssl_key_exchange",
    "ssl_protocol",
)


def connection_row_name(connection: Connection) -> str:
    """`127.0.0.1:52486 -> 127.0.0.1:5672`"""
    return connection_name(connection)


def listed_connections(broker: Broker) -> list[Connection]:
    """Connections of clients, from the moment their login is accepted."""
    return [connection for connection in broker.connections.values() if is_client(connection)]


def connection_details(connection: Connection) -> dict[str, Any]:
    """How other rows name a connection."""
    opened = connection.opened
    return {"name": connection_row_name(connection), "peer_host": opened.peer_host, "peer_port": opened.peer_port}


class ConnectionRows:
    """Builds rows of one node's connections."""

    def __init__(self, node: str, history: HistoryPort, spans: SampleSpans) -> None:
        self._node = node
        self._history = history
        self._spans = spans

    def row(self, connection: Connection) -> dict[str, Any]:
        opened = connection.opened
        exchange, cipher, hashed = suite_words(opened.tls_suite) if opened.tls else (None, None, None)
        row = self.short(connection)
        row |= {
            "auth_mechanism": connection.mechanism,
            "channel_max": int(connection.channel_max),
            "channels": len(connection.channels),
            "client_properties": amqp_json(connection.client_properties),
            "connected_at": int(connection.connected_at_ms),
            "frame_max": int(connection.frame_max),
            "garbage_collection": GARBAGE_COLLECTION,
            "host": opened.local_host,
            "peer_cert_issuer": None,
            "peer_cert_subject": opened.certificate_name or None,
            "peer_cert_validity": None,
            "peer_host": opened.peer_host,
            "peer_port": opened.peer_port,
            "port": opened.local_port,
            "protocol": "Direct 0-9-1" if opened.direct else "AMQP 0-9-1",
            "recv_cnt": int(connection.counters.received_reads),
            "reductions": 0,
            "reductions_details": NO_RATE,
            "send_cnt": int(connection.counters.sends),
            "send_pend": int(connection.unread_bytes),
            "ssl": opened.tls,
            "ssl_cipher": cipher,
            "ssl_hash": hashed,
            "ssl_key_exchange": exchange,
            "ssl_protocol": opened.tls_protocol.lower() or None,
            "state": state_of(connection),
            "timeout": int(connection.timer.heartbeat_ms) // 1000,
            "type": "direct" if opened.direct else "network",
            "user_who_performed_action": connection.user,
        }
        name = connection.client_properties.get("connection_name")
        if isinstance(name, str):
            row["user_provided_name"] = name
        octets = {"recv_oct": int(connection.counters.received_bytes), "send_oct": int(connection.counters.sent_bytes)}
        return row | self._history.rated("connection", connection.connection_id, octets, self._spans.bytes)

    def detailed(self, connection: Connection) -> dict[str, Any]:
        """One connection. RabbitMQ has empty texts there where its lists have null."""
        row = self.row(connection)
        return row | {name: "" for name in _OF_CERTIFICATES if row[name] is None}

    def short(self, connection: Connection) -> dict[str, Any]:
        """A row without statistics."""
        return {
            "name": connection_row_name(connection),
            "node": self._node,
            "user": connection.user,
            "vhost": connection.vhost.name if connection.vhost is not None else "",
        }


def state_of(connection: Connection) -> str:
    if connection.state != RUNNING:
        return "closing"
    if connection.blocked:
        return "blocked"
    if connection.node.alarm:
        # blocked as soon as it publishes
        return "blocking"
    return "running"


class ChannelRows:
    """Builds rows of one node's channels."""

    def __init__(self, node: str, history: HistoryPort, now_ms: int, spans: SampleSpans) -> None:
        self._node = node
        self._history = history
        self._now_ms = now_ms
        self._spans = spans

    def row(self, channel: Channel) -> dict[str, Any]:
        connection = channel.connection
        transaction = channel.transaction
        row: dict[str, Any] = {
            "acks_uncommitted": 0 if transaction is None else sum(map(len, transaction.acks)),
            "confirm": channel.confirms.on,
            "connection_details": connection_details(connection),
            "consumer_count": len(channel.consumers),
            "garbage_collection": GARBAGE_COLLECTION,
            "global_prefetch_count": int(channel.prefetch),
            "messages_unacknowledged": int(channel.unacked_deliveries.count),
            "messages_uncommitted": 0 if transaction is None else len(transaction.publishes),
            "messages_unconfirmed": int(channel.confirms.unconfirmed()) if channel.confirms.on else 0,
            "name": channel_name(channel),
            "node": self._node,
            "number": int(channel.number),
            "pending_raft_commands": 0,
            "prefetch_count": int(channel.consumer_prefetch),
            "reductions": 0,
            "reductions_details": NO_RATE,
            "state": "closing" if channel.closing or channel.closed else "running",
            "transactional": transaction is not None,
            "user": connection.user,
            "user_who_performed_action": connection.user,
            "vhost": channel.vhost.name,
        }
        message_stats.add_idle_since(row, int(channel.counters.active_at_ms), self._now_ms)
        key = (connection.connection_id, int(channel.number))
        counted = message_stats.channel_counters(channel.stats)
        message_stats.add_message_stats(row, self._history, "channel", key, counted, self._spans.messages)
        return row

    async def detailed(self, channel: Channel) -> dict[str, Any]:
        """One channel, with its consumers."""
        # of each queue: a channel may have thousands of consumers of one
        active: dict[QueuePort, set[ConsumerPort]] = {}
        consumers = []
        async for consumer in in_slices(list(channel.consumers.values())):
            queue = consumer.queue
            if queue not in active:
                # only the home node of a queue knows which consumer is active
                known = queue.consumers() if isinstance(queue, Queue | Stream) else []
                active[queue] = {one for one, is_active in known if is_active}
            is_active = consumer in active[queue] or not isinstance(queue, Queue | Stream)
            consumers.append(consumer_row(self._node, consumer, is_active))
        return {
            "consumer_details": consumers,
            "deliveries": self._deliveries(channel),
            "publishes": self._publishes(channel),
            **self.row(channel),
        }

    def _publishes(self, channel: Channel) -> list[dict[str, Any]]:
        """By exchange."""
        return [
            {
                "exchange": {"name": name, "vhost": channel.vhost.name},
                "stats": self._history.rated("channel_exchange", part_key(channel, name), {"publish": published}, None),
            }
            for name, published in channel.published_to().items()
        ]

    def _deliveries(self, channel: Channel) -> list[dict[str, Any]]:
        """By queue."""
        return [
            {
                "queue": {"name": name, "vhost": channel.vhost.name},
                "stats": self._history.rated(
                    "channel_queue", part_key(channel, name), message_stats.delivery_counters(taken), None
                ),
            }
            for name, taken in channel.taken_from().items()
        ]


def part_key(channel: Channel, name: str) -> tuple[int, int, str]:
    """The history's key for a channel and one queue or exchange."""
    return (channel.connection.connection_id, int(channel.number), name)


def channel_name(channel: Channel) -> str:
    return f"{connection_row_name(channel.connection)} ({channel.number})"


def consumer_row(node: str, consumer: ConsumerPort, active: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "arguments": amqp_json(consumer.arguments),
        "ack_required": not consumer.no_ack,
        "active": active,
        "activity_status": "up" if active else "waiting",
        "consumer_tag": consumer.tag,
        "exclusive": consumer.exclusive,
    }
    if isinstance(consumer, ChannelConsumer):
        row["prefetch_count"] = int(consumer.prefetch)
        row["queue"] = {"name": consumer.queue.name, "vhost": consumer.queue.vhost}
        row["channel_details"] = channel_details(node, consumer.channel)
    return row


def channel_details(node: str, channel: Channel) -> dict[str, Any]:
    connection = channel.connection
    return {
        "connection_name": connection_row_name(connection),
        "name": channel_name(channel),
        "node": node,
        "number": int(channel.number),
        "peer_host": connection.opened.peer_host,
        "peer_port": connection.opened.peer_port,
        "user": connection.user,
    }


async def deliveries_by_channel(
    queue: QueuePort, broker: Broker, node: str, history: HistoryPort
) -> list[dict[str, Any]]:
    """What each channel received from a queue."""
    rows = []
    async for channel in in_slices(list(_channels(broker, queue.vhost))):
        counter = channel.counters.taken_from.get(queue)
        if counter is not None:
            counted = message_stats.delivery_counters(counter.total)
            stats = history.rated("channel_queue", part_key(channel, queue.name), counted, None)
            rows.append({"channel_details": channel_details(node, channel), "stats": stats})
    return rows


async def publishes_by_channel(
    exchange: Exchange, vhost: str, broker: Broker, node: str, history: HistoryPort
) -> list[dict[str, Any]]:
    """What each channel published to an exchange."""
    rows = []
    async for channel in in_slices(list(_channels(broker, vhost))):
        counter = channel.counters.published_to.get(exchange)
        if counter is not None:
            counted = {"publish": int(counter.published)}
            stats = history.rated("channel_exchange", part_key(channel, exchange.name), counted, None)
            rows.append({"channel_details": channel_details(node, channel), "stats": stats})
    return rows


def _channels(broker: Broker, vhost: str) -> Iterator[Channel]:
    for connection in broker.connections.values():
        if connection.vhost is not None and connection.vhost.name == vhost and not connection.opened.internal:
            yield from connection.channels.values()
