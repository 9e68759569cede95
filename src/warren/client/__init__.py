"""A client for AMQP 0-9-1 brokers, Warren and RabbitMQ.

    connection = await warren.client.connect("amqp://guest:guest@localhost/%2F")
    channel = await connection.channel(confirms=True)
    await channel.publish(b"hello", routing_key="orders")

`warren.client.blocking` is the same client for programs without an event loop. The names exported by both are public.
`machine` is the protocol as a pure state machine, for programs with their own I/O.

A name is imported at its first use, so a program that only parses a URL or catches an error loads little.

Not here: the broker. The client uses `wire` and `errors` of Warren; only `client.testing` runs the broker core.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warren.client.channel import Channel, Consumer, DeclaredQueue
    from warren.client.connection import Connection, connect
    from warren.client.errors import (
        BatchFailed,
        CallTimeout,
        CannotConnect,
        CannotConvert,
        ChannelClosed,
        ClientError,
        ConnectionClosed,
        ConnectionLost,
        ConsumerCancelled,
        LoginRefused,
        PublishFailed,
        SettingsError,
        TablesRefused,
        UriError,
    )
    from warren.client.machine.deliveries import Delivery, ReturnedMessage
    from warren.client.machine.publishes import ConfirmRange, Message
    from warren.wire.field_tables import Timestamp
    from warren.wire.properties import Properties
else:
    _HOMES = {
        "Channel": "warren.client.channel",
        "ConfirmRange": "warren.client.machine.publishes",
        "Connection": "warren.client.connection",
        "Consumer": "warren.client.channel",
        "DeclaredQueue": "warren.client.channel",
        "Delivery": "warren.client.machine.deliveries",
        "Message": "warren.client.machine.publishes",
        "Properties": "warren.wire.properties",
        "ReturnedMessage": "warren.client.machine.deliveries",
        "Timestamp": "warren.wire.field_tables",
        "connect": "warren.client.connection",
    }

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # all other names are errors
        value = getattr(import_module(_HOMES.get(name, "warren.client.errors")), name)
        globals()[name] = value
        return value


__all__ = [
    "BatchFailed",
    "CallTimeout",
    "CannotConnect",
    "CannotConvert",
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
    "SettingsError",
    "TablesRefused",
    "Timestamp",
    "UriError",
    "connect",
]
