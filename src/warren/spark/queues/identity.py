"""By what a message is known when it is delivered again.

A consumer that asks for it is told with each delivery where in its queue the message stands (`x-warren-position`),
which no other message of the queue ever does. That and all else the message says is digested, so that another queue of
the same name, which counts anew, is not taken for this one.

A broker that does not tell positions says at least whether a message was delivered before; then, and only then, one
that looks the same as a staged one is taken for it.

Not here: what is done about it (`spark.queues.intake`).
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from warren.client import Delivery
from warren.wire.properties import edit_headers

POSITION: Final = "x-warren-position"
COUNT: Final = "x-delivery-count"
"""How often a message was delivered: the one thing that differs from time to time."""

DIGEST_BYTES: Final = 16
BEFORE_FLAGS: Final = 12


@dataclass(frozen=True)
class Arrival:
    """A delivery, by what identifies it; `tail` is its properties from the flags on, without what was added to them."""

    delivery: Delivery
    identity: bytes
    tail: bytes
    may_be_known: bool


def arrival(delivery: Delivery) -> Arrival:
    payload = delivery.header_payload
    if COUNT.encode() in payload:
        payload = edit_headers(payload, [COUNT], {})
    told = POSITION.encode() in payload
    digest = blake2b(payload, digest_size=DIGEST_BYTES)
    for text in (delivery.exchange, delivery.routing_key):
        octets = text.encode("utf-8", "surrogateescape")
        digest.update(len(octets).to_bytes(4, "big") + octets)
    digest.update(delivery.body)
    tail = edit_headers(payload, [POSITION], {}) if told else payload
    return Arrival(delivery, digest.digest(), tail[BEFORE_FLAGS:], told or delivery.redelivered)
