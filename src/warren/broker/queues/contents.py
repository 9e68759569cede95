"""The entries a queue holds: the ready ones, by priority and in order; the unacked ones, as figures.

An entry is *admitted*, which makes it ready; *taken*, which makes it unacked or, when nobody will ack it, gone; and
from there it is *given back* or *gone*. Unacked entries themselves are kept by whoever took them.

The highest priority level goes first. A level is made when it is first used, and a queue that never sees a priority
has none but the bottom. Deadlines count at the head of each level only.

A message may be *paged* instead of admitted: it is ready, but on disk only, behind everything its level has in
memory. From there it is *paged in*. What goes next may therefore not be in memory: `head` tells.

Invariants: `check`. Every entry in memory, ready or unacked, is counted once in `held_bytes` and in
`Turn.held_bytes`; `ready_count` and `ready_bytes` are the sums over all levels, `paged_count` what of them is on disk
only; no level above `_top` holds anything; `deadlines` is set while a ready entry has one.

Not here: the order within a level (`broker.queues.contents`), who takes and when (`broker.queues.queue`), when entries
are read (`broker.queues.paging`).

The ready entries of one priority level, in the order they go out.

Entries that arrive are appended to a list with a head index, so that taking one moves an index and clears a slot.
Entries that come back go to a second list, kept sorted by position; the first entry is the lower position of the
two heads. Coming back is lazy: `give_back` only appends, and the sort happens when somebody next looks, so that a
thousand single requeues in one turn cost one sort.

What is on disk only follows behind all of these, in `backlog`; `count`, `head` and `pop` are about memory alone.

Invariants: in both lists positions grow from head to end; slots before a head are None, those after it are not;
`_returned` is None rather than empty. A backlog begins behind every entry in memory.

Not here: the levels together (`broker.queues.contents`), what is on disk (`broker.queues.contents`).

What of one priority level is on disk only: its runs, in order.

A message that is paged leaves nothing in memory but a longer run, so a backlog of millions costs a few objects for
each segment of the journal. Entries come back as prefixes of the first run.

Invariants: there is at least one run, none of them is empty, and positions grow from run to run. A level without
runs has no backlog. No run reaches from one epoch's positions to another's.

Not here: what is in memory of the level and goes out first (`broker.queues.contents`), when runs are read
(`broker.queues.paging`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.journal import PositionRange, Segment
from warren.broker.model.message import NEVER, Entry, Message
from warren.broker.model.ports import QueueLog
from warren.broker.model.replica_set import POSITION_BITS
from warren.broker.model.turn import Turn
from warren.errors import InvariantBroken


@final
class PagedRanges:
    """The runs of one level."""

    def __init__(self) -> None:
        self.runs: list[PositionRange] = []

    def add(self, segment: Segment, level: i64, position: i64, body_bytes: i64, deadline: bool) -> None:
        """A message that was written to this segment, behind all others."""
        run = self.runs[-1] if self.runs else None
        if run is None or run.segment is not segment or (run.first ^ position) >> POSITION_BITS != 0:
            run = PositionRange(segment, level, position)
            self.runs.append(run)
        run.add(position, body_bytes)
        if deadline:
            run.deadlines = True

    def shorten(self, count: i64, body_bytes: i64, last: i64) -> None:
        """The first so many entries of the first run, up to this position, are in memory."""
        run = self.runs[0]
        run.first = last + 1
        run.count -= count
        run.body_bytes -= body_bytes
        if run.count == 0:
            self.runs.pop(0)

    def check(self, above: i64) -> None:
        """Raise `InvariantBroken` unless the runs are in order, all of them above that position."""
        if not self.runs:
            raise InvariantBroken("a level has a backlog without runs")
        for run in self.runs:
            if run.first <= above:
                raise InvariantBroken(f"a run begins with position {run.first} behind position {above}")
            if run.count <= 0 or run.count > run.last - run.first + 1:
                raise InvariantBroken(f"a run counts {run.count} entries from {run.first} to {run.last}")
            above = run.last


COMPACT_FROM: Final[i64] = 64


@final
class ReadyList:
    """The ready entries of one priority level."""

    def __init__(self) -> None:
        self.count: i64 = 0
        # what follows on disk; None rather than empty
        self.backlog: PagedRanges | None = None
        self._arrived: list[Entry | None] = []
        self._arrived_head: i64 = 0
        # sorted by position; None until an entry first comes back
        self._returned: list[Entry | None] | None = None
        self._returned_head: i64 = 0
        # came back since the last look, in any order
        self._returning: list[Entry] | None = None

    def in_use(self) -> bool:
        """Whether there is anything, in memory or on disk."""
        return self.count > 0 or self.backlog is not None

    def append(self, entry: Entry) -> None:
        """An entry whose position is above all others."""
        self._arrived.append(entry)
        self.count += 1

    def give_back(self, entry: Entry) -> None:
        """An entry that was taken returns to its place."""
        if self._returning is None:
            self._returning = [entry]
        else:
            self._returning.append(entry)
        self.count += 1

    def head(self) -> Entry | None:
        """The entry that goes next; it stays."""
        if self.count == 0:
            return None
        if self._returned_first():
            returned = self._returned
            assert returned is not None
            return returned[self._returned_head]
        return self._arrived[self._arrived_head]

    def pop(self) -> Entry:
        """Take the entry that goes next; there must be one."""
        if (self._returned is not None or self._returning is not None) and self._returned_first():
            return self._pop_returned()
        arrived = self._arrived
        head = self._arrived_head
        entry = arrived[head]
        assert entry is not None
        # a dead slot must not keep the message alive
        arrived[head] = None
        head += 1
        self.count -= 1
        size: i64 = len(arrived)
        if head == size:
            arrived.clear()
            head = 0
        elif head >= COMPACT_FROM and head * 2 >= size:
            del arrived[:head]
            head = 0
        self._arrived_head = head
        return entry

    def entries(self) -> list[Entry]:
        """Everything in memory, the next one first."""
        found: list[Entry] = [entry for entry in self._arrived if entry is not None]
        if self._returned is None and self._returning is None:
            # there may be millions, which came in order
            return found
        if self._returned is not None:
            found += [entry for entry in self._returned if entry is not None]
        if self._returning is not None:
            found += self._returning
        found.sort(key=position_of)
        return found

    def clear(self) -> None:
        self.count = 0
        self.backlog = None
        self._arrived = []
        self._arrived_head = 0
        self._returned = None
        self._returned_head = 0
        self._returning = None

    def check(self) -> None:
        found = self.entries()
        if len(found) != self.count:
            raise InvariantBroken(f"a ready sequence counts {self.count} entries but holds {len(found)}")
        if len({entry.position for entry in found}) != len(found):
            raise InvariantBroken("a ready sequence holds a position twice")
        _check_slots(self._arrived, self._arrived_head)
        if self._returned is not None:
            _check_slots(self._returned, self._returned_head)
        if self.backlog is not None:
            self.backlog.check(found[-1].position if found else 0)

    def _returned_first(self) -> bool:
        """Whether the next entry is one that came back; sorts in what has come back since the last look."""
        if self._returning is not None:
            self._sort_in()
        returned = self._returned
        if returned is None:
            return False
        if self._arrived_head == len(self._arrived):
            return True
        ours, theirs = returned[self._returned_head], self._arrived[self._arrived_head]
        assert ours is not None
        assert theirs is not None
        return ours.position < theirs.position

    def _pop_returned(self) -> Entry:
        returned = self._returned
        assert returned is not None
        head = self._returned_head
        entry = returned[head]
        assert entry is not None
        returned[head] = None
        head += 1
        self.count -= 1
        size: i64 = len(returned)
        if head == size:
            self._returned = None
            head = 0
        elif head >= COMPACT_FROM and head * 2 >= size:
            del returned[:head]
            head = 0
        self._returned_head = head
        return entry

    def _sort_in(self) -> None:
        returning = self._returning
        assert returning is not None
        self._returning = None
        returned = self._returned
        if returned is not None and len(returning) == 1:
            self._insert(returned, returning[0])
            return
        merged: list[Entry] = returning
        if returned is not None:
            merged = [entry for entry in returned if entry is not None]
            # both parts are nearly always in order, which the sort recognises
            merged += returning
        merged.sort(key=position_of)
        slots: list[Entry | None] = []
        slots.extend(merged)
        self._returned = slots
        self._returned_head = 0

    def _insert(self, returned: list[Entry | None], entry: Entry) -> None:
        head, end = self._returned_head, i64(len(returned))
        low = head
        while low < end:
            middle: i64 = (low + end) // 2
            other = returned[middle]
            assert other is not None
            if other.position < entry.position:
                low = middle + 1
            else:
                end = middle
        if low == head and head > 0:
            self._returned_head = head - 1
            returned[head - 1] = entry
        else:
            returned.insert(low, entry)


def position_of(entry: Entry) -> int:
    return entry.position


def _check_slots(slots: list[Entry | None], head: i64) -> None:
    for index, entry in enumerate(slots):
        if (entry is None) != (index < head):
            raise InvariantBroken(f"slot {index} of a ready sequence with head {head} is on the wrong side")
    living = [entry.position for entry in slots if entry is not None]
    if living != sorted(living):
        raise InvariantBroken("a ready sequence is out of order")


ENTRY_BYTES: Final[i64] = 256
"""What an entry costs besides its content: objects, list slots, the unacked ledger."""


@final
class QueueContents:
    """What one queue holds. Sizes are those of bodies, but for what memory is held."""

    def __init__(self, turn: Turn, max_priority: i64) -> None:
        self.ready_count: i64 = 0
        self.ready_bytes: i64 = 0
        # what is ready and on disk only
        self.paged_count: i64 = 0
        self.unacked_count: i64 = 0
        self.unacked_bytes: i64 = 0
        self.held_bytes: i64 = 0
        self.deadlines: bool = False
        # what was ever read back from disk
        self.read_count: i64 = 0
        # when a message last came in
        self.arrived_at_ms: i64 = turn.now_ms
        self._turn: Turn = turn
        self._first_position: i64 = 1
        self._next_position: i64 = 1
        self._max_priority: i64 = max_priority
        self._bottom: ReadyList = ReadyList()
        # by priority, `_bottom` at 0; None until a message with a priority comes
        self._levels: list[ReadyList | None] | None = None
        # no level above this one holds anything
        self._top: i64 = 0

    def admit(self, message: Message, expires_at_ms: i64) -> Entry:
        """A message comes in, behind all others of its priority."""
        position = self._next_position
        self._next_position = position + 1
        entry = Entry(message, position, expires_at_ms)
        if self._max_priority == 0 or message.priority <= 0:
            self._bottom.append(entry)
        else:
            self._level(message.priority).append(entry)
        if expires_at_ms != NEVER:
            self.deadlines = True
        self.ready_count += 1
        self.ready_bytes += message.body_bytes
        cost: i64 = len(message.content) + ENTRY_BYTES
        self.held_bytes += cost
        turn = self._turn
        turn.held_bytes += cost
        self.arrived_at_ms = turn.now_ms
        return entry

    def next_position(self) -> i64:
        """Give out a position, for a message that comes in later."""
        position = self._next_position
        self._next_position = position + 1
        return position

    def begin_epoch(self, first_position: i64) -> None:
        """Positions go on from this one."""
        if first_position > self._next_position:
            self._first_position += first_position - self._next_position
            self._next_position = first_position

    def admit_entry(self, entry: Entry) -> None:
        """A message comes in that has its position, behind all others of its priority."""
        message = entry.message
        self._sequence(self.level_of(message)).append(entry)
        if entry.expires_at_ms != NEVER:
            self.deadlines = True
        self.ready_count += 1
        self.ready_bytes += message.body_bytes
        cost: i64 = len(message.content) + ENTRY_BYTES
        self.held_bytes += cost
        self._turn.held_bytes += cost
        self.arrived_at_ms = self._turn.now_ms

    def arrived_count(self) -> i64:
        """How many messages came in, other than from disk."""
        return self._next_position - self._first_position

    def take(self, no_ack: bool) -> Entry:
        """The next entry goes out; it must be in memory."""
        entry = self._bottom.pop() if self._top == 0 else self._first_level().pop()
        size = entry.message.body_bytes
        self.ready_count -= 1
        self.ready_bytes -= size
        if no_ack:
            self._release(entry)
        else:
            self.unacked_count += 1
            self.unacked_bytes += size
        return entry

    def gone(self, entry: Entry) -> None:
        """An unacked entry is held no more."""
        self.unacked_count -= 1
        self.unacked_bytes -= entry.message.body_bytes
        self._release(entry)

    def give_back(self, entry: Entry) -> None:
        """An unacked entry becomes ready again, in its old place."""
        message = entry.message
        self.unacked_count -= 1
        self.unacked_bytes -= message.body_bytes
        self.ready_count += 1
        self.ready_bytes += message.body_bytes
        if entry.expires_at_ms != NEVER:
            self.deadlines = True
        if self._max_priority == 0 or message.priority <= 0:
            self._bottom.give_back(entry)
        else:
            self._level(message.priority).give_back(entry)

    def take_expired(self, until_ms: i64, returned_only: bool = False) -> list[Entry]:
        """Take out heads whose deadline is `until_ms` or earlier, until no level begins with one."""
        expired: list[Entry] = []
        if not self.deadlines:
            return expired
        for level in self._levels_in_use():
            head = level.head()
            while head is not None and head.expires_at_ms != NEVER and head.expires_at_ms <= until_ms:
                if returned_only and not head.redelivered:
                    break
                expired.append(level.pop())
                self.ready_count -= 1
                self.ready_bytes -= head.message.body_bytes
                self._release(head)
                head = level.head()
        if self.ready_count == 0:
            self.deadlines = False
        return expired

    def head(self) -> Entry | None:
        """The entry that goes next, or None if it is on disk only."""
        return self._bottom.head() if self._top == 0 else self._first_level().head()

    def next_expires_by(self, until_ms: i64) -> bool:
        """Whether the entry that would go out next is in memory with its deadline at `until_ms` or earlier."""
        head = self.head()
        return head is not None and head.expires_at_ms != NEVER and head.expires_at_ms <= until_ms

    def earliest_deadline_ms(self) -> i64:
        """The earliest deadline among the heads, or `NEVER`."""
        earliest: i64 = NEVER
        for level in self._levels_in_use():
            head = level.head()
            if head is None or head.expires_at_ms == NEVER:
                continue
            if earliest == NEVER or head.expires_at_ms < earliest:
                earliest = head.expires_at_ms
        return earliest

    # -- on disk

    def level_of(self, message: Message) -> i64:
        priority = message.priority
        if self._max_priority == 0 or priority <= 0:
            return 0
        return min(priority, self._max_priority)

    def has_backlog(self, level: i64) -> bool:
        """Whether some of that level is on disk only, so that whatever comes belongs behind it."""
        return self.paged_count != 0 and self._sequence(level).backlog is not None

    def page(self, message: Message, expires_at_ms: i64, level: i64, log: QueueLog) -> None:
        """A message comes in and goes to disk, behind all others of its level."""
        position = self.next_position()
        extent = log.store(message, position, expires_at_ms, level)
        self._page(extent.segment, level, position, message.body_bytes, expires_at_ms)

    def page_entry(self, entry: Entry, level: i64) -> None:
        """A message comes in that is on disk, and stays there alone, behind all others of its level."""
        extent = entry.extent
        assert extent is not None
        self._page(extent.segment, level, entry.position, entry.message.body_bytes, entry.expires_at_ms)

    def _page(self, segment: Segment, level: i64, position: i64, body_bytes: i64, expires_at_ms: i64) -> None:
        sequence = self._sequence(level)
        backlog = sequence.backlog
        if backlog is None:
            backlog = PagedRanges()
            sequence.backlog = backlog
        backlog.add(segment, level, position, body_bytes, expires_at_ms != NEVER)
        if expires_at_ms != NEVER:
            self.deadlines = True
        self.arrived_at_ms = self._turn.now_ms
        self.paged_count += 1
        self.ready_count += 1
        self.ready_bytes += body_bytes

    def page_in(self, run: PositionRange, entries: list[Entry]) -> None:
        """The first entries of a level's first run are in memory."""
        sequence = self._sequence(run.level)
        backlog = sequence.backlog
        assert backlog is not None
        body_bytes: i64 = 0
        cost: i64 = 0
        for entry in entries:
            sequence.append(entry)
            body_bytes += entry.message.body_bytes
            cost += len(entry.message.content) + ENTRY_BYTES
        self.held_bytes += cost
        self._turn.held_bytes += cost
        self.paged_count -= len(entries)
        self.read_count += len(entries)
        backlog.shorten(len(entries), body_bytes, entries[-1].position)
        if run.count == 0:
            # a journal may know the bytes of a run only about; those that were read are certain
            self.ready_bytes -= run.body_bytes
        if not backlog.runs:
            sequence.backlog = None

    def run_to_read(self, mark: i64) -> PositionRange | None:
        """The first run of the level that goes next, if that has no more than so many entries in memory."""
        sequence = self._bottom if self._top == 0 else self._first_level()
        backlog = sequence.backlog
        return backlog.runs[0] if backlog is not None and sequence.count <= mark else None

    def run_to_expire(self) -> PositionRange | None:
        """A run at the head of its level that may have deadlines, which cannot be told until it is read."""
        if self.paged_count == 0 or not self.deadlines:
            return None
        for level in self._levels_in_use():
            backlog = level.backlog
            if level.count == 0 and backlog is not None and backlog.runs[0].deadlines:
                return backlog.runs[0]
        return None

    def runs(self) -> list[PositionRange]:
        found: list[PositionRange] = []
        if self.paged_count != 0:
            for level in self._levels_in_use():
                if level.backlog is not None:
                    found += level.backlog.runs
        return found

    def recover(self, runs: list[PositionRange], next_position: i64) -> None:
        """What a queue has after a restart, before anything else happens to it: all of it is on disk."""
        self._first_position = next_position
        self._next_position = next_position
        for run in sorted(runs, key=first_of):
            sequence = self._sequence(run.level)
            if sequence.backlog is None:
                sequence.backlog = PagedRanges()
            sequence.backlog.runs.append(run)
            if run.deadlines:
                self.deadlines = True
            self.paged_count += run.count
            self.ready_count += run.count
            self.ready_bytes += run.body_bytes

    # -- all of it

    def ready(self) -> list[Entry]:
        """Everything ready and in memory, the next one first."""
        levels = self._levels_in_use()
        if len(levels) == 1:
            # there may be millions: no second list of them
            return levels[0].entries()
        found: list[Entry] = []
        for level in levels:
            found += level.entries()
        return found

    def drop_ready(self) -> None:
        for entry in self.ready():
            self._release(entry)
        self._clear_ready()

    def drop_all(self) -> None:
        """Hold nothing any more; what is unacked is forgotten, too."""
        self._clear_ready()
        self.unacked_count = 0
        self.unacked_bytes = 0
        self._turn.held_bytes -= self.held_bytes
        self.held_bytes = 0

    def check(self) -> None:
        """Raise `InvariantBroken` if the figures contradict what is held."""
        ready = self.ready()
        for level in self._levels_in_use():
            level.check()
        runs = self.runs()
        if sum([run.count for run in runs]) != self.paged_count:
            raise InvariantBroken(f"{self.paged_count} entries are counted on disk but the runs have others")
        if len(ready) + self.paged_count != self.ready_count:
            raise InvariantBroken(f"{self.ready_count} entries are counted ready but {len(ready)} are held")
        body_bytes = sum([entry.message.body_bytes for entry in ready]) + sum([run.body_bytes for run in runs])
        if body_bytes != self.ready_bytes:
            raise InvariantBroken(f"{self.ready_bytes} bytes are counted ready but {body_bytes} are held")
        deadlines = any(entry.expires_at_ms != NEVER for entry in ready) or any(run.deadlines for run in runs)
        if deadlines and not self.deadlines:
            raise InvariantBroken("an entry with a deadline is ready unnoticed")
        for priority, level_above in enumerate(self._levels or []):
            if priority > self._top and level_above is not None and level_above.in_use():
                raise InvariantBroken(f"level {priority} holds entries above the top, {self._top}")
        self._check_held(sum([len(entry.message.content) + int(ENTRY_BYTES) for entry in ready]))

    def _check_held(self, held_ready_bytes: int) -> None:
        lent_bytes = self.held_bytes - held_ready_bytes
        if self.unacked_count < 0 or lent_bytes < self.unacked_count * ENTRY_BYTES + self.unacked_bytes:
            raise InvariantBroken(f"{self.unacked_count} unacked entries hold {lent_bytes} bytes")
        if self.unacked_count == 0 and (lent_bytes != 0 or self.unacked_bytes != 0):
            raise InvariantBroken(f"{lent_bytes} bytes are held for nothing")

    def _release(self, entry: Entry) -> None:
        cost: i64 = len(entry.message.content) + ENTRY_BYTES
        self.held_bytes -= cost
        self._turn.held_bytes -= cost

    def _clear_ready(self) -> None:
        self.ready_count = 0
        self.ready_bytes = 0
        self.paged_count = 0
        self.deadlines = False
        self._bottom.clear()
        self._levels = None
        self._top = 0

    def _levels_in_use(self) -> list[ReadyList]:
        """The levels that hold something, the highest first."""
        if self.ready_count == 0:
            return []
        levels = self._levels
        if levels is None:
            return [self._bottom]
        return [level for level in reversed(levels) if level is not None and level.in_use()]

    def _sequence(self, level: i64) -> ReadyList:
        return self._bottom if level == 0 else self._level(level)

    def _level(self, priority: i64) -> ReadyList:
        """The level of a message priority above 0, made if it is not there; the top rises to it."""
        if priority > self._max_priority:
            priority = self._max_priority
        levels = self._levels
        if levels is None:
            levels = [self._bottom]
            self._levels = levels
        while len(levels) <= priority:
            levels.append(None)
        if priority > self._top:
            self._top = priority
        level = levels[priority]
        if level is None:
            level = ReadyList()
            levels[priority] = level
        return level

    def _first_level(self) -> ReadyList:
        """The highest level that holds something; the top sinks to it."""
        levels = self._levels
        assert levels is not None
        top = self._top
        while top > 0:
            level = levels[top]
            if level is not None and level.in_use():
                self._top = top
                return level
            top -= 1
        self._top = 0
        return self._bottom


def first_of(run: PositionRange) -> int:
    return run.first
