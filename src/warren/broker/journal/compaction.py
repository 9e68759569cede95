"""Making room: what is alive in a mostly dead segment is copied to the journal's end, so that the segment can go.

A segment is read from its beginning in slices, one a turn; of every record in it, the placements that are alive are
written again into the active segment. When all are there, a MOVED record says so, and from then on whatever counted on
the old segment counts on the new one. Copies without that record mean nothing: a node that died halfway finds
everything where it was. All copies of a segment go into one other, so the journal does not roll meanwhile.

What is removed while the copying goes on is removed in both places: a removal names a position, not a place.

Not here: when a segment is worth it, and its deletion (`broker.journal.journal`).
"""

from typing import TYPE_CHECKING, Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.broker.journal.entry_fetch import damaged_segment
from warren.broker.journal.pending_reads import ReadWaiter
from warren.broker.journal.records import (
    COPY,
    COPY_PAGED,
    MESSAGE,
    MOVED,
    SEGMENT_HEADER_BYTES,
    RecordScanner,
    write_triple,
)
from warren.broker.journal.recovery import record_sizes
from warren.broker.model.effects import ReadJournal
from warren.broker.model.journal import Segment, SegmentExtent

if TYPE_CHECKING:
    from warren.broker.journal.journal import Journal


SLICE_BYTES: Final[i64] = 1024 * 1024
SLICE_BYTES_MAX: Final[i64] = 4 * 1024 * 1024
# what a turn may look at without being late for everybody else
SLICE_RECORDS: Final[i64] = 8192


@final
class Compaction(ReadWaiter):
    """One segment at a time."""

    def __init__(self, journal: "Journal") -> None:
        self._journal: Journal = journal
        self._from: Segment | None = None
        # how far it was read
        self._at: i64 = 0
        self._slice_bytes: i64 = SLICE_BYTES
        # what queues have in it, by queue
        self._segment_extents: dict[int, list[SegmentExtent]] = {}
        # what could not be read whole is left alone
        self._hopeless: set[int] = set()

    def running(self) -> bool:
        return self._from is not None

    def worthwhile(self, segment: Segment) -> bool:
        """Whether most of a segment is dead."""
        return (
            segment.sealed
            and segment.live_count > 0
            and segment.live_bytes * 2 < segment.total_bytes
            and int(segment.number) not in self._hopeless
        )

    def begin(self, segment: Segment) -> None:
        self._from = segment
        self._at = SEGMENT_HEADER_BYTES
        self._slice_bytes = SLICE_BYTES
        self._segment_extents = {}
        self._read(self._slice_bytes)

    def divided(self, queue_id: i64) -> None:
        """A queue has other holdings than it had."""
        self._segment_extents.pop(int(queue_id), None)

    def index_read(self, rows: bytes, error: str) -> None:
        """Never asked for."""

    def journal_read(self, blocks: list[bytes], error: str) -> None:
        segment = self._from
        if segment is None:
            return
        if error:
            self._give_up(segment, error)
            return
        scanner = RecordScanner(blocks[0], segment.number, self._at, self._at)
        records: i64 = 0
        while scanner.next():
            records += 1
            if scanner.kind <= COPY_PAGED and not self._copy(segment, scanner):
                self._give_up(segment, str(damaged_segment(segment, scanner.at)))
                return
        self._suit_slices(scanner.at - self._at, records)
        if scanner.at >= segment.size_bytes or segment.live_count == 0:
            self._finish(segment)
        elif scanner.short:
            # a record larger than a slice
            self._at = scanner.at
            self._read(max(scanner.end - scanner.at, self._slice_bytes))
        elif scanner.at > self._at:
            self._at = scanner.at
            self._read(self._slice_bytes)
        elif self._at + len(blocks[0]) < segment.size_bytes:
            # not even its header fitted in
            self._read(len(blocks[0]) * 2)
        else:
            self._give_up(segment, str(damaged_segment(segment, scanner.at)))

    def _suit_slices(self, read_bytes: i64, records: i64) -> None:
        """The larger the records, the larger the slices: a turn takes one, and the stream does not wait."""
        if records > 0:
            self._slice_bytes = max(SLICE_BYTES, min(SLICE_BYTES_MAX, read_bytes // records * SLICE_RECORDS))

    def _read(self, size: i64) -> None:
        segment = self._from
        assert segment is not None
        length = min(size, segment.size_bytes - self._at)
        ticket = self._journal.tickets.take(self, segment)
        extents = [(int(self._at), int(length))]
        self._journal.turn.effects.append(ReadJournal(ticket, int(segment.number), extents))

    def _copy(self, segment: Segment, scanner: RecordScanner) -> bool:
        """Write a record's living placements again; False if the record is damaged."""
        durable = scanner.kind == MESSAGE or scanner.kind == COPY
        living = BytesWriter()
        count: i64 = 0
        index: i64 = 0
        while index < scanner.count:
            if self._alive(segment, scanner.a(index), scanner.b(index), scanner.priority, durable):
                write_triple(living, scanner.a(index), scanner.b(index), scanner.c(index))
                count += 1
            index += 1
        if count == 0:
            return True
        if not scanner.intact():
            return False
        kind = COPY if durable else COPY_PAGED
        body_bytes, cost = record_sizes(scanner, False)
        self._journal.active.total_bytes += count * cost
        self._journal.batch.copy(
            kind, scanner.priority, living.getvalue(), count, body_bytes, scanner.payload(), scanner.payload_crc
        )
        return True

    def _alive(self, segment: Segment, queue_id: i64, position: i64, priority: i64, durable: bool) -> bool:
        queue_index = self._journal.queue_indexes.get(int(queue_id))
        if queue_index is None:
            return False
        level = queue_index.level_of(priority)
        if queue_index.removed_at(level).has(position):
            return False
        durable = durable and queue_index.durable
        segment_extents = self._segment_extents.get(int(queue_id))
        if segment_extents is None:
            # none is added to a sealed segment, unless one is divided
            segment_extents = [extent for extent in queue_index.segment_extents if extent.segment is segment]
            self._segment_extents[int(queue_id)] = segment_extents
        return any(extent.covers(segment, level, durable, position) for extent in segment_extents)

    def _finish(self, segment: Segment) -> None:
        journal = self._journal
        self._from = None
        home = journal.active
        triple = BytesWriter()
        write_triple(triple, segment.number, 0, 0)
        journal.batch.mark(MOVED, triple.getvalue())
        for queue_index in journal.queue_indexes.values():
            queue_index.move(segment, home)
        home.live_count += segment.live_count
        home.live_bytes += segment.live_bytes
        segment.live_count = 0
        segment.live_bytes = 0
        segment.moved_to = home
        journal.space_wanted = True

    def _give_up(self, segment: Segment, reason: str) -> None:
        """Leave it as it is: whoever reads the damaged record will find out, and others can still be read."""
        self._from = None
        self._hopeless.add(int(segment.number))
        self._journal.turn.note("error", "compaction.failed", {"segment": int(segment.number), "reason": reason})
