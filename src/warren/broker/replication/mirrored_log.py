"""The log of a mirrored queue, as its master sees it: every removal and return becomes part of a replication batch.

A message is written to the node's own journal at once. A removal goes to the journal only when the batch that says so
is committed: a position that a member has removed never comes back to it, so no member may remove an entry that another
could still deliver.

**The delivery watermark.** The master delivers only at or below a watermark that every in-sync member knows: after a
failover everything up to it carries `redelivered`. To wait seldom, the batch that stores a message also raises the
watermark over it if a consumer waits, and a queue that delivers much asks for more than it needs. A queue with
priorities does not deliver in order: once it delivers anything, it may have delivered everything.

Not here: the journal (`broker.journal`), publishes (`broker.replication.master_replica`), batches
(`broker.replication.batches`).
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64, trait

from warren.broker.model.journal import PositionRange, SegmentExtent
from warren.broker.model.message import Entry, Message
from warren.broker.model.ports import FetchWaiter, QueueLog
from warren.broker.model.replica_contents import ReplicaContents
from warren.broker.replication.batches import ReplicationBatchWriter
from warren.broker.replication.delivery_lease import DeliveryLease
from warren.errors import InvariantBroken
from warren.wire.field_tables import Table

AHEAD_MAX: Final[i64] = 4096
EVERYTHING: Final[i64] = 1 << 62


@final
class ReplicatedWatermark:
    """One queue's delivery watermark."""

    def __init__(self, in_order: bool) -> None:
        # the watermark that every member in sync has
        self.committed: i64 = 0
        # the highest watermark in any batch, or to be in the next one
        self.requested: i64 = 0
        # a delivery was refused: tell the queue when it is allowed
        self.refused: bool = False
        self._in_order: bool = in_order
        # the watermarks of uncommitted batches, with the batches' numbers
        self._under_way: list[tuple[int, int]] = []
        self.unwritten: bool = False
        self._ahead: i64 = 0

    def may_deliver(self, position: i64) -> bool:
        if position <= self.committed:
            return True
        if position > self.requested:
            self._ahead = min(self._ahead * 2 + 1, AHEAD_MAX)
            self.request(position + self._ahead - 1)
        self.refused = True
        return False

    def request(self, position: i64) -> None:
        """Let the next batch raise the watermark."""
        if not self._in_order:
            position = EVERYTHING
        if position > self.requested:
            self.requested = position
            self.unwritten = True

    def take_unwritten(self) -> i64:
        """The watermark that the batch being written has to carry; 0 for none."""
        if not self.unwritten:
            return 0
        self.unwritten = False
        return self.requested

    def written(self, number: i64) -> None:
        """The batch that carries it has this number."""
        self._under_way.append((int(number), int(self.requested)))

    def batch_committed(self, number: i64) -> bool:
        """Whether a delivery that was refused is to be tried again."""
        before = self.committed
        while self._under_way and self._under_way[0][0] <= number:
            self.committed = self._under_way.pop(0)[1]
        again = self.refused and self.committed > before
        if again:
            self.refused = False
        return again

    def check(self, committed: i64) -> None:
        """Raise `InvariantBroken` unless watermarks and their batches, behind the committed one, are in order."""
        number, watermark = int(committed), int(self.committed)
        for each, position in self._under_way:
            if each <= number or position < watermark:
                raise InvariantBroken(f"batch {each} has watermark {position}, behind batch {number} with {watermark}")
            number, watermark = each, position
        if watermark > self.requested:
            raise InvariantBroken(f"watermark {watermark} is in a batch, and only {self.requested} was requested")


RemovedRange = tuple[int, int, int]
"""A priority level, the first position and the last."""


@trait
class BatchGatherer:
    """Makes batches from the changes of a queue."""

    @abstractmethod
    def touch(self) -> None:
        """The log has changes for a batch: make one before the turn ends."""


@final
class MirroredLog(QueueLog):
    """The log of a master's queue, in front of its journal."""

    def __init__(
        self,
        queue_index: QueueLog,
        gatherer: BatchGatherer,
        contents: ReplicaContents,
        lease: DeliveryLease,
        max_priority: i64,
    ) -> None:
        super().__init__(queue_index.durable)
        self.mirrored = True
        self.watermark: ReplicatedWatermark = ReplicatedWatermark(max_priority == 0)
        # a stream: entries move from the journal to the archive, on every member by itself
        self.archives: bool = False
        self.seen = queue_index.seen
        self.offsets = queue_index.offsets
        self._queue_index: QueueLog = queue_index
        self._gatherer: BatchGatherer = gatherer
        self._contents: ReplicaContents = contents
        self._lease: DeliveryLease = lease
        self._max_priority: i64 = max_priority
        # removals since the last batch, and the range that may still grow; none if its first is 0
        self._removed: list[RemovedRange] = []
        self._level: i64 = 0
        self._first: i64 = 0
        self._last: i64 = 0
        self._returned: list[tuple[int, int]] = []
        self._new_offsets: list[tuple[str, int]] = []

    def store(self, message: Message, position: i64, expires_at_ms: i64, level: i64) -> SegmentExtent:
        extent = self._queue_index.store(message, position, expires_at_ms, level)
        self.written_count = self._queue_index.written_count
        return extent

    def forget(self, entry: Entry) -> None:
        if self.archives:
            self._contents.archived(entry.position, entry.position)
            return
        self._remove(min(entry.message.priority, self._max_priority), entry.position, entry.position)

    def forget_unread(self, positions: PositionRange) -> None:
        if self.archives:
            self._contents.archived(positions.first, positions.last)
            return
        self._remove(positions.level, positions.first, positions.last)

    def returned(self, entry: Entry) -> None:
        self._returned.append((int(entry.position), int(entry.delivery_count)))
        self._gatherer.touch()

    def removed_up_to(self, position: i64) -> None:
        """A stream dropped everything up to this position."""
        self._remove(0, position, position)

    def mark_delivered(self, entry: Entry) -> bool:
        lease = self._lease
        if lease.turn.now_ms >= lease.until_ms and not lease.allowed():
            self.watermark.refused = True
            return False
        if entry.position <= self.watermark.committed or self.watermark.may_deliver(entry.position):
            return True
        self._gatherer.touch()
        return False

    def serves(self) -> bool:
        return self._lease.allowed()

    def store_offset(self, name: str, offset: i64) -> None:
        # a stored offset stays valid even if the batch is dropped
        self._queue_index.store_offset(name, offset)
        self._new_offsets.append((name, int(offset)))
        self._gatherer.touch()

    def kept(self) -> tuple[int, int]:
        return self._queue_index.kept()

    def fetch(self, positions: PositionRange, asker: FetchWaiter, entries_max: i64) -> None:
        self._queue_index.fetch(positions, asker, entries_max)

    def cancel_fetch(self) -> None:
        self._queue_index.cancel_fetch()

    def all_is_read(self) -> None:
        self._queue_index.all_is_read()

    def close(self) -> None:
        """The queue is closed here. The replica keeps its contents."""
        self._queue_index.cancel_fetch()
        self.asker = None

    def write(self, writer: ReplicationBatchWriter) -> list[RemovedRange]:
        """Write the changes since the last batch; return the removed ranges."""
        self._end_range()
        # the caller keeps this list: later removals go to a new one
        removed, self._removed = self._removed, []
        for level, first, last in removed:
            writer.remove(level, first, last)
        if self._returned:
            for position, count in self._returned:
                writer.returned(position, count)
                # the message was requeued, even if the batch is dropped
                self._contents.returned(position, count)
            self._returned = []
        for name, offset in self._new_offsets:
            writer.store_offset(name, offset)
        self._new_offsets = []
        watermark = self.watermark.take_unwritten()
        if watermark:
            writer.mark_delivered(watermark)
            # this node is a member too, and may be the only one that restarts
            self._contents.mark_delivered(watermark)
        return removed

    def has_removals(self) -> bool:
        """Whether there are removals that no batch has."""
        return self._first != 0 or len(self._removed) > 0

    def has_only_removals(self) -> bool:
        """Whether removals are all there is for a batch."""
        return self.has_removals() and not self._returned and not self._new_offsets and not self.watermark.unwritten

    def check(self, committed: i64) -> None:
        """Raise `InvariantBroken` if the watermark or a removed range is wrong; this batch is committed."""
        self.watermark.check(committed)
        for level, first, last in [*self._removed, (int(self._level), int(self._first), int(self._last))]:
            if first != 0 and last < first:
                raise InvariantBroken(f"positions {first} to {last} of level {level} are removed")

    def _remove(self, level: i64, first: i64, last: i64) -> None:
        if self._first != 0 and self._last + 1 == first and self._level == level:
            self._last = last
            return
        self._end_range()
        self._level = level
        self._first = first
        self._last = last
        self._gatherer.touch()

    def _end_range(self) -> None:
        if self._first != 0:
            self._removed.append((int(self._level), int(self._first), int(self._last)))
            self._first = 0


def max_priority_of(arguments: Table) -> int:
    found = arguments.get("x-max-priority")
    return found if isinstance(found, int) else 0
