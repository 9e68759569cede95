"""How messages are carried: when the source is told that one is dealt with, how many are on the way, what is sent.

Not here: what a shovel's or an upstream's definition says of it (`bridges.shovels`, `bridges.federation`).
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
    """What is published in the place of a delivery; properties as they stand on the wire, flags first."""

    exchange: str
    routing_key: str
    properties: bytes
    body: bytes


Rewrite = Callable[[Delivery], RewrittenMessage | None]
"""What becomes of a delivery; None: it is acked and goes nowhere."""


def raw_properties(delivery: Delivery) -> bytes:
    """Without looking at them."""
    return delivery.header_payload[_PROPERTIES_AT:]


def transfer_properties(properties: Properties) -> bytes:
    return encode_properties(properties)


@dataclass(frozen=True)
class TransferOptions:
    """For one `carry`."""

    ack_mode: AckMode = ON_CONFIRM
    prefetch: int = PREFETCH
    consumer_tag: str = ""
    """Empty: one that the source invents."""
    consumer_arguments: Table = field(default_factory=dict)
    exclusive: bool = False
    mandatory: bool = False
    """What no queue takes comes back and is not acked; else the destination drops it, as for any publisher."""
    limit: int | None = None
    """After how many messages there is nothing left to do; None for never."""
