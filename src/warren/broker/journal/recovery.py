"""Recovery: the state of the journal when a node starts.

The checkpoint has the living extents at the time the last segment was sealed. The segments after it are replayed from
end to end. Sealed segments before it are not read, except to rebuild an index file that is missing.

Where the last segment stops making sense (`broker.journal.batches` judges that):

- A torn tail is cut off. Nothing in it was ever confirmed.
- A flushed batch with intact headers: single messages are damaged. The queues that still have one of them are stopped
  and reported; all others go on.
- A flushed batch with a damaged header: the loss is unknown. The node does not start; `warren journal salvage` reads
  the rest.

A removal names positions, not places. So the living messages of each extent are counted once, at the end, with the
rows of its segment's index, and only for extents that are partly removed or were split (`ExtentRecount`). Where a
removal covers an extent completely, or not at all, no rows are needed.

A lenient recovery, for salvage, reads every segment, leaves out damage and reports it, and counts all extents from
rows. It is offline only: all rows are in memory at once.

Not here: the files (the shells implement `JournalFiles`), what a queue does with its messages (`broker.storage`), the
bytes of an index (`broker.journal.segment_index`).
"""

from abc import abstractmethod
from bisect import bisect_right
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from warren.broker.journal.batches import DAMAGED, TORN, BatchScanner, next_record
from warren.broker.journal.checkpoint import decode_checkpoint
from warren.broker.journal.journal import Journal
from warren.broker.journal.queue_index import QueueIndex
from warren.broker.journal.queue_state import replay_queue_state
from warren.broker.journal.records import (
    COPY,
    COPY_PAGED,
    MESSAGE,
    MOVED,
    PUBLISHING_IDS,
    REMOVED,
    RETURNED,
    SEGMENT_HEADER_BYTES,
    STOPPED,
    STORED_OFFSET,
    SYNCED,
    WATERMARK,
    RecordScanner,
    next_opening,
    record_sizes,
    segment_header_fault,
)
from warren.broker.journal.segment_index import (
    ROW_BYTES,
    SegmentIndex,
    check_index,
    first_row_from,
    row_body_bytes,
    row_kind,
    row_length,
    row_position,
    row_priority,
    rows_in,
)
from warren.broker.metadata.store import Snapshot
from warren.broker.model.archive import ArchiveFiles
from warren.broker.model.events import MetadataSnapshot
from warren.broker.model.journal import ENTRY_COST_BYTES, Segment, SegmentExtent
from warren.errors import ConfigError, StoreError

SALVAGE_HINT: Final = "'warren journal salvage DIR' saves the readable messages"


@final
class RecoveredRows:
    """The index rows of durable messages, by segment."""

    def __init__(self, journal: Journal, files: "JournalFiles") -> None:
        # of replayed segments, and of segments with a missing index; their index files are to be written
        self.read: dict[int, SegmentIndex] = {}
        self._journal: Journal = journal
        self._files: JournalFiles = files

    def begin(self, number: int) -> None:
        """A segment is going to be read."""
        self.read[number] = SegmentIndex()

    def add(self, number: int, scanner: RecordScanner, damaged: bool) -> None:
        """Add the rows of a message record."""
        rows = self.read[number]
        body_bytes, _cost = record_sizes(scanner, damaged)
        length: i64 = scanner.end - scanner.at
        index: i64 = 0
        while index < scanner.count:
            queue_id, position = scanner.a(index), scanner.b(index)
            if int(queue_id) in self._journal.queue_indexes:
                rows.add(queue_id, position, scanner.at, length, body_bytes, scanner.priority, scanner.kind)
            index += 1

    def rows_in(self, segment: Segment, queue_ids: list[int]) -> dict[int, bytes]:
        """The rows of some queues in a segment; none if the segment is missing."""
        number = int(segment.number)
        if number not in self._files.segments():
            return {}
        if number not in self.read:
            data = self._index(number)
            if data is not None:
                return {queue_id: rows_in(data, queue_id) for queue_id in queue_ids}
            self._read(segment)
        return {queue_id: self.read[number].rows_of(queue_id) for queue_id in queue_ids}

    def replace_missing(self, segments: list[Segment]) -> None:
        """Rebuild the missing indexes of segments with living messages. Existing files are not read."""
        for segment in segments:
            number = int(segment.number)
            if segment.live_count > 0 and number not in self.read and not self._files.has_index(number):
                self._read(segment)

    def _index(self, number: int) -> bytes | None:
        """The index file of a sealed segment, if it is intact."""
        data = self._files.index(number)
        if data is None:
            return None
        try:
            check_index(data, number)
        except StoreError:
            return None
        return data

    def _read(self, segment: Segment) -> None:
        number = int(segment.number)
        self.begin(number)
        batches = BatchScanner(self._files.segment(number), number, segment.size_bytes)
        while batches.next():
            scanner = RecordScanner(batches.data, number, batches.records)
            while scanner.end < batches.end and scanner.next():
                if scanner.kind in (MESSAGE, COPY):
                    self.add(number, scanner, int(scanner.at) in batches.bad_payloads)
        if batches.ending == DAMAGED:
            raise StoreError(
                f"segment {number} of the journal is damaged at byte {batches.bad}, and has no index; {SALVAGE_HINT}"
            )


RANGES_MAX: Final = 100_000
"""With more ranges, adjacent ones are merged: consumers that share a queue ack alternating positions."""


@final
class ExtentRecount:
    """Counts the living messages of extents that were partly removed or split."""

    def __init__(self, journal: Journal, rows: RecoveredRows) -> None:
        self._journal: Journal = journal
        self._rows: RecoveredRows = rows
        # by queue: level, first and last position of each removal
        self._ranges: dict[int, list[tuple[int, int, int]]] = {}
        self._count: int = 0
        self._count_max: int = RANGES_MAX

    def removed(self, queue_index: QueueIndex, level: i64, first: i64, last: i64) -> None:
        ranges = self._ranges.setdefault(int(queue_index.queue_id), [])
        if ranges and ranges[-1][0] == level and ranges[-1][2] + 1 == first:
            ranges[-1] = (int(level), ranges[-1][1], int(last))
        else:
            ranges.append((int(level), int(first), int(last)))
            self._count += 1
            if self._count >= self._count_max:
                self._join()

    def _join(self) -> None:
        self._ranges = {queue_id: merge_ranges(ranges) for queue_id, ranges in self._ranges.items()}
        self._count = sum([len(ranges) for ranges in self._ranges.values()])
        self._count_max = max(RANGES_MAX, 2 * self._count)

    def run(self) -> None:
        assert self._count == sum([len(ranges) for ranges in self._ranges.values()]), "every range is counted"
        partly: dict[int, list[tuple[QueueIndex, SegmentExtent]]] = {}
        for queue_id, queue_index in self._journal.queue_indexes.items():
            ranges = self._ranges.get(queue_id, [])
            divided = [] if queue_index.restored is None else queue_index.restored.divided
            if not ranges and not divided:
                continue
            joined = merge_ranges(ranges)
            for extent in queue_index.segment_extents:
                if is_touched(extent, joined) or extent in divided:
                    partly.setdefault(int(extent.segment.number), []).append((queue_index, extent))
        for number in sorted(partly):
            queue_ids = [int(queue_index.queue_id) for queue_index, _extent in partly[number]]
            rows = self._rows.rows_in(partly[number][0][1].segment, queue_ids)
            for queue_index, extent in partly[number]:
                if int(queue_index.queue_id) in rows:
                    recount_extent(queue_index, extent, rows[int(queue_index.queue_id)])


def merge_ranges(ranges: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """The same positions in as few ranges as possible, in order."""
    joined: list[tuple[int, int, int]] = []
    for level, first, last in sorted(ranges):
        if joined and joined[-1][0] == level and first <= joined[-1][2] + 1:
            joined[-1] = (level, joined[-1][1], max(last, joined[-1][2]))
        else:
            joined.append((level, first, last))
    return joined


def is_touched(extent: SegmentExtent, ranges: list[tuple[int, int, int]]) -> bool:
    """Whether an extent is partly removed. One that is completely removed is emptied here."""
    level, first, last = int(extent.level), int(extent.first), int(extent.last)
    # the last range that begins at or before its end
    at = bisect_right(ranges, (level, last, 1 << 62)) - 1
    if at < 0 or ranges[at][0] != level or ranges[at][2] < first:
        return False
    if ranges[at][1] <= first and ranges[at][2] >= last:
        extent.count = 0
        extent.body_bytes = 0
        extent.cost_bytes = 0
        return False
    return True


def recount_extent(queue_index: QueueIndex, extent: SegmentExtent, rows: bytes) -> None:
    """Count the living messages of an extent from the rows of its segment."""
    removed = queue_index.removed_at(extent.level)
    before: i64 = extent.count
    extent.count = 0
    extent.body_bytes = 0
    index = first_row_from(rows, extent.first)
    end: i64 = len(rows) // ROW_BYTES
    previous: i64 = 0
    while index < end:
        position = row_position(rows, index)
        if position > extent.last:
            break
        kind = row_kind(rows, index)
        if (
            kind in (MESSAGE, COPY)
            and position != previous
            and queue_index.level_of(row_priority(rows, index)) == extent.level
            and not removed.has(position)
        ):
            extent.count += 1
            extent.body_bytes += row_body_bytes(rows, index)
            previous = position
        index += 1
    # a row does not have the cost of its entry: a record is shared by all its queues
    if before > 0:
        extent.cost_bytes = extent.cost_bytes * extent.count // before


def rebuild_extents(journal: Journal, segments: dict[int, Segment], rows: dict[int, SegmentIndex]) -> None:
    """Count the living messages of every queue from the rows alone. A position that appears twice counts once."""
    for segment in segments.values():
        segment.total_bytes = 0
    for queue_index in journal.queue_indexes.values():
        found: list[tuple[int, int, int, int, int]] = []
        for number, segment_rows in rows.items():
            found += _live_rows(queue_index, number, segment_rows.rows_of(queue_index.queue_id))
        found.sort()
        _count_rows(queue_index, segments, found)


def _live_rows(queue_index: QueueIndex, number: int, rows: bytes) -> list[tuple[int, int, int, int, int]]:
    """Level, position, segment, body and cost of the messages that were not removed."""
    found: list[tuple[int, int, int, int, int]] = []
    for index in range(len(rows) // int(ROW_BYTES)):
        position = row_position(rows, index)
        level = queue_index.level_of(row_priority(rows, index))
        if not queue_index.removed_at(level).has(position):
            cost = row_length(rows, index) + ENTRY_COST_BYTES
            found.append((int(level), int(position), number, int(row_body_bytes(rows, index)), int(cost)))
    return found


def _count_rows(
    queue_index: QueueIndex, segments: dict[int, Segment], found: list[tuple[int, int, int, int, int]]
) -> None:
    queue_index.segment_extents = []
    extent: SegmentExtent | None = None
    for level, position, number, body_bytes, cost_bytes in found:
        segment = segments[number]
        if extent is not None and extent.level == level and extent.last == position:
            continue
        if extent is None or extent.level != level or extent.segment is not segment:
            extent = SegmentExtent(queue_index.queue_id, segment, level, True, position)
            # rows do not have deadlines; to look for none does no harm
            extent.deadlines = True
            queue_index.segment_extents.append(extent)
        extent.add(position, body_bytes, cost_bytes)
        segment.total_bytes += cost_bytes


@mypyc_attr(allow_interpreted_subclasses=True)
class JournalFiles:
    """The journal's files at the start."""

    @abstractmethod
    def checkpoint(self) -> bytes | None: ...

    @abstractmethod
    def segments(self) -> list[int]:
        """The numbers of the existing segments, in order."""

    @abstractmethod
    def segment(self, number: int) -> bytes: ...

    @abstractmethod
    def index(self, number: int) -> bytes | None: ...

    @abstractmethod
    def has_index(self, number: int) -> bool: ...


@final
class StartupState:
    """Everything a node starts from."""

    def __init__(self, revision: int, values: Snapshot, files: JournalFiles, incarnation: int, now_ms: int = 0) -> None:
        # the metadata's last revision, and its values by key with the revisions that created them
        self.revision: int = revision
        self.values: Snapshot = values
        self.files: JournalFiles = files
        self.incarnation: int = incarnation
        # the time of the start: the idle time of recovered queues begins here
        self.now_ms: int = now_ms
        # the files of streams, if the node keeps any
        self.archives: ArchiveFiles | None = None
        # of a node in a cluster: the shared metadata
        self.shared: MetadataSnapshot | None = None

    def share(self, revision: int, snapshot: MetadataSnapshot) -> None:
        """Use the definitions of a cluster instead of this node's own."""
        self.revision = revision
        self.values = {key: (created, value) for key, (created, _modified, value) in snapshot.items()}
        self.shared = snapshot


@final
class Recovery:
    """Fills the open queue indexes of a journal from files."""

    def __init__(self, journal: Journal, files: JournalFiles, revision: int, lenient: bool = False) -> None:
        self._journal: Journal = journal
        self._files: JournalFiles = files
        self._revision: int = revision
        self._lenient: bool = lenient
        self._segments: dict[int, Segment] = {}
        self._rows: RecoveredRows = RecoveredRows(journal, files)
        self._recount: ExtentRecount = ExtentRecount(journal, self._rows)
        # missing segments
        self._missing: list[Segment] = []
        # damaged messages: queue index, segment, level, position, offset
        self._damaged: list[tuple[QueueIndex, Segment, int, int, int]] = []
        # the first segment after the checkpoint
        self._replay_from: int = 1
        # the same, if there is a checkpoint: it has the state of queues besides messages, older segments do not matter
        self._state_from: int = 1
        # why queues are stopped, by id
        self.stopped: dict[int, str] = {}
        # the faults, in sentences
        self.faults: list[str] = []
        self.clean: bool = False
        self.messages: int = 0
        # the number of lost messages, by queue
        self.lost: dict[int, int] = {}
        # unreadable bytes: segment, first byte, byte after the last
        self.left_out: list[tuple[int, int, int]] = []
        # the number of messages of queues that the metadata does not have, by queue; and the segments they are in
        self.unknown: dict[int, int] = {}
        self.unknown_in: dict[int, bool] = {}

    def run(self) -> None:
        """Read the checkpoint and the segments after it, and begin the journal behind them."""
        numbers = self._files.segments()
        self._load_checkpoint(numbers)
        unsealed = [number for number in numbers if number >= self._replay_from]
        for expected, number in enumerate(unsealed, self._replay_from):
            if number != expected:
                self._refuse(f"segment {expected} of the journal is missing")
                break
        for number in numbers if self._lenient else unsealed:
            self._replay(number, number == numbers[-1])
        if self._lenient:
            self._report_missing()
            self._report_unknown()
            rebuild_extents(self._journal, self._segments, self._rows.read)
        else:
            self._recount.run()
            self._stop_missing()
            self._stop_damaged()
        self._count_alive()
        self._rows.replace_missing([self._segments[number] for number in numbers])
        self._journal.begin(list(self._segments.values()), self._rows.read, self._replay_from)

    def _count_alive(self) -> None:
        for segment in self._segments.values():
            segment.live_count = 0
            segment.live_bytes = 0
        for queue_index in self._journal.queue_indexes.values():
            queue_index.recovered()
            for extent in queue_index.segment_extents:
                extent.segment.live_count += extent.count
                extent.segment.live_bytes += extent.cost_bytes
                self.messages += int(extent.count)

    # -- the checkpoint

    def _load_checkpoint(self, numbers: list[int]) -> None:
        """Load the extents of the last checkpoint."""
        data = self._files.checkpoint()
        if data is None:
            if numbers and numbers[0] != 1:
                self._refuse(f"the journal begins with segment {numbers[0]} and has no checkpoint")
                self._replay_from = numbers[-1]
            return
        try:
            state = decode_checkpoint(data)
        except StoreError as fault:
            self._refuse(f"the journal's checkpoint cannot be used: it is {fault}")
            self._replay_from = numbers[-1] if numbers else 1
            return
        self._replay_from = self._state_from = state.replay_from
        for segment in state.segments:
            self._segments[int(segment.number)] = segment
            if segment.live_count > 0 and int(segment.number) not in numbers:
                self._missing.append(segment)
        for number in numbers:
            if number < state.replay_from and number not in self._segments:
                # the node died before it dropped this segment
                self._segments[number] = Segment(number)
        for mark in state.queues:
            queue_index = self._queue_index(mark.queue_id)
            if queue_index is not None:
                queue_index.load(mark)

    def _stop_missing(self) -> None:
        """Stop the queues that have messages in a missing segment."""
        for queue_index in self._journal.queue_indexes.values():
            for extent in queue_index.segment_extents:
                if extent.segment in self._missing and extent.count > 0:
                    self._stop_queue(queue_index, f"segment {extent.segment.number} of the journal is missing")

    def _stop_queue(self, queue_index: QueueIndex, reason: str) -> None:
        self.stopped.setdefault(int(queue_index.queue_id), reason)
        if reason not in self.faults:
            self.faults.append(reason)

    def _queue_index(self, queue_id: i64) -> QueueIndex | None:
        """The index of a queue; None if the queue was deleted."""
        queue_index = self._journal.queue_indexes.get(int(queue_id))
        if queue_index is None and queue_id > self._revision:
            self.unknown.setdefault(int(queue_id), 0)
            if not self._lenient:
                self._refuse(
                    f"the journal holds messages of queue number {queue_id}, but the metadata ends at "
                    f"{self._revision}: it is older than the journal"
                )
        return queue_index

    def _report_missing(self) -> None:
        """Report the messages in missing segments, before the rest is counted again."""
        self._stop_missing()
        self.stopped = {}
        for queue_index in self._journal.queue_indexes.values():
            for extent in queue_index.segment_extents:
                if extent.segment in self._missing and extent.count > 0:
                    self._lose(queue_index, int(extent.count))

    def _lose(self, queue_index: QueueIndex, count: int) -> None:
        self.lost[int(queue_index.queue_id)] = self.lost.get(int(queue_index.queue_id), 0) + count

    def _report_unknown(self) -> None:
        if self.unknown:
            self.faults.append(
                f"the journal holds messages of {len(self.unknown)} queues that the metadata, which ends at "
                f"{self._revision}, does not know: it is older than the journal"
            )

    def _refuse(self, sentence: str) -> None:
        if not self._lenient:
            raise StoreError(f"{sentence}; {SALVAGE_HINT}")
        self.faults.append(sentence)

    # -- one segment

    def _replay(self, number: int, is_last: bool) -> None:
        data = self._files.segment(number)
        segment = self._segments.get(number)
        if segment is None:
            segment = Segment(number)
            self._segments[number] = segment
        known_end = segment.size_bytes
        segment.total_bytes = 0
        self._rows.begin(number)
        self.clean = False
        fault = segment_header_fault(data, number)
        if fault.startswith("of another version"):
            raise ConfigError(f"segment {number} of the journal is {fault}; this version reads versions 1 and 2")
        if fault:
            if not is_last or fault.startswith("of segment") or next_opening(data, number, 0) >= 0:
                self._refuse(f"segment {number} of the journal is {fault}, at byte 0")
                self.left_out.append((number, 0, int(SEGMENT_HEADER_BYTES)))
            if not self._lenient or len(data) < SEGMENT_HEADER_BYTES:
                return
        batches = BatchScanner(data, number, known_end)
        while self._replay_batches(segment, batches):
            self._refuse(f"segment {number} of the journal is damaged at byte {batches.bad}")
            batches.step_over()
            self._replay_intact(segment, data, batches.start, batches.end)
        if batches.ending == TORN and not is_last:
            self._refuse(f"segment {number} of the journal is damaged at byte {batches.bad}")

    def _replay_batches(self, segment: Segment, batches: BatchScanner) -> bool:
        """Replay every batch up to the next damage; whether there is damage."""
        while batches.next():
            scanner = RecordScanner(batches.data, segment.number, batches.records)
            message_bytes: i64 = 0
            while scanner.end < batches.end and scanner.next():
                self._replay_record(segment, scanner, int(scanner.at) in batches.bad_payloads)
                if scanner.kind <= COPY_PAGED:
                    message_bytes += scanner.end - scanner.at
            segment.total_bytes += batches.end - batches.start - message_bytes
            segment.size_bytes = batches.end
        return batches.ending == DAMAGED

    def _replay_intact(self, segment: Segment, data: bytes, start: i64, end: i64) -> None:
        """Replay the intact records of a damaged stretch, and report the bytes between them."""
        at = start
        scanner = next_record(data, segment.number, at, end)
        while scanner is not None:
            if scanner.at > at:
                self.left_out.append((int(segment.number), int(at), int(scanner.at)))
            self._replay_record(segment, scanner, not scanner.intact())
            at = scanner.end
            segment.size_bytes = max(segment.size_bytes, at)
            scanner = next_record(data, segment.number, at, end)
        if end > at:
            self.left_out.append((int(segment.number), int(at), int(end)))

    # -- one record

    def _replay_record(self, segment: Segment, scanner: RecordScanner, damaged: bool) -> None:
        kind = scanner.kind
        self.clean = kind == STOPPED
        if kind <= COPY_PAGED:
            _body_bytes, cost = record_sizes(scanner, damaged)
            segment.total_bytes += cost * scanner.count
            if kind in (MESSAGE, COPY):
                self._replay_message(segment, scanner, damaged)
            return
        index: i64 = 0
        while index < scanner.count and kind != SYNCED and kind != STOPPED:
            if kind == MOVED:
                self._replay_move(segment, int(scanner.a(index)))
            elif kind in (STORED_OFFSET, PUBLISHING_IDS):
                self._replay_state(segment, scanner, index, damaged)
            else:
                self._replay_mark(scanner, index)
            index += 1

    def _replay_message(self, segment: Segment, scanner: RecordScanner, damaged: bool) -> None:
        if self._lenient and damaged:
            self.left_out.append((int(segment.number), int(scanner.at), int(scanner.end)))
        else:
            self._rows.add(int(segment.number), scanner, damaged)
        body_bytes, cost = record_sizes(scanner, damaged)
        index: i64 = -1
        while index + 1 < scanner.count:
            index += 1
            queue_id, position = scanner.a(index), scanner.b(index)
            queue_index = self._queue_index(queue_id) if queue_id > 0 else None
            if queue_index is None:
                if queue_id > self._revision:
                    self.unknown[int(queue_id)] = self.unknown.get(int(queue_id), 0) + 1
                    self.unknown_in[int(segment.number)] = True
                continue
            level = queue_index.level_of(scanner.priority)
            if scanner.kind == MESSAGE and not damaged and segment.number >= self._state_from:
                replay_queue_state(queue_index, scanner, index)
            if self._lenient:
                queue_index.next_position = max(queue_index.next_position, position + 1)
                if damaged:
                    self._lose(queue_index, 1)
                    queue_index.removed_at(level).add(position)
                continue
            if damaged:
                self._damaged.append((queue_index, segment, int(level), int(position), int(scanner.at)))
            if scanner.kind == MESSAGE:
                queue_index.restore(segment, level, position, body_bytes, cost, scanner.c(index))

    def _stop_damaged(self) -> None:
        """Stop the queues that still have a damaged message."""
        for queue_index, segment, level, position, offset in self._damaged:
            if (
                queue_index.removed_at(level).has(position)
                or queue_index.extent_at(segment, level, True, position) is None
            ):
                continue
            self._stop_queue(queue_index, f"segment {segment.number} of the journal is damaged at byte {offset}")

    def _replay_mark(self, scanner: RecordScanner, index: i64) -> None:
        queue_index = self._queue_index(scanner.a(index))
        if queue_index is None:
            return
        if scanner.kind == REMOVED:
            first, last = scanner.b(index), scanner.c(index)
            queue_index.removed_at(scanner.priority).add_range(first, last)
            queue_index.next_position = max(queue_index.next_position, last + 1)
            self._recount.removed(queue_index, scanner.priority, first, last)
        elif scanner.kind == WATERMARK:
            # a lenient recovery reads records that are older than the checkpoint
            position = scanner.b(index)
            queue_index.watermark.position = (
                max(queue_index.watermark.position, position) if self._lenient else position
            )
        elif scanner.kind == RETURNED:
            returned, count = int(scanner.b(index)), int(scanner.c(index))
            queue_index.return_counts[returned] = max(queue_index.return_counts.get(returned, 0), count)

    def _replay_state(self, segment: Segment, scanner: RecordScanner, index: i64, damaged: bool) -> None:
        queue_index = self._queue_index(scanner.a(index))
        if queue_index is None:
            return
        if damaged and self._lenient:
            self.left_out.append((int(segment.number), int(scanner.at), int(scanner.end)))
        elif damaged:
            self._stop_queue(queue_index, f"segment {segment.number} of the journal is damaged at byte {scanner.at}")
        elif segment.number >= self._state_from:
            replay_queue_state(queue_index, scanner, index)

    def _replay_move(self, home: Segment, from_number: int) -> None:
        segment = self._segments.get(from_number)
        if segment is None or self._lenient:
            return
        for queue_index in self._journal.queue_indexes.values():
            queue_index.move(segment, home)
