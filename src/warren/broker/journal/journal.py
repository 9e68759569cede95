"""The journal: everything a node must not forget, in the order it happened.

::

    queues ──store, forget, lend──► books ──► batch ──end of turn──► Store ──► disk ──► Stored ──► confirms, gates

A turn's records are one batch, written at the active segment's end in one piece; two, if something durable is deleted
in between. Whoever must not be answered before
the batch is certain waits for it (`Turn.await_flush`); a batch nobody waits for is written and flushed when the disk
has time. Each batch says how far the journal was flushed before it. When nothing follows for a while, an empty one says
it of the last: whatever was confirmed more than a moment ago is then known to have been on disk, should it be damaged.

A full segment is sealed: its index is written, a new segment begins, and a *checkpoint* says what of all sealed
segments is alive. After that no removal in a sealed segment is needed any more, so a segment goes as soon as nothing
in it is alive, with the next checkpoint. A mostly dead one is compacted first.

Invariants: the batches in flight are in the order they were ordered, and are reported in that order. A segment is
dropped in the same breath as a checkpoint that does not mention it is written. What is read was reported as written.

Not here: the bytes (`broker.journal.records`, `broker.journal.segment_index`, `broker.journal.checkpoint`), files
(`node.disk`), starting from what is there (`broker.journal.recovery`).
"""

from collections import deque
from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.broker.journal.batches import JournalBatch
from warren.broker.journal.checkpoint import CheckpointState, QueueCheckpoint, encode_checkpoint
from warren.broker.journal.compaction import Compaction
from warren.broker.journal.pending_reads import PendingReads, WriteWaiter
from warren.broker.journal.queue_index import QueueIndex, current_segment
from warren.broker.journal.records import STOPPED, write_triple
from warren.broker.journal.segment_index import SegmentIndex
from warren.broker.metadata.store import DeletionWatcher, MetadataChangeLog
from warren.broker.model.effects import AppendRecords, DropSegments, SealSegment, WriteCheckpoint
from warren.broker.model.events import FlushCompleted, IndexRead, JournalRead
from warren.broker.model.journal import MetadataChange, Segment
from warren.broker.model.message import Envelope
from warren.broker.model.ports import QueueLog, QueueLogs
from warren.broker.model.turn import FlushWaiter, TimerTarget, Turn

LOOK_FOR_SPACE_MS: Final[i64] = 1000
ENVELOPES_MAX: Final = 1024


@final
class PendingFlush:
    """A batch on its way to the disk."""

    def __init__(self, batch_no: i64, segment: Segment, data_bytes: i64, changes: bool, waiters: list[FlushWaiter]):
        self.batch_no: i64 = batch_no
        self.segment: Segment = segment
        # where the segment ends once the batch is written
        self.end: i64 = segment.size_bytes
        self.data_bytes: i64 = data_bytes
        self.changes: bool = changes
        self.waiters: list[FlushWaiter] = waiters


@final
class Journal(QueueLogs, DeletionWatcher, TimerTarget):
    """One node's journal."""

    def __init__(self, turn: Turn, metadata: MetadataChangeLog, segment_bytes: int, incarnation: int) -> None:
        self.turn: Turn = turn
        self.queue_indexes: dict[int, QueueIndex] = {}
        self.segments: dict[int, Segment] = {}
        self.active: Segment = Segment(1)
        # the first segment this process writes
        self.first_number: i64 = 1
        self.batch: JournalBatch = JournalBatch()
        self.batch_no: i64 = 1
        self.turn_no: i64 = 1
        self.tickets: PendingReads = PendingReads()
        self.compaction: Compaction = Compaction(self)
        self._metadata: MetadataChangeLog = metadata
        metadata.watcher = self
        self._segment_bytes: i64 = segment_bytes
        self._incarnation: i64 = incarnation
        self._rows: SegmentIndex = SegmentIndex()
        # of sealed segments whose index may not be written yet, by number
        self._sealed_rows: dict[int, SegmentIndex] = {}
        self._touched: list[QueueIndex] = []
        self._unwritten: deque[PendingFlush] = deque()
        self._unflushed: deque[PendingFlush] = deque()
        self._written: Segment = self.active
        self._written_to: i64 = 0
        self._synced: Segment = self.active
        self._synced_to: i64 = 0
        self._awaiting_writing: list[WriteWaiter] = []
        self._changes_in_flight: i64 = 0
        self._envelopes: dict[bytes, Envelope] = {}
        self._looking: bool = False
        self._roll_due: bool = False
        # queues whose past is forgotten with the next checkpoint
        self._forgetting: set[int] = set()
        # the active segment was half full
        self._half_seen: bool = False
        # a segment was compacted: there may be another
        self.space_wanted: bool = False
        # no batch says yet that the last one with anything in it is on disk; that is to be said before the turn ends
        self._unclaimed: bool = False
        self._claim_due: bool = False
        self._seen_batch_no: i64 = 0

    def open(self, queue_id: int, durable: bool, max_priority: int) -> QueueLog:
        queue_index = QueueIndex(self, queue_id, durable, max_priority)
        self.queue_indexes[queue_id] = queue_index
        return queue_index

    def closed(self, queue_index: QueueIndex) -> None:
        del self.queue_indexes[int(queue_index.queue_id)]

    def forget_past(self, queue_id: int) -> None:
        """What is behind a checkpoint that does not speak of it is never read again."""
        self._forgetting.add(queue_id)
        self._roll_due = True

    def may_open(self, queue_id: int) -> bool:
        return queue_id not in self._forgetting

    # -- starting and stopping

    def begin(self, recovered: list[Segment], rows: dict[int, SegmentIndex], number_min: int = 1) -> None:
        """Write into a new segment from here on, one that no checkpoint speaks of: at least the number `number_min`.

        `rows` are those of recovered segments that have no index yet.
        """
        for segment in recovered:
            segment.sealed = True
            self.segments[int(segment.number)] = segment
        last = max([number_min - 1, *[int(segment.number) for segment in recovered]])
        self.first_number = last + 1
        self._begin_segment(Segment(last + 1))
        self._written = self.active
        self._synced = self.active
        for number in sorted(rows):
            self._seal(self.segments[number], rows[number])
        if recovered:
            self._keep_checkpoint()
        self._order_batch([])

    def stop(self) -> None:
        """The node stops: everything is at rest, and what was handed out is known."""
        for queue_index in self.queue_indexes.values():
            if queue_index.durable:
                queue_index.watermark.write_last()
        triple = BytesWriter()
        write_triple(triple, self._incarnation, 0, 0)
        self.batch.mark(STOPPED, triple.getvalue())

    def metadata_pending(self) -> bool:
        """Whether changes of durable things are not on disk yet."""
        return self._changes_in_flight > 0 or len(self._metadata.pending) > 0

    # -- the turn

    def touch(self, queue_index: QueueIndex) -> None:
        """The book has something to write besides messages before the turn ends."""
        self._touched.append(queue_index)

    def before_deletion(self) -> None:
        """What was written so far goes first, as a batch of its own: dead letters of a queue that is deleted next, say.

        Whoever waits for this turn waits for the batch that ends it.
        """
        self._write_marks()
        if not self.batch.empty():
            waiters = self.turn.flush_waiters
            self.turn.flush_waiters = []
            self._order_batch(self._metadata.take())
            self.turn.flush_waiters = waiters

    def _write_marks(self) -> None:
        touched = self._touched
        if touched:
            self._touched = []
            for queue_index in touched:
                queue_index.write_marks()

    def end_turn(self) -> None:
        self.turn_no += 1
        self._write_marks()
        changes = self._metadata.take()
        records = not self.batch.empty()
        if records or changes or self.turn.flush_waiters or self._claim_due:
            self._order_batch(changes)
            self._unclaimed = records or (self._unclaimed and not self._claim_due)
            self._claim_due = False
            self._look_later()
        full = self.active.size_bytes >= self._segment_bytes
        if (full or self._roll_due) and not self.compaction.running():
            self._roll_due = False
            self._roll()
        if self.compaction.running():
            return
        if self.space_wanted:
            self.space_wanted = False
            self._make_room()
        elif not self._half_seen and self.active.size_bytes * 2 >= self._segment_bytes:
            self._half_seen = True
            self._keep_up()

    def _order_batch(self, changes: list[MetadataChange]) -> None:
        turn, segment = self.turn, self.active
        waiters = turn.flush_waiters
        turn.flush_waiters = []
        offset = segment.size_bytes
        data = b""
        if offset == 0 or self._claim_due or not self.batch.empty():
            data = self.batch.finish(self.batch_no, self._synced.number, self._synced_to, self._incarnation)
            segment.size_bytes = offset + len(data)
            segment.total_bytes += self.batch.overhead_bytes()
        flush = len(waiters) > 0 or len(changes) > 0
        turn.effects.append(
            AppendRecords(int(self.batch_no), changes, int(segment.number), int(offset), data, flush),
        )
        in_flight = PendingFlush(self.batch_no, segment, len(data), len(changes) > 0, waiters)
        self._unwritten.append(in_flight)
        self._unflushed.append(in_flight)
        if in_flight.changes:
            self._changes_in_flight += 1
        turn.held_bytes += len(data)
        self.batch_no += 1
        self.batch.begin(segment.number, segment.size_bytes, self._rows)

    # -- what the disk reports

    def stored(self, event: FlushCompleted) -> None:
        while self._unwritten and self._unwritten[0].batch_no <= event.written_no:
            written = self._unwritten.popleft()
            self.turn.held_bytes -= written.data_bytes
            if self._sealed_rows:
                self._forget_rows_before(written.segment.number)
            self._written = written.segment
            self._written_to = written.end
        while self._unflushed and self._unflushed[0].batch_no <= event.flushed_no:
            flushed = self._unflushed.popleft()
            self._synced = flushed.segment
            self._synced_to = flushed.end
            if flushed.changes:
                self._changes_in_flight -= 1
            for waiter in flushed.waiters:
                waiter.flushed()
        if self._awaiting_writing:
            waiting = self._awaiting_writing
            self._awaiting_writing = []
            for reader in waiting:
                reader.retry()

    def _forget_rows_before(self, number: i64) -> None:
        """The first batch of this segment is written: the indexes of those before it are there."""
        for sealed in [sealed for sealed in self._sealed_rows if sealed < number]:
            del self._sealed_rows[sealed]

    def index_read(self, event: IndexRead) -> None:
        holder = self.tickets.give_back(event.ticket)
        if holder is not None:
            holder.index_read(event.rows, event.error)

    def journal_read(self, event: JournalRead) -> None:
        holder = self.tickets.give_back(event.ticket)
        if holder is not None:
            holder.journal_read(event.blocks, event.error)

    # -- what readers ask

    def home_of(self, segment: Segment) -> Segment:
        return current_segment(segment)

    def rows_at_hand(self, segment: Segment) -> bool:
        return segment is self.active or int(segment.number) in self._sealed_rows

    def rows_in(self, segment: Segment, queue_id: i64) -> bytes:
        """A queue's rows in a segment whose rows are in memory."""
        self.batch.close_record()
        rows = self._rows if segment is self.active else self._sealed_rows[int(segment.number)]
        return rows.rows_of(queue_id)

    def written_to(self, segment: Segment) -> i64:
        """How far a segment was reported as written."""
        if segment.number < self._written.number:
            return segment.size_bytes
        return self._written_to if segment is self._written else 0

    def await_writing(self, waiter: WriteWaiter) -> None:
        self._awaiting_writing.append(waiter)

    def envelopes(self) -> dict[bytes, Envelope]:
        """Those met lately, by the bytes of their names."""
        if len(self._envelopes) > ENVELOPES_MAX:
            self._envelopes = {}
        return self._envelopes

    # -- space

    def _roll(self) -> None:
        """Seal the active segment and begin another."""
        self._forgetting.clear()
        full = self.active
        full.sealed = True
        self._seal(full, self._rows)
        self._begin_segment(Segment(full.number + 1))
        self._keep_checkpoint()
        # its report says that all this is done
        self._order_batch([])
        self._look_later()

    def _seal(self, segment: Segment, rows: SegmentIndex) -> None:
        number = int(segment.number)
        self._sealed_rows[number] = rows
        self.turn.effects.append(SealSegment(number, rows.encode(number), int(segment.size_bytes)))

    def _begin_segment(self, segment: Segment) -> None:
        self.active = segment
        self._half_seen = False
        self.segments[int(segment.number)] = segment
        self._rows = SegmentIndex()
        self.batch.begin(segment.number, 0, self._rows)

    def _keep_checkpoint(self) -> None:
        """Write down what is alive, and drop the segments nothing of which is."""
        dead = [segment for segment in self.segments.values() if self._droppable(segment)]
        for segment in dead:
            del self.segments[int(segment.number)]
        self.turn.effects.append(WriteCheckpoint(encode_checkpoint(self._state())))
        if dead:
            self.turn.effects.append(DropSegments([int(segment.number) for segment in dead]))

    def _droppable(self, segment: Segment) -> bool:
        return segment.sealed and segment.live_count == 0 and not self.tickets.reading(segment)

    def _state(self) -> CheckpointState:
        marks: list[QueueCheckpoint] = []
        for queue_index in self.queue_indexes.values():
            queue_index.tidy()
            if queue_index.durable and (
                queue_index.next_position > 1 or queue_index.offsets.by_name or queue_index.seen.count > 0
            ):
                marks.append(queue_index.mark())
        sealed = [segment for segment in self.segments.values() if segment.sealed]
        return CheckpointState(int(self.active.number), int(self._incarnation), sealed, marks)

    def _look_later(self) -> None:
        if not self._looking:
            self._looking = True
            self.turn.set_timer(self.turn.now_ms + LOOK_FOR_SPACE_MS, self)

    def timer_fired(self) -> None:
        """See whether there is room to be made, and whether a quiet journal's last batch is spoken of."""
        self._looking = False
        self._claim_due = self._unclaimed and not self._unflushed and self._seen_batch_no == self.batch_no
        self._seen_batch_no = self.batch_no
        if len(self.segments) > 1 or self._unclaimed:
            self._look_later()
        if not self.compaction.running():
            self._make_room()

    def _make_room(self) -> None:
        """Let go of dead segments, and compact one if more is dead than alive."""
        gone = [segment for segment in self.segments.values() if self._droppable(segment)]
        gone_bytes = sum([int(segment.size_bytes) for segment in gone])
        # the checkpoint lets them go
        self._roll_due = self._roll_due or gone_bytes >= self._segment_bytes
        # a queue that is being drained leaves one segment half empty, which is not worth copying
        if self._waste_bytes() + gone_bytes > self._segment_bytes:
            self._compact()

    def _keep_up(self) -> None:
        """Half a segment was written since the last was sealed: if that is dead but for a little, copy the little.

        When much is written, this comes long before the clock. Whatever lives for a moment only has left by then.
        """
        if self._waste_bytes() > self._segment_bytes // 2:
            self._compact()

    def _waste_bytes(self) -> i64:
        """How much more is dead than alive in sealed segments that have to stay."""
        waste_bytes: i64 = 0
        for segment in self.segments.values():
            if segment.sealed and not self._droppable(segment):
                waste_bytes += segment.total_bytes - 2 * segment.live_bytes
        return waste_bytes

    def _compact(self) -> None:
        """Begin with the one that gives most for the least copying."""
        best: Segment | None = None
        for segment in self.segments.values():
            if segment.number >= self._written.number or not self.compaction.worthwhile(segment):
                continue
            if best is None or segment.live_bytes * best.total_bytes < best.live_bytes * segment.total_bytes:
                best = segment
        if best is not None:
            self.compaction.begin(best)
