"""The operations in a replication batch, decoded so that the rules can compare and apply them.

Not here: the encoding (`broker.replication.batches`).
"""

from functools import lru_cache
from typing import NamedTuple

from warren.broker.replication.batches import (
    OPEN,
    ORIGIN,
    PERSISTENT,
    REMOVE,
    RETURNED,
    STORE,
    WATERMARK,
    ReplicationBatch,
    ReplicationBatchReader,
)


class ReplicatedOperation(NamedTuple):
    """One operation; `last` is the second word of those that have two, and the origin's count of a STORE."""

    kind: int
    level: int
    first: int
    last: int = 0
    persistent: bool = False
    payload: bytes = b""


@lru_cache(2_000)
def replicated_operations(data: bytes) -> tuple[ReplicatedOperation, ...]:
    """All operations of a batch."""
    found: list[ReplicatedOperation] = []
    reader = ReplicationBatchReader(ReplicationBatch(0, 0, data))
    while reader.next():
        kind, level, first = int(reader.kind), int(reader.priority), int(reader.word(0))
        if kind == STORE:
            persistent = reader.flags & PERSISTENT != 0
            found.append(ReplicatedOperation(kind, level, first, int(reader.word(2)), persistent, reader.payload()))
        elif kind in (REMOVE, RETURNED):
            found.append(ReplicatedOperation(kind, level, first, int(reader.word(1))))
        elif kind in (WATERMARK, OPEN):
            found.append(ReplicatedOperation(kind, level, first))
        else:
            assert kind == ORIGIN
    return tuple(found)
