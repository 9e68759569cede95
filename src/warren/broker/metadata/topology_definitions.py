"""Queues, exchanges and bindings as metadata.

    queues/%2F/orders                           v, auto_delete, arguments
    exchanges/%2F/news                          v, auto_delete, arguments, type, internal
    bindings/%2F/news/q/orders/sport.%23/-      v, arguments
             vhost source, q(ueue) or e(xchange), destination, routing key, digest of the arguments

These are the fields of a durable definition on a node that is alone. Other definitions have more fields, which are left
out if they have their usual value: `durable` false; of a queue `exclusive`, the `node` it lives on, the connection that
owns it (`owner`), and the `incarnation` of the node that it ends with; of a mirrored queue its replica set: the
`epoch`, the `members`, and the names and incarnations of those `in_sync`. Its master is its `node`.

Not here: keys and values in general (`broker.metadata.store`), transactions (`broker.routing.topology_transactions`),
appliers (`broker.appliers`), the start (`broker.startup`).
"""

from hashlib import sha256
from typing import Final, final

from warren.broker.metadata.store import Definition, DefinitionFields, DefinitionReader, encode_fields, key_path
from warren.broker.model.replica_set import ReplicaSet
from warren.wire.field_tables import Table, encode_table

QUEUES: Final = "queues"
EXCHANGES: Final = "exchanges"
BINDINGS: Final = "bindings"
TO_QUEUE: Final = "q"
TO_EXCHANGE: Final = "e"
NO_ARGUMENTS: Final = "-"
DIGEST_DIGITS: Final = 32


@final
class QueueDefinition(Definition):
    """A declared queue and its home: this node if no other is named."""

    def __init__(
        self,
        vhost: str,
        name: str,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        arguments: Table,
        node: str = "",
        owner: int = 0,
        incarnation: int = 0,
        replica_set: ReplicaSet | None = None,
    ) -> None:
        self.vhost: str = vhost
        self.name: str = name
        self.durable: bool = durable
        self.exclusive: bool = exclusive
        self.auto_delete: bool = auto_delete
        self.arguments: Table = arguments
        self.node: str = node
        # the connection that an exclusive queue belongs to; 0 if it is not exclusive
        self.owner: int = owner
        # the incarnation of its node that the queue ends with; 0 if it does not
        self.incarnation: int = incarnation
        # of a mirrored queue; its master is `node`
        self.replica_set: ReplicaSet | None = replica_set

    def key(self) -> str:
        return queue_key(self.vhost, self.name)

    def value(self) -> bytes:
        fields: Table = {"auto_delete": self.auto_delete, "arguments": encode_table(self.arguments)}
        if not self.durable:
            fields["durable"] = False
        if self.exclusive:
            fields["exclusive"] = True
        if self.node:
            fields["node"] = self.node
        if self.owner:
            fields["owner"] = self.owner
        if self.incarnation:
            fields["incarnation"] = self.incarnation
        if self.replica_set is not None:
            _write_replica_set(fields, self.replica_set)
        return encode_fields(fields)

    def kept(self) -> bool:
        return self.durable

    def with_replica_set(self, replica_set: ReplicaSet) -> "QueueDefinition":
        """The same queue with another replica set."""
        return QueueDefinition(
            self.vhost,
            self.name,
            self.durable,
            self.exclusive,
            self.auto_delete,
            self.arguments,
            replica_set.master,
            self.owner,
            # a mirrored queue does not end with one node
            0,
            replica_set,
        )


@final
class ExchangeDefinition(Definition):
    """A declared exchange."""

    def __init__(
        self,
        vhost: str,
        name: str,
        type: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Table,
    ) -> None:
        self.vhost: str = vhost
        self.name: str = name
        self.type: str = type
        self.durable: bool = durable
        self.auto_delete: bool = auto_delete
        self.internal: bool = internal
        self.arguments: Table = arguments

    def key(self) -> str:
        return exchange_key(self.vhost, self.name)

    def value(self) -> bytes:
        fields: Table = {
            "type": self.type,
            "auto_delete": self.auto_delete,
            "internal": self.internal,
            "arguments": encode_table(self.arguments),
        }
        if not self.durable:
            fields["durable"] = False
        return encode_fields(fields)

    def kept(self) -> bool:
        return self.durable


@final
class BindingDefinition(Definition):
    """A binding: durable if both its ends are."""

    def __init__(
        self,
        vhost: str,
        source: str,
        destination: str,
        destination_is_queue: bool,
        routing_key: str,
        arguments: Table,
        durable: bool,
    ) -> None:
        self.vhost: str = vhost
        self.source: str = source
        self.destination: str = destination
        self.destination_is_queue: bool = destination_is_queue
        self.routing_key: str = routing_key
        self.arguments: Table = arguments
        self.durable: bool = durable

    def key(self) -> str:
        kind = TO_QUEUE if self.destination_is_queue else TO_EXCHANGE
        parts = [self.vhost, self.source, kind, self.destination, self.routing_key, _digest(self.arguments)]
        return key_path(BINDINGS, parts)

    def value(self) -> bytes:
        fields: Table = {"arguments": encode_table(self.arguments)}
        if not self.durable:
            fields["durable"] = False
        return encode_fields(fields)

    def kept(self) -> bool:
        return self.durable


def queue_key(vhost: str, name: str) -> str:
    return key_path(QUEUES, [vhost, name])


def exchange_key(vhost: str, name: str) -> str:
    return key_path(EXCHANGES, [vhost, name])


def _read_queue(parts: list[str], fields: DefinitionFields) -> Definition | None:
    if len(parts) != 3:
        return None
    return QueueDefinition(
        parts[1],
        parts[2],
        _is_durable(fields),
        fields.has("exclusive") and fields.flag("exclusive"),
        fields.flag("auto_delete"),
        fields.table("arguments"),
        fields.text("node") if fields.has("node") else "",
        fields.number("owner") if fields.has("owner") else 0,
        fields.number("incarnation") if fields.has("incarnation") else 0,
        _read_replica_set(fields),
    )


def _write_replica_set(fields: Table, replica_set: ReplicaSet) -> None:
    incarnations: Table = {}
    for name, incarnation in replica_set.in_sync:
        incarnations[name] = incarnation
    fields["epoch"] = replica_set.epoch
    fields["members"] = list(replica_set.members)
    fields["in_sync"] = encode_table(incarnations)


def _read_replica_set(fields: DefinitionFields) -> ReplicaSet | None:
    if not fields.has("epoch"):
        return None
    in_sync = list(fields.numbers("in_sync").items())
    return ReplicaSet(fields.number("epoch"), fields.text("node"), fields.texts("members"), in_sync)


def _read_exchange(parts: list[str], fields: DefinitionFields) -> Definition | None:
    if len(parts) != 3:
        return None
    return ExchangeDefinition(
        parts[1],
        parts[2],
        fields.text("type"),
        _is_durable(fields),
        fields.flag("auto_delete"),
        fields.flag("internal"),
        fields.table("arguments"),
    )


def _read_binding(parts: list[str], fields: DefinitionFields) -> Definition | None:
    if len(parts) != 7 or parts[3] not in (TO_QUEUE, TO_EXCHANGE):
        return None
    return BindingDefinition(
        parts[1],
        parts[2],
        parts[4],
        parts[3] == TO_QUEUE,
        parts[5],
        fields.table("arguments"),
        _is_durable(fields),
    )


def _is_durable(fields: DefinitionFields) -> bool:
    return fields.flag("durable") if fields.has("durable") else True


TOPOLOGY_KINDS: Final[dict[str, DefinitionReader]] = {
    QUEUES: _read_queue,
    EXCHANGES: _read_exchange,
    BINDINGS: _read_binding,
}


def _digest(arguments: Table) -> str:
    """A digest of the arguments in sorted order; bindings may differ in their arguments alone."""
    if not arguments:
        return NO_ARGUMENTS
    in_order: Table = {name: arguments[name] for name in sorted(arguments)}
    return sha256(encode_table(in_order)).hexdigest()[:DIGEST_DIGITS]
