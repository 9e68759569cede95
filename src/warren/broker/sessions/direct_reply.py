"""Direct reply-to: an inbox without a queue.

A channel that consumes from `amq.rabbitmq.reply-to` gets an inbox with a name that cannot be guessed. The name replaces
the reply-to of its publishes. A reply published to the default exchange with that name is written to the channel, or
dropped if the channel is closed. The name has the inbox's node in it, so that every node can forward a reply.

Not here: ordinary consumers (`broker.sessions.consumers`).
"""

import base64
import binascii
from typing import Final, final

from warren.broker.model.message import Message
from warren.broker.routing.exchanges import Exchange
from warren.broker.sessions.connection import Channel
from warren.broker.sessions.output import DeliveryWriter, write_message
from warren.broker.sessions.ports import NodePort, ReplyInboxPort
from warren.errors import PRECONDITION_FAILED, ChannelFault
from warren.wire.methods import BasicConsume

REPLY_TO: Final = "amq.rabbitmq.reply-to"
REPLY_TO_BYTES: Final = b"amq.rabbitmq.reply-to"
INBOX_PREFIX: Final = "amq.rabbitmq.reply-to."


@final
class ReplyInbox(ReplyInboxPort):
    """The direct-reply consumer of one channel."""

    def __init__(self, name: str, channel: Channel, consumer_tag: str) -> None:
        super().__init__(name, consumer_tag)
        self._channel: Channel = channel
        self._writer: DeliveryWriter = DeliveryWriter(channel.number, consumer_tag)

    def deliver(self, message: Message) -> None:
        """Write a reply. Replies have no queue to wait in: a client that does not read loses them."""
        channel = self._channel
        connection = channel.connection
        if connection.takes_replies():
            tag = channel.unacked_deliveries.skip()
            out = connection.output()
            self._writer.write(out, message, tag, False)
            write_message(out, message, channel.number, connection.frame_max)


def is_inbox_key(exchange: Exchange, routing_key: str) -> bool:
    return exchange.name == "" and routing_key.startswith(INBOX_PREFIX)


def deliver_to_inboxes(node: NodePort, exchange: Exchange, keys: list[str], message: Message) -> list[str]:
    """Deliver a reply to the inboxes among its routing keys; the keys that name no inbox. A closed inbox drops it."""
    others: list[str] = []
    for key in keys:
        if not is_inbox_key(exchange, key):
            others.append(key)
        else:
            deliver_reply(node, key, message)
    return others


def deliver_reply(node: NodePort, name: str, message: Message) -> None:
    """Deliver a reply to an inbox of this node or another."""
    inbox = node.reply_inboxes.get(name)
    if inbox is not None:
        inbox.deliver(message)
        return
    home = _home_of(name)
    if home and home != node.settings.node_name:
        node.forward_reply(home, name, message)


def is_open(node: NodePort, name: str) -> bool:
    """Whether the inbox exists. Inboxes of other nodes are assumed to exist, since only their node knows."""
    return name in node.reply_inboxes or _home_of(name) not in ("", node.settings.node_name)


def _home_of(name: str) -> str:
    """The node in the name of an inbox; empty if there is none."""
    part = name[len(INBOX_PREFIX) :].partition(".")[0]
    try:
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode()
    except (binascii.Error, ValueError):
        return ""


def open_inbox(channel: Channel, method: BasicConsume, consumer_tag: str) -> None:
    if not method.no_ack:
        raise ChannelFault(PRECONDITION_FAILED, "reply consumer cannot acknowledge")
    if channel.inbox is not None:
        raise ChannelFault(PRECONDITION_FAILED, "reply consumer already set")
    node = channel.node
    # two parts and an end as in RabbitMQ's names, which some clients match; the first part has the node
    home = base64.urlsafe_b64encode(node.settings.node_name.encode()).rstrip(b"=").decode()
    name = f"{INBOX_PREFIX}{home}.{node.fresh_name('')}{node.fresh_name('')}=="
    inbox = ReplyInbox(name, channel, consumer_tag)
    node.reply_inboxes[inbox.name] = inbox
    channel.inbox = inbox
