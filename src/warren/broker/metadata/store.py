"""The metadata of a node as keys and values: the definitions that outlive it.

A key is a readable path. Its first part is the kind of the definition, and its parts are percent-quoted. A value is an
AMQP field table with its own version:

    queues/%2F/orders        v, auto_delete, arguments

A value does not repeat its key. Tables that come from clients are byte arrays within the value, so that the deepest
table a client may send still fits.

Every change has a *revision*, one more than the change before. The revision that created a key identifies the object: a
queue that is deleted and declared again is another queue with the same key.

**The contract of every store** (one suite tests all of them). A *commit* lists the keys that must be as the caller
knows them, each with the revision that last changed it, 0 if it must be missing; and prefixes under which no key may
have been created or changed after a revision. Every key that the commit changes or touches is in the list. A commit
takes effect as a whole, with a revision above all before, or not at all; then the caller gets the store's revision, up
to which it has to catch up. A key that is put again keeps the revision that created it. A key that is *touched* keeps
its value, too: only its modification moves, so commits that rely on it become outdated. To touch a missing key has no
effect.

There are two interfaces. `MetadataStore` is the store of a node alone: it is called from the disk's thread, its changes
are durable on return, and the core numbers them one by one. The store that the nodes of a cluster share
(`node.etcd.store`) is asynchronous and gives all changes of a commit one revision. It may not know how a commit ended,
it reports the changes of other nodes, and it deletes a key when the lease of its holder ends. Both return
`CommitResult`s.

**Object ids.** Journals and links know a queue by a number. A shared store gives all changes of a transaction one
revision. Its revisions are therefore multiples of `IDS_PER_REVISION`, and the ids of new objects are the numbers up to
the revision and above the one before; the key alone determines which::

    revision before             revision
    ──────┼───────────────────────┼──►
          │    ▲        ▲   ▲     │
               ids of the objects that this transaction created

So the creating revision and the key determine the id. The id is not written down, and other keys of the transaction
cannot change it. Two keys may have the same slot; a proposal never creates both in one transaction
(`broker.metadata.proposal`).

Invariants: two definitions have the same key exactly if they cannot both exist. A decoded definition has the key it was
stored under. Integers come back as numbers, without the widths they were sent with, which declarations do not compare.
An id is above every revision before its object was created, and at most the revision that created it.

Not here: the kinds of definitions (`broker.metadata.definition_kinds`), the databases (`node.disk.sqlite_store`,
`node.etcd`), the ids of objects that a node brings into a cluster (`broker.cluster.join`).
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Final, final
from zlib import crc32

from mypy_extensions import mypyc_attr, trait

from warren.broker.model.journal import MetadataChange
from warren.errors import ConnectionFault, StoreError
from warren.wire.field_tables import Table, decode_table, encode_table
from warren.wire.scalars import lossless_text

VALUE_VERSION: Final = 1

UNQUOTED: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
HEX_DIGITS: Final = "0123456789ABCDEF"

Snapshot = dict[str, tuple[int, bytes]]
"""By key: the revision that created it, and its value."""

Compares = list[tuple[str, int]]
"""Keys, and the revision that last changed each; 0: the key is missing."""

RequestedChanges = list[tuple[str, bytes | None]]
"""Keys and their next values; None deletes the key."""

COMMITTED: Final = "agreed"
OUTDATED: Final = "outdated"
FAILED: Final = "failed"
UNKNOWN: Final = "unknown"


@final
class CommitResult:
    """How a commit ended.

    Agreed: it took effect with this revision. Outdated: a key was not at the expected revision, and the store is at
    this one. Failed: it did not and will not take effect, for this reason. Unknown: it may have taken effect.
    """

    def __init__(self, outcome: str, revision: int, reason: str = "") -> None:
        self.outcome: str = outcome
        self.revision: int = revision
        self.reason: str = reason

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, CommitResult)
            and self.outcome == other.outcome
            and self.revision == other.revision
            and self.reason == other.reason
        )

    def __hash__(self) -> int:
        return hash((self.outcome, self.revision))

    def __repr__(self) -> str:
        return f"Decision({self.outcome!r}, {self.revision}, {self.reason!r})"


class Definition:
    """One key and its value."""

    @abstractmethod
    def key(self) -> str: ...

    @abstractmethod
    def value(self) -> bytes: ...

    def kept(self) -> bool:
        """Whether a node that is alone stores it."""
        return True


@trait
class DeletionWatcher:
    """Is told before a key is deleted."""

    @abstractmethod
    def before_deletion(self) -> None: ...


@final
class MetadataChangeLog:
    """Numbers the changes of a node that is alone and collects them until the turn ends.

    The revision moves exactly when a stored definition changes.
    """

    def __init__(self, revision: int) -> None:
        self.revision: int = revision
        self.pending: list[MetadataChange] = []
        self.watcher: DeletionWatcher | None = None

    def put(self, key: str, value: bytes) -> int:
        """Set the value of a key; the revision of the change."""
        return self._change(key, value)

    def delete(self, key: str) -> int:
        """Delete a key; the revision of the change."""
        if self.watcher is not None:
            self.watcher.before_deletion()
        return self._change(key, None)

    def take(self) -> list[MetadataChange]:
        """The changes since the last call, oldest first. The caller stores them."""
        taken = self.pending
        self.pending = []
        return taken

    def _change(self, key: str, value: bytes | None) -> int:
        self.revision += 1
        self.pending.append(MetadataChange(self.revision, key, value))
        return self.revision


@mypyc_attr(allow_interpreted_subclasses=True)
class MetadataStore:
    """The metadata of a node that is alone: a file that only this node changes."""

    @abstractmethod
    def snapshot(self) -> tuple[int, Snapshot]:
        """The revision of the last change, and all keys."""

    @abstractmethod
    def modifications(self) -> dict[str, int]:
        """By key: the revision that last changed it."""

    @abstractmethod
    def apply(self, changes: list[MetadataChange]) -> None:
        """Make these changes, all or none; durable on return. A key that is put again keeps its creating revision."""

    @abstractmethod
    def commit(
        self,
        compares: Compares,
        changes: RequestedChanges,
        touched: Sequence[str] = (),
        unchanged_under: Sequence[tuple[str, int]] = (),
    ) -> CommitResult:
        """Make these changes and touches if all conditions hold; durable on return."""


@final
class DefinitionFields:
    """The fields of one value. An unexpected field raises a `StoreError` with the key."""

    def __init__(self, key: str, value: bytes) -> None:
        self._key: str = key
        self._table: Table = self._decoded(value)
        version = self._table.get("v")
        if version != VALUE_VERSION:
            raise StoreError(
                f"the metadata holds '{key}' in version {version}, this version of Warren reads {VALUE_VERSION}"
            )

    def has(self, name: str) -> bool:
        return name in self._table

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

    def number(self, name: str) -> int:
        value = self._table.get(name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._damage()
        return value

    def octets(self, name: str) -> bytes:
        value = self._table.get(name)
        if not isinstance(value, bytes):
            raise self._damage()
        return value

    def texts(self, name: str) -> list[str]:
        values = self._table.get(name)
        if not isinstance(values, list):
            raise self._damage()
        texts = [value for value in values if isinstance(value, str)]
        if len(texts) != len(values):
            raise self._damage()
        return texts

    def table(self, name: str) -> Table:
        """A table that is encoded as bytes."""
        return self._decoded(self.octets(name))

    def numbers(self, name: str) -> dict[str, int]:
        """A table of numbers that is encoded as bytes."""
        numbers: dict[str, int] = {}
        for label, value in self.table(name).items():
            if isinstance(value, bool) or not isinstance(value, int):
                raise self._damage()
            numbers[label] = value
        return numbers

    def _decoded(self, data: bytes) -> Table:
        if len(data) < 4 or int.from_bytes(data[:4], "big") != len(data) - 4:
            raise self._damage()
        try:
            return decode_table(data, 4, len(data))
        except ConnectionFault as fault:
            raise self._damage() from fault

    def _damage(self) -> StoreError:
        return StoreError(f"the metadata's value of '{self._key}' is damaged")


DefinitionReader = Callable[[list[str], DefinitionFields], Definition | None]
"""Makes a definition from a key's parts and a value's fields; None if the parts do not fit its kind."""


def encode_fields(fields: Table) -> bytes:
    """The value with these fields."""
    return encode_table({"v": VALUE_VERSION, **fields})


def key_path(kind: str, parts: list[str]) -> str:
    """The key of a kind with these parts."""
    return "/".join([kind, *[_quoted(part) for part in parts]])


def key_prefix(kind: str, parts: list[str]) -> str:
    """The prefix of all keys of a kind that begin with these parts and have more."""
    return key_path(kind, parts) + "/"


def key_parts(key: str) -> list[str]:
    """The kind and the parts of a key; a `StoreError` if the key is damaged."""
    return [_unquoted(part, key) for part in key.split("/")]


def _quoted(text: str) -> str:
    """The text percent-quoted as in URLs, except letters, digits and - . _ ~"""
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


IDS_PER_REVISION: Final = 4096


def id_slot(key: str) -> int:
    """The slot of a key among the ids of a revision."""
    return crc32(key.encode("utf-8", "surrogateescape")) % IDS_PER_REVISION


def object_id(revision: int, key: str) -> int:
    """The id of the object that this revision of a shared store created under this key."""
    return revision - id_slot(key)
