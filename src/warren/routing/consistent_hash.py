"""The consistent-hash exchange: each message follows exactly one binding, and the same key always the same one.

A binding's key is its weight, an integer above zero. What is hashed is the routing key, or the header named by the
exchange's argument `hash-header`, or the property named by `hash-property`.

Every binding draws a number from the hash of the message's key and of its own destination; the smallest, divided by
weight, wins (weighted rendezvous hashing). A draw depends on nothing but those two names, so a binding that comes
takes only the keys it wins, one that goes gives away only its own, and two nodes with the same bindings agree, in
whatever order they learnt them. Two bindings to one destination count as one with the larger weight.

Not here: anything random; the hash is CRC-32 and a fixed mixer, the same in every process.
"""

import math
from typing import Final, final
from zlib import crc32

from mypy_extensions import i64

from warren.errors import PRECONDITION_FAILED, ChannelFault
from warren.model.ports import QueuePort
from warren.model.terms import term
from warren.routing.comparison import plain
from warren.routing.exchange import Binding, Matcher
from warren.routing.route import Subject
from warren.wire.values import Table

HASH_PROPERTIES: Final = ("correlation_id", "message_id", "timestamp")


@final
class Ticket:
    """One binding's part in every draw."""

    def __init__(self, binding: Binding) -> None:
        destination = binding.destination
        kind = "queue" if isinstance(destination, QueuePort) else "exchange"
        self.binding: Binding = binding
        self.seed: i64 = crc32(f"{kind} {destination.name}".encode("utf-8", "surrogateescape"))
        self.weight: float = float(int(binding.routing_key))

    def draw(self, key_hash: i64) -> float:
        """Exponentially distributed, faster for a heavier binding: each wins in proportion to its weight."""
        return -math.log((float(mixed(key_hash ^ self.seed)) + 0.5) / 4294967296.0) / self.weight


@final
class ConsistentHashMatcher(Matcher):
    """The tickets of all bindings."""

    def __init__(self, arguments: Table) -> None:
        self.header: str = _text_argument(arguments, "hash-header")
        self.property: str = _text_argument(arguments, "hash-property")
        super().__init__(cacheable=not self.header and not self.property)
        if self.header and self.property:
            raise ChannelFault(PRECONDITION_FAILED, "hash-header and hash-property are mutually exclusive")
        if self.property and self.property not in HASH_PROPERTIES:
            raise ChannelFault(PRECONDITION_FAILED, f"Unsupported property: {self.property}")
        self.tickets: dict[Binding, Ticket] = {}

    def check(self, routing_key: str, arguments: Table) -> None:
        digits = routing_key[1:] if routing_key[:1] in ("+", "-") else routing_key
        if not (digits.isascii() and digits.isdigit()):
            raise ChannelFault(PRECONDITION_FAILED, f"The binding key must be an integer: {term(routing_key)}")
        if int(routing_key) < 1:
            raise ChannelFault(PRECONDITION_FAILED, "The binding key must be greater than 0")

    def add(self, binding: Binding) -> None:
        self.tickets[binding] = Ticket(binding)

    def remove(self, binding: Binding) -> None:
        del self.tickets[binding]

    def match(self, subject: Subject, found: list[Binding]) -> None:
        key_hash: i64 = crc32(self._hashed_octets(subject))
        winner: Ticket | None = None
        smallest = math.inf
        for ticket in self.tickets.values():
            drawn = ticket.draw(key_hash)
            if drawn < smallest:
                smallest = drawn
                winner = ticket
        if winner is not None:
            found.append(winner.binding)

    def _hashed_octets(self, subject: Subject) -> bytes:
        """The octets that decide; none for a message without the header or property."""
        value: object = None
        if self.header:
            value = plain(subject.headers().get(self.header))
        elif self.property:
            value = plain(self._property_of(subject))
        else:
            value = plain(subject.routing_keys[0])
        if value is None:
            return b""
        return value if isinstance(value, bytes) else str(value).encode()

    def _property_of(self, subject: Subject) -> object:
        properties = subject.properties()
        if properties is None:
            return None
        if self.property == "message_id":
            return properties.message_id
        if self.property == "correlation_id":
            return properties.correlation_id
        return properties.timestamp


def mixed(value: i64) -> i64:
    """Spread 32 bits over 32 bits, one to one; the factors are below 2**31 so that no product leaves 63 bits."""
    value = ((value ^ (value >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
    value = ((value ^ (value >> 15)) * 0x31848BAB) & 0xFFFFFFFF
    return value ^ (value >> 16)


def _text_argument(arguments: Table, name: str) -> str:
    value = arguments.get(name, "")
    if not isinstance(value, str):
        raise ChannelFault(PRECONDITION_FAILED, f"{name} must be a string")
    return value
