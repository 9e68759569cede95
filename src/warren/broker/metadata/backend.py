"""Metadata backends decide about transactions; metadata appliers make the objects that definitions describe.

::

    transaction ──► submit ──► changes numbered and applied at once ──► recorded with the turn's batch

This is the backend of a node that is alone. A node may join a cluster while it runs, so proposers hold a
`CurrentMetadataBackend`, which passes transactions on to the backend in force. Answers about stored definitions wait
for the batch to be flushed (`broker.sessions.output`, `broker.commands.control`).

Each kind of definition has an applier. An applier looks at nothing but the definition: consequences (the bindings of a
deleted queue, an auto-delete exchange) are proposed, and are changes of the transaction themselves.

Not here: transactions (`broker.metadata.transaction`), their proposers (`broker.commands.control`, `broker.vhost`), the
backend of a cluster (`broker.metadata.shared_backend`).
"""

from abc import abstractmethod
from typing import final

from mypy_extensions import mypyc_attr

from warren.broker.metadata.store import Definition, MetadataChangeLog, key_parts
from warren.broker.metadata.transaction import MetadataTransaction, ProposedChange, TransactionWaiter
from warren.errors import InvariantBroken


@mypyc_attr(allow_interpreted_subclasses=True)
class MetadataApplier:
    """Makes and deletes the objects of some kinds of definitions."""

    @abstractmethod
    def kinds(self) -> list[str]:
        """The kinds that it applies."""

    @abstractmethod
    def put(self, definition: Definition, revision: int) -> None:
        """Create the object, or change the existing object of this key.

        `revision` is the id of a new object, and negative if the object does not outlive the node.
        """

    @abstractmethod
    def delete(self, parts: list[str]) -> None:
        """Delete the object with this kind and these parts, if there is one."""


@final
class MetadataAppliers(MetadataApplier):
    """The appliers of all kinds."""

    def __init__(self) -> None:
        # moves with every change
        self.version: int = 0
        self._by_kind: dict[str, MetadataApplier] = {}

    def add(self, applier: MetadataApplier) -> None:
        for kind in applier.kinds():
            self._by_kind[kind] = applier

    def kinds(self) -> list[str]:
        return list(self._by_kind)

    def put(self, definition: Definition, revision: int) -> None:
        self.put_under(definition.key(), definition, revision)

    def put_under(self, key: str, definition: Definition, revision: int) -> None:
        """Apply a definition whose key is known."""
        self.version += 1
        self._of_kind(key[: key.index("/")]).put(definition, revision)

    def delete(self, parts: list[str]) -> None:
        self.version += 1
        self._of_kind(parts[0]).delete(parts)

    def delete_key(self, key: str) -> None:
        self.delete(key_parts(key))

    def _of_kind(self, kind: str) -> MetadataApplier:
        applier = self._by_kind.get(kind)
        if applier is None:
            raise InvariantBroken(f"no applier for {kind}")
        return applier


@mypyc_attr(allow_interpreted_subclasses=True)
class MetadataBackend:
    """Decides about transactions."""

    @abstractmethod
    def is_immediate(self) -> bool:
        """Whether `submit` always returns True, so that its result can be told before."""

    @abstractmethod
    def submit(self, transaction: MetadataTransaction, waiter: TransactionWaiter | None) -> bool:
        """True: the transaction took effect. False: the waiter will be told the outcome."""


@final
class LocalMetadataBackend(MetadataBackend):
    """The backend of a node that is alone. Without metadata nothing is stored."""

    def __init__(self, appliers: MetadataAppliers) -> None:
        self._appliers: MetadataAppliers = appliers
        self.metadata: MetadataChangeLog | None = None
        self._transient: int = 0

    def is_immediate(self) -> bool:
        return True

    def submit(self, transaction: MetadataTransaction, waiter: TransactionWaiter | None) -> bool:
        # record the whole transaction before appliers write to the journal
        revisions = [self._record(change) for change in transaction.changes.values()]
        for change, revision in zip(transaction.changes.values(), revisions, strict=True):
            if change.definition is None:
                self._appliers.delete_key(change.key)
            else:
                self._appliers.put_under(change.key, change.definition, revision)
        return True

    def _record(self, change: ProposedChange) -> int:
        """The revision of the change; negative if it is not stored."""
        definition = change.definition
        if self.metadata is None or not change.kept:
            return self._transient_id()
        if definition is None:
            return self.metadata.delete(change.key)
        return self.metadata.put(change.key, definition.value())

    def _transient_id(self) -> int:
        """An id for an object that does not outlive the node; revisions are positive."""
        self._transient += 1
        return -self._transient

    @property
    def transient_count(self) -> int:
        """How many such ids were assigned."""
        return self._transient


@final
class CurrentMetadataBackend(MetadataBackend):
    """Passes transactions on to the backend in force."""

    def __init__(self, backend: MetadataBackend) -> None:
        self.backend: MetadataBackend = backend

    def is_immediate(self) -> bool:
        return self.backend.is_immediate()

    def submit(self, transaction: MetadataTransaction, waiter: TransactionWaiter | None) -> bool:
        return self.backend.submit(transaction, waiter)
