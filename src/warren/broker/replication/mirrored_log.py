"""The log of a queue that is mirrored, as its master sees it: whatever leaves or comes back becomes part of a step.

What is stored goes into the node's own journal at once. What leaves goes from there only when the step that says so is
settled: a position that a member has removed never comes back to it, so none may remove what another could still give
out.

Not here: the journal (`store`), what is stored by whom (`broker.replication.master_replica`), the horizon
(`broker.replication.mirrored_log`).

Up to where the master of a mirrored queue may hand out: the horizon that every member in sync knows of.

After a failover whatever is at or below it carries `redelivered`. So before anything is handed out, a step that says so
is settled. To wait seldom, a message that somebody waits for is lent in the step that stores it, and a queue that hands
out much asks for more than it needs.

A queue with priorities does not hand out in order: once anything goes, everything may have gone.

Not here: steps (`broker.replication.batches`), who asks (`broker.replication.mirrored_log`).
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.broker.model.journal import PositionRange, SegmentExtent
from warren.broker.model.message import Entry, Message
from warren.broker.model.ports import FetchWaiter, QueueLog
from warren.broker.replication.batches import ReplicationBatchWriter
from warren.broker.replication.delivery_lease import DeliveryLease
from warren.wire.field_tables import Table

if TYPE_CHECKING:
    from warren.broker.replication.master_replica import MasterReplica


AHEAD_MAX: Final[i64] = 4096
EVERYTHING: Final[i64] = 1 << 62


@final
class ReplicatedWatermark:
    """One queue's horizon."""

    def __init__(self, in_order: bool) -> None:
        # as far as every member in sync knows
        self.committed: i64 = 0
        # as far as any step says
        self.asked: i64 = 0
        # somebody was refused, and is to be told when that is over
        self.refused: bool = False
        self._in_order: bool = in_order
        # what the steps under way say: their numbers and positions
        self._under_way: list[tuple[int, int]] = []
        self.unwritten: bool = False
        self._ahead: i64 = 0

    def may_go(self, position: i64) -> bool:
        if position <= self.committed:
            return True
        if position > self.asked:
            self._ahead = min(self._ahead * 2 + 1, AHEAD_MAX)
            self.ask(position + self._ahead - 1)
        self.refused = True
        return False

    def ask(self, position: i64) -> None:
        """Have the next step say so."""
        if not self._in_order:
            position = EVERYTHING
        if position > self.asked:
            self.asked = position
            self.unwritten = True

    def take_unwritten(self) -> i64:
        """What the step that is being written has to say; 0 for nothing."""
        if not self.unwritten:
            return 0
        self.unwritten = False
        return self.asked

    def written(self, number: i64) -> None:
        """That step has this number."""
        self._under_way.append((int(number), int(self.asked)))

    def batch_committed(self, number: i64) -> bool:
        """Whether somebody who was refused is to ask again."""
        before = self.committed
        while self._under_way and self._under_way[0][0] <= number:
            self.committed = self._under_way.pop(0)[1]
        again = self.refused and self.committed > before
        if again:
            self.refused = False
        return again


RemovedRange = tuple[int, int, int]
"""A priority level, the first position and the last."""


@final
class MirroredLog(QueueLog):
    """Stands between a master's queue and its part of the journal."""

    def __init__(self, queue_index: QueueLog, master_replica: "MasterReplica", max_priority: i64) -> None:
        super().__init__(queue_index.durable)
        self.mirrored = True
        self.watermark: ReplicatedWatermark = ReplicatedWatermark(max_priority == 0)
        # a stream's: what leaves the journal is in the archive, which is every member's own affair
        self.archives: bool = False
        self.seen = queue_index.seen
        self.offsets = queue_index.offsets
        self._queue_index: QueueLog = queue_index
        self._master_replica: MasterReplica = master_replica
        self._lease: DeliveryLease = master_replica.delivery_lease
        self._max_priority: i64 = max_priority
        # what left since the last step, and the range that may still grow; none if its first is 0
        self._gone: list[RemovedRange] = []
        self._level: i64 = 0
        self._first: i64 = 0
        self._last: i64 = 0
        self._returned: list[tuple[int, int]] = []
        self._remembered: list[tuple[str, int]] = []

    def store(self, message: Message, position: i64, expires_at_ms: i64, level: i64) -> SegmentExtent:
        extent = self._queue_index.store(message, position, expires_at_ms, level)
        self.written_count = self._queue_index.written_count
        return extent

    def forget(self, entry: Entry) -> None:
        if self.archives:
            self._master_replica.copy.archived(entry.position, entry.position)
            return
        self._leave(min(entry.message.priority, self._max_priority), entry.position, entry.position)

    def forget_run(self, run: PositionRange) -> None:
        if self.archives:
            self._master_replica.copy.archived(run.first, run.last)
            return
        self._leave(run.level, run.first, run.last)

    def returned(self, entry: Entry) -> None:
        self._returned.append((int(entry.position), int(entry.delivery_count)))
        self._master_replica.touch()

    def gone_to(self, position: i64) -> None:
        """A stream keeps nothing up to there."""
        self._leave(0, position, position)

    def mark_delivered(self, entry: Entry) -> bool:
        lease = self._lease
        if lease.turn.now_ms >= lease.until_ms and not lease.allowed():
            self.watermark.refused = True
            return False
        if entry.position <= self.watermark.committed or self.watermark.may_go(entry.position):
            return True
        self._master_replica.touch()
        return False

    def serves(self) -> bool:
        return self._lease.allowed()

    def remember(self, name: str, offset: i64) -> None:
        # what a reader has done with is settled: whatever becomes of the step, it is true
        self._queue_index.remember(name, offset)
        self._remembered.append((name, int(offset)))
        self._master_replica.touch()

    def kept(self) -> tuple[int, int]:
        return self._queue_index.kept()

    def fetch(self, run: PositionRange, asker: FetchWaiter, entries_max: i64) -> None:
        self._queue_index.fetch(run, asker, entries_max)

    def cancel_fetch(self) -> None:
        self._queue_index.cancel_fetch()

    def all_is_read(self) -> None:
        self._queue_index.all_is_read()

    def close(self) -> None:
        """The queue is over here. What its book holds stays with whoever holds the copy."""
        self._queue_index.cancel_fetch()
        self.asker = None

    def write(self, writer: ReplicationBatchWriter) -> list[RemovedRange]:
        """Put into the step what happened since the last one; what it removes."""
        self._end_range()
        # whoever keeps it must not see what leaves later
        gone, self._gone = self._gone, []
        for level, first, last in gone:
            writer.remove(level, first, last)
        if self._returned:
            for position, count in self._returned:
                writer.returned(position, count)
                # it did come back, whatever becomes of the step
                self._master_replica.copy.returned(position, count)
            self._returned = []
        for name, offset in self._remembered:
            writer.remember(name, offset)
        self._remembered = []
        lent = self.watermark.take_unwritten()
        if lent:
            writer.mark_delivered(lent)
            # this node is a member, too: it may be the only one that comes back
            self._master_replica.copy.mark_delivered(lent)
        return gone

    def anything_left(self) -> bool:
        """Whether something left that no step speaks of."""
        return self._first != 0 or len(self._gone) > 0

    def only_left(self) -> bool:
        """Whether that is all there is to say."""
        return self.anything_left() and not self._returned and not self._remembered and not self.watermark.unwritten

    def _leave(self, level: i64, first: i64, last: i64) -> None:
        if self._first != 0 and self._last + 1 == first and self._level == level:
            self._last = last
            return
        self._end_range()
        self._level = level
        self._first = first
        self._last = last
        self._master_replica.touch()

    def _end_range(self) -> None:
        if self._first != 0:
            self._gone.append((int(self._level), int(self._first), int(self._last)))
            self._first = 0


def max_priority_of(arguments: Table) -> int:
    found = arguments.get("x-max-priority")
    return found if isinstance(found, int) else 0
