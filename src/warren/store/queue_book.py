"""What the journal knows of one queue: where its messages are, and which are gone.

Positions that left are kept as a set for each priority level, which is all a removal has to say: a range of
positions of one level. What left in a turn is written as few ranges at its end.

Invariants: the holdings of a level that are alike durable do not overlap; each lies in one segment. A stored entry in
memory points at its holding, whatever compaction does to where that lies.

Not here: what may have been handed out (`store.horizon`), reading entries back (`store.fetching`), the bytes of a batch
(`store.batch`).
"""

from typing import TYPE_CHECKING, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.model.journal import ENTRY_COST_BYTES, Holding, Run, Segment
from warren.model.message import NEVER, Entry, Message
from warren.model.ports import PagedIn, QueueLog
from warren.store.checkpoint import QueueMark
from warren.store.fetching import Fetching
from warren.store.horizon import Horizon
from warren.store.records import REMOVED, RETURNED, write_triple
from warren.store.remembrance import OWN, encode_remembrance, load_remembrance, write_offset
from warren.store.removed import RemovedSet
from warren.store.restored import Restored
from warren.store.tidying import forget_returns, raise_floors

if TYPE_CHECKING:
    from warren.store.journal import Journal


@final
class QueueBook(QueueLog):
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
        self.holdings: list[Holding] = []
        # by level
        self.removed: list[RemovedSet] = [RemovedSet()]
        # how often entries came back, by position; only of queues with a delivery limit
        self.return_counts: dict[int, int] = {}
        self.horizon: Horizon = Horizon(journal, self)
        # while the journal is read
        self.restored: Restored | None = None
        self.journal: Journal = journal
        self._fetching: Fetching | None = None
        # those new messages go to, by level and durability; all in the active segment
        self._current: Holding | None = None
        self._open_holdings: dict[int, Holding] = {}
        self._closed: bool = False
        # this batch's part
        self._gone_level: i64 = 0
        self._gone_first: i64 = 0
        self._gone_last: i64 = -1
        self._gone: BytesWriter = BytesWriter()
        self._returned: BytesWriter = BytesWriter()
        self._archive_moved: bool = False

    # -- storing

    def store(self, message: Message, position: i64, expires_at_ms: i64, level: i64) -> Holding:
        journal = self.journal
        durable = self.durable and message.persistent
        holding = self._current
        if (
            holding is None
            or holding.segment is not journal.active
            or holding.level != level
            or holding.durable != durable
        ):
            holding = self._open_holding(level, durable, position)
        cost: i64 = len(message.content) + ENTRY_COST_BYTES
        holding.add(position, message.body_bytes, cost)
        journal.active.total_bytes += cost
        if expires_at_ms != NEVER:
            holding.deadlines = True
        journal.batch.place(self.queue_id, message, position, expires_at_ms)
        self.written_count += 1
        horizon = self.horizon
        if horizon.batch_no != journal.batch_no:
            horizon.batch_no = journal.batch_no
            horizon.batch_first = position
        self.next_position = position + 1
        return holding

    def _open_holding(self, level: i64, durable: bool, position: i64) -> Holding:
        key = int(level * 2 + (1 if durable else 0))
        holding = self._open_holdings.get(key)
        if holding is None or holding.segment is not self.journal.active:
            holding = Holding(self.queue_id, self.journal.active, level, durable, position)
            self._open_holdings[key] = holding
            self.holdings.append(holding)
        self._current = holding
        return holding

    def put(
        self,
        holding: Holding,
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
            holding.deadlines = True
        journal.batch.put(
            self.queue_id, position, priority, expires_at_ms, persistent, body_bytes, payload, payload_crc
        )
        self.written_count += 1
        if position >= self.next_position:
            self.next_position = position + 1
            horizon = self.horizon
            if horizon.batch_no != journal.batch_no:
                horizon.batch_no = journal.batch_no
                horizon.batch_first = position

    # -- forgetting

    def forget(self, entry: Entry) -> None:
        holding = entry.holding
        if holding is None or self._closed:
            return
        entry.holding = None
        message = entry.message
        holding.remove(1, message.body_bytes, len(message.content) + ENTRY_COST_BYTES)
        if holding.durable:
            self._write_gone(holding.level, entry.position, entry.position)
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

    def forget_run(self, run: Run) -> None:
        """Every position of the run's level from its first to its last: nothing else of that level lies between."""
        segment = home_of(run.segment)
        left = run.count
        for holding in self._holdings_between(segment, run.level, run.first, run.last):
            if not holding.durable:
                left -= holding.count
                holding.remove(holding.count, holding.body_bytes, holding.cost_bytes)
        for holding in self._holdings_between(segment, run.level, run.first, run.last):
            if holding.durable:
                count = min(left, holding.count)
                left -= count
                # those in memory or lent stay; how much of the bytes is theirs is only about known
                body_bytes: i64 = holding.body_bytes * count // holding.count
                holding.remove(count, body_bytes, holding.cost_bytes * count // holding.count)
        self._write_gone(run.level, run.first, run.last)

    def returned(self, entry: Entry) -> None:
        if entry.holding is None or not entry.holding.durable:
            return
        self.count_return(entry.position, i64(entry.delivery_count))

    def count_return(self, position: i64, count: i64) -> None:
        self.return_counts[int(position)] = int(count)
        write_triple(self._returned, self.queue_id, position, count)
        self.journal.touch(self)

    def unpage(self, entry: Entry) -> None:
        """An entry that only went to disk to save memory is in memory again: the disk's copy is needed no more."""
        holding = entry.holding
        assert holding is not None
        entry.holding = None
        holding.remove(1, entry.message.body_bytes, len(entry.message.content) + ENTRY_COST_BYTES)
        self.removed_at(holding.level).add(entry.position)

    def removed_at(self, level: i64) -> RemovedSet:
        while len(self.removed) <= level:
            self.removed.append(RemovedSet())
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

    def lend(self, entry: Entry) -> bool:
        return self.horizon.lend(entry.position)

    # -- the end of a turn

    def write_marks(self) -> None:
        """Write what changed in this turn, besides messages."""
        if self._closed:
            return
        self.horizon.write()
        if len(self._returned):
            self.journal.batch.mark(RETURNED, self._returned.getvalue())
            self._returned = BytesWriter()
        self._end_gone_range()
        self._end_gone_level()
        if self._archive_moved:
            self._archive_moved = False
            write_offset(self.journal.batch, self.queue_id, OWN, self.archived_to)

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

    def fetch(self, run: Run, asker: PagedIn, entries_max: i64) -> None:
        if self._fetching is None:
            self._fetching = Fetching(self.journal, self)
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
        for holding in self.holdings:
            if holding.durable:
                count += holding.count
                body_bytes += holding.body_bytes
        return int(count), int(body_bytes)

    def holding_at(self, segment: Segment, level: i64, durable: bool, position: i64) -> Holding | None:
        """What is counted for a position, if it is alive in this segment."""
        for holding in self.holdings:
            if holding.covers(segment, level, durable, position):
                return holding
        return None

    def _holdings_between(self, segment: Segment, level: i64, first: i64, last: i64) -> list[Holding]:
        return [
            holding
            for holding in self.holdings
            if holding.segment is segment
            and holding.level == level
            and holding.count > 0
            and holding.first <= last
            and holding.last >= first
        ]

    # -- life

    def runs(self) -> list[Run]:
        """Everything durable that is alive, as a queue that has none of it in memory sees it."""
        runs: list[Run] = []
        for holding in self.holdings:
            if holding.count > 0 and holding.durable:
                run = Run(holding.segment, holding.level, holding.first)
                run.last = holding.last
                run.count = holding.count
                run.body_bytes = holding.body_bytes
                run.deadlines = holding.deadlines
                runs.append(run)
        runs.sort(key=first_of_run)
        return runs

    def load(self, mark: QueueMark) -> None:
        """What a checkpoint said of this queue."""
        self.next_position = mark.next_position
        self.horizon.position = mark.horizon
        self.removed = mark.removed
        self.holdings = mark.holdings
        self.return_counts = mark.returned
        load_remembrance(self, mark.remembrance)

    def restore(
        self, segment: Segment, level: i64, position: i64, body_bytes: i64, cost_bytes: i64, expires_at_ms: i64
    ) -> None:
        """A message that was stored before the node started."""
        if self.restored is None:
            self.restored = Restored(self)
        holding = self.restored.holding_for(segment, level, position)
        holding.add(position, body_bytes, cost_bytes)
        if expires_at_ms != NEVER:
            holding.deadlines = True
        self.next_position = max(self.next_position, position + 1)

    def recovered(self) -> None:
        """The journal was read: go on from there."""
        self.restored = None
        self.horizon.recovered(self.next_position - 1)

    def tidy(self) -> None:
        """Drop what is no longer needed to know."""
        self.holdings = [holding for holding in self.holdings if holding.count > 0]
        if not self.catching_up:
            raise_floors(self)
        if self.return_counts:
            forget_returns(self)

    def mark(self) -> QueueMark:
        """What a checkpoint says of this queue."""
        holdings = [holding for holding in self.holdings if holding.durable]
        horizon = self.horizon.highest()
        next_position, besides = self.next_position, encode_remembrance(self)
        return QueueMark(self.queue_id, next_position, horizon, self.removed, holdings, self.return_counts, besides)

    def move(self, segment: Segment, home: Segment) -> None:
        """Compaction copied what was in a segment: it is counted in the other from here on."""
        for holding in self.holdings:
            if holding.segment is segment:
                holding.segment = home
                # a moved one must not grow: what lies between its positions and new ones is elsewhere
                self._current = None
                self._open_holdings = {}

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.cancel_fetch()
        self.asker = None
        for holding in self.holdings:
            holding.remove(holding.count, holding.body_bytes, holding.cost_bytes)
        self.holdings = []
        self.journal.closed(self)


def home_of(segment: Segment) -> Segment:
    """Where what was in a segment is now."""
    while segment.moved_to is not None:
        segment = segment.moved_to
    return segment


def first_of_run(run: Run) -> int:
    return int(run.first)
