"""A client of AMQP 0-9-1 brokers, on the codec of this one: for Warren and for RabbitMQ.

    connection = await warren.client.connect("amqp://guest:guest@localhost/%2F")
    channel = await connection.channel(confirms=True)
    await channel.publish(b"hello", routing_key="orders")

`warren.client.blocking` is the same for programs without an event loop. What is exported here and there is what
programs may rely on; `machine` is the protocol itself, pure, for whoever drives it otherwise.

Not here: anything of the broker. The client knows `wire` and `errors`, and nothing else of Warren.
"""

from warren.client.channel import Channel
from warren.client.connecting import connect
from warren.client.connection import Connection
from warren.client.consumer import Consumer
from warren.client.errors import (
    CallTimeout,
    CannotConnect,
    ChannelClosed,
    ClientError,
    ConnectionClosed,
    ConnectionLost,
    ConsumerCancelled,
    LoginRefused,
    PublishFailed,
    UriError,
)
from warren.client.machine.confirms import ConfirmRange
from warren.client.machine.deliveries import Delivery, ReturnedMessage
from warren.client.machine.publishing import Message
from warren.client.topology import DeclaredQueue
from warren.wire.field_tables import Timestamp
from warren.wire.properties import Properties

__all__ = [
    "CallTimeout",
    "CannotConnect",
    "Channel",
    "ChannelClosed",
    "ClientError",
    "ConfirmRange",
    "Connection",
    "ConnectionClosed",
    "ConnectionLost",
    "Consumer",
    "ConsumerCancelled",
    "DeclaredQueue",
    "Delivery",
    "LoginRefused",
    "Message",
    "Properties",
    "PublishFailed",
    "ReturnedMessage",
    "Timestamp",
    "UriError",
    "connect",
]
