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
        """Replies have no queue to wait in: a client that does not read loses them."""
        channel = self._channel
        connection = channel.connection
        if connection.has_room():
            tag = channel.ledger.skip()
            self._writer.write(connection.output(), message, tag, False, connection.frame_max)


def is_inbox_key(exchange: Exchange, routing_key: str) -> bool:
    return exchange.name == "" and routing_key.startswith(INBOX_PREFIX)


def deliver(node: "NodePort", name: str, message: Message) -> None:
    """Hand a reply to its inbox; one that is gone swallows it."""
    inbox = node.reply_inboxes.get(name)
    if inbox is not None:
        inbox.deliver(message)


def open_inbox(channel: "Channel", method: BasicConsume, consumer_tag: str) -> None:
    if channel.inbox is not None:
        raise ChannelFault(PRECONDITION_FAILED, "reply consumer already set")
    if not method.no_ack:
        raise ChannelFault(PRECONDITION_FAILED, "reply consumer cannot acknowledge")
    node = channel.node
    inbox = ReplyInbox(node.fresh_name(INBOX_PREFIX), channel, consumer_tag)
    node.reply_inboxes[inbox.name] = inbox
    channel.inbox = inbox


def close_inbox(channel: "Channel") -> None:
    if channel.inbox is not None:
        del channel.node.reply_inboxes[channel.inbox.name]
        channel.inbox = None
