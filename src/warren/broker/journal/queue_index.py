"""What the journal knows of one queue: where its messages are, and which are gone.

Positions that left are kept as a set for each priority level, which is all a removal has to say: a range of
positions of one level. What left in a turn is written as few ranges at its end.

Invariants: the holdings of a level that are alike durable do not overlap; each lies in one segment. A stored entry in
memory points at its holding, whatever compaction does to where that lies.

Not here: what may have been handed out (`broker.journal.queue_index`), reading entries back
(`broker.journal.entry_fetch`), the bytes of a batch (`broker.journal.batches`).

Up to where a queue's entries may have been handed out.

After a crash a message that may have been delivered comes back marked as redelivered, and, as nearly as can be, only
such a one. So before an entry goes out, the *horizon*, the highest position that may have gone, is on disk. A message
that goes out in the turn it came in needs no wait: both are in one batch, and are lost together or not at all. Others
wait for a flush. To wait seldom, the horizon is moved ahead by as many positions as were just handed out in one go,
and, once that is many, early enough. So a queue that hands out one at a time is exact, and a busy one does not wait.

A queue with priorities does not hand out in order: its horizon, once anything went, is the end of all numbers.

Not here: what is handed out (`queue`), what recovered entries are marked by (`broker.journal.entry_fetch`).

Where messages that a start finds in the journal are counted.

They are read in the order they were written. For most queues that is the order of their positions; for a copy that was
catching up it is not, and what came late may lie between the positions of a holding in another segment. Such a holding
is divided, as it was when the message was written; what each part has is counted afterwards, by its rows.

Not here: reading (`broker.journal.recovery`), counting (`broker.journal.recovery`), dividing while the node runs
(`broker.journal.position_index`).

Forgetting what the journal no longer needs to know of a queue: what lies below all that is there, or is gone.

Not here: the rest of what it knows (`broker.journal.queue_index`).
"""

from typing import TYPE_CHECKING, Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.broker.journal.checkpoint import QueueCheckpoint
from warren.broker.journal.entry_fetch import EntryFetch
from warren.broker.journal.extents import ExtentList
from warren.broker.journal.queue_state import ARCHIVE_OFFSET, encode_queue_state, load_queue_state, write_offset
from warren.broker.journal.records import REMOVED, RETURNED, WATERMARK, write_triple
from warren.broker.journal.removed_positions import RemovedPositions
from warren.broker.model.journal import ENTRY_COST_BYTES, PositionRange, Segment, SegmentExtent
from warren.broker.model.message import NEVER, Entry, Message
from warren.broker.model.ports import FetchWaiter, QueueLog
from warren.broker.model.turn import FlushWaiter

if TYPE_CHECKING:
    from warren.broker.journal.journal import Journal


RESERVE_MAX: Final[i64] = 4096
BUSY_DELIVERIES: Final[i64] = 8
"""From here on a queue asks ahead, so that it does not have to wait."""

EVERYTHING: Final[i64] = 1 << 62


@final
class DeliveryWatermark(FlushWaiter):
    """One queue's horizon."""

    def __init__(self, journal: "Journal", queue_index: "QueueIndex") -> None:
        # as last written
        self.position: i64 = 0
        # what was recovered up to here may have been delivered before the node started
        self.redelivered_to: i64 = 0
        # the batch that was last stored in, and the first position there
        self.batch_no: i64 = 0
        self.batch_first: i64 = 0
        self._journal: Journal = journal
        self._queue_index: QueueIndex = queue_index
        # known to be on disk
        self._flushed_to: i64 = 0
        self._in_flight: list[int] = []
        # beyond this position it is time to think of moving on
        self._ask_from: i64 = 0
        self._asked_at: i64 = 0
        self._moved: bool = False
        self._refused: bool = False
        self._highest_lent: i64 = 0
        # the first and the last position that went in the last turn in which any did
        self._lent_turn: i64 = 0
        self._lent_first: i64 = 0
        self._lent_last: i64 = 0

    def mark_delivered(self, position: i64) -> bool:
        """Whether an entry may go now; if not, the queue is told when."""
        if position > self._ask_from and not self._may_go(position):
            self._refused = True
            return False
        if self._lent_turn != self._journal.turn_no:
            self._lent_turn = self._journal.turn_no
            self._lent_first = position
        self._lent_last = position
        if position > self._highest_lent:
            self._highest_lent = position
        return True

    def _may_go(self, position: i64) -> bool:
        if self.batch_no == self._journal.batch_no and position >= self.batch_first:
            # it is in this very batch, and so will be the horizon
            self._move(position, position)
            return True
        if position <= self._flushed_to:
            go = self._in_one_go(position)
            if self.position == self._flushed_to and go >= BUSY_DELIVERIES:
                # at half of what was asked for: twice as much again, lest it never grow
                self._move(self.position + min(4 * go, RESERVE_MAX), position)
            return True
        if position > self.position:
            self._move(position + min(max(2 * self._in_one_go(position) - 3, 0), RESERVE_MAX), position)
        return False

    def _in_one_go(self, position: i64) -> i64:
        """How many are wanted at a time: in this turn, this one included, or in the last that had any."""
        if self._lent_turn == self._journal.turn_no:
            return position - self._lent_first + 1
        return self._lent_last - self._lent_first + 1

    def _move(self, to: i64, asked_at: i64) -> None:
        self._asked_at = asked_at
        if self._queue_index.max_priority > 0:
            to = EVERYTHING
        if to <= self.position:
            return
        self.position = to
        if not self._moved:
            self._moved = True
            self._journal.touch(self._queue_index)

    def follow(self, position: i64) -> bool:
        """A queue that several nodes hold hands out up to here; whether that is news."""
        self._highest_lent = max(self._highest_lent, position)
        if position <= self.position:
            return False
        self._move(position, position)
        return True

    def write(self) -> None:
        """The turn ends: write it if it moved."""
        if self._moved:
            self._moved = False
            self._write(self.position)
            self._in_flight.append(int(self.position))
            self._journal.turn.await_flush(self)

    def flushed(self) -> None:
        self._flushed_to = max(self._flushed_to, self._in_flight.pop(0))
        # time to think of more when half of what was asked for is used
        self._ask_from = self._flushed_to - (self._flushed_to - min(self._asked_at, self._flushed_to)) // 2
        asker = self._queue_index.asker
        if self._refused and asker is not None:
            self._refused = False
            asker.delivery_allowed()

    def write_last(self) -> None:
        """The node stops: what was handed out is known exactly."""
        if self.position != 0 and self._queue_index.max_priority == 0:
            self._write(max(self._highest_lent, self.redelivered_to))

    def _write(self, position: i64) -> None:
        triple = BytesWriter()
        write_triple(triple, self._queue_index.queue_id, position, 0)
        self._journal.batch.mark(WATERMARK, triple.getvalue())

    def highest(self) -> i64:
        """What a checkpoint must say: it also speaks of what was recovered."""
        return max(self.position, self.redelivered_to)

    def promoted(self, last_position: i64) -> None:
        """What was another node's to hand out is this one's; new positions begin behind this one."""
        self.position = min(self.position, last_position)
        self.redelivered_to = self.position

    def recovered(self, last_position: i64) -> None:
        """The journal was read; new positions begin behind this one."""
        self.position = min(self.position, last_position)
        self.redelivered_to = self.position
        self._asked_at = self.position
        if self.position != 0:
            # that it could be read does not mean it was flushed: the first flush of this life sees to that
            self._in_flight.append(int(self.position))
            self._journal.turn.await_flush(self)


@final
class ExtentRestore:
    """One queue's durable holdings while the journal is read."""

    def __init__(self, queue_index: "QueueIndex") -> None:
        # parts of holdings: only rows can tell what each has
        self.divided: list[SegmentExtent] = []
        self._queue_index: QueueIndex = queue_index
        self._rows: dict[int, ExtentList] = {}

    def extent_for(self, segment: Segment, level: i64, position: i64) -> SegmentExtent:
        row = self._rows.get(int(level))
        if row is None:
            queue_index = self._queue_index
            row = ExtentList(
                queue_index.queue_id, level, True, [one for one in queue_index.segment_extents if one.level == level]
            )
            self._rows[int(level)] = row
        extent = row.open_at(position, segment)
        return self._make_way(row, segment, position) if extent is None else extent

    def _make_way(self, row: ExtentList, segment: Segment, position: i64) -> SegmentExtent:
        over = row.across(position)
        if over is not None:
            above = row.divide(over, position)
            if above is not None:
                # until they are counted each is said to have all
                above.count = over.count
                above.cost_bytes = over.cost_bytes
                self._queue_index.segment_extents.append(above)
                self.divided += [over, above]
        extent = row.open_at(position, segment)
        if extent is None:
            extent = row.begin(position, segment)
            self._queue_index.segment_extents.append(extent)
        return extent


def raise_floors(queue_index: "QueueIndex") -> None:
    """Whatever lies below all that is there is gone."""
    for level, removed in enumerate(queue_index.removed):
        lowest: i64 = queue_index.next_position
        for extent in queue_index.segment_extents:
            if extent.level == level and extent.first < lowest:
                lowest = extent.first
        removed.raise_floor(lowest)


def drop_return_counts(queue_index: "QueueIndex") -> None:
    """Of messages that are gone, whoever removed them."""
    lowest: i64 = queue_index.next_position
    for extent in queue_index.segment_extents:
        lowest = min(lowest, extent.first)
    removed = queue_index.removed[0]
    for position in list(queue_index.return_counts):
        # one of several levels is not known by its position alone
        if position < lowest or (queue_index.max_priority == 0 and removed.has(position)):
            del queue_index.return_counts[position]


@final
class QueueIndex(QueueLog):
    """One queue's part of the journal."""

    def __init__(self, journal: "Journal", queue_id: int, durable: bool, max_priority: int) -> None:
        super().__init__(durable)
        self.queue_id: i64 = queue_id
        self.max_priority: i64 = max_priority
        # everything is on disk, whatever of it is in memory, too: several nodes hold the queue
        self.whole: bool = False
        # messages may come that lie below all others, so nothing is taken to be gone that was not removed
        self.catching_up: bool = False
        # one above the highest position that was ever stored
        self.next_position: i64 = 1
        self.segment_extents: list[SegmentExtent] = []
        # by level
        self.removed: list[RemovedPositions] = [RemovedPositions()]
        # how often entries came back, by position; only of queues with a delivery limit
        self.return_counts: dict[int, int] = {}
        self.watermark: DeliveryWatermark = DeliveryWatermark(journal, self)
        # while the journal is read
        self.restored: ExtentRestore | None = None
        self.journal: Journal = journal
        self._fetching: EntryFetch | None = None
        # those new messages go to, by level and durability; all in the active segment
        self._current: SegmentExtent | None = None
        self._open_extents: dict[int, SegmentExtent] = {}
        self._closed: bool = False
        # this batch's part
        self._gone_level: i64 = 0
        self._gone_first: i64 = 0
        self._gone_last: i64 = -1
        self._gone: BytesWriter = BytesWriter()
        self._returned: BytesWriter = BytesWriter()
        self._archive_moved: bool = False

    # -- storing

    def store(self, message: Message, position: i64, expires_at_ms: i64, level: i64) -> SegmentExtent:
        journal = self.journal
        durable = self.durable and message.persistent
        extent = self._current
        if extent is None or extent.segment is not journal.active or extent.level != level or extent.durable != durable:
            extent = self._open_extent(level, durable, position)
        cost: i64 = len(message.content) + ENTRY_COST_BYTES
        extent.add(position, message.body_bytes, cost)
        journal.active.total_bytes += cost
        if expires_at_ms != NEVER:
            extent.deadlines = True
        journal.batch.place(self.queue_id, message, position, expires_at_ms)
        self.written_count += 1
        watermark = self.watermark
        if watermark.batch_no != journal.batch_no:
            watermark.batch_no = journal.batch_no
            watermark.batch_first = position
        self.next_position = position + 1
        return extent

    def _open_extent(self, level: i64, durable: bool, position: i64) -> SegmentExtent:
        key = int(level * 2 + (1 if durable else 0))
        extent = self._open_extents.get(key)
        if extent is None or extent.segment is not self.journal.active:
            extent = SegmentExtent(self.queue_id, self.journal.active, level, durable, position)
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
        """Write a message that is counted already, of a payload as it is."""
        journal = self.journal
        if expires_at_ms != NEVER:
            extent.deadlines = True
        journal.batch.put(
            self.queue_id, position, priority, expires_at_ms, persistent, body_bytes, payload, payload_crc
        )
        self.written_count += 1
        if position >= self.next_position:
            self.next_position = position + 1
            watermark = self.watermark
            if watermark.batch_no != journal.batch_no:
                watermark.batch_no = journal.batch_no
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
            self._write_gone(extent.level, entry.position, entry.position)
            if self.return_counts:
                self.return_counts.pop(int(entry.position), None)

    def active_segment(self) -> Segment:
        return self.journal.active

    def forget_range(self, level: i64, first: i64, last: i64, durable: bool) -> None:
        """Nothing of a level is there from the first position to the last; `durable`: something was, for good."""
        if durable:
            self._write_gone(level, first, last)
        else:
            self.removed_at(level).add_range(first, last)
        if self.return_counts and first == last:
            self.return_counts.pop(int(first), None)
        if last >= self.next_position:
            self.next_position = last + 1

    def pass_over(self, position: i64) -> None:
        """Positions up to this one, which is nobody's, are not to be given out again, after a restart either."""
        if position >= self.next_position:
            self.next_position = position + 1
            self._write_gone(0, position, position)

    def forget_run(self, run: PositionRange) -> None:
        """Every position of the run's level from its first to its last: nothing else of that level lies between."""
        segment = current_segment(run.segment)
        left = run.count
        for extent in self._extents_between(segment, run.level, run.first, run.last):
            if not extent.durable:
                left -= extent.count
                extent.remove(extent.count, extent.body_bytes, extent.cost_bytes)
        for extent in self._extents_between(segment, run.level, run.first, run.last):
            if extent.durable:
                count = min(left, extent.count)
                left -= count
                # those in memory or lent stay; how much of the bytes is theirs is only about known
                body_bytes: i64 = extent.body_bytes * count // extent.count
                extent.remove(count, body_bytes, extent.cost_bytes * count // extent.count)
        self._write_gone(run.level, run.first, run.last)

    def returned(self, entry: Entry) -> None:
        if entry.extent is None or not entry.extent.durable:
            return
        self.count_return(entry.position, i64(entry.delivery_count))

    def count_return(self, position: i64, count: i64) -> None:
        self.return_counts[int(position)] = int(count)
        write_triple(self._returned, self.queue_id, position, count)
        self.journal.touch(self)

    def unpage(self, entry: Entry) -> None:
        """An entry that only went to disk to save memory is in memory again: the disk's copy is needed no more."""
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

    def _write_gone(self, level: i64, first: i64, last: i64) -> None:
        removed = self.removed[0] if level == 0 else self.removed_at(level)
        if first == last:
            removed.add(first)
        else:
            removed.add_range(first, last)
        if not self.durable:
            return
        if first == self._gone_last + 1 and level == self._gone_level and self._gone_last >= 0:
            self._gone_last = last
            return
        self._end_gone_range()
        if level != self._gone_level:
            self._end_gone_level()
        self._gone_level = level
        self._gone_first = first
        self._gone_last = last
        self.journal.touch(self)

    def _end_gone_range(self) -> None:
        if self._gone_last >= 0:
            write_triple(self._gone, self.queue_id, self._gone_first, self._gone_last)
            self._gone_last = -1

    def _end_gone_level(self) -> None:
        if len(self._gone):
            self.journal.batch.mark(REMOVED, self._gone.getvalue(), self._gone_level)
            self._gone = BytesWriter()

    def mark_delivered(self, entry: Entry) -> bool:
        return self.watermark.mark_delivered(entry.position)

    # -- the end of a turn

    def write_marks(self) -> None:
        """Write what changed in this turn, besides messages."""
        if self._closed:
            return
        self.watermark.write()
        if len(self._returned):
            self.journal.batch.mark(RETURNED, self._returned.getvalue())
            self._returned = BytesWriter()
        self._end_gone_range()
        self._end_gone_level()
        if self._archive_moved:
            self._archive_moved = False
            write_offset(self.journal.batch, self.queue_id, ARCHIVE_OFFSET, self.archived_to)

    def archive_goes_to(self, position: i64) -> None:
        """Up to here the stream is in files: known from when it is known that the journal has no more of that."""
        if position != self.archived_to:
            self.archived_to = position
            self._archive_moved = True
            self.journal.touch(self)

    def remember(self, name: str, offset: i64) -> None:
        super().remember(name, offset)
        if self.durable and not self._closed:
            write_offset(self.journal.batch, self.queue_id, name, offset)

    # -- reading

    def fetch(self, run: PositionRange, asker: FetchWaiter, entries_max: i64) -> None:
        if self._fetching is None:
            self._fetching = EntryFetch(self.journal, self)
        self._fetching.begin(run, asker, entries_max)

    def cancel_fetch(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()

    def all_is_read(self) -> None:
        if self._fetching is not None:
            self._fetching.forget_rows()

    def kept(self) -> tuple[int, int]:
        count: i64 = 0
        body_bytes: i64 = 0
        for extent in self.segment_extents:
            if extent.durable:
                count += extent.count
                body_bytes += extent.body_bytes
        return int(count), int(body_bytes)

    def extent_at(self, segment: Segment, level: i64, durable: bool, position: i64) -> SegmentExtent | None:
        """What is counted for a position, if it is alive in this segment."""
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

    def runs(self) -> list[PositionRange]:
        """Everything durable that is alive, as a queue that has none of it in memory sees it."""
        runs: list[PositionRange] = []
        for extent in self.segment_extents:
            if extent.count > 0 and extent.durable:
                run = PositionRange(extent.segment, extent.level, extent.first)
                run.last = extent.last
                run.count = extent.count
                run.body_bytes = extent.body_bytes
                run.deadlines = extent.deadlines
                runs.append(run)
        runs.sort(key=range_first)
        return runs

    def load(self, mark: QueueCheckpoint) -> None:
        """What a checkpoint said of this queue."""
        self.next_position = mark.next_position
        self.watermark.position = mark.watermark
        self.removed = mark.removed
        self.segment_extents = mark.segment_extents
        self.return_counts = mark.returned
        load_queue_state(self, mark.queue_state)

    def restore(
        self, segment: Segment, level: i64, position: i64, body_bytes: i64, cost_bytes: i64, expires_at_ms: i64
    ) -> None:
        """A message that was stored before the node started."""
        if self.restored is None:
            self.restored = ExtentRestore(self)
        extent = self.restored.extent_for(segment, level, position)
        extent.add(position, body_bytes, cost_bytes)
        if expires_at_ms != NEVER:
            extent.deadlines = True
        self.next_position = max(self.next_position, position + 1)

    def recovered(self) -> None:
        """The journal was read: go on from there."""
        self.restored = None
        self.watermark.recovered(self.next_position - 1)

    def tidy(self) -> None:
        """Drop what is no longer needed to know."""
        self.segment_extents = [extent for extent in self.segment_extents if extent.count > 0]
        if not self.catching_up:
            raise_floors(self)
        if self.return_counts:
            drop_return_counts(self)

    def mark(self) -> QueueCheckpoint:
        """What a checkpoint says of this queue."""
        segment_extents = [extent for extent in self.segment_extents if extent.durable]
        watermark = self.watermark.highest()
        next_position, besides = self.next_position, encode_queue_state(self)
        return QueueCheckpoint(
            self.queue_id, next_position, watermark, self.removed, segment_extents, self.return_counts, besides
        )

    def move(self, segment: Segment, home: Segment) -> None:
        """Compaction copied what was in a segment: it is counted in the other from here on."""
        for extent in self.segment_extents:
            if extent.segment is segment:
                extent.segment = home
                # a moved one must not grow: what lies between its positions and new ones is elsewhere
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
        self.journal.closed(self)


def current_segment(segment: Segment) -> Segment:
    """Where what was in a segment is now."""
    while segment.moved_to is not None:
        segment = segment.moved_to
    return segment


def range_first(run: PositionRange) -> int:
    return int(run.first)
