"""The definitions of the shared store that this node has applied, and the homes of queues.

Of every key this node knows the id of its object (`broker.metadata.store`) and the revision that last changed it, which
transactions rely on. Values are not kept, because their objects exist. Of queues the homes are kept (`QueueHomes`):
transient and exclusive queues end with an incarnation of their node; a mirrored queue lives where its master is, and
ends with no node.

Changes are applied in the order of the store. A snapshot is compared with the known keys: missing keys are deleted,
changed keys applied again, and keys that were created again are both. An object is created after the objects it belongs
to, and deleted before them (`broker.metadata.definition_kinds`).

Invariants: after each event this node has exactly the state of the store at `applied`. `applied` never goes back. A
value that cannot be decoded or applied is a `StoreError`, as when a node starts.

Not here: transactions (`broker.metadata.shared_backend`), appliers (`broker.metadata.backend`), the home of a new queue
(`broker.cluster.placement`), the end of queues of dead nodes (`broker.cluster.orphaned_queues`).
"""

from typing import final

from warren.broker.metadata.backend import MetadataAppliers
from warren.broker.metadata.cluster_definitions import INCARNATIONS, LIVENESS, NODES
from warren.broker.metadata.definition_kinds import decode_definition, definition_kind, definition_rank
from warren.broker.metadata.store import Definition, object_id
from warren.broker.metadata.topology_definitions import QUEUES, QueueDefinition
from warren.broker.model.events import MetadataSnapshot
from warren.broker.model.journal import MetadataChange
from warren.broker.model.replica_set import ReplicaSet
from warren.errors import ProtocolFault, StoreError

Home = tuple[str, int]
"""A node and its incarnation; 0 for a queue that does not end with one."""


@final
class MirroredQueueHome:
    """A mirrored queue and its replica set."""

    def __init__(self, queue: tuple[str, str], durable: bool, replica_set: ReplicaSet) -> None:
        self.queue: tuple[str, str] = queue
        self.durable: bool = durable
        self.replica_set: ReplicaSet = replica_set


@final
class QueueHomes:
    """The queues of all virtual hosts by home, in the order in which this node applied them."""

    def __init__(self) -> None:
        self._homes: dict[str, Home] = {}
        self._transient: dict[Home, dict[str, tuple[str, str]]] = {}
        self._by_node: dict[str, dict[str, tuple[str, str]]] = {}
        self._mirrored: dict[str, MirroredQueueHome] = {}

    def put(self, definition: QueueDefinition) -> None:
        key = definition.key()
        self.delete(key)
        home = (definition.node, definition.incarnation)
        self._homes[key] = home
        queue = (definition.vhost, definition.name)
        self._by_node.setdefault(definition.node, {})[key] = queue
        if definition.replica_set is not None:
            self._mirrored[key] = MirroredQueueHome(queue, definition.durable, definition.replica_set)
        if definition.incarnation:
            self._transient.setdefault(home, {})[key] = queue

    def delete(self, key: str) -> None:
        home = self._homes.pop(key, None)
        if home is None:
            return
        self._mirrored.pop(key, None)
        there = self._by_node[home[0]]
        del there[key]
        if not there:
            del self._by_node[home[0]]
        if home in self._transient:
            queues = self._transient[home]
            queues.pop(key, None)
            if not queues:
                del self._transient[home]

    def count(self, node: str) -> int:
        """How many queues live on a node."""
        return len(self._by_node.get(node, {}))

    def nodes(self) -> list[str]:
        """The nodes with queues."""
        return sorted(self._by_node)

    def of_node_alone(self, node: str) -> list[tuple[str, str]]:
        """The virtual hosts and names of the unmirrored queues on a node."""
        return [queue for key, queue in self._by_node.get(node, {}).items() if key not in self._mirrored]

    def mirrored(self) -> list["MirroredQueueHome"]:
        """The mirrored queues."""
        return list(self._mirrored.values())

    def transient_homes(self) -> list[Home]:
        """The incarnations with queues that end with them."""
        return sorted(self._transient)

    def transient(self, home: Home) -> list[tuple[str, str]]:
        """The virtual hosts and names of the queues that end with an incarnation."""
        return list(self._transient.get(home, {}).values())


@final
class SharedDefinitions:
    """The keys of the shared store that this node has applied."""

    def __init__(self, appliers: MetadataAppliers) -> None:
        self._appliers: MetadataAppliers = appliers
        self._known: dict[str, tuple[int, int]] = {}
        self.applied: int = 0
        self.homes: QueueHomes = QueueHomes()

    def modified(self, key: str) -> int:
        """The revision that last changed a key; 0 if there is no such key."""
        known = self._known.get(key)
        return 0 if known is None else known[1]

    def changed_under(self, prefix: str, since: int) -> bool:
        """Whether a key with this prefix was created or changed after that revision."""
        return any(known[1] > since and key.startswith(prefix) for key, known in self._known.items())

    def adopt(self, revision: int, snapshot: MetadataSnapshot) -> None:
        """The node was started with this snapshot: all objects exist, except the membership."""
        for key, (created, modified, value) in snapshot.items():
            kind = definition_kind(key)
            if kind in (NODES, INCARNATIONS, LIVENESS):
                self._put(key, created, modified, value)
            elif kind == QUEUES:
                self._find_home(decode_definition(key, value))
            self._known[key] = (created, modified)
        self.applied = revision

    def change(self, revision: int, changes: list[MetadataChange]) -> None:
        """Apply changes. Changes that are applied already are skipped."""
        before = self.applied
        for change in changes:
            if change.revision <= before:
                continue
            value = change.value
            if value is None:
                self._delete(change.key)
            else:
                known = self._known.get(change.key)
                created = object_id(change.revision, change.key) if known is None else known[0]
                self._put(change.key, created, change.revision, value)
        self.reach(revision)

    def replace(self, revision: int, snapshot: MetadataSnapshot) -> None:
        """Apply a snapshot, unless it is older than the applied revision."""
        if revision < self.applied:
            return
        doomed = [key for key in self._known if key not in snapshot or snapshot[key][0] != self._known[key][0]]
        for _rank, _created, key in sorted([(-definition_rank(key), -self._known[key][0], key) for key in doomed]):
            self._delete(key)
        wanted = [key for key in snapshot if snapshot[key][1] != self.modified(key)]
        for _rank, _created, key in sorted([(definition_rank(key), snapshot[key][0], key) for key in wanted]):
            created, modified, value = snapshot[key]
            self._put(key, created, modified, value)
        self.reach(revision)

    def reach(self, revision: int) -> None:
        """There are no other changes up to this revision."""
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
