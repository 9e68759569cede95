"""The metadata of a node as keys and values: whatever of its definitions outlives it.

A key is a readable path whose first part is the kind of thing it stands for, and whose parts are percent-quoted; a
value is an AMQP field table with its own version:

    queues/%2F/orders        v, auto_delete, arguments

What is in the key is not repeated in the value. Tables that come from clients are byte arrays within the value, so that
the deepest one a client may send still fits.

Every change has a *revision*, one more than the change before. What a key was created with names the thing it stands
for: a queue that is deleted and declared again is another one, though its key is the same.

**What every store keeps to** (one contract suite asks it of each of them). A *commit* says which keys must be as the
caller knows them: each at the revision that last changed it, 0 if it must be missing; and under which beginnings of
keys nothing may have come or changed after a revision. Every key it changes or touches is among the former. It comes
about as a whole, with a revision above all before, or not at all; then it is told the store's revision, up to which the
caller has to look. A key that is put again keeps the revision that created it. One that is *touched* keeps its value,
too: only its modification moves, which makes commits that rely on it outdated. Touching a key that is missing is
nothing.

There are two faces, because the two kinds of store are called differently. `MetadataStore` is that of a node alone:
called from the disk's thread, certain on return, its changes numbered one by one by the core. The store that the nodes
of a cluster share (`node.etcd.store`) is asynchronous, gives all changes of a commit one revision and tells what they
created apart by their keys (`broker.metadata.store`), may not be able to say how a commit ended, tells of what others
changed, and lets go of a key whose holder is silent. Both speak in `CommitResult`s.

Invariants: two things have the same key exactly if they cannot both exist; a definition that was read has the key it
was stored under. Integers come back as numbers, not in the widths they were sent with, which no comparison of
declarations looks at.

Not here: the kinds (`broker.metadata.topology_definitions`, `broker.metadata.access_definitions`,
`broker.metadata.policy_definitions`; all of them: `broker.metadata.definition_kinds`), the databases
(`node.disk.sqlite_store`, `node.etcd`), what is recorded when (`broker`).

What things are called by which nodes share: a number for each, though one transaction makes many.

Journals and links know a queue by the revision that created it, so that one that is deleted and declared again is
another. A store that nodes share gives all changes of a transaction one revision. Its revisions are therefore
multiples of `NAMES_A_REVISION`, and what a transaction makes is named by the numbers up to its revision, and above the
one before it: which of them is told by the key alone. So whoever knows the creating revision and the key knows the
name, nobody writes it down, and nothing that happens to other keys of the transaction can change it.

::

    revision before             revision
    ──────┼───────────────────────┼──►
          │    ▲        ▲   ▲     │
               names of what this transaction made

Two keys may have the same place. Whoever proposes sees to it that no transaction makes two such things
(`broker.metadata.proposal`).

Invariant: a name is above every revision before the thing was made, and not above the one that made it.

Not here: the names of what a node made while it was alone, which it brings along (`broker.cluster.join`).
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
"""Of each key the revision that created it, and its value."""

Compares = list[tuple[str, int]]
"""Keys, and the revision that last changed each; 0: there is none."""

RequestedChanges = list[tuple[str, bytes | None]]
"""Keys, and the value that each is to have, or None if it is to have none."""

COMMITTED: Final = "agreed"
OUTDATED: Final = "outdated"
FAILED: Final = "failed"
UNKNOWN: Final = "unknown"


@final
class CommitResult:
    """How a commit ended.

    Agreed: it came about with this revision. Outdated: a key was not at the revision it was compared to, and the store
    is at this one. Failed: it did not and will not come about, for this reason. Unknown: nobody can tell, and why.
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
    """Something that is kept."""

    @abstractmethod
    def key(self) -> str: ...

    @abstractmethod
    def value(self) -> bytes: ...

    def kept(self) -> bool:
        """Whether it outlives a node that is alone."""
        return True


@trait
class DeletionWatcher:
    """Whoever must know that something is about to be deleted."""

    @abstractmethod
    def before_deletion(self) -> None: ...


@final
class MetadataChangeLog:
    """The core's side of the metadata: numbers changes and gathers them until the turn ends.

    Its revision moves exactly when something changed that outlives the node.
    """

    def __init__(self, revision: int) -> None:
        self.revision: int = revision
        self.pending: list[MetadataChange] = []
        self.watcher: DeletionWatcher | None = None

    def put(self, key: str, value: bytes) -> int:
        """The key has this value from now on; the change's revision."""
        return self._change(key, value)

    def delete(self, key: str) -> int:
        """The key has no value any more; the change's revision."""
        if self.watcher is not None:
            self.watcher.before_deletion()
        return self._change(key, None)

    def take(self) -> list[MetadataChange]:
        """The changes since the last time, oldest first; they are the caller's to store."""
        taken = self.pending
        self.pending = []
        return taken

    def _change(self, key: str, value: bytes | None) -> int:
        self.revision += 1
        self.pending.append(MetadataChange(self.revision, key, value))
        return self.revision


@mypyc_attr(allow_interpreted_subclasses=True)
class MetadataStore:
    """Where the metadata of a node alone is kept: a file, which this node alone changes."""

    @abstractmethod
    def snapshot(self) -> tuple[int, Snapshot]:
        """The revision of the last change, and everything there is."""

    @abstractmethod
    def modifications(self) -> dict[str, int]:
        """Of each key the revision that last changed it."""

    @abstractmethod
    def apply(self, changes: list[MetadataChange]) -> None:
        """Make these changes, all or none; they are certain on return. A key that is put again keeps its creation."""

    @abstractmethod
    def commit(
        self,
        compares: Compares,
        changes: RequestedChanges,
        touched: Sequence[str] = (),
        unchanged_under: Sequence[tuple[str, int]] = (),
    ) -> CommitResult:
        """Make these changes and touches, if all is as the caller knows it; they are certain on return."""


@final
class DefinitionFields:
    """The fields of one value; whatever is not as expected is a `StoreError` that names the key."""

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
        """A table that was encoded for itself."""
        return self._decoded(self.octets(name))

    def numbers(self, name: str) -> dict[str, int]:
        """A table of numbers that was encoded for itself."""
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
"""Makes a definition of a key's parts and a value's fields; nothing if a key of its kind has other parts."""


def encode_fields(fields: Table) -> bytes:
    """The value that holds these fields."""
    return encode_table({"v": VALUE_VERSION, **fields})


def key_path(kind: str, parts: list[str]) -> str:
    """The key of that kind with these parts."""
    return "/".join([kind, *[_quoted(part) for part in parts]])


def key_prefix(kind: str, parts: list[str]) -> str:
    """What all keys of that kind begin with that have these first parts, and others after them."""
    return key_path(kind, parts) + "/"


def key_parts(key: str) -> list[str]:
    """Its kind and its parts; a `StoreError` if nobody could have written it."""
    return [_unquoted(part, key) for part in key.split("/")]


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


IDS_PER_REVISION: Final = 4096


def id_slot(key: str) -> int:
    """Which of a revision's names is the key's."""
    return crc32(key.encode("utf-8", "surrogateescape")) % IDS_PER_REVISION


def object_id(revision: int, key: str) -> int:
    """What is known by it that this revision of a shared store created under this key."""
    return revision - id_slot(key)
