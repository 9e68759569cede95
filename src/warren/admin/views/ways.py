"""By which channels messages came to an exchange and left a queue.

RabbitMQ tells this when its `rates_mode` is `detailed`; here it costs a look at every channel of the virtual host, and
only when one queue or exchange is asked for. Which queues the messages of an exchange went to is not counted.

Not here: the same seen from a channel (`views.channels`).
"""

from collections.abc import Iterator
from typing import Any

from warren.admin.history_port import HistoryPort
from warren.admin.views import figures
from warren.admin.views.channels import channel_details, part_key
from warren.broker.broker import Broker
from warren.model.ports import QueuePort
from warren.routing.exchange import Exchange
from warren.session.channel import Channel


def deliveries(queue: QueuePort, broker: Broker, node: str, history: HistoryPort) -> list[dict[str, Any]]:
    """What each channel took from a queue."""
    ways = []
    for channel in _channels(broker, queue.vhost):
        tally = channel.tallies.taken_from.get(queue)
        if tally is not None:
            stats = history.rated("channel_queue", part_key(channel, queue.name), figures.taken(tally.total), None)
            ways.append({"channel_details": channel_details(node, channel), "stats": stats})
    return ways


def incoming(exchange: Exchange, vhost: str, broker: Broker, node: str, history: HistoryPort) -> list[dict[str, Any]]:
    """What each channel published to an exchange."""
    ways = []
    for channel in _channels(broker, vhost):
        tally = channel.tallies.published_to.get(exchange)
        if tally is not None:
            counted = {"publish": int(tally.published)}
            stats = history.rated("channel_exchange", part_key(channel, exchange.name), counted, None)
            ways.append({"channel_details": channel_details(node, channel), "stats": stats})
    return ways


def _channels(broker: Broker, vhost: str) -> Iterator[Channel]:
    for connection in broker.connections.values():
        if connection.vhost is not None and connection.vhost.name == vhost and not connection.opened.internal:
            yield from connection.channels.values()
