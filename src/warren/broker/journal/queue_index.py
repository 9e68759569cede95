"""The index of one queue in the journal: where its messages are, which are removed, and how entries are read back.

Removed positions are a set for each priority level, so a removal record is a range of positions of one level. The
removals of a turn are written at its end, in as few ranges as possible.

A fetch reads the first entries of a range. Their offsets come from the rows of the segment's index: rows of the active
segment, and of a segment just sealed, are in memory; other rows are read once and kept while the queue reads that
segment. Records that lie close together are read in one piece. Every record is checked against its checksums before
an entry is made of it. Damage stops the queue.

Invariants: the extents of a level that are equally durable do not overlap; each lies in one segment. A stored entry in
memory points at its extent, which compaction moves from segment to segment.

Not here: how far entries were delivered (`broker.journal.delivery_watermark`), the bytes of a batch
(`broker.journal.batches`), how far ahead a queue reads (`broker.queues.contents`), the files (`node.disk`).
"""

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.broker.journal.checkpoint import QueueCheckpoint
from warren.broker.journal.delivery_watermark import DeliveryWatermark
from warren.broker.journal.extents import ExtentList, ExtentRestore
from warren.broker.journal.payloads import decode_message
from warren.broker.journal.queue_state import ARCHIVE_OFFSET, encode_queue_state, load_queue_state, write_offset
from warren.broker.journal.records import (
    COPY,
    MESSAGE,
    REMOVED,
    RETURNED,
    RecordScanner,
    damaged_segment,
    find_placement,
    write_triple,
)
from warren.broker.journal.removed_positions import RemovedPositions
from warren.broker.journal.segment_index import (
    ROW_BYTES,
    first_row_from,
    pieces_of,
    row_kind,
    row_length,
    row_offset,
    row_position,
    row_priority,
)
from warren.broker.journal.tail import JournalLog, JournalTail, ReadWaiter, WriteWaiter, current_segment
from warren.broker.model.journal import ENTRY_COST_BYTES, PositionRange, Segment, SegmentExtent
from warren.broker.model.message import NEVER, Entry, Message
from warren.broker.model.ports import FetchWaiter
from warren.errors import InvariantBroken, StoreError


@final
class QueueIndex(JournalLog):
    """One queue's part of the journal."""

    def __init__(
        self, tail: JournalTail, registry: "dict[int, QueueIndex]", queue_id: int, durable: bool, max_priority: int
    ) -> None:
        super().__init__(queue_id, durable, max_priority)
        # a mirrored queue: every message is on disk, also one that is in memory
        self.mirrored_on_disk: bool = False
        # messages below all others may still arrive, so a position counts as removed only if it was removed
        self.catching_up: bool = False
        # one above the highest position that was ever stored
        self.next_position: i64 = 1
        self.segment_extents: list[SegmentExtent] = []
        # by level
        self.removed: list[RemovedPositions] = [RemovedPositions()]
        # how often entries were returned, by position; only of queues with a delivery limit
        self.return_counts: dict[int, int] = {}
        self.tail: JournalTail = tail
        self.watermark: DeliveryWatermark = DeliveryWatermark(tail, self)
        # while the journal is read
        self.restored: ExtentRestore | None = None
        # all open indexes, by queue
        self._registry: dict[int, QueueIndex] = registry
        registry[queue_id] = self
        self._fetch: EntryFetch | None = None
        # the extents of the active segment that new messages go to, by level and durability
        self._current: SegmentExtent | None = None
        self._open_extents: dict[int, SegmentExtent] = {}
        self._closed: bool = False
        # removals of this turn
        self._removal_level: i64 = 0
        self._removal_first: i64 = 0
        self._removal_last: i64 = -1
        self._removals: BytesWriter = BytesWriter()
        self._return_marks: BytesWriter = BytesWriter()
        self._archive_moved: bool = False

    # -- storing

    def store(self, message: Message, position: i64, expires_at_ms: i64, level: i64) -> SegmentExtent:
        tail = self.tail
        durable = self.durable and message.persistent
        extent = self._current
        if extent is None or extent.segment is not tail.active or extent.level != level or extent.durable != durable:
            extent = self._open_extent(level, durable, position)
        cost: i64 = len(message.content) + ENTRY_COST_BYTES
        extent.add(position, message.body_bytes, cost)
        tail.active.total_bytes += cost
        if expires_at_ms != NEVER:
            extent.deadlines = True
        tail.batch.place(self.queue_id, message, position, expires_at_ms)
        self.written_count += 1
        watermark = self.watermark
        if watermark.batch_no != tail.batch_no:
            watermark.batch_no = tail.batch_no
            watermark.batch_first = position
        self.next_position = position + 1
        return extent

    def _open_extent(self, level: i64, durable: bool, position: i64) -> SegmentExtent:
        key = int(level * 2 + (1 if durable else 0))
        extent = self._open_extents.get(key)
        if extent is None or extent.segment is not self.tail.active:
            extent = SegmentExtent(self.queue_id, self.tail.active, level, durable, position)
            self._open_extents[key] = extent
            self.segment_extents.append(extent)
        self._current = extent
        return extent

    def put(
        self,
        extent: SegmentExtent,
        position: i64,
        priority: i64,
        expires_at_ms: i64,
        persistent: bool,
        body_bytes: i64,
        payload: bytes,
        payload_crc: i64,
    ) -> None:
        """Write the payload of a message that its extent already counts."""
        tail = self.tail
        if expires_at_ms != NEVER:
            extent.deadlines = True
        tail.batch.put(self.queue_id, position, priority, expires_at_ms, persistent, body_bytes, payload, payload_crc)
        self.written_count += 1
        if position >= self.next_position:
            self.next_position = position + 1
            watermark = self.watermark
            if watermark.batch_no != tail.batch_no:
                watermark.batch_no = tail.batch_no
                watermark.batch_first = position

    # -- forgetting

    def forget(self, entry: Entry) -> None:
        extent = entry.extent
        if extent is None or self._closed:
            return
        entry.extent = None
        message = entry.message
        extent.remove(1, message.body_bytes, len(message.content) + ENTRY_COST_BYTES)
        if extent.durable:
            self._write_removal(extent.level, entry.position, entry.position)
            if self.return_counts:
                self.return_counts.pop(int(entry.position), None)

    def forget_range(self, level: i64, first: i64, last: i64, durable: bool) -> None:
        """Remove all positions of a level in this range; `durable`: write the removal, a durable message was there."""
        if durable:
            self._write_removal(level, first, last)
        else:
            self.removed_at(level).add_range(first, last)
        if self.return_counts and first == last:
            self.return_counts.pop(int(first), None)
        if last >= self.next_position:
            self.next_position = last + 1

    def pass_over(self, position: i64) -> None:
        """Never assign a position up to this one, which no message has, after a restart either."""
        if position >= self.next_position:
            self.next_position = position + 1
            self._write_removal(0, position, position)

    def forget_unread(self, positions: PositionRange) -> None:
        """Remove the positions of a range. No other message of its level lies between them."""
        segment = current_segment(positions.segment)
        left = positions.count
        for extent in self._extents_between(segment, positions.level, positions.first, positions.last):
            if not extent.durable:
                left -= extent.count
                extent.remove(extent.count, extent.body_bytes, extent.cost_bytes)
        for extent in self._extents_between(segment, positions.level, positions.first, positions.last):
            if extent.durable:
                count = min(left, extent.count)
                left -= count
                # messages in memory or in flight stay; their share of the bytes is an estimate
                body_bytes: i64 = extent.body_bytes * count // extent.count
                extent.remove(count, body_bytes, extent.cost_bytes * count // extent.count)
        self._write_removal(positions.level, positions.first, positions.last)

    def returned(self, entry: Entry) -> None:
        if entry.extent is None or not entry.extent.durable:
            return
        self.count_return(entry.position, i64(entry.delivery_count))

    def count_return(self, position: i64, count: i64) -> None:
        self.return_counts[int(position)] = int(count)
        write_triple(self._return_marks, self.queue_id, position, count)
        self.tail.touch(self)

    def unpage(self, entry: Entry) -> None:
        """A transient entry is in memory again, so its copy on disk is dead."""
        extent = entry.extent
        assert extent is not None
        entry.extent = None
        extent.remove(1, entry.message.body_bytes, len(entry.message.content) + ENTRY_COST_BYTES)
        self.removed_at(extent.level).add(entry.position)

    def removed_at(self, level: i64) -> RemovedPositions:
        while len(self.removed) <= level:
            self.removed.append(RemovedPositions())
        return self.removed[level]

    def level_of(self, priority: i64) -> i64:
        return min(priority, self.max_priority)

    def _write_removal(self, level: i64, first: i64, last: i64) -> None:
        removed = self.removed[0] if level == 0 else self.removed_at(level)
        if first == last:
            removed.add(first)
        else:
            removed.add_range(first, last)
        if not self.durable:
            return
        if first == self._removal_last + 1 and level == self._removal_level and self._removal_last >= 0:
            self._removal_last = last
            return
        self._end_removal()
        if level != self._removal_level:
            self._end_removal_level()
        self._removal_level = level
        self._removal_first = first
        self._removal_last = last
        self.tail.touch(self)

    def _end_removal(self) -> None:
        if self._removal_last >= 0:
            write_triple(self._removals, self.queue_id, self._removal_first, self._removal_last)
            self._removal_last = -1

    def _end_removal_level(self) -> None:
        if len(self._removals):
            self.tail.batch.mark(REMOVED, self._removals.getvalue(), self._removal_level)
            self._removals = BytesWriter()

    def mark_delivered(self, entry: Entry) -> bool:
        return self.watermark.mark_delivered(entry.position)

    # -- the end of a turn

    def write_marks(self) -> None:
        if self._closed:
            return
        self.watermark.write()
        if len(self._return_marks):
            self.tail.batch.mark(RETURNED, self._return_marks.getvalue())
            self._return_marks = BytesWriter()
        self._end_removal()
        self._end_removal_level()
        if self._archive_moved:
            self._archive_moved = False
            write_offset(self.tail.batch, self.queue_id, ARCHIVE_OFFSET, self.archived_to)

    def archive_goes_to(self, position: i64) -> None:
        """The stream is in archive files up to here. Recorded once the journal has dropped those messages."""
        if position != self.archived_to:
            self.archived_to = position
            self._archive_moved = True
            self.tail.touch(self)

    def store_offset(self, name: str, offset: i64) -> None:
        super().store_offset(name, offset)
        if self.durable and not self._closed:
            write_offset(self.tail.batch, self.queue_id, name, offset)

    # -- reading

    def fetch(self, positions: PositionRange, asker: FetchWaiter, entries_max: i64) -> None:
        if self._fetch is None:
            self._fetch = EntryFetch(self.tail, self)
        self._fetch.begin(positions, asker, entries_max)

    def cancel_fetch(self) -> None:
        if self._fetch is not None:
            self._fetch.cancel()

    def all_is_read(self) -> None:
        if self._fetch is not None:
            self._fetch.forget_rows()

    def kept(self) -> tuple[int, int]:
        count: i64 = 0
        body_bytes: i64 = 0
        for extent in self.segment_extents:
            if extent.durable:
                count += extent.count
                body_bytes += extent.body_bytes
        return int(count), int(body_bytes)

    def extent_at(self, segment: Segment, level: i64, durable: bool, position: i64) -> SegmentExtent | None:
        """The extent that counts a position, if it is alive in this segment."""
        for extent in self.segment_extents:
            if extent.covers(segment, level, durable, position):
                return extent
        return None

    def _extents_between(self, segment: Segment, level: i64, first: i64, last: i64) -> list[SegmentExtent]:
        return [
            extent
            for extent in self.segment_extents
            if extent.segment is segment
            and extent.level == level
            and extent.count > 0
            and extent.first <= last
            and extent.last >= first
        ]

    # -- life

    def position_ranges(self) -> list[PositionRange]:
        """The durable messages that are alive, as ranges of a queue that has none of them in memory."""
        ranges: list[PositionRange] = []
        for extent in self.segment_extents:
            if extent.count > 0 and extent.durable:
                positions = PositionRange(extent.segment, extent.level, extent.first)
                positions.add_extent(extent)
                ranges.append(positions)
        ranges.sort(key=range_first)
        return ranges

    def load(self, mark: QueueCheckpoint) -> None:
        """Take over this queue's part of a checkpoint."""
        self.next_position = mark.next_position
        self.watermark.position = mark.watermark
        self.removed = mark.removed
        self.segment_extents = mark.segment_extents
        self.return_counts = mark.returned
        load_queue_state(self, mark.queue_state)

    def restore(
        self, segment: Segment, level: i64, position: i64, body_bytes: i64, cost_bytes: i64, expires_at_ms: i64
    ) -> None:
        """Count a message that was stored before the node started."""
        if self.restored is None:
            self.restored = ExtentRestore(self.queue_id, self.segment_extents)
        extent = self.restored.extent_for(segment, level, position)
        extent.add(position, body_bytes, cost_bytes)
        if expires_at_ms != NEVER:
            extent.deadlines = True
        self.next_position = max(self.next_position, position + 1)

    def recovered(self) -> None:
        """The journal was read."""
        self.restored = None
        self.watermark.recovered(self.next_position - 1)

    def tidy(self) -> None:
        """Drop empty extents, and removed positions and return counts below all messages."""
        self.segment_extents = [extent for extent in self.segment_extents if extent.count > 0]
        if not self.catching_up:
            self.raise_floors()
        if self.return_counts:
            self._drop_return_counts()

    def raise_floors(self) -> None:
        """Every position below the lowest message of its level is removed."""
        for level, removed in enumerate(self.removed):
            lowest: i64 = self.next_position
            for extent in self.segment_extents:
                if extent.level == level and extent.first < lowest:
                    lowest = extent.first
            removed.raise_floor(lowest)

    def _drop_return_counts(self) -> None:
        lowest: i64 = self.next_position
        for extent in self.segment_extents:
            lowest = min(lowest, extent.first)
        removed = self.removed[0]
        for position in list(self.return_counts):
            # with several levels, the position alone does not tell whether the message is removed
            if position < lowest or (self.max_priority == 0 and removed.has(position)):
                del self.return_counts[position]

    def mark(self) -> QueueCheckpoint:
        """This queue's part of a checkpoint."""
        segment_extents = [extent for extent in self.segment_extents if extent.durable]
        watermark = self.watermark.highest()
        next_position, besides = self.next_position, encode_queue_state(self)
        return QueueCheckpoint(
            self.queue_id, next_position, watermark, self.removed, segment_extents, self.return_counts, besides
        )

    def move(self, segment: Segment, home: Segment) -> None:
        """Compaction copied the living messages of a segment: count them in the other segment."""
        for extent in self.segment_extents:
            if extent.segment is segment:
                extent.segment = home
                # a moved extent must not grow: messages between its positions and new ones lie elsewhere
                self._current = None
                self._open_extents = {}

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.cancel_fetch()
        self.asker = None
        for extent in self.segment_extents:
            extent.remove(extent.count, extent.body_bytes, extent.cost_bytes)
        self.segment_extents = []
        del self._registry[int(self.queue_id)]

    def check(self) -> None:
        """Raise `InvariantBroken` if extents overlap, or reach beyond the positions and segments they can have."""
        levels: dict[int, list[SegmentExtent]] = {}
        for extent in self.segment_extents:
            if extent.count < 0:
                raise InvariantBroken(f"queue {self.queue_id} has {extent.count} messages in an extent")
            if extent.count == 0:
                continue
            if extent.queue_id != self.queue_id or extent.level > self.max_priority:
                raise InvariantBroken(f"queue {self.queue_id} has an extent of queue {extent.queue_id}")
            if extent.count > extent.last - extent.first + 1 or extent.last >= self.next_position:
                raise InvariantBroken(
                    f"queue {self.queue_id} has {extent.count} messages from {extent.first} to {extent.last}, "
                    f"and {self.next_position} is next"
                )
            levels.setdefault(int(extent.level * 2 + (1 if extent.durable else 0)), []).append(extent)
        for key, segment_extents in levels.items():
            ExtentList(self.queue_id, key >> 1, key & 1 == 1, segment_extents).check()
        for removed in self.removed:
            removed.check()
        self.watermark.check()


FETCH_BYTES: Final[i64] = 256 * 1024

SHORT_RANGE: Final[i64] = 64
"""Ranges of a mirrored queue that are no longer than this may alternate between two segments."""


@final
class EntryFetch(ReadWaiter, WriteWaiter):
    """One queue's fetches, one at a time."""

    def __init__(self, tail: JournalTail, queue_index: "QueueIndex") -> None:
        self._tail: JournalTail = tail
        self._queue_index: QueueIndex = queue_index
        self._positions: PositionRange | None = None
        self._asker: FetchWaiter | None = None
        self._entries_max: i64 = 0
        # the index rows in use, and their segment; and the rows used before, because ranges may alternate
        self._rows: bytes = b""
        self._rows_of: Segment | None = None
        self._rows_before: bytes = b""
        self._rows_before_of: Segment | None = None
        # the read under way: the rows it is for, the pieces read, and the piece that each row's record is in
        self._segment: Segment | None = None
        self._wanted: list[int] = []
        self._pieces: list[tuple[int, int]] = []
        self._piece_of: list[int] = []
        # the extent of the last entry
        self._extent: SegmentExtent | None = None
        # the wanted records are not written yet; and whether `retry` is due, also for a cancelled fetch
        self._unwritten: bool = False
        self._retry_due: bool = False

    def begin(self, positions: PositionRange, asker: FetchWaiter, entries_max: i64) -> None:
        self._entries_max = entries_max
        self._positions = positions
        self._asker = asker
        self._go_on()

    def cancel(self) -> None:
        self._tail.reads.withdraw(self)
        self._positions = None
        self._asker = None
        self._unwritten = False
        self.forget_rows()

    def retry(self) -> None:
        self._retry_due = False
        if self._unwritten:
            self._unwritten = False
            self._go_on()

    # -- finding the entries

    def _go_on(self) -> None:
        positions = self._positions
        assert positions is not None
        segment = current_segment(positions.segment)
        if self._rows_of is not segment:
            self._put_rows_aside()
        if self._rows_of is segment and self._choose(positions, segment):
            return
        if not self._tail.rows_at_hand(segment):
            self._drop_rows()
            self._segment = segment
            self._tail.read_index(self, segment, self._queue_index.queue_id)
            return
        self._remember_rows(segment, self._tail.rows_in(segment, self._queue_index.queue_id))
        if not self._choose(positions, segment):
            self._unwritten = True
            if not self._retry_due:
                self._retry_due = True
                self._tail.await_writing(self)

    def index_read(self, rows: bytes, error: str) -> None:
        positions, segment = self._positions, self._segment
        if positions is None or segment is None:
            return
        if error:
            self._stop(error)
            return
        self._remember_rows(segment, rows)
        if current_segment(positions.segment) is not segment:
            self._go_on()
        elif not self._choose(positions, segment):
            self._stop(f"segment {segment.number} lacks messages from position {positions.first} on")

    def _remember_rows(self, segment: Segment, rows: bytes) -> None:
        self._drop_rows()
        self._rows = rows
        self._rows_of = segment
        self._tail.turn.held_bytes += len(rows)

    def _put_rows_aside(self) -> None:
        """Swap the rows in use with those used before."""
        self._rows, self._rows_before = self._rows_before, self._rows
        self._rows_of, self._rows_before_of = self._rows_before_of, self._rows_of

    def _drop_rows(self) -> None:
        self._tail.turn.held_bytes -= len(self._rows)
        self._rows = b""
        self._rows_of = None

    def forget_rows(self) -> None:
        self._drop_rows()
        self._put_rows_aside()
        self._drop_rows()

    def _choose(self, positions: PositionRange, segment: Segment) -> bool:
        """Read the first entries of the range that can be read; False if there are none."""
        rows, queue_index = self._rows, self._queue_index
        removed = queue_index.removed_at(positions.level)
        written_to = self._tail.written_to(segment)
        # transient messages of an earlier process are dead
        durable_only = segment.number < self._tail.first_number
        chosen: list[int] = []
        size: i64 = 0
        last: i64 = 0
        index = first_row_from(rows, positions.first)
        count: i64 = len(rows) // ROW_BYTES
        while index < count and size < FETCH_BYTES and len(chosen) < self._entries_max:
            position = row_position(rows, index)
            if position > positions.last:
                break
            length = row_length(rows, index)
            if row_offset(rows, index) + length > written_to:
                break
            kind = row_kind(rows, index)
            alive = position != last and queue_index.level_of(row_priority(rows, index)) == positions.level
            if alive and not removed.has(position) and not (durable_only and kind != MESSAGE and kind != COPY):
                chosen.append(int(index))
                size += length
                last = position
            index += 1
        if not chosen:
            return False
        self._ask(segment, chosen)
        return True

    def _ask(self, segment: Segment, chosen: list[int]) -> None:
        self._segment = segment
        self._wanted = chosen
        self._pieces, self._piece_of = pieces_of(self._rows, chosen)
        self._tail.read_records(self, segment, self._pieces)

    # -- decoding the entries

    def journal_read(self, blocks: list[bytes], error: str) -> None:
        positions, asker, segment = self._positions, self._asker, self._segment
        if positions is None or asker is None or segment is None:
            return
        if error:
            self._stop(error)
            return
        try:
            entries = self._decode(positions, segment, blocks)
            if len(entries) < positions.count and entries[len(entries) - 1].position >= positions.last:
                raise StoreError(
                    f"segment {segment.number} lacks messages between {positions.first} and {positions.last}"
                )
        except StoreError as fault:
            self._stop(str(fault))
            return
        self._positions = None
        self._asker = None
        if len(entries) >= positions.count and (len(entries) > SHORT_RANGE or not self._queue_index.mirrored_on_disk):
            self.forget_rows()
        asker.paged_in(entries)

    def _decode(self, positions: PositionRange, segment: Segment, blocks: list[bytes]) -> list[Entry]:
        entries: list[Entry] = []
        rows = self._rows
        for index, piece in zip(self._wanted, self._piece_of, strict=True):
            offset = row_offset(rows, index)
            base: i64 = self._pieces[piece][0]
            entries.append(self._decode_one(positions, segment, blocks[piece], base, offset, row_position(rows, index)))
        return entries

    def _decode_one(
        self, positions: PositionRange, segment: Segment, block: bytes, base: i64, offset: i64, position: i64
    ) -> Entry:
        queue_index = self._queue_index
        scanner = RecordScanner(block, segment.number, offset, base)
        index = find_placement(scanner, queue_index.queue_id, position)
        if index < 0:
            raise damaged_segment(segment.number, offset)
        durable_kind = scanner.kind == MESSAGE or scanner.kind == COPY
        message = decode_message(scanner.payload(), scanner.priority, durable_kind, self._tail.envelopes())
        entry = Entry(message, position, scanner.c(index))
        durable = durable_kind and queue_index.durable
        home = current_segment(segment)
        extent = self._extent
        if extent is None or not extent.covers(home, positions.level, durable, position):
            extent = queue_index.extent_at(home, positions.level, durable, position)
            self._extent = extent
        if extent is None:
            raise StoreError(f"segment {segment.number} holds position {position}, which no extent counts")
        entry.extent = extent
        if not durable and not queue_index.mirrored_on_disk:
            queue_index.unpage(entry)
        entry.redelivered = position <= queue_index.watermark.redelivered_to
        entry.delivery_count = queue_index.return_counts.get(int(position), 0)
        return entry

    def _stop(self, reason: str) -> None:
        asker = self._asker
        self._positions = None
        self._asker = None
        self.forget_rows()
        if asker is not None:
            asker.stop(reason)


def range_first(positions: PositionRange) -> int:
    return int(positions.first)
