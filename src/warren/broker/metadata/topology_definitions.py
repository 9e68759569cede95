"""Queues, exchanges and bindings as metadata.

    queues/%2F/orders                           v, auto_delete, arguments
    exchanges/%2F/news                          v, auto_delete, arguments, type, internal
    bindings/%2F/news/q/orders/sport.%23/-      v, arguments
             vhost source, q(ueue) or e(xchange), destination, routing key, digest of the arguments

That is all of something durable on a node alone. Other things have further fields, which are left out where they say
what is usual: that it is not `durable`; of a queue that it is `exclusive`, and on which `node` it lives, for which
connection of that node (`owner`) and for which of that node's lives (`incarnation`); of one that is mirrored its ring:
the `epoch`, the `members`, and the names and incarnations of those that are `in_sync`. Its master is the node it lives
on.

Not here: keys and values in general (`broker.metadata.store`), who plans changes
(`broker.routing.topology_transactions`), who makes them (`broker.appliers`), the way back from a snapshot to a topology
(`broker.startup`).
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
    """A queue as it was declared, and where it lives: on this node if no other is named."""

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
        # of its node, for a queue that ends with it
        self.incarnation: int = incarnation
        # who else holds it, if it is mirrored; its master is `node`
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
        """The same queue, held by others."""
        return QueueDefinition(
            self.vhost,
            self.name,
            self.durable,
            self.exclusive,
            self.auto_delete,
            self.arguments,
            replica_set.master,
            self.owner,
            # it ends with its ring, not with one node
            0,
            replica_set,
        )


@final
class ExchangeDefinition(Definition):
    """An exchange as it was declared."""

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
    runs: Table = {}
    for name, incarnation in replica_set.in_sync:
        runs[name] = incarnation
    fields["epoch"] = replica_set.epoch
    fields["members"] = list(replica_set.members)
    fields["in_sync"] = encode_table(runs)


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
    """What tells apart bindings that differ in their arguments alone; the order of these does not matter."""
    if not arguments:
        return NO_ARGUMENTS
    in_order: Table = {name: arguments[name] for name in sorted(arguments)}
    return sha256(encode_table(in_order)).hexdigest()[:DIGEST_DIGITS]
