"""A channel as a row, and a consumer.

Not here: connections (`views.connections`).
"""

from typing import Any

from warren.admin.history_port import HistoryPort, Spans
from warren.admin.views import figures
from warren.admin.views.amqp_values import plain
from warren.admin.views.connections import connection_details, connection_name
from warren.admin.views.erlang import GARBAGE_COLLECTION, NO_RATE
from warren.model.ports import Consumer
from warren.queue.queue import Queue
from warren.session.channel import Channel
from warren.session.consumer import ChannelConsumer
from warren.stream.stream import Stream


class ChannelRows:
    """Builds rows of one node's channels."""

    def __init__(self, node: str, history: HistoryPort, now_ms: int, spans: Spans) -> None:
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
            "messages_unacknowledged": int(channel.ledger.count),
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
        figures.add_idle_since(row, int(channel.active_at_ms), self._now_ms)
        key = (connection.connection_id, int(channel.number))
        counted = figures.of_channel(channel.figures)
        figures.add_message_stats(row, self._history, "channel", key, counted, self._spans.messages)
        return row

    def detailed(self, channel: Channel) -> dict[str, Any]:
        """One channel alone, with its consumers."""
        consumers = []
        for consumer in channel.consumers.values():
            queue = consumer.queue
            # which of several is active the home of a queue knows
            known = queue.consumers() if isinstance(queue, Queue | Stream) else [(consumer, True)]
            active = any(one is consumer and is_active for one, is_active in known)
            consumers.append(consumer_row(self._node, consumer, active))
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
                "stats": self._history.rated("channel_queue", part_key(channel, name), figures.taken(taken), None),
            }
            for name, taken in channel.taken_from().items()
        ]


def part_key(channel: Channel, name: str) -> tuple[int, int, str]:
    """What the history knows the channel's dealings with one queue or exchange by."""
    return (channel.connection.connection_id, int(channel.number), name)


def channel_name(channel: Channel) -> str:
    return f"{connection_name(channel.connection)} ({channel.number})"


def consumer_row(node: str, consumer: Consumer, active: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "arguments": plain(consumer.arguments),
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
        "connection_name": connection_name(connection),
        "name": channel_name(channel),
        "node": node,
        "number": int(channel.number),
        "peer_host": connection.opened.peer_host,
        "peer_port": connection.opened.peer_port,
        "user": connection.user,
    }
