"""The open end of the journal: the active segment, the batch that is being built, and the reads under way.

Queue indexes, compaction and the readers of a replica write into the batch and read entries back through the tail. A
message can be read once its batch is reported as written. The rows of the active segment, and of a sealed segment
whose index file may not be written yet, are in memory; other rows are read from the index file.

Invariants: a segment that is being read is not dropped (`PendingReads.reading`). `written_to` never exceeds the size
of its segment.

Not here: when a batch is ordered and a segment sealed (`broker.journal.journal`), the bytes of a batch
(`broker.journal.batches`), the files (`node.disk`).
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64, trait

from warren.broker.journal.batches import JournalBatch
from warren.broker.journal.segment_index import SegmentIndex
from warren.broker.model.effects import ReadIndex, ReadJournal, SealSegment
from warren.broker.model.journal import Segment, SegmentExtent
from warren.broker.model.message import Envelope
from warren.broker.model.ports import QueueLog
from warren.broker.model.turn import Turn

ENVELOPES_MAX: Final = 1024


@trait
class ReadWaiter:
    """Waits for an index or for records to be read."""

    @abstractmethod
    def index_read(self, rows: bytes, error: str) -> None: ...

    @abstractmethod
    def journal_read(self, blocks: list[bytes], error: str) -> None: ...


@trait
class WriteWaiter:
    """Wants to read records that are not written yet."""

    @abstractmethod
    def retry(self) -> None:
        """More of the journal is written."""


class JournalLog(QueueLog):
    """A queue's log in this journal, as the tail knows it."""

    def __init__(self, queue_id: i64, durable: bool, max_priority: i64) -> None:
        super().__init__(durable)
        self.queue_id: i64 = queue_id
        self.max_priority: i64 = max_priority

    @abstractmethod
    def write_marks(self) -> None:
        """The turn ends: write the changes besides messages."""


@final
class PendingRead:
    """One read. A withdrawn read has no waiter."""

    def __init__(self, waiter: ReadWaiter, segment: Segment) -> None:
        self.waiter: ReadWaiter | None = waiter
        self.segment: Segment = segment


@final
class PendingReads:
    """All reads under way, by ticket."""

    def __init__(self) -> None:
        self._last_ticket: int = 0
        self._open: dict[int, PendingRead] = {}

    def begin(self, waiter: ReadWaiter, segment: Segment) -> int:
        self._last_ticket += 1
        self._open[self._last_ticket] = PendingRead(waiter, segment)
        return self._last_ticket

    def end(self, ticket: int) -> ReadWaiter | None:
        """The read is done; the waiter, unless it withdrew."""
        assert ticket <= self._last_ticket, "the read was asked for"
        read = self._open.pop(ticket, None)
        return None if read is None else read.waiter

    def withdraw(self, waiter: ReadWaiter) -> None:
        """The waiter gets no answer. Its reads still keep their segments from being dropped."""
        for read in self._open.values():
            if read.waiter is waiter:
                read.waiter = None

    def reading(self, segment: Segment) -> bool:
        return any(read.segment is segment for read in self._open.values())

    def segments(self) -> list[Segment]:
        return [read.segment for read in self._open.values()]


@final
class JournalTail:
    """The part of the journal that its writers and readers share."""

    def __init__(self, turn: Turn) -> None:
        self.turn: Turn = turn
        self.active: Segment = Segment(1)
        # the first segment that this process writes
        self.first_number: i64 = 1
        self.batch: JournalBatch = JournalBatch()
        self.batch_no: i64 = 1
        self.turn_no: i64 = 1
        self.reads: PendingReads = PendingReads()
        self.rows: SegmentIndex = SegmentIndex()
        # the segment of the last batch that was reported as written, and where that batch ends
        self.written: Segment = self.active
        self.written_end: i64 = 0
        # extents in the segment that is being compacted, by queue; a queue whose extents were split is looked up again
        self.compacting: dict[int, list[SegmentExtent]] = {}
        # rows of sealed segments whose index file may not be written yet, by segment number
        self._sealed_rows: dict[int, SegmentIndex] = {}
        self._touched: list[JournalLog] = []
        self._write_waiters: list[WriteWaiter] = []
        self._envelopes: dict[bytes, Envelope] = {}

    # -- writing

    def touch(self, log: JournalLog) -> None:
        """The log has something to write besides messages before the turn ends."""
        self._touched.append(log)

    def write_marks(self) -> None:
        touched = self._touched
        if touched:
            self._touched = []
            for log in touched:
                log.write_marks()

    def begin_segment(self, segment: Segment) -> None:
        assert segment.size_bytes == 0
        self.active = segment
        self.rows = SegmentIndex()
        self.begin_batch()

    def begin_batch(self) -> None:
        self.batch.begin(self.active.number, self.active.size_bytes, self.rows)

    def seal(self, segment: Segment, rows: SegmentIndex) -> None:
        """Order the index of a sealed segment to be written, and keep its rows until it is."""
        assert segment.sealed
        number = int(segment.number)
        self._sealed_rows[number] = rows
        self.turn.effects.append(SealSegment(number, rows.encode(number), int(segment.size_bytes)))

    def wrote(self, segment: Segment, end: i64) -> None:
        """A batch that ends here is written. So are the indexes of all segments before it."""
        assert end <= segment.size_bytes
        if self._sealed_rows:
            for sealed in [sealed for sealed in self._sealed_rows if sealed < segment.number]:
                del self._sealed_rows[sealed]
        self.written = segment
        self.written_end = end

    def wake_write_waiters(self) -> None:
        if self._write_waiters:
            waiters = self._write_waiters
            self._write_waiters = []
            for waiter in waiters:
                waiter.retry()

    # -- reading

    def rows_at_hand(self, segment: Segment) -> bool:
        return segment is self.active or int(segment.number) in self._sealed_rows

    def rows_in(self, segment: Segment, queue_id: i64) -> bytes:
        """A queue's rows in a segment whose rows are in memory."""
        self.batch.close_record()
        rows = self.rows if segment is self.active else self._sealed_rows[int(segment.number)]
        return rows.rows_of(queue_id)

    def written_to(self, segment: Segment) -> i64:
        """How many bytes of a segment are reported as written."""
        if segment.number < self.written.number:
            return segment.size_bytes
        return self.written_end if segment is self.written else 0

    def await_writing(self, waiter: WriteWaiter) -> None:
        self._write_waiters.append(waiter)

    def read_index(self, waiter: ReadWaiter, segment: Segment, queue_id: i64) -> None:
        ticket = self.reads.begin(waiter, segment)
        self.turn.effects.append(ReadIndex(ticket, int(segment.number), int(queue_id)))

    def read_records(self, waiter: ReadWaiter, segment: Segment, pieces: list[tuple[int, int]]) -> None:
        """Read pieces of a segment, each its offset and its length."""
        ticket = self.reads.begin(waiter, segment)
        self.turn.effects.append(ReadJournal(ticket, int(segment.number), pieces))

    def envelopes(self) -> dict[bytes, Envelope]:
        """Recently decoded envelopes, by their bytes."""
        if len(self._envelopes) > ENVELOPES_MAX:
            self._envelopes = {}
        return self._envelopes


def current_segment(segment: Segment) -> Segment:
    """The segment that compaction moved the records of this one to, or the segment itself."""
    while segment.moved_to is not None:
        segment = segment.moved_to
    return segment
