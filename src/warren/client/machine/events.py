"""What the machine tells of: a class for each thing that can happen to a client's connection.

Not here: when they happen (`machine.input`, `machine.connection`).
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
    """Something that happened."""


@final
class HandshakeCompleted(ClientEvent):
    """The handshake is done; these are the limits both sides keep, and what the broker says of itself."""

    def __init__(self, server_properties: Table, channel_max: int, frame_max: int, heartbeat_s: int) -> None:
        self.server_properties: Table = server_properties
        self.channel_max: int = channel_max
        self.frame_max: int = frame_max
        self.heartbeat_s: int = heartbeat_s


@final
class CallAnswered(ClientEvent):
    """The answer to a call; that of basic.get may have a message with it."""

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
        # what their bodies weigh together
        self.body_bytes: i64 = 0


@final
class Returned(ClientEvent):
    """A mandatory message came back, because no queue was there for it."""

    def __init__(self, channel: int, message: ReturnedMessage) -> None:
        self.channel: int = channel
        self.message: ReturnedMessage = message


@final
class Confirmed(ClientEvent):
    """Publishes that were decided, as ranges of their numbers, in the order the broker told of them."""

    def __init__(self, channel: int, ranges: list[ConfirmRange]) -> None:
        self.channel: int = channel
        self.ranges: list[ConfirmRange] = ranges


@final
class Cancelled(ClientEvent):
    """The broker ended a consumer: its queue is gone, or has another home."""

    def __init__(self, channel: int, consumer_tag: str) -> None:
        self.channel: int = channel
        self.consumer_tag: str = consumer_tag


@final
class FlowChanged(ClientEvent):
    """The broker asks to stop publishing on a channel, or to go on."""

    def __init__(self, channel: int, active: bool) -> None:
        self.channel: int = channel
        self.active: bool = active


@final
class Blocked(ClientEvent):
    """The broker takes no publishes of this connection for a while, and says why."""

    def __init__(self, reason: str) -> None:
        self.reason: str = reason


@final
class Unblocked(ClientEvent):
    """It takes them again."""


@final
class ChannelClosedByBroker(ClientEvent):
    """The broker closed a channel: the code and text it gave, and the method it blames, if any."""

    def __init__(self, channel: int, code: int, text: str, method_name: str) -> None:
        self.channel: int = channel
        self.code: int = code
        self.text: str = text
        self.method_name: str = method_name


@final
class Closed(ClientEvent):
    """The connection has ended, all its channels with it. Always the last event, and told once.

    `stage` is how far it had come. A broker that does not tell when it refuses a login hangs up on it: `SHUT_OUT`.
    """

    def __init__(self, cause: str, stage: str, code: int, text: str) -> None:
        self.cause: str = cause
        self.stage: str = stage
        self.code: int = code
        self.text: str = text
