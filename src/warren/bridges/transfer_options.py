"""Options of a transfer: when to ack, how many messages in flight, and the rewrite.

Not here: the definitions they come from (`bridges.shovel_definition`, `bridges.federation.upstreams`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from warren.client.machine.deliveries import Delivery
from warren.wire.field_tables import Table
from warren.wire.properties import Properties, encode_properties

AckMode = Literal["on-confirm", "on-publish", "no-ack"]
ON_CONFIRM: Final = "on-confirm"
ON_PUBLISH: Final = "on-publish"
NO_ACK: Final = "no-ack"
ACK_MODES: Final = (ON_CONFIRM, ON_PUBLISH, NO_ACK)

PREFETCH: Final = 1000
_PROPERTIES_AT: Final = 12


class RewrittenMessage(NamedTuple):
    """The publish made of a delivery; properties in wire format, flags first."""

    exchange: str
    routing_key: str
    properties: bytes
    body: bytes


Rewrite = Callable[[Delivery], RewrittenMessage | None]
"""Rewrites a delivery; None acks it without publishing."""


def raw_properties(delivery: Delivery) -> bytes:
    """The properties in wire format, not decoded."""
    return delivery.header_payload[_PROPERTIES_AT:]


def transfer_properties(properties: Properties) -> bytes:
    return encode_properties(properties)


@dataclass(frozen=True)
class TransferOptions:
    """The options of one transfer."""

    ack_mode: AckMode = ON_CONFIRM
    prefetch: int = PREFETCH
    consumer_tag: str = ""
    """Empty: the source generates one."""
    consumer_arguments: Table = field(default_factory=dict)
    exclusive: bool = False
    mandatory: bool = False
    """Unroutable messages are returned and not acked; otherwise the destination drops them."""
    limit: int | None = None
    """The number of messages after which the transfer is done; None for no limit."""
