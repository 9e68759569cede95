"""The metadata that the nodes of a cluster share, in etcd.

The contract is that of every store (`broker.metadata.store`); sharing adds unknown outcomes, watches and held keys.
Each call goes to any member that answers, and returns or raises `ConnectionError` within ten seconds.

::

    begun ──yes──► snapshot ──► watch from its revision on, for ever; commit; current
      └──no───► move_in ──┘

Invariant: revisions never go back. A store with a revision below one that this node has seen has lost changes or was
made anew. That is a `StoreError`: the node's own state would belong to another history.

**Commits with an unknown answer.** A transaction without an answer may have been carried out, or may yet be, when a
stopped member goes on. Reading the keys it changes does not tell, because other nodes change them too. So each
transaction also takes a *slot*, a key of this node alone:

1. It holds only if the slot is as this node left it, and puts its own token there.
2. Without an answer, or without space, another transaction deletes the slot if it is still as this node left it. If
   that holds, the first one can never be carried out. If it does not, the slot has the first one's token and tells its
   revision.

::

    slot as left, answer "no"     a key had changed: outdated
    slot deleted by step 2        not carried out; tried again while there is time
    slot has the token            committed
    anything else                 another process writes as this node: unknown

Deleting needs no space, so a full store can still be asked. A slot is opened by reading it and putting it, if it is
still as it was read. A slot serves one transaction at a time, so there are as many as were ever in flight. Invariant:
once an outcome other than `UNKNOWN` was reported, nothing of that transaction can be carried out later.

**Migration.** A lone node's metadata moves into etcd once. Everything is put in pieces, each with a note of the
revisions that created its keys. The journal knows queues and exchanges by those revisions, so they must stay, but etcd
numbers its keys itself. So a key's creation is looked up in the note of the piece that first put it; for a later key,
etcd's revision counts (`EtcdStore.snapshot`).

::

    wipe what there is ──► claim ──► piece, piece, … ──► marker, and the claim goes

The marker is written last: without it the keys are no cluster's metadata, and the next attempt wipes them and starts
again. Every step holds only while the claim is this attempt's own. So of two concurrent attempts one fails, and no late
step of a lost attempt can spoil what came after it. Each step proves itself by a unique value, so a step without an
answer is tried again. A node that recorded that value beforehand can undo its own attempt, marker included, until
another node has joined.

Values of parameters are stored encrypted (`node.parameter_cipher`).

Not here: keys within etcd (`node.etcd.keys`), etcd's processes (`node.etcd.member`).
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing

from warren.admin.background import BackgroundTasks
from warren.broker.metadata.cluster_definitions import NODES
from warren.broker.metadata.store import (
    COMMITTED,
    FAILED,
    OUTDATED,
    UNKNOWN,
    CommitResult,
    Compares,
    RequestedChanges,
    Snapshot,
    key_prefix,
    object_id,
)
from warren.broker.model.events import MetadataSnapshot
from warren.errors import InvariantBroken, StoreError
from warren.node.etcd import messages
from warren.node.etcd.connection import PATIENCE_S, EtcdConnection, EtcdDeclined, EtcdFull, EtcdUnavailable
from warren.node.etcd.keys import KeySpace, LeasedKey, RevisionMap
from warren.node.etcd.messages import (
    KeyValue,
    ProtobufMessage,
    TxnResponse,
    encode_bytes,
    encode_message,
    encode_number,
)
from warren.node.etcd.watch import MetadataChanged, MetadataReplaced, MetadataWatch
from warren.node.parameter_cipher import ParameterCipher

_UNOPENED = -1
_PAUSE_S = 0.1
_STRANGER = "another process writes to the metadata store under this node's name"


class _Slot:
    """A key of this node alone, and etcd's revision at which this node left it."""

    __slots__ = ("key", "left_at")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.left_at = _UNOPENED


class MetadataProposals:
    """The transactions of this node. Revisions here are etcd's own."""

    def __init__(self, connection: EtcdConnection, keys: KeySpace, node: str) -> None:
        self._connection = connection
        self._keys = keys
        self._node = node
        self._idle: list[_Slot] = []
        self._slots = 0
        self._run = secrets.token_bytes(8)
        self._proposed = 0

    async def decide(self, compares: list[bytes], operations: list[bytes], patience_s: float) -> CommitResult:
        """Carry out the operations, if the compares hold."""
        loop = asyncio.get_running_loop()
        end = loop.time() + patience_s
        slot = self._idle.pop() if self._idle else self._new_slot()
        try:
            while True:
                try:
                    if slot.left_at == _UNOPENED:
                        await self._open(slot)
                    decision = await self._propose(slot, compares, operations, end)
                except EtcdDeclined as declined:
                    return CommitResult(FAILED, 0, str(declined))
                except EtcdUnavailable as trouble:
                    # nothing of this transaction is in flight
                    decision = CommitResult(FAILED, 0, str(trouble))
                if decision.outcome != FAILED or loop.time() + _PAUSE_S >= end:
                    return decision
                await asyncio.sleep(_PAUSE_S)
        finally:
            self._idle.append(slot)

    def _new_slot(self) -> _Slot:
        self._slots += 1
        return _Slot(self._keys.proposal(self._node, self._slots))

    def _new_token(self) -> bytes:
        self._proposed += 1
        return self._run + self._proposed.to_bytes(8, "big")

    async def _open(self, slot: _Slot) -> None:
        """Take the slot over; an earlier transaction with it cannot be carried out any more."""
        found = messages.key_values(await self._connection.call(messages.RANGE, messages.range_request(slot.key)))
        left_at = found[0].modified if found else 0
        answer = await self._txn(
            [messages.if_unmodified(slot.key, left_at)], [messages.put_operation(slot.key, self._new_token())], []
        )
        if not answer.succeeded:
            raise EtcdUnavailable(_STRANGER)
        slot.left_at = answer.revision

    async def _propose(self, slot: _Slot, compares: list[bytes], operations: list[bytes], end: float) -> CommitResult:
        """`FAILED` if it certainly was not carried out."""
        token = self._new_token()
        left_at, slot.left_at = slot.left_at, _UNOPENED
        try:
            answer = await self._txn(
                [messages.if_unmodified(slot.key, left_at), *compares],
                [messages.put_operation(slot.key, token), messages.put_operation(self._keys.last, b""), *operations],
                [messages.range_operation(slot.key)],
            )
        except EtcdFull as full:
            decision = await self._settle(slot, left_at, token, end, str(full))
            if decision.outcome == FAILED:
                raise
            return decision
        except EtcdDeclined:
            slot.left_at = left_at
            raise
        except EtcdUnavailable as trouble:
            return await self._settle(slot, left_at, token, end, str(trouble))
        if answer.succeeded:
            slot.left_at = answer.revision
            return CommitResult(COMMITTED, answer.revision)
        if _is_left(answer.found[0], left_at):
            slot.left_at = left_at
            return CommitResult(OUTDATED, answer.revision)
        return _outcome_in(answer.found[0], token)

    async def _settle(self, slot: _Slot, left_at: int, token: bytes, end: float, reason: str) -> CommitResult:
        """Find out about a transaction without an answer, and make sure that it is not carried out later."""
        loop = asyncio.get_running_loop()
        while loop.time() < end:
            try:
                answer = await self._txn(
                    [messages.if_unmodified(slot.key, left_at)],
                    [messages.delete_operation(slot.key)],
                    [messages.range_operation(slot.key)],
                )
            except EtcdDeclined as declined:
                return CommitResult(UNKNOWN, 0, str(declined))
            except EtcdUnavailable as trouble:
                reason = str(trouble)
                await asyncio.sleep(_PAUSE_S)
                continue
            # deleted now, or by an earlier attempt without an answer
            if answer.succeeded or not answer.found[0]:
                return CommitResult(FAILED, 0, reason)
            return _outcome_in(answer.found[0], token)
        return CommitResult(UNKNOWN, 0, reason)

    async def _txn(self, compares: list[bytes], success: list[bytes], failure: list[bytes]) -> TxnResponse:
        request = messages.txn(compares, success, failure)
        return messages.txn_response(await self._connection.call(messages.TXN, request))


def _is_left(found: list[KeyValue], left_at: int) -> bool:
    return bool(found) and found[0].modified == left_at


def _outcome_in(found: list[KeyValue], token: bytes) -> CommitResult:
    if found and found[0].value == token:
        return CommitResult(COMMITTED, found[0].modified)
    return CommitResult(UNKNOWN, 0, _STRANGER)


# every etcd accepts this much at once: half of the default limits
_PIECE_KEYS = 60
_PIECE_BYTES = 512 * 1024

_REVISION_BYTES = 8
_PROOF_BYTES = 16

MigrationPiece = list[tuple[str, int, bytes]]


async def migrate_metadata(
    connection: EtcdConnection, keys: KeySpace, revision: int, snapshot: Snapshot, proof: bytes
) -> None:
    """Put the whole snapshot of this revision into etcd, where no cluster of this name exists."""
    attempt = _Migration(connection, keys, proof)
    await attempt.claim()
    for part, piece in enumerate(_pieces(snapshot)):
        await attempt.put(part, piece)
    await attempt.finish(revision)


async def undo_migration(connection: EtcdConnection, keys: KeySpace, proof: bytes) -> None:
    """Delete the keys of the attempt with this proof, unless a node was added or changed since."""
    found = messages.key_values(await connection.ask(messages.RANGE, messages.range_request(keys.base)))
    if found and found[0].value[_REVISION_BYTES:] == proof:
        marked_at = found[0].modified
        unused = messages.if_prefix_unmodified(keys.of(key_prefix(NODES, [])), marked_at)
        wiping = messages.delete_operation(keys.all, messages.prefix_end(keys.all))
        request = messages.txn([messages.if_unmodified(keys.base, marked_at), unused], [wiping], [])
        await connection.ask(messages.TXN, request)


def new_migration_id() -> bytes:
    """Unique among all attempts."""
    return secrets.token_bytes(_PROOF_BYTES)


def last_revision_in(marker: bytes) -> int:
    """The lone node's last revision, from the marker's value."""
    return int.from_bytes(marker[:_REVISION_BYTES], "big")


def creations_in(part: bytes) -> dict[str, int]:
    """The creations in one note."""
    entries = ProtobufMessage(part).messages(1)
    return {entry.octets(1).decode("utf-8", "surrogateescape"): entry.number(2) for entry in entries}


class _Migration:
    """One attempt, identified by its proof."""

    def __init__(self, connection: EtcdConnection, keys: KeySpace, proof: bytes) -> None:
        self._connection = connection
        self._keys = keys
        self._proof = proof
        self._claimed_at = 0

    async def claim(self) -> None:
        unmarked = messages.if_unmodified(self._keys.base, 0)
        wiping = messages.delete_operation(self._keys.all, messages.prefix_end(self._keys.all))
        await self._connection.ask(messages.TXN, messages.txn([unmarked], [wiping], []))
        unclaimed = messages.if_unmodified(self._keys.moving, 0)
        self._claimed_at = await self._step([unmarked, unclaimed], [], self._keys.moving, self._proof)

    async def put(self, part: int, piece: MigrationPiece) -> None:
        note = encode_bytes(2, self._proof) + b"".join(
            encode_message(1, encode_bytes(1, key.encode("utf-8", "surrogateescape")) + encode_number(2, created))
            for key, created, _ in piece
        )
        noted = self._keys.created_part(part)
        operations = [messages.put_operation(self._keys.of(key), value) for key, _, value in piece]
        await self._step([self._claim(), messages.if_unmodified(noted, 0)], operations, noted, note)

    async def finish(self, revision: int) -> None:
        marker = revision.to_bytes(_REVISION_BYTES, "big") + self._proof
        operations = [messages.put_operation(self._keys.last, b""), messages.delete_operation(self._keys.moving)]
        await self._step([self._claim()], operations, self._keys.base, marker)

    def _claim(self) -> bytes:
        return messages.if_unmodified(self._keys.moving, self._claimed_at)

    async def _step(self, compares: list[bytes], operations: list[bytes], key: bytes, value: bytes) -> int:
        """Carry out the operations with this key and value as proof; returns the revision."""
        request = messages.txn(
            compares, [*operations, messages.put_operation(key, value)], [messages.range_operation(key)]
        )
        answer = messages.txn_response(await self._connection.ask(messages.TXN, request))
        if answer.succeeded:
            return answer.revision
        found = answer.found[0]
        if found and found[0].value == value:
            return found[0].modified
        raise StoreError("another node is moving its metadata into the same store")


def _pieces(snapshot: Snapshot) -> Iterator[MigrationPiece]:
    piece: MigrationPiece = []
    size_bytes = 0
    for key, (created, value) in snapshot.items():
        if piece and (len(piece) == _PIECE_KEYS or size_bytes + len(value) > _PIECE_BYTES):
            yield piece
            piece, size_bytes = [], 0
        piece.append((key, created, value))
        size_bytes += len(key) + len(value)
    if piece:
        yield piece


_PAGE_KEYS = 500
_COMPACTED = "compacted"


class EtcdStore:
    """One cluster's metadata, as one node uses it. `begun` or `move_in` comes first."""

    def __init__(self, connection: EtcdConnection, cluster: str, node: str, cipher: ParameterCipher) -> None:
        """`node` is this node's name: no other process may have it."""
        self._cipher = cipher
        self._connection = connection
        self._keys = KeySpace(cluster)
        self._proposals = MetadataProposals(connection, self._keys, node)
        self._marked_at = 0
        self._numbering = RevisionMap()
        self._seen = 0

    async def begun(self, patience_s: float = PATIENCE_S) -> bool:
        """Whether a cluster of this name exists; if not, a node has to move in."""
        answer = await self._connection.ask(messages.RANGE, messages.range_request(self._keys.base), patience_s)
        found = messages.key_values(answer)
        if found:
            self._marked_at = found[0].modified
            self._numbering = RevisionMap(last_revision_in(found[0].value))
        return bool(found)

    async def move_in(self, revision: int, snapshot: Snapshot, proof: bytes = b"") -> None:
        """Begin the cluster with a lone node's metadata, after any number of interrupted attempts.

        Raises `StoreError` if a cluster of this name exists, or another node is about to begin it. A caller that may
        have to `take_back` passes a `new_migration_id` that it keeps.
        """
        if await self.begun():
            raise StoreError("the metadata store has a cluster of this name already")
        sealed = {key: (created, self._cipher.sealed(key, value)) for key, (created, value) in snapshot.items()}
        await migrate_metadata(self._connection, self._keys, revision, sealed, proof or new_migration_id())
        await self.begun()

    async def take_back(self, proof: bytes) -> None:
        """Undo the cluster that was begun with this proof, unless other nodes have joined."""
        await undo_migration(self._connection, self._keys, proof)

    async def snapshot(self) -> tuple[int, MetadataSnapshot]:
        """The store's revision, and the whole state."""
        self._require_begun()
        while True:
            try:
                revision, found = await self._all(self._keys.keys, 0)
                _, notes = await self._all(self._keys.created, revision)
            except EtcdDeclined as declined:
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
        changes: RequestedChanges,
        touched: Sequence[str] = (),
        unchanged_under: Sequence[tuple[str, int]] = (),
        patience_s: float = PATIENCE_S,
    ) -> CommitResult:
        """All changes and touches get one revision. `FAILED` or `UNKNOWN` if no member answers for that long."""
        self._require_begun()
        known = dict(compares)
        if not known.keys() >= {key for key, _ in changes} | set(touched):
            raise InvariantBroken("a commit changes a key that it does not rely on")
        numbering = self._numbering
        conditions = [messages.if_unmodified(self._keys.of(key), numbering.compared(at)) for key, at in compares]
        conditions += [
            messages.if_prefix_unmodified(self._keys.of(prefix), numbering.of_etcd(at))
            for prefix, at in unchanged_under
        ]
        operations = [self._operation(key, value) for key, value in changes]
        operations += [messages.touch_operation(self._keys.of(key)) for key in touched if known[key]]
        decision = await self._proposals.decide(conditions, operations, patience_s)
        if decision.outcome not in (COMMITTED, OUTDATED):
            return decision
        return CommitResult(decision.outcome, numbering.of_store(decision.revision))

    async def current(self) -> int:
        """The revision of the last commit at this moment: a node that has seen it has seen all commits.

        Expired keys are not counted.
        """
        self._require_begun()
        request = messages.txn(
            [], [messages.range_operation(self._keys.base), messages.range_operation(self._keys.last)], []
        )
        # changes seen while the call is under way may be newer than its answer
        seen = self._seen
        answer = messages.txn_response(await self._connection.ask(messages.TXN, request))
        marker, last = answer.found
        at = self._numbering.of_store(answer.revision)
        if not marker or not last or marker[0].modified != self._marked_at or at < seen:
            raise StoreError("the metadata store has lost changes that this node has seen, or was made anew")
        return self._numbering.of_store(last[0].modified)

    async def watch(self, after: int) -> AsyncGenerator[MetadataChanged | MetadataReplaced, None]:
        """All changes after this revision, in order, for ever; close the iterator to end it."""
        self._require_begun()
        watching = MetadataWatch(self._connection, self._keys, self._numbering, self._cipher, self.snapshot)
        async with aclosing(watching.changes(after)) as items:
            async for item in items:
                self._seen = max(self._seen, item.revision)
                yield item

    def hold(self, key: str, value: bytes, ttl_s: int, tasks: BackgroundTasks) -> LeasedKey:
        """Hold this key until it is released, or the store has not heard of this node for that long."""
        self._require_begun()
        return LeasedKey(self._connection, self._keys, key, value, ttl_s, tasks)

    async def _all(self, prefix: bytes, at: int) -> tuple[int, list[KeyValue]]:
        """Every key with this prefix, at that revision of etcd or the current one."""
        found: list[KeyValue] = []
        start = prefix
        while True:
            request = messages.range_request(start, messages.prefix_end(prefix), limit=_PAGE_KEYS, revision=at)
            answer = await self._connection.ask(messages.RANGE, request)
            at = at or messages.revision_of(answer)
            found += messages.key_values(answer)
            if not messages.has_more(answer):
                return at, found
            start = found[-1].key + b"\0"

    def _with_creations(self, found: list[KeyValue], notes: list[KeyValue]) -> MetadataSnapshot:
        moved = {note.modified: creations_in(note.value) for note in notes}
        of_store = self._numbering.of_store
        snapshot: MetadataSnapshot = {}
        for kept in found:
            key = self._keys.name(kept.key)
            creations = moved.get(kept.created)
            created = object_id(of_store(kept.created), key) if creations is None else creations[key]
            snapshot[key] = (created, of_store(kept.modified), self._cipher.opened(key, kept.value))
        return snapshot

    def _operation(self, key: str, value: bytes | None) -> bytes:
        if value is None:
            return messages.delete_operation(self._keys.of(key))
        return messages.put_operation(self._keys.of(key), self._cipher.sealed(key, value))

    def _require_begun(self) -> None:
        if not self._marked_at:
            raise InvariantBroken("the metadata store is used before a cluster has begun in it")
