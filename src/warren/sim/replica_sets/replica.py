"""A model node's replica of the queue, in memory and on disk.

Writes reach the disk in order, when a flush is done; a crash loses the memory and unflushed writes.

Not here: when flushes are done (`sim.replica_sets.world`).
"""

from collections.abc import Callable
from typing import NamedTuple

from warren.broker.model.replica_contents import (
    ANY_COUNT,
    BackfillReader,
    BackfillReceiver,
    MirrorContents,
    PositionSpan,
)


class ModelStoredMessage(NamedTuple):
    """A message."""

    level: int
    persistent: bool
    payload: bytes


class ModelPendingWrite(NamedTuple):
    """A write on its way to disk: a message stored or removed, the watermark, a return count, or a clear."""

    position: int
    held: ModelStoredMessage | None = None
    watermark: int = 0
    returned: int = 0
    cleared: bool = False


class ModelReplica(MirrorContents):
    """The replica of one node."""

    def __init__(self, stored: Callable[[int, bytes], None]) -> None:
        self.held: dict[int, ModelStoredMessage] = {}
        self.watermark = 0
        self.returns: dict[int, int] = {}
        self.disk: dict[int, ModelStoredMessage] = {}
        self.disk_watermark = 0
        self.disk_returns: dict[int, int] = {}
        self.written: list[ModelPendingWrite] = []
        # the number of writes since the world began
        self.written_no = 0
        self.tombstones: list[tuple[int, int, int]] | None = None
        self._stored = stored

    def store(
        self, position: int, priority: int, expires_at_ms: int, persistent: bool, payload: bytes, payload_crc: int
    ) -> bool:
        if self.tombstones is not None and any(
            level == priority and first <= position <= last for level, first, last in self.tombstones
        ):
            return False
        self._stored(position, payload)
        if position not in self.held:
            self.held[position] = ModelStoredMessage(priority, persistent, payload)
            if persistent:
                self._write(ModelPendingWrite(position, self.held[position]))
        return persistent

    def remove(self, level: int, first: int, last: int) -> None:
        if self.tombstones is not None:
            self.tombstones.append((level, first, last))
        for position in [each for each, held in self.held.items() if first <= each <= last and held.level == level]:
            self._take_out(position)

    def drop(self, priority: int, position: int) -> None:
        if position in self.held:
            self._take_out(position)

    def remove_any(self, first: int, last: int) -> None:
        for position in [each for each in self.held if first <= each <= last]:
            self._take_out(position)

    def mark_delivered(self, position: int) -> bool:
        if position <= self.watermark:
            return False
        self.watermark = position
        self._write(ModelPendingWrite(0, watermark=position))
        return True

    def returned(self, position: int, count: int) -> None:
        if position in self.held:
            self.returns[position] = count
            self._write(ModelPendingWrite(position, returned=count))

    def spans(self) -> list[PositionSpan]:
        return spans_of(list(self.held))

    def read(self, spans: list[PositionSpan], taker: BackfillReceiver) -> "ModelReplicaReader":
        return ModelReplicaReader(self, spans, taker)

    def begin_catching_up(self) -> None:
        self.tombstones = []

    def caught_up(self) -> None:
        self.tombstones = None

    def clear(self) -> None:
        """This node is not to hold the queue."""
        self.held, self.watermark, self.returns, self.tombstones = {}, 0, {}, None
        self._write(ModelPendingWrite(0, cleared=True))

    # -- the disk

    def flush(self, written_no: int) -> None:
        """Everything up to there is on disk."""
        count = len(self.written) - (self.written_no - written_no)
        for change in self.written[:count]:
            if change.cleared:
                self.disk, self.disk_watermark, self.disk_returns = {}, 0, {}
            elif change.watermark:
                self.disk_watermark = change.watermark
            elif change.returned:
                self.disk_returns[change.position] = change.returned
            elif change.held is not None:
                self.disk[change.position] = change.held
            else:
                self.disk.pop(change.position, None)
                self.disk_returns.pop(change.position, None)
        del self.written[:count]

    def lasting(self) -> set[int]:
        """What is on disk and not about to be removed."""
        return set() if any(change.cleared for change in self.written) else self.disk.keys() & self.held.keys()

    def crash(self, kept: int) -> None:
        """Only what is on disk is left, and that many of the unflushed writes."""
        self.flush(self.written_no - len(self.written) + kept)
        self.written = []
        self.tombstones = None
        self.held = dict(self.disk)
        self.watermark = self.disk_watermark
        self.returns = dict(self.disk_returns)

    def _take_out(self, position: int) -> None:
        self.returns.pop(position, None)
        if self.held.pop(position).persistent:
            self._write(ModelPendingWrite(position))

    def _write(self, change: ModelPendingWrite) -> None:
        self.written.append(change)
        self.written_no += 1

    def snapshot(self) -> object:
        """The state, for comparison."""
        tombstones = None if self.tombstones is None else tuple(self.tombstones)
        return (
            tuple(sorted(self.held.items())),
            self.watermark,
            tuple(sorted(self.returns.items())),
            tuple(sorted(self.disk.items())),
            self.disk_watermark,
            tuple(self.written),
            tombstones,
        )


class ModelReplicaReader(BackfillReader):
    """Reads a part of a replica as it was at the beginning, a few messages at a time, like a slow disk."""

    def __init__(self, copy: ModelReplica, spans: list[PositionSpan], taker: BackfillReceiver) -> None:
        positions = [each for span in spans for each in range(int(span.first), int(span.last) + 1)]
        self.found = [(each, copy.held[each], copy.returns.get(each, 0)) for each in positions]
        self._taker = taker

    def more(self, size_bytes: int, count: int = ANY_COUNT) -> None:
        found = self.found[:size_bytes]
        del self.found[:size_bytes]
        for position, held, returned in found:
            self._taker.backfill_message(position, held.level, 0, held.persistent, returned, held.payload, 0)
        if self.found:
            self._taker.backfill_slice_done()
        else:
            self._taker.backfill_done()

    def cancel(self) -> None:
        self.found = []


def spans_of(positions: list[int]) -> list[PositionSpan]:
    """Positions as spans, in order."""
    found: list[PositionSpan] = []
    for position in sorted(positions):
        if found and found[-1].last == position - 1:
            found[-1] = PositionSpan(found[-1].first, position)
        else:
            found.append(PositionSpan(position, position))
    return found
