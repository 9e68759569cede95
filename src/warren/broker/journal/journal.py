"""The journal: everything a node must not forget, in the order in which it happened.

::

    queues ──store, forget, deliver──► queue indexes ──► batch ──end of turn──► AppendRecords ──► disk
    confirms, waiters ◄── FlushCompleted ◄── disk

The records of a turn are one batch, appended to the active segment in one piece; two batches if something durable is
deleted in between. An answer that must not precede the flush waits for it (`Turn.await_flush`). A batch without
waiters is written and flushed when the disk has time. Each batch says how far the journal was flushed before it. When
the journal falls quiet, an empty batch says so of the last one. So recovery can tell a damaged batch that was
confirmed from a torn tail that never was.

A full segment is sealed: its index is written, another segment begins, and a *checkpoint* lists the living extents of
all sealed segments. Behind a checkpoint no removal record in a sealed segment is needed any more, so a segment without
living messages is dropped with the next checkpoint. A mostly dead segment is compacted first.

Invariants: batches are reported in the order in which they were appended. A segment is dropped in the same turn as a
checkpoint without it is written. Only bytes that were reported as written are read. `check` has those of segments.

Not here: the bytes (`broker.journal.records`, `broker.journal.segment_index`, `broker.journal.checkpoint`), the
active segment and reads (`broker.journal.tail`), files (`node.disk`), the start (`broker.journal.recovery`).
"""

from collections import deque
from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.broker.journal.checkpoint import CheckpointState, QueueCheckpoint, encode_checkpoint
from warren.broker.journal.compaction import Compaction
from warren.broker.journal.queue_index import QueueIndex
from warren.broker.journal.records import STOPPED, write_triple
from warren.broker.journal.segment_index import SegmentIndex
from warren.broker.journal.tail import JournalTail
from warren.broker.metadata.store import DeletionWatcher, MetadataChangeLog
from warren.broker.model.effects import AppendRecords, DropSegments, WriteCheckpoint
from warren.broker.model.events import FlushCompleted, IndexRead, JournalRead
from warren.broker.model.journal import MetadataChange, Segment
from warren.broker.model.ports import QueueLog, QueueLogs
from warren.broker.model.turn import FlushWaiter, TimerTarget, Turn
from warren.errors import InvariantBroken

SPACE_CHECK_MS: Final[i64] = 1000


@final
class PendingFlush:
    """A batch that was ordered and is not flushed yet."""

    def __init__(self, batch_no: i64, segment: Segment, data_bytes: i64, changes: bool, waiters: list[FlushWaiter]):
        self.batch_no: i64 = batch_no
        self.segment: Segment = segment
        # the end of the segment once the batch is written
        self.end: i64 = segment.size_bytes
        self.data_bytes: i64 = data_bytes
        self.changes: bool = changes
        self.waiters: list[FlushWaiter] = waiters


@final
class Journal(QueueLogs, DeletionWatcher, TimerTarget):
    """One node's journal."""

    def __init__(self, turn: Turn, metadata: MetadataChangeLog, segment_bytes: int, incarnation: int) -> None:
        self.turn: Turn = turn
        self.tail: JournalTail = JournalTail(turn)
        self.queue_indexes: dict[int, QueueIndex] = {}
        self.segments: dict[int, Segment] = {}
        self.compaction: Compaction = Compaction(self.tail, self.queue_indexes)
        self._metadata: MetadataChangeLog = metadata
        metadata.watcher = self
        self._segment_bytes: i64 = segment_bytes
        self._incarnation: i64 = incarnation
        self._unwritten: deque[PendingFlush] = deque()
        self._unflushed: deque[PendingFlush] = deque()
        self._flushed: Segment = self.tail.active
        self._flushed_end: i64 = 0
        self._changes_in_flight: i64 = 0
        self._timer_set: bool = False
        self._roll_due: bool = False
        # closed queues whose records the next checkpoint leaves behind
        self._forgetting: set[int] = set()
        # the active segment was half full
        self._half_seen: bool = False
        # no batch says yet that the last batch with records is flushed; the end of this turn has to say so
        self._unclaimed: bool = False
        self._claim_due: bool = False
        # the number of the next batch when the timer fired last
        self._timer_batch_no: i64 = 0

    def open(self, queue_id: int, durable: bool, max_priority: int) -> QueueLog:
        assert queue_id not in self.queue_indexes
        return QueueIndex(self.tail, self.queue_indexes, queue_id, durable, max_priority)

    def forget_past(self, queue_id: int) -> None:
        """Records before a checkpoint that does not list their queue are never read again."""
        self._forgetting.add(queue_id)
        self._roll_due = True

    def may_open(self, queue_id: int) -> bool:
        return queue_id not in self._forgetting

    # -- starting and stopping

    def begin(self, recovered: list[Segment], rows: dict[int, SegmentIndex], number_min: int = 1) -> None:
        """Begin a segment that no checkpoint lists; its number is at least `number_min`.

        `rows` are the rows of recovered segments that have no index file yet.
        """
        for segment in recovered:
            segment.sealed = True
            self.segments[int(segment.number)] = segment
        last = max([number_min - 1, *[int(segment.number) for segment in recovered]])
        self.tail.first_number = last + 1
        self._begin_segment(Segment(last + 1))
        self.tail.written = self.tail.active
        self._flushed = self.tail.active
        for number in sorted(rows):
            self.tail.seal(self.segments[number], rows[number])
        if recovered:
            self._write_checkpoint()
        self._order_batch([])

    def stop(self) -> None:
        """The node stops: write how far each queue delivered, and that the stop was clean."""
        for queue_index in self.queue_indexes.values():
            if queue_index.durable:
                queue_index.watermark.write_last()
        triple = BytesWriter()
        write_triple(triple, self._incarnation, 0, 0)
        self.tail.batch.mark(STOPPED, triple.getvalue())

    def metadata_pending(self) -> bool:
        """Whether a metadata change is not flushed yet."""
        return self._changes_in_flight > 0 or len(self._metadata.pending) > 0

    # -- the turn

    def before_deletion(self) -> None:
        """Order a batch of the records so far, for example the dead letters of a queue that is deleted next.

        Waiters of this turn wait for the batch that ends the turn.
        """
        self.tail.write_marks()
        if not self.tail.batch.empty():
            waiters = self.turn.flush_waiters
            self.turn.flush_waiters = []
            self._order_batch(self._metadata.take())
            self.turn.flush_waiters = waiters

    def end_turn(self) -> None:
        tail = self.tail
        tail.turn_no += 1
        tail.write_marks()
        changes = self._metadata.take()
        records = not tail.batch.empty()
        if records or changes or self.turn.flush_waiters or self._claim_due:
            self._order_batch(changes)
            self._unclaimed = records or (self._unclaimed and not self._claim_due)
            self._claim_due = False
            self._set_timer()
        full = tail.active.size_bytes >= self._segment_bytes
        if (full or self._roll_due) and not self.compaction.running():
            self._roll_due = False
            self._roll()
        if self.compaction.running():
            return
        if self.compaction.finished:
            self.compaction.finished = False
            self._reclaim()
        elif not self._half_seen and tail.active.size_bytes * 2 >= self._segment_bytes:
            self._half_seen = True
            self._compact_early()

    def _order_batch(self, changes: list[MetadataChange]) -> None:
        turn, tail = self.turn, self.tail
        segment = tail.active
        waiters = turn.flush_waiters
        turn.flush_waiters = []
        offset = segment.size_bytes
        data = b""
        if offset == 0 or self._claim_due or not tail.batch.empty():
            data = tail.batch.finish(tail.batch_no, self._flushed.number, self._flushed_end, self._incarnation)
            segment.size_bytes = offset + len(data)
            segment.total_bytes += tail.batch.overhead_bytes()
        flush = len(waiters) > 0 or len(changes) > 0
        turn.effects.append(
            AppendRecords(int(tail.batch_no), changes, int(segment.number), int(offset), data, flush),
        )
        pending = PendingFlush(tail.batch_no, segment, len(data), len(changes) > 0, waiters)
        self._unwritten.append(pending)
        self._unflushed.append(pending)
        if pending.changes:
            self._changes_in_flight += 1
        turn.held_bytes += len(data)
        tail.batch_no += 1
        tail.begin_batch()

    # -- what the disk reports

    def stored(self, event: FlushCompleted) -> None:
        while self._unwritten and self._unwritten[0].batch_no <= event.written_no:
            written = self._unwritten.popleft()
            self.turn.held_bytes -= written.data_bytes
            self.tail.wrote(written.segment, written.end)
        while self._unflushed and self._unflushed[0].batch_no <= event.flushed_no:
            flushed = self._unflushed.popleft()
            self._flushed = flushed.segment
            self._flushed_end = flushed.end
            if flushed.changes:
                self._changes_in_flight -= 1
            for waiter in flushed.waiters:
                waiter.flushed()
        self.tail.wake_write_waiters()

    def index_read(self, event: IndexRead) -> None:
        waiter = self.tail.reads.end(event.ticket)
        if waiter is not None:
            waiter.index_read(event.rows, event.error)

    def journal_read(self, event: JournalRead) -> None:
        waiter = self.tail.reads.end(event.ticket)
        if waiter is not None:
            waiter.journal_read(event.blocks, event.error)

    # -- space

    def _roll(self) -> None:
        """Seal the active segment and begin another."""
        self._forgetting.clear()
        full = self.tail.active
        full.sealed = True
        self.tail.seal(full, self.tail.rows)
        self._begin_segment(Segment(full.number + 1))
        self._write_checkpoint()
        # the report of this batch says that index and checkpoint are written
        self._order_batch([])
        self._set_timer()

    def _begin_segment(self, segment: Segment) -> None:
        self._half_seen = False
        self.segments[int(segment.number)] = segment
        self.tail.begin_segment(segment)

    def _write_checkpoint(self) -> None:
        """Write the living extents, and drop the segments without any."""
        dead = [segment for segment in self.segments.values() if self._droppable(segment)]
        for segment in dead:
            del self.segments[int(segment.number)]
        self.turn.effects.append(WriteCheckpoint(encode_checkpoint(self._state())))
        if dead:
            self.turn.effects.append(DropSegments([int(segment.number) for segment in dead]))

    def _droppable(self, segment: Segment) -> bool:
        return segment.sealed and segment.live_count == 0 and not self.tail.reads.reading(segment)

    def _state(self) -> CheckpointState:
        marks: list[QueueCheckpoint] = []
        for queue_index in self.queue_indexes.values():
            queue_index.tidy()
            if queue_index.durable and (
                queue_index.next_position > 1 or queue_index.offsets.by_name or queue_index.seen.count > 0
            ):
                marks.append(queue_index.mark())
        sealed = [segment for segment in self.segments.values() if segment.sealed]
        return CheckpointState(int(self.tail.active.number), int(self._incarnation), sealed, marks)

    def _set_timer(self) -> None:
        if not self._timer_set:
            self._timer_set = True
            self.turn.set_timer(self.turn.now_ms + SPACE_CHECK_MS, self)

    def timer_fired(self) -> None:
        """Reclaim space, and let a quiet journal say that its last batch is flushed."""
        self._timer_set = False
        self._claim_due = self._unclaimed and not self._unflushed and self._timer_batch_no == self.tail.batch_no
        self._timer_batch_no = self.tail.batch_no
        if len(self.segments) > 1 or self._unclaimed:
            self._set_timer()
        if not self.compaction.running():
            self._reclaim()

    def _reclaim(self) -> None:
        """Drop dead segments, and compact one if more is dead than alive."""
        gone = [segment for segment in self.segments.values() if self._droppable(segment)]
        gone_bytes = sum([int(segment.size_bytes) for segment in gone])
        # the checkpoint drops them
        self._roll_due = self._roll_due or gone_bytes >= self._segment_bytes
        # a queue that is being drained leaves one segment half dead, which is not worth copying
        if self._waste_bytes() + gone_bytes > self._segment_bytes:
            self._compact()

    def _compact_early(self) -> None:
        """Half a segment was written since the last one was sealed: compact if the sealed segments are mostly dead.

        Under load this comes long before the timer, and short-lived messages are gone by then.
        """
        if self._waste_bytes() > self._segment_bytes // 2:
            self._compact()

    def _waste_bytes(self) -> i64:
        """By how much dead bytes exceed living bytes in the sealed segments that have to stay."""
        waste_bytes: i64 = 0
        for segment in self.segments.values():
            if segment.sealed and not self._droppable(segment):
                waste_bytes += segment.total_bytes - 2 * segment.live_bytes
        return waste_bytes

    def _compact(self) -> None:
        """Compact the segment with the lowest share of living bytes."""
        best: Segment | None = None
        for segment in self.segments.values():
            if segment.number >= self.tail.written.number or not self.compaction.worthwhile(segment):
                continue
            if best is None or segment.live_bytes * best.total_bytes < best.live_bytes * segment.total_bytes:
                best = segment
        if best is not None:
            self.compaction.begin(best)

    # -- invariants

    def check(self) -> None:
        """Raise `InvariantBroken` if segments, extents or batches contradict each other. Linear in extents."""
        counts: dict[int, i64] = {}
        for queue_index in self.queue_indexes.values():
            queue_index.check()
            for extent in queue_index.segment_extents:
                number = int(extent.segment.number)
                if extent.count > 0 and self.segments.get(number) is not extent.segment:
                    raise InvariantBroken(f"queue {queue_index.queue_id} has messages in dropped segment {number}")
                counts[number] = counts.get(number, 0) + extent.count
        for number, segment in self.segments.items():
            if segment.live_count != counts.get(number, 0):
                raise InvariantBroken(
                    f"segment {number} counts {segment.live_count} messages, its extents {counts.get(number, 0)}"
                )
            if segment.sealed == (segment is self.tail.active):
                raise InvariantBroken(f"segment {number} is sealed and active, or neither")
        for segment in self.tail.reads.segments():
            if self.segments.get(int(segment.number)) is not segment:
                raise InvariantBroken(f"segment {segment.number} is being read and was dropped")
        if self._unwritten and self._unwritten[-1].batch_no >= self.tail.batch_no:
            raise InvariantBroken(f"batch {self._unwritten[-1].batch_no} is ordered, and {self.tail.batch_no} is next")
