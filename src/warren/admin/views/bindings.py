"""A binding as a row, and the key by which a path names it among those between the same two ends.

The key is the routing key, quoted, and if there are arguments a tilde and a digest of them. Every queue is bound to
the default exchange by its name; nobody made these bindings, so they are made up here.

Not here: making and removing bindings.
"""

import base64
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus, unquote_plus

from warren.admin.views.amqp_values import plain
from warren.model.ports import QueuePort
from warren.routing.exchange import Binding, Exchange
from warren.routing.topology import Topology
from warren.wire.values import Table, encode_table


@dataclass(frozen=True)
class BindingFacts:
    """A binding, or what a queue's place at the default exchange would be as one."""

    vhost: str
    source: str
    destination: str
    destination_type: str
    routing_key: str
    arguments: Table

    def order(self) -> tuple[str, str, str, str]:
        return (self.vhost, self.source, self.destination, self.routing_key)

    def name(self) -> str:
        return self.routing_key


def of_binding(vhost: str, binding: Binding) -> BindingFacts:
    kind = "exchange" if isinstance(binding.destination, Exchange) else "queue"
    source, destination = binding.source.name, binding.destination.name
    return BindingFacts(vhost, source, destination, kind, binding.routing_key, binding.arguments)


def implicit(vhost: str, queue: str) -> BindingFacts:
    return BindingFacts(vhost, "", queue, "queue", queue, {})


def all_in(topology: Topology) -> Iterator[BindingFacts]:
    for name in topology.queues:
        yield implicit(topology.vhost, name)
    for exchange in topology.exchanges.values():
        for binding in exchange.outgoing:
            yield of_binding(topology.vhost, binding)


def leading_to(topology: Topology, destination: QueuePort | Exchange) -> Iterator[BindingFacts]:
    if not isinstance(destination, Exchange):
        yield implicit(topology.vhost, destination.name)
    for binding in topology.bindings_of(destination):
        yield of_binding(topology.vhost, binding)


def leading_from(topology: Topology, source: Exchange) -> Iterator[BindingFacts]:
    if source is topology.default:
        for name in topology.queues:
            yield implicit(topology.vhost, name)
    for binding in source.outgoing:
        yield of_binding(topology.vhost, binding)


def binding_row(facts: BindingFacts) -> dict[str, Any]:
    return {
        "source": facts.source,
        "vhost": facts.vhost,
        "destination": facts.destination,
        "destination_type": facts.destination_type,
        "routing_key": facts.routing_key,
        "arguments": plain(facts.arguments),
        "properties_key": properties_key(facts.routing_key, facts.arguments),
    }


def properties_key(routing_key: str, arguments: Table) -> str:
    quoted = quote_plus(routing_key, errors="surrogateescape").replace("~", "%7E")
    if arguments:
        return f"{quoted}~{_digest(arguments)}"
    return quoted or "~"


def is_called(facts: BindingFacts, key: str) -> bool:
    """Whether a path means this binding by a key; some clients quote it once more, some do not."""
    own = properties_key(facts.routing_key, facts.arguments)
    return key in (own, unquote_plus(own, errors="surrogateescape"))


def _digest(arguments: Table) -> str:
    encoded = encode_table({name: arguments[name] for name in sorted(arguments)})
    return base64.urlsafe_b64encode(zlib.crc32(encoded).to_bytes(4, "big")).decode().rstrip("=")
