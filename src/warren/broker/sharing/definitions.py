"""What this node has applied of the store that nodes share.

Of every key what it was created with, which names the thing (`store.naming`), and the revision that last changed it, by
which a plan says what it relies on. Values are not kept: whatever they stand for was made; of queues it is known where
they live (`broker.sharing.homes`).

Changes come in order and are made as they come, because that is how they were planned. A snapshot is compared with what
is known: what is gone is unmade, what differs is made again, what was created anew in the meantime is both. A thing
stands after what it belongs to when it is made, and before it when it is unmade (`store.definition_order`).

Invariants: after each event this node stands exactly where the store stood at `applied`; `applied` never goes back.
Nothing is guessed: what cannot be read, or cannot be made, is a `StoreError`, as when a node loads it.

Not here: agreeing (`broker.shared_agreement`), making and unmaking (`broker.applying`).
"""

from typing import final

from warren.broker.applying import Appliers
from warren.broker.sharing.homes import QueueHomes
from warren.errors import ProtocolFault, StoreError
from warren.model.events import SharedSnapshot
from warren.model.journal import Change
from warren.store.cluster_definitions import ALIVE, NODES, RUNS
from warren.store.definition_kinds import decode_definition
from warren.store.definition_order import kind_of, rank
from warren.store.metadata import Definition
from warren.store.naming import name_of
from warren.store.topology_definitions import QUEUES, QueueDefinition


@final
class SharedDefinitions:
    """The keys of the shared store, as far as this node has come."""

    def __init__(self, appliers: Appliers) -> None:
        self._appliers: Appliers = appliers
        self._known: dict[str, tuple[int, int]] = {}
        self.applied: int = 0
        self.homes: QueueHomes = QueueHomes()

    def modified(self, key: str) -> int:
        """The revision that last changed it; 0 if there is no such key."""
        known = self._known.get(key)
        return 0 if known is None else known[1]

    def changed_under(self, prefix: str, since: int) -> bool:
        """Whether there is a key that begins so and came or changed after that revision."""
        return any(known[1] > since and key.startswith(prefix) for key, known in self._known.items())

    def adopt(self, revision: int, snapshot: SharedSnapshot) -> None:
        """All of this is made already, because a node was started with it; but for who is in the cluster."""
        for key, (created, modified, value) in snapshot.items():
            kind = kind_of(key)
            if kind in (NODES, RUNS, ALIVE):
                self._put(key, created, modified, value)
            elif kind == QUEUES:
                self._find_home(decode_definition(key, value))
            self._known[key] = (created, modified)
        self.applied = revision

    def change(self, revision: int, changes: list[Change]) -> None:
        """Make what changed since; what was made already, and comes again, is passed over."""
        before = self.applied
        for change in changes:
            if change.revision <= before:
                continue
            value = change.value
            if value is None:
                self._delete(change.key)
            else:
                known = self._known.get(change.key)
                created = name_of(change.revision, change.key) if known is None else known[0]
                self._put(change.key, created, change.revision, value)
        self.reach(revision)

    def replace(self, revision: int, snapshot: SharedSnapshot) -> None:
        """Become what the snapshot says; an older one than what is known says nothing."""
        if revision < self.applied:
            return
        doomed = [key for key in self._known if key not in snapshot or snapshot[key][0] != self._known[key][0]]
        for _rank, _created, key in sorted([(-rank(key), -self._known[key][0], key) for key in doomed]):
            self._delete(key)
        wanted = [key for key in snapshot if snapshot[key][1] != self.modified(key)]
        for _rank, _created, key in sorted([(rank(key), snapshot[key][0], key) for key in wanted]):
            created, modified, value = snapshot[key]
            self._put(key, created, modified, value)
        self.reach(revision)

    def reach(self, revision: int) -> None:
        """There is nothing else up to this revision."""
        self.applied = max(self.applied, revision)

    def _put(self, key: str, created: int, modified: int, value: bytes) -> None:
        definition = decode_definition(key, value)
        try:
            self._appliers.put_under(key, definition, created)
        except ProtocolFault as fault:
            raise StoreError(f"the metadata holds '{key}', which cannot be made: {fault.text}") from fault
        self._known[key] = (created, modified)
        self._find_home(definition)

    def _delete(self, key: str) -> None:
        self._appliers.delete_key(key)
        self._known.pop(key, None)
        self.homes.delete(key)

    def _find_home(self, definition: Definition) -> None:
        if isinstance(definition, QueueDefinition):
            self.homes.put(definition)
