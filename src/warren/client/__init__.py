"""A client of AMQP 0-9-1 brokers, on the codec of this one: for Warren and for RabbitMQ.

    connection = await warren.client.connect("amqp://guest:guest@localhost/%2F")
    channel = await connection.channel(confirms=True)
    await channel.publish(b"hello", routing_key="orders")

`warren.client.blocking` is the same for programs without an event loop. What is exported here and there is what
programs may rely on; `machine` is the protocol itself, pure, for whoever drives it otherwise.

What is exported is imported when it is first used: whoever wants a URL checked, or an error caught, needs no more.

Not here: anything of the broker. The client knows `wire` and `errors`, and nothing else of Warren.
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
        # all others are errors
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
