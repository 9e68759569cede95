"""Whether a plan comes about: a node alone agrees with itself, at once.

A node that was alone may come to share its definitions with others while it runs. So everybody who plans holds the
node's *charter*, which passes plans on to whoever decides at the time.

::

    plan ──► agree ──► changes numbered and made, here and now ──► recorded with the turn's batch

What outlives the node is durable when that batch is; answers about it wait for that (`broker.sessions.output`,
`broker.commands.control`).

Not here: what a plan is (`broker.metadata.transaction`), how changes are made (`broker.metadata.backend`), agreeing
with others (`broker.metadata.shared_backend`).

Changes that were agreed upon become real: each kind of definition has somebody who makes and unmakes it.

Making and unmaking looks at nothing but the definition. What goes with something that goes (a queue's bindings, an
auto-delete exchange) was planned and stands among the changes itself, so nobody here works out consequences.

Not here: who plans (`broker.commands.control` and the handlers of commands, `broker.vhost`), who agrees
(`broker.metadata.backend`).
"""

from abc import abstractmethod
from typing import final

from mypy_extensions import mypyc_attr

from warren.broker.metadata.store import Definition, MetadataChangeLog, key_parts
from warren.broker.metadata.transaction import MetadataTransaction, PlannedChange, TransactionWaiter
from warren.errors import InvariantBroken


@mypyc_attr(allow_interpreted_subclasses=True)
class MetadataApplier:
    """Makes and unmakes things of some kinds."""

    @abstractmethod
    def kinds(self) -> list[str]:
        """The first parts of the keys it knows."""

    @abstractmethod
    def put(self, definition: Definition, revision: int) -> None:
        """There is this from now on; if its key stood for something already, that is changed and stays the same thing.

        `revision` names a new thing, and is negative for one that does not outlive the node.
        """

    @abstractmethod
    def delete(self, parts: list[str]) -> None:
        """There is nothing under the key with this kind and these parts any more; no matter if there never was."""


@final
class MetadataAppliers(MetadataApplier):
    """All of them."""

    def __init__(self) -> None:
        # moves whenever anything was made or unmade
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
        """The same, for whoever knows the key that it has."""
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
            raise InvariantBroken(f"nobody makes {kind}")
        return applier


@mypyc_attr(allow_interpreted_subclasses=True)
class MetadataBackend:
    """Decides about plans."""

    @abstractmethod
    def is_immediate(self) -> bool:
        """Whether `agree` always answers True, so that what comes about can be told before it does."""

    @abstractmethod
    def submit(self, plan: MetadataTransaction, waiter: TransactionWaiter | None) -> bool:
        """True: the plan was carried out. False: that is not known yet, and the waiter will be told."""


@final
class LocalMetadataBackend(MetadataBackend):
    """Of a node that has definitions to itself. Without metadata nothing outlives it."""

    def __init__(self, appliers: MetadataAppliers) -> None:
        self._appliers: MetadataAppliers = appliers
        self.metadata: MetadataChangeLog | None = None
        self._passing: int = 0

    def is_immediate(self) -> bool:
        return True

    def submit(self, plan: MetadataTransaction, waiter: TransactionWaiter | None) -> bool:
        # recorded as a whole: what making and unmaking writes to the journal must not come between
        revisions = [self._record(change) for change in plan.changes.values()]
        for change, revision in zip(plan.changes.values(), revisions, strict=True):
            if change.definition is None:
                self._appliers.delete_key(change.key)
            else:
                self._appliers.put_under(change.key, change.definition, revision)
        return True

    def _record(self, change: PlannedChange) -> int:
        """The revision of the change, negative if nobody wrote it down."""
        definition = change.definition
        if self.metadata is None or not change.kept:
            return self._passing_id()
        if definition is None:
            return self.metadata.delete(change.key)
        return self.metadata.put(change.key, definition.value())

    def _passing_id(self) -> int:
        """For something that does not outlive the node: never one that a revision could be."""
        self._passing += 1
        return -self._passing

    @property
    def passing_count(self) -> int:
        """How many such ids were given."""
        return self._passing


@final
class CurrentMetadataBackend(MetadataBackend):
    """How a node agrees at the time."""

    def __init__(self, backend: MetadataBackend) -> None:
        self.backend: MetadataBackend = backend

    def is_immediate(self) -> bool:
        return self.backend.is_immediate()

    def submit(self, plan: MetadataTransaction, waiter: TransactionWaiter | None) -> bool:
        return self.backend.submit(plan, waiter)
