"""The metadata of a lone node moves into etcd, once.

Everything is put in pieces, each with a note of the revisions that created its keys. By those the journal knows queues
and exchanges, so they must stay; etcd numbers its keys itself. So a key's creation is looked up in the note of the
piece that first put it; for a key that came later etcd's revision tells (`EtcdStore.snapshot`).

::

    wipe what there is ──► claim ──► piece, piece, … ──► marker, and the claim goes

The marker is written last: without it nobody takes what is here for a cluster's metadata, and the next attempt wipes it
and begins anew. Every step holds only as long as the claim is the one this attempt made, so of two that are under way
one ends with an error, and nothing that a lost attempt still had under way can spoil what came after it.

Each step proves itself by a value that nobody else writes, so that one without an answer is simply tried again. Whoever
knows that value, because it wrote it down first, can take its own attempt back, marker and all, until there is another
node.

Not here: where the snapshot comes from (`node.sqlite_store`), what becomes of the file it was in.
"""

import secrets
from collections.abc import Iterator

from warren.errors import StoreError
from warren.node.etcd import messages
from warren.node.etcd.connection import EtcdConnection
from warren.node.etcd.keys import KeySpace
from warren.node.etcd.protobuf import Message, message, number, octets
from warren.store.cluster_definitions import NODES
from warren.store.metadata import Snapshot, beginning

# what any etcd takes at once, whatever its settings: half of the default's limits
_PIECE_KEYS = 60
_PIECE_BYTES = 512 * 1024

_REVISION_BYTES = 8
_PROOF_BYTES = 16

Piece = list[tuple[str, int, bytes]]


async def move(connection: EtcdConnection, keys: KeySpace, revision: int, snapshot: Snapshot, proof: bytes) -> None:
    """Put everything there is at this revision into etcd, where no cluster of this name lives yet."""
    attempt = _Attempt(connection, keys, proof)
    await attempt.claim()
    for part, piece in enumerate(_pieces(snapshot)):
        await attempt.put(part, piece)
    await attempt.finish(revision)


async def take_back(connection: EtcdConnection, keys: KeySpace, proof: bytes) -> None:
    """Wipe what the attempt with this proof has brought, unless a node was added or changed since; nothing else."""
    found = messages.key_values(await connection.ask(messages.RANGE, messages.range_of(keys.base)))
    if found and found[0].value[_REVISION_BYTES:] == proof:
        marked_at = found[0].modified
        unused = messages.unmodified_since(keys.of(beginning(NODES, [])), marked_at)
        wiping = messages.deleting(keys.all, messages.end_of(keys.all))
        request = messages.txn([messages.unmodified(keys.base, marked_at), unused], [wiping], [])
        await connection.ask(messages.TXN, request)


def new_proof() -> bytes:
    """One that no other attempt has."""
    return secrets.token_bytes(_PROOF_BYTES)


def last_revision_in(marker: bytes) -> int:
    """The lone node's last one, according to the marker's value."""
    return int.from_bytes(marker[:_REVISION_BYTES], "big")


def creations_in(part: bytes) -> dict[str, int]:
    """The creations that one note tells of."""
    entries = Message(part).messages(1)
    return {entry.octets(1).decode("utf-8", "surrogateescape"): entry.number(2) for entry in entries}


class _Attempt:
    """One attempt, told from all others by its proof."""

    def __init__(self, connection: EtcdConnection, keys: KeySpace, proof: bytes) -> None:
        self._connection = connection
        self._keys = keys
        self._proof = proof
        self._claimed_at = 0

    async def claim(self) -> None:
        unmarked = messages.unmodified(self._keys.base, 0)
        wiping = messages.deleting(self._keys.all, messages.end_of(self._keys.all))
        await self._connection.ask(messages.TXN, messages.txn([unmarked], [wiping], []))
        unclaimed = messages.unmodified(self._keys.moving, 0)
        self._claimed_at = await self._step([unmarked, unclaimed], [], self._keys.moving, self._proof)

    async def put(self, part: int, piece: Piece) -> None:
        note = octets(2, self._proof) + b"".join(
            message(1, octets(1, key.encode("utf-8", "surrogateescape")) + number(2, created))
            for key, created, _ in piece
        )
        noted = self._keys.created_part(part)
        operations = [messages.putting(self._keys.of(key), value) for key, _, value in piece]
        await self._step([self._claim(), messages.unmodified(noted, 0)], operations, noted, note)

    async def finish(self, revision: int) -> None:
        marker = revision.to_bytes(_REVISION_BYTES, "big") + self._proof
        operations = [messages.putting(self._keys.last, b""), messages.deleting(self._keys.moving)]
        await self._step([self._claim()], operations, self._keys.base, marker)

    def _claim(self) -> bytes:
        return messages.unmodified(self._keys.moving, self._claimed_at)

    async def _step(self, compares: list[bytes], operations: list[bytes], key: bytes, value: bytes) -> int:
        """Carry it out with this key and value as its proof; the revision at which it was."""
        request = messages.txn(compares, [*operations, messages.putting(key, value)], [messages.reading(key)])
        answer = messages.txn_answer(await self._connection.ask(messages.TXN, request))
        if answer.succeeded:
            return answer.revision
        found = answer.found[0]
        if found and found[0].value == value:
            return found[0].modified
        raise StoreError("another node is moving its metadata into the same store")


def _pieces(snapshot: Snapshot) -> Iterator[Piece]:
    piece: Piece = []
    size_bytes = 0
    for key, (created, value) in snapshot.items():
        if piece and (len(piece) == _PIECE_KEYS or size_bytes + len(value) > _PIECE_BYTES):
            yield piece
            piece, size_bytes = [], 0
        piece.append((key, created, value))
        size_bytes += len(key) + len(value)
    if piece:
        yield piece
