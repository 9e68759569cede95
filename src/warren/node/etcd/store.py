"""The metadata that the nodes of a cluster share, in etcd.

The contract is that of every store (`store.metadata`), with what sharing adds: commits may end unknown, changes of
others are watched, keys may be held. All calls go to whichever member answers; each is finished, or fails with a
`ConnectionError`, within ten seconds.

::

    begun ──yes──► snapshot ──► watch from its revision on, for ever; commit; current
      └──no───► move_in ──┘

Invariant: revisions never go back. A store whose revision is below one that this node has seen has lost changes or was
made anew, which is a `StoreError`: the node's own state would be of another history.

Not here: how a commit is made sure of (`node.etcd.proposals`), keys within etcd (`node.etcd.keys`), etcd's processes
(`node.etcd.member`).
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from warren.errors import InvariantBroken, StoreError
from warren.model.events import SharedSnapshot
from warren.node.etcd import messages, moving
from warren.node.etcd.connection import PATIENCE_S, Declined, EtcdConnection
from warren.node.etcd.holding import Holding
from warren.node.etcd.keys import KeySpace, Numbering
from warren.node.etcd.messages import KeyValue
from warren.node.etcd.proposals import Proposals
from warren.node.etcd.watching import Changed, Replaced, Watching
from warren.store.metadata import AGREED, OUTDATED, Compares, Decision, Snapshot, WantedChanges
from warren.store.naming import name_of

_PAGE_KEYS = 500
_COMPACTED = "compacted"


class EtcdStore:
    """One cluster's metadata, as one node uses it. `begun` or `move_in` comes first."""

    def __init__(self, connection: EtcdConnection, cluster: str, node: str) -> None:
        """`node` is this node's name: no other process may have it."""
        self._connection = connection
        self._keys = KeySpace(cluster)
        self._proposals = Proposals(connection, self._keys, node)
        self._marked_at = 0
        self._numbering = Numbering()
        self._seen = 0

    async def begun(self, patience_s: float = PATIENCE_S) -> bool:
        """Whether a cluster of this name lives here; if not, somebody has to move in."""
        answer = await self._connection.ask(messages.RANGE, messages.range_of(self._keys.base), patience_s)
        found = messages.key_values(answer)
        if found:
            self._marked_at = found[0].modified
            self._numbering = Numbering(moving.last_revision_in(found[0].value))
        return bool(found)

    async def move_in(self, revision: int, snapshot: Snapshot, proof: bytes = b"") -> None:
        """Begin the cluster with a lone node's metadata; no matter how often that was begun before, and where it ended.

        A `StoreError` if a cluster of this name has begun already, or another node is about to begin it. Whoever may
        have to `take_back` gives a `moving.new_proof` that it keeps.
        """
        if await self.begun():
            raise StoreError("the metadata store has a cluster of this name already")
        await moving.move(self._connection, self._keys, revision, snapshot, proof or moving.new_proof())
        await self.begun()

    async def take_back(self, proof: bytes) -> None:
        """The cluster that was begun with this proof has not begun, unless other nodes are in it by now."""
        await moving.take_back(self._connection, self._keys, proof)

    async def snapshot(self) -> tuple[int, SharedSnapshot]:
        """The store's revision, and everything there is."""
        self._require_begun()
        while True:
            try:
                revision, found = await self._all(self._keys.keys, 0)
                _, notes = await self._all(self._keys.created, revision)
            except Declined as declined:
                if _COMPACTED not in str(declined):
                    raise
                continue
            snapshot = self._with_creations(found, notes)
            at = self._numbering.of_store(revision)
            self._seen = max(self._seen, at)
            return at, snapshot

    async def commit(
        self,
        compares: Compares,
        changes: WantedChanges,
        touched: Sequence[str] = (),
        unchanged_under: Sequence[tuple[str, int]] = (),
        patience_s: float = PATIENCE_S,
    ) -> Decision:
        """All changes and touches get one revision. `FAILED` or `UNKNOWN` if nobody can be reached for so long."""
        self._require_begun()
        known = dict(compares)
        if not known.keys() >= {key for key, _ in changes} | set(touched):
            raise InvariantBroken("a commit changes a key that it does not rely on")
        numbering = self._numbering
        conditions = [messages.unmodified(self._keys.of(key), numbering.compared(at)) for key, at in compares]
        conditions += [
            messages.unmodified_since(self._keys.of(prefix), numbering.of_etcd(at)) for prefix, at in unchanged_under
        ]
        operations = [self._operation(key, value) for key, value in changes]
        operations += [messages.touching(self._keys.of(key)) for key in touched if known[key]]
        decision = await self._proposals.decide(conditions, operations, patience_s)
        if decision.outcome not in (AGREED, OUTDATED):
            return decision
        return Decision(decision.outcome, numbering.of_store(decision.revision))

    async def current(self) -> int:
        """The revision of the last commit, this very moment: whoever has seen it has seen all.

        Keys that went with their holders are not counted.
        """
        self._require_begun()
        request = messages.txn([], [messages.reading(self._keys.base), messages.reading(self._keys.last)], [])
        # what is seen while the question is under way may be newer than its answer
        seen = self._seen
        answer = messages.txn_answer(await self._connection.ask(messages.TXN, request))
        marker, last = answer.found
        at = self._numbering.of_store(answer.revision)
        if not marker or not last or marker[0].modified != self._marked_at or at < seen:
            raise StoreError("the metadata store has lost changes that this node has seen, or was made anew")
        return self._numbering.of_store(last[0].modified)

    async def watch(self, after: int) -> AsyncGenerator[Changed | Replaced, None]:
        """What changes after this revision, in order, for ever; close it when it is not wanted any more."""
        self._require_begun()
        watching = Watching(self._connection, self._keys, self._numbering, self.snapshot)
        async with aclosing(watching.changes(after)) as items:
            async for told in items:
                self._seen = max(self._seen, told.revision)
                yield told

    def hold(self, key: str, value: bytes, ttl_s: int) -> Holding:
        """Have this key there until it is released, or the store has not heard of this node for that long."""
        self._require_begun()
        return Holding(self._connection, self._keys, key, value, ttl_s)

    async def _all(self, prefix: bytes, at: int) -> tuple[int, list[KeyValue]]:
        """Every key that begins so, as of that revision of etcd, or as of the one it is at."""
        found: list[KeyValue] = []
        start = prefix
        while True:
            request = messages.range_of(start, messages.end_of(prefix), limit=_PAGE_KEYS, revision=at)
            answer = await self._connection.ask(messages.RANGE, request)
            at = at or messages.revision_of(answer)
            found += messages.key_values(answer)
            if not messages.has_more(answer):
                return at, found
            start = found[-1].key + b"\0"

    def _with_creations(self, found: list[KeyValue], notes: list[KeyValue]) -> SharedSnapshot:
        moved = {note.modified: moving.creations_in(note.value) for note in notes}
        of_store = self._numbering.of_store
        snapshot: SharedSnapshot = {}
        for kept in found:
            key = self._keys.name(kept.key)
            creations = moved.get(kept.created)
            created = name_of(of_store(kept.created), key) if creations is None else creations[key]
            snapshot[key] = (created, of_store(kept.modified), kept.value)
        return snapshot

    def _operation(self, key: str, value: bytes | None) -> bytes:
        if value is None:
            return messages.deleting(self._keys.of(key))
        return messages.putting(self._keys.of(key), value)

    def _require_begun(self) -> None:
        if not self._marked_at:
            raise InvariantBroken("the metadata store is used before a cluster has begun in it")
