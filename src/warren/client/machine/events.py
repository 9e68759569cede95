"""The events of the machine: one class for each thing that can happen to a client's connection.

Not here: when they happen (`machine.connection`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.client.machine.deliveries import Delivery, ReturnedMessage
from warren.client.machine.publishes import ConfirmRange
from warren.wire.field_tables import Table
from warren.wire.methods import Method

# why a connection ended
BY_BROKER: Final = "closed by the broker"
BY_CLIENT: Final = "closed by the client"
LOST: Final = "lost"
LOGIN_REFUSED: Final = "shut out"
HEARTBEAT_MISSED: Final = "silent"
PROTOCOL_ERROR: Final = "misunderstood"


class ClientEvent:
    """Something that happened to a connection."""


@final
class HandshakeCompleted(ClientEvent):
    """The handshake is complete: the limits agreed upon, and the broker's properties."""

    def __init__(self, server_properties: Table, channel_max: int, frame_max: int, heartbeat_s: int) -> None:
        self.server_properties: Table = server_properties
        self.channel_max: int = channel_max
        self.frame_max: int = frame_max
        self.heartbeat_s: int = heartbeat_s


@final
class CallAnswered(ClientEvent):
    """The answer to a call. The answer to basic.get may have a message."""

    def __init__(self, channel: int, ticket: int, method: Method, delivery: Delivery | None = None) -> None:
        self.channel: int = channel
        self.ticket: int = ticket
        self.method: Method = method
        self.delivery: Delivery | None = delivery


@final
class Delivered(ClientEvent):
    """Messages for a consumer, in order."""

    def __init__(self, channel: int, consumer_tag: str, deliveries: list[Delivery]) -> None:
        self.channel: int = channel
        self.consumer_tag: str = consumer_tag
        self.deliveries: list[Delivery] = deliveries
        # the sum of their bodies
        self.body_bytes: i64 = 0


@final
class Returned(ClientEvent):
    """The broker returned a mandatory message, because no queue was bound for it."""

    def __init__(self, channel: int, message: ReturnedMessage) -> None:
        self.channel: int = channel
        self.message: ReturnedMessage = message


@final
class Confirmed(ClientEvent):
    """Publishes that the broker decided, as ranges of their numbers, in the order of the wire."""

    def __init__(self, channel: int, ranges: list[ConfirmRange]) -> None:
        self.channel: int = channel
        self.ranges: list[ConfirmRange] = ranges


@final
class Cancelled(ClientEvent):
    """The broker cancelled a consumer: its queue was deleted, or moved to another node."""

    def __init__(self, channel: int, consumer_tag: str) -> None:
        self.channel: int = channel
        self.consumer_tag: str = consumer_tag


@final
class FlowChanged(ClientEvent):
    """The broker asks to pause publishing on a channel, or to resume."""

    def __init__(self, channel: int, active: bool) -> None:
        self.channel: int = channel
        self.active: bool = active


@final
class Blocked(ClientEvent):
    """The broker takes no publishes from this connection for a while; `reason` is its text."""

    def __init__(self, reason: str) -> None:
        self.reason: str = reason


@final
class Unblocked(ClientEvent):
    """The broker takes publishes again."""


@final
class ChannelClosedByBroker(ClientEvent):
    """The broker closed a channel: its code and text, and the method that caused it, if any."""

    def __init__(self, channel: int, code: int, text: str, method_name: str) -> None:
        self.channel: int = channel
        self.code: int = code
        self.text: str = text
        self.method_name: str = method_name


@final
class Closed(ClientEvent):
    """The connection has ended, with all its channels. This is the last event, and there is one.

    `stage` is the stage it had reached. A broker that sends no close when it refuses a login drops the connection:
    `LOGIN_REFUSED`.
    """

    def __init__(self, cause: str, stage: str, code: int, text: str) -> None:
        self.cause: str = cause
        self.stage: str = stage
        self.code: int = code
        self.text: str = text
