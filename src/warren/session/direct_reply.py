"""Direct reply-to: an inbox without a queue.

A channel that consumes from `amq.rabbitmq.reply-to` gets an inbox with a name nobody can guess. Its publishes with
that reply-to carry the inbox's name instead; a reply published to the default exchange under that name goes straight
to the channel, or nowhere if it is gone.

Not here: ordinary consumers (`session.consuming`).
"""

from typing import TYPE_CHECKING, Final, final

from warren.errors import PRECONDITION_FAILED, ChannelFault
from warren.model.message import Message
from warren.routing.exchange import Exchange
from warren.session.delivery import DeliveryWriter
from warren.wire.methods import BasicConsume

if TYPE_CHECKING:
    from warren.session.channel import Channel
    from warren.session.ports import NodePort

REPLY_TO: Final = "amq.rabbitmq.reply-to"
REPLY_TO_BYTES: Final = b"amq.rabbitmq.reply-to"
INBOX_PREFIX: Final = "amq.rabbitmq.reply-to."


@final
class ReplyInbox:
    """Where the replies to one channel arrive."""

    def __init__(self, name: str, channel: "Channel", consumer_tag: str) -> None:
        self.name: str = name
        self.consumer_tag: str = consumer_tag
        self._channel: Channel = channel
        self._writer: DeliveryWriter = DeliveryWriter(channel.number, consumer_tag)

    def deliver(self, message: Message) -> None:
        """Replies have no queue to wait in: a client that reads none of them for long loses some."""
        channel = self._channel
        connection = channel.connection
        if connection.takes_replies():
            tag = channel.ledger.skip()
            self._writer.write(connection.output(), message, tag, False, connection.frame_max)


def is_inbox_key(exchange: Exchange, routing_key: str) -> bool:
    return exchange.name == "" and routing_key.startswith(INBOX_PREFIX)


def deliver_to_inboxes(node: "NodePort", exchange: Exchange, keys: list[str], message: Message) -> list[str]:
    """Hand a reply to the inboxes among its keys (one that is gone swallows it); the keys that name no inbox."""
    others: list[str] = []
    for key in keys:
        if not is_inbox_key(exchange, key):
            others.append(key)
        else:
            inbox = node.reply_inboxes.get(key)
            if inbox is not None:
                inbox.deliver(message)
    return others


def open_inbox(channel: "Channel", method: BasicConsume, consumer_tag: str) -> None:
    if not method.no_ack:
        raise ChannelFault(PRECONDITION_FAILED, "reply consumer cannot acknowledge")
    if channel.inbox is not None:
        raise ChannelFault(PRECONDITION_FAILED, "reply consumer already set")
    node = channel.node
    # two parts and an end as in RabbitMQ's names, which some clients match
    name = f"{node.fresh_name(INBOX_PREFIX)}.{node.fresh_name('')}=="
    inbox = ReplyInbox(name, channel, consumer_tag)
    node.reply_inboxes[inbox.name] = inbox
    channel.inbox = inbox


def close_inbox(channel: "Channel") -> None:
    if channel.inbox is not None:
        del channel.node.reply_inboxes[channel.inbox.name]
        channel.inbox = None
