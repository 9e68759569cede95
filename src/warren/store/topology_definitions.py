"""The durable queues, exchanges and bindings of a node as metadata.

    queues/%2F/orders                           v, auto_delete, arguments
    exchanges/%2F/news                          v, auto_delete, arguments, type, internal
    bindings/%2F/news/q/orders/sport.%23/-      v, arguments
             vhost source, q(ueue) or e(xchange), destination, routing key, digest of the arguments

Not here: keys and values in general (`store.metadata`), what is recorded when (`broker.recorder`), the way back from a
snapshot to a topology (`broker.definitions`).
"""

from hashlib import sha256
from typing import Final, final

from warren.store.metadata import Definition, Fields, Reader, encode_fields, path
from warren.wire.values import Table, encode_table

QUEUES: Final = "queues"
EXCHANGES: Final = "exchanges"
BINDINGS: Final = "bindings"
TO_QUEUE: Final = "q"
TO_EXCHANGE: Final = "e"
NO_ARGUMENTS: Final = "-"
DIGEST_DIGITS: Final = 32


@final
class QueueDefinition(Definition):
    """A durable queue as it was declared."""

    def __init__(self, vhost: str, name: str, auto_delete: bool, arguments: Table) -> None:
        self.vhost: str = vhost
        self.name: str = name
        self.auto_delete: bool = auto_delete
        self.arguments: Table = arguments

    def key(self) -> str:
        return queue_key(self.vhost, self.name)

    def value(self) -> bytes:
        return encode_fields({"auto_delete": self.auto_delete, "arguments": encode_table(self.arguments)})


@final
class ExchangeDefinition(Definition):
    """A durable exchange as it was declared."""

    def __init__(self, vhost: str, name: str, type: str, auto_delete: bool, internal: bool, arguments: Table) -> None:
        self.vhost: str = vhost
        self.name: str = name
        self.type: str = type
        self.auto_delete: bool = auto_delete
        self.internal: bool = internal
        self.arguments: Table = arguments

    def key(self) -> str:
        return exchange_key(self.vhost, self.name)

    def value(self) -> bytes:
        return encode_fields(
            {
                "type": self.type,
                "auto_delete": self.auto_delete,
                "internal": self.internal,
                "arguments": encode_table(self.arguments),
            }
        )


@final
class BindingDefinition(Definition):
    """A binding whose two ends are durable."""

    def __init__(
        self,
        vhost: str,
        source: str,
        destination: str,
        destination_is_queue: bool,
        routing_key: str,
        arguments: Table,
    ) -> None:
        self.vhost: str = vhost
        self.source: str = source
        self.destination: str = destination
        self.destination_is_queue: bool = destination_is_queue
        self.routing_key: str = routing_key
        self.arguments: Table = arguments

    def key(self) -> str:
        kind = TO_QUEUE if self.destination_is_queue else TO_EXCHANGE
        parts = [self.vhost, self.source, kind, self.destination, self.routing_key, _digest(self.arguments)]
        return path(BINDINGS, parts)

    def value(self) -> bytes:
        return encode_fields({"arguments": encode_table(self.arguments)})


def queue_key(vhost: str, name: str) -> str:
    return path(QUEUES, [vhost, name])


def exchange_key(vhost: str, name: str) -> str:
    return path(EXCHANGES, [vhost, name])


def _read_queue(parts: list[str], fields: Fields) -> Definition | None:
    if len(parts) != 3:
        return None
    return QueueDefinition(parts[1], parts[2], fields.flag("auto_delete"), fields.table("arguments"))


def _read_exchange(parts: list[str], fields: Fields) -> Definition | None:
    if len(parts) != 3:
        return None
    return ExchangeDefinition(
        parts[1],
        parts[2],
        fields.text("type"),
        fields.flag("auto_delete"),
        fields.flag("internal"),
        fields.table("arguments"),
    )


def _read_binding(parts: list[str], fields: Fields) -> Definition | None:
    if len(parts) != 7 or parts[3] not in (TO_QUEUE, TO_EXCHANGE):
        return None
    return BindingDefinition(parts[1], parts[2], parts[4], parts[3] == TO_QUEUE, parts[5], fields.table("arguments"))


TOPOLOGY_KINDS: Final[dict[str, Reader]] = {
    QUEUES: _read_queue,
    EXCHANGES: _read_exchange,
    BINDINGS: _read_binding,
}


def _digest(arguments: Table) -> str:
    """What tells apart bindings that differ in their arguments alone; the order of these does not matter."""
    if not arguments:
        return NO_ARGUMENTS
    in_order: Table = {name: arguments[name] for name in sorted(arguments)}
    return sha256(encode_table(in_order)).hexdigest()[:DIGEST_DIGITS]
