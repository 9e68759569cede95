"""The metadata of a node: its durable queues, exchanges and bindings as keys and values.

A key is a readable path whose parts are percent-quoted; a value is an AMQP field table with its own version:

    queues/%2F/orders                           v, auto_delete, arguments
    exchanges/%2F/news                          v, auto_delete, arguments, type, internal
    bindings/%2F/news/q/orders/sport.%23/-      v, arguments
             vhost source, q(ueue) or e(xchange), destination, routing key, digest of the arguments

What is in the key is not repeated in the value. Arguments are a table of their own within a byte array, so that the
deepest table a client may send still fits.

Every change has a *revision*, one more than the change before. What a key was created with names the thing it stands
for: a queue that is deleted and declared again is another one, though its key is the same.

Invariants: two things have the same key exactly if they cannot both exist; a definition that was read has the key it
was stored under. Integers come back as numbers, not in the widths they were sent with, which no comparison of
declarations looks at.

Not here: the database (`node.sqlite_store`), what is recorded when (`broker.recorder`), the way back from a snapshot
to a topology (`broker.definitions`).
"""

from abc import ABC, abstractmethod
from hashlib import sha256
from typing import Final, final

from mypy_extensions import mypyc_attr, trait

from warren.errors import ConnectionFault, StoreError
from warren.model.journal import Change
from warren.wire.scalars import lossless_text
from warren.wire.values import Table, decode_table, encode_table

VALUE_VERSION: Final = 1
QUEUES: Final = "queues"
EXCHANGES: Final = "exchanges"
BINDINGS: Final = "bindings"
TO_QUEUE: Final = "q"
TO_EXCHANGE: Final = "e"
NO_ARGUMENTS: Final = "-"
DIGEST_DIGITS: Final = 32

UNQUOTED: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
HEX_DIGITS: Final = "0123456789ABCDEF"

Snapshot = dict[str, tuple[int, bytes]]
"""Of each key the revision that created it, and its value."""


@final
class QueueDefinition:
    """A durable queue as it was declared."""

    def __init__(self, vhost: str, name: str, auto_delete: bool, arguments: Table) -> None:
        self.vhost: str = vhost
        self.name: str = name
        self.auto_delete: bool = auto_delete
        self.arguments: Table = arguments

    def key(self) -> str:
        return queue_key(self.vhost, self.name)

    def value(self) -> bytes:
        return encode_table(
            {"v": VALUE_VERSION, "auto_delete": self.auto_delete, "arguments": encode_table(self.arguments)}
        )


@final
class ExchangeDefinition:
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
        return encode_table(
            {
                "v": VALUE_VERSION,
                "type": self.type,
                "auto_delete": self.auto_delete,
                "internal": self.internal,
                "arguments": encode_table(self.arguments),
            }
        )


@final
class BindingDefinition:
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
        return _path(BINDINGS, parts)

    def value(self) -> bytes:
        return encode_table({"v": VALUE_VERSION, "arguments": encode_table(self.arguments)})


Definition = QueueDefinition | ExchangeDefinition | BindingDefinition


def queue_key(vhost: str, name: str) -> str:
    return _path(QUEUES, [vhost, name])


def exchange_key(vhost: str, name: str) -> str:
    return _path(EXCHANGES, [vhost, name])


def decode_definition(key: str, value: bytes) -> Definition:
    """What is stored under a key; a `StoreError` if it is damaged or of a version that is not known here."""
    parts = [_unquoted(part, key) for part in key.split("/")]
    fields = _Fields(key, value)
    if parts[0] == QUEUES and len(parts) == 3:
        return QueueDefinition(parts[1], parts[2], fields.flag("auto_delete"), fields.arguments())
    if parts[0] == EXCHANGES and len(parts) == 3:
        return ExchangeDefinition(
            parts[1],
            parts[2],
            fields.text("type"),
            fields.flag("auto_delete"),
            fields.flag("internal"),
            fields.arguments(),
        )
    if parts[0] == BINDINGS and len(parts) == 7 and parts[3] in (TO_QUEUE, TO_EXCHANGE):
        return BindingDefinition(parts[1], parts[2], parts[4], parts[3] == TO_QUEUE, parts[5], fields.arguments())
    raise StoreError(f"the metadata holds '{key}', and this version of Warren knows nothing of that kind")


@trait
class DeletionWatcher:
    """Whoever must know that something is about to be deleted."""

    @abstractmethod
    def before_deletion(self) -> None: ...


@final
class Metadata:
    """The core's side of the metadata: numbers changes and gathers them until the turn ends.

    Its revision moves exactly when something changed that outlives the node.
    """

    def __init__(self, revision: int) -> None:
        self.revision: int = revision
        self.pending: list[Change] = []
        self.watcher: DeletionWatcher | None = None
        self._passing: int = 0

    def put(self, key: str, value: bytes) -> int:
        """The key has this value from now on; the change's revision."""
        return self._change(key, value)

    def delete(self, key: str) -> int:
        """The key has no value any more; the change's revision."""
        if self.watcher is not None:
            self.watcher.before_deletion()
        return self._change(key, None)

    def take(self) -> list[Change]:
        """The changes since the last time, oldest first; they are the caller's to store."""
        taken = self.pending
        self.pending = []
        return taken

    def passing_id(self) -> int:
        """An id for something that does not outlive the node: never one that a revision could be."""
        self._passing += 1
        return -self._passing

    def _change(self, key: str, value: bytes | None) -> int:
        self.revision += 1
        self.pending.append(Change(self.revision, key, value))
        return self.revision


@mypyc_attr(allow_interpreted_subclasses=True)
class MetadataStore(ABC):
    """Where metadata is kept. On one node that is a file, and this node alone changes it.

    A store that the nodes of a cluster share adds two things: it tells of the changes that others made, and it may
    refuse one of ours, because a key is not at the revision we thought. Keys, values and revisions stay what they are.
    """

    @abstractmethod
    def snapshot(self) -> tuple[int, Snapshot]:
        """The revision of the last change, and everything there is."""

    @abstractmethod
    def apply(self, changes: list[Change]) -> None:
        """Make these changes, all or none; they are certain on return. A key that is put again keeps its creation."""


@final
class _Fields:
    """The fields of one value; whatever is not as expected is a `StoreError` that names the key."""

    def __init__(self, key: str, value: bytes) -> None:
        self._key: str = key
        self._table: Table = self._decoded(value)
        version = self._table.get("v")
        if version != VALUE_VERSION:
            raise StoreError(
                f"the metadata holds '{key}' in version {version}, this version of Warren reads {VALUE_VERSION}"
            )

    def flag(self, name: str) -> bool:
        value = self._table.get(name)
        if not isinstance(value, bool):
            raise self._damage()
        return value

    def text(self, name: str) -> str:
        value = self._table.get(name)
        if not isinstance(value, str):
            raise self._damage()
        return value

    def arguments(self) -> Table:
        value = self._table.get("arguments")
        if not isinstance(value, bytes):
            raise self._damage()
        return self._decoded(value)

    def _decoded(self, data: bytes) -> Table:
        if len(data) < 4 or int.from_bytes(data[:4], "big") != len(data) - 4:
            raise self._damage()
        try:
            return decode_table(data, 4, len(data))
        except ConnectionFault as fault:
            raise self._damage() from fault

    def _damage(self) -> StoreError:
        return StoreError(f"the metadata's value of '{self._key}' is damaged")


def _digest(arguments: Table) -> str:
    """What tells apart bindings that differ in their arguments alone; the order of these does not matter."""
    if not arguments:
        return NO_ARGUMENTS
    in_order: Table = {name: arguments[name] for name in sorted(arguments)}
    return sha256(encode_table(in_order)).hexdigest()[:DIGEST_DIGITS]


def _path(kind: str, parts: list[str]) -> str:
    return "/".join([kind, *[_quoted(part) for part in parts]])


def _quoted(text: str) -> str:
    """The text's octets, percent-quoted as in URLs but for letters, digits and - . _ ~"""
    octets = text.encode("utf-8", "surrogateescape")
    return "".join([chr(octet) if octet in UNQUOTED else f"%{octet:02X}" for octet in octets])


def _unquoted(part: str, key: str) -> str:
    pieces = part.split("%")
    octets = [pieces[0].encode("utf-8")]
    for piece in pieces[1:]:
        if len(piece) < 2 or piece[0] not in HEX_DIGITS or piece[1] not in HEX_DIGITS:
            raise StoreError(f"the metadata's key '{key}' is damaged")
        octets.append(bytes([int(piece[:2], 16)]))
        octets.append(piece[2:].encode("utf-8"))
    return lossless_text(b"".join(octets))
