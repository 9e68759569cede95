"""The entries of a queue: ready entries by priority and in order; unacked entries as counters.

An entry is *admitted*, which makes it ready; *taken*, which makes it unacked or, with no_ack, removes it; an unacked
entry is then *given back* or *gone*. The channel that took an entry keeps it while it is unacked.

The highest priority level goes first. A level is created when it is first used; a queue without priorities has only the
bottom level. Entries expire at the head of each level only.

A message may be *paged* instead of admitted: it is ready, but on disk only, after all entries of its level in memory.
Later it is *paged in*. So the next entry may not be in memory: `head` returns None then.

**One level** (`ReadyList`). New entries are appended to a list with a head index, so taking one moves the index and
clears a slot. Requeued entries go to a second list, sorted by position; the next entry is the lower position of the two
heads. `give_back` only appends, and the sort happens at the next look, so a thousand single requeues in one turn cost
one sort. Entries on disk only follow in `backlog`; `count`, `head` and `pop` are about memory alone.

**On disk** (`PagedRanges`). A paged message only extends a range, so a backlog of millions costs a few objects for each
journal segment. Entries are paged in as prefixes of the first range.

Invariants, see `check`: every entry in memory, ready or unacked, is counted once in `held_bytes` and in
`Turn.held_bytes`; `ready_count` and `ready_bytes` are the sums over all levels, `paged_count` counts those on disk
only; no level above `_top` has entries; `deadlines` is set while a ready entry has a deadline. In both lists of a level
positions are ascending; slots before a head are None, those after it are not; `_returned` is None, never empty. A
backlog starts after every entry in memory, has at least one range, and no empty one; positions ascend from range to
range, and no range spans two epochs.

Not here: taking entries (`broker.queues.queue`), when ranges are read (`broker.queues.paging`).
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
    """The entries of one level that are on disk only, as ranges."""

    def __init__(self) -> None:
        self.ranges: list[PositionRange] = []

    def add(self, segment: Segment, level: i64, position: i64, body_bytes: i64, deadline: bool) -> None:
        """Append a message that was written to this segment."""
        paged = self.ranges[-1] if self.ranges else None
        if paged is None or paged.segment is not segment or (paged.first ^ position) >> POSITION_BITS != 0:
            paged = PositionRange(segment, level, position)
            self.ranges.append(paged)
        paged.add(position, body_bytes)
        if deadline:
            paged.deadlines = True

    def shorten(self, count: i64, body_bytes: i64, last: i64) -> None:
        """Remove the first `count` entries, up to position `last`, from the first range: they are in memory."""
        paged = self.ranges[0]
        paged.first = last + 1
        paged.count -= count
        paged.body_bytes -= body_bytes
        if paged.count == 0:
            self.ranges.pop(0)

    def check(self, above: i64) -> None:
        """Raise `InvariantBroken` unless the ranges are in order, all above this position."""
        if not self.ranges:
            raise InvariantBroken("a level has a backlog without ranges")
        for paged in self.ranges:
            if paged.first <= above:
                raise InvariantBroken(f"a range begins with position {paged.first} behind position {above}")
            if paged.count <= 0 or paged.count > paged.last - paged.first + 1:
                raise InvariantBroken(f"a range counts {paged.count} entries from {paged.first} to {paged.last}")
            above = paged.last


COMPACT_FROM: Final[i64] = 64


@final
class ReadyList:
    """The ready entries of one priority level."""

    def __init__(self) -> None:
        self.count: i64 = 0
        # the entries on disk only; None, never empty
        self.backlog: PagedRanges | None = None
        self._arrived: list[Entry | None] = []
        self._arrived_head: i64 = 0
        # requeued entries, sorted by position; None, never empty
        self._returned: list[Entry | None] | None = None
        self._returned_head: i64 = 0
        # requeued since the last look, in any order
        self._returning: list[Entry] | None = None

    def in_use(self) -> bool:
        """Whether there are entries, in memory or on disk."""
        return self.count > 0 or self.backlog is not None

    def append(self, entry: Entry) -> None:
        """Append an entry with the highest position."""
        self._arrived.append(entry)
        self.count += 1

    def extend(self, entries: list[Entry]) -> None:
        """Append entries with the highest positions, in order."""
        self._arrived.extend(entries)
        self.count += len(entries)

    def give_back(self, entry: Entry) -> None:
        """Return an entry that was taken to its position."""
        if self._returning is None:
            self._returning = [entry]
        else:
            self._returning.append(entry)
        self.count += 1

    def head(self) -> Entry | None:
        """The next entry in memory, which stays; None if there is none."""
        if self.count == 0:
            return None
        if (self._returned is not None or self._returning is not None) and self._returned_first():
            returned = self._returned
            assert returned is not None
            return returned[self._returned_head]
        return self._arrived[self._arrived_head]

    def pop(self) -> Entry:
        """Take the next entry in memory; there must be one."""
        if (self._returned is not None or self._returning is not None) and self._returned_first():
            return self._pop_returned()
        arrived = self._arrived
        head = self._arrived_head
        entry = arrived[head]
        assert entry is not None
        # a cleared slot does not keep the message alive
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
        """All entries in memory, the next one first."""
        found: list[Entry] = [entry for entry in self._arrived if entry is not None]
        if self._returned is None and self._returning is None:
            # maybe millions, and in order already
            return found
        if self._returned is not None:
            found += [entry for entry in self._returned if entry is not None]
        if self._returning is not None:
            found += self._returning
        found.sort(key=position_of)
        return found

    def clear(self) -> list[Entry | None]:
        """Forget all entries; the list of those that arrived, to be freed."""
        self.count = 0
        self.backlog = None
        arrived = self._arrived
        self._arrived = []
        self._arrived_head = 0
        self._returned = None
        self._returned_head = 0
        self._returning = None
        return arrived

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
        """Whether the next entry is a requeued one; merges the entries requeued since the last look."""
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
            # both parts are usually in order already, which makes the sort fast
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
"""The memory of an entry besides its content: objects, list slots, the channel's unacked list."""


@final
class QueueContents:
    """The entries of one queue. Sizes are those of bodies, except `held_bytes`."""

    def __init__(self, turn: Turn, max_priority: i64) -> None:
        self.ready_count: i64 = 0
        self.ready_bytes: i64 = 0
        # ready, and on disk only
        self.paged_count: i64 = 0
        self.unacked_count: i64 = 0
        self.unacked_bytes: i64 = 0
        self.held_bytes: i64 = 0
        self.deadlines: bool = False
        # entries read from disk since the queue was created
        self.read_count: i64 = 0
        # the time of the last publish
        self.arrived_at_ms: i64 = turn.now_ms
        self._turn: Turn = turn
        self._first_position: i64 = 1
        self._next_position: i64 = 1
        self._max_priority: i64 = max_priority
        self._bottom: ReadyList = ReadyList()
        # by priority, `_bottom` at 0; None until the first message with a priority
        self._levels: list[ReadyList | None] | None = None
        # no level above this one has entries
        self._top: i64 = 0

    def admit(self, message: Message, expires_at_ms: i64) -> Entry:
        """Append a message to its priority level."""
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
        """Reserve a position for a message that arrives later."""
        position = self._next_position
        self._next_position = position + 1
        return position

    def begin_epoch(self, first_position: i64) -> None:
        """Continue with the positions of a new epoch, from this one."""
        if first_position > self._next_position:
            self._first_position += first_position - self._next_position
            self._next_position = first_position

    def admit_entries(self, entries: list[Entry]) -> None:
        """Append entries that have their positions already, in order; at least one."""
        body_bytes: i64 = 0
        cost: i64 = len(entries) * ENTRY_BYTES
        for entry in entries:
            message = entry.message
            body_bytes += message.body_bytes
            cost += len(message.content)
            if entry.expires_at_ms != NEVER:
                self.deadlines = True
            if self._max_priority != 0:
                self._sequence(self.level_of(message)).append(entry)
        if self._max_priority == 0:
            self._bottom.extend(entries)
        self.ready_count += len(entries)
        self.ready_bytes += body_bytes
        self.held_bytes += cost
        self._turn.held_bytes += cost
        self.arrived_at_ms = self._turn.now_ms

    def arrived_count(self) -> i64:
        """How many messages arrived, without those recovered from disk."""
        return self._next_position - self._first_position

    def take(self, no_ack: bool) -> Entry:
        """Take the next entry, which must be in memory."""
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
        """Remove an unacked entry."""
        message = entry.message
        self.unacked_count -= 1
        self.unacked_bytes -= message.body_bytes
        cost: i64 = len(message.content) + ENTRY_BYTES
        self.held_bytes -= cost
        self._turn.held_bytes -= cost

    def give_back(self, entry: Entry) -> None:
        """Make an unacked entry ready again, at its position."""
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

    def take_expired(self, until_ms: i64, most: i64, returned_only: bool = False) -> list[Entry]:
        """Take heads with a deadline up to `until_ms`, and not more than `most`."""
        expired: list[Entry] = []
        if not self.deadlines:
            return expired
        for level in self._levels_in_use():
            head = level.head()
            while head is not None and head.expires_at_ms != NEVER and head.expires_at_ms <= until_ms:
                if (returned_only and not head.redelivered) or len(expired) >= most:
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
        """The next entry; None if it is on disk only."""
        return self._bottom.head() if self._top == 0 else self._first_level().head()

    def next_expires_by(self, until_ms: i64) -> bool:
        """Whether the next entry is in memory and has a deadline up to `until_ms`."""
        head = self.head()
        return head is not None and head.expires_at_ms != NEVER and head.expires_at_ms <= until_ms

    def earliest_deadline_ms(self) -> i64:
        """The earliest deadline of the heads in memory, or `NEVER`."""
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
        """Whether the level has entries on disk only, so that new messages must follow them; one level has some."""
        return self._sequence(level).backlog is not None

    def page(self, message: Message, expires_at_ms: i64, level: i64, log: QueueLog) -> None:
        """Write a message to disk only, at the end of its level."""
        position = self.next_position()
        extent = log.store(message, position, expires_at_ms, level)
        self._page(extent.segment, level, position, message.body_bytes, expires_at_ms)

    def page_entry(self, entry: Entry, level: i64) -> None:
        """Append an entry that is on disk already, and drop it from memory."""
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

    def page_in(self, paged: PositionRange, entries: list[Entry]) -> None:
        """Take in the first entries of a level's first range."""
        sequence = self._sequence(paged.level)
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
        if paged.count == 0:
            # the journal may only estimate the bytes of a range: correct the rest of the estimate
            self.ready_bytes -= paged.body_bytes
        if not backlog.ranges:
            sequence.backlog = None

    def range_to_read(self, mark: i64) -> PositionRange | None:
        """The first range of the next level, if the level has at most `mark` entries in memory."""
        sequence = self._bottom if self._top == 0 else self._first_level()
        backlog = sequence.backlog
        return backlog.ranges[0] if backlog is not None and sequence.count <= mark else None

    def range_to_expire(self) -> PositionRange | None:
        """A range at the head of its level that may have deadlines, which are known only after it is read."""
        if self.paged_count == 0 or not self.deadlines:
            return None
        for level in self._levels_in_use():
            backlog = level.backlog
            if level.count == 0 and backlog is not None and backlog.ranges[0].deadlines:
                return backlog.ranges[0]
        return None

    def ranges(self) -> list[PositionRange]:
        found: list[PositionRange] = []
        if self.paged_count != 0:
            for level in self._levels_in_use():
                if level.backlog is not None:
                    found += level.backlog.ranges
        return found

    def recover(self, ranges: list[PositionRange], next_position: i64) -> None:
        """Set the contents after a restart, all on disk. It must be the first call."""
        self._first_position = next_position
        self._next_position = next_position
        for paged in sorted(ranges, key=first_of):
            sequence = self._sequence(paged.level)
            if sequence.backlog is None:
                sequence.backlog = PagedRanges()
            sequence.backlog.ranges.append(paged)
            if paged.deadlines:
                self.deadlines = True
            self.paged_count += paged.count
            self.ready_count += paged.count
            self.ready_bytes += paged.body_bytes

    # -- the whole contents

    def ready(self) -> list[Entry]:
        """All ready entries in memory, the next one first."""
        levels = self._levels_in_use()
        if len(levels) == 1:
            # maybe millions: avoid a second list
            return levels[0].entries()
        found: list[Entry] = []
        for level in levels:
            found += level.entries()
        return found

    def drop_ready(self) -> None:
        dropped_bytes = self.held_bytes
        if self.unacked_count != 0:
            dropped_bytes = 0
            for entry in self.ready():
                dropped_bytes += len(entry.message.content) + ENTRY_BYTES
        self.held_bytes -= dropped_bytes
        self._turn.held_bytes -= dropped_bytes
        self._clear_ready()

    def drop_all(self) -> None:
        """Drop all entries, ready and unacked."""
        self._clear_ready()
        self.unacked_count = 0
        self.unacked_bytes = 0
        self._turn.held_bytes -= self.held_bytes
        self.held_bytes = 0

    def check(self) -> None:
        """Raise `InvariantBroken` if an invariant does not hold."""
        ready = self.ready()
        for level in self._levels_in_use():
            level.check()
        ranges = self.ranges()
        if sum([paged.count for paged in ranges]) != self.paged_count:
            raise InvariantBroken(f"{self.paged_count} entries are counted on disk but the ranges have others")
        if len(ready) + self.paged_count != self.ready_count:
            raise InvariantBroken(f"{self.ready_count} entries are counted ready but {len(ready)} are held")
        body_bytes = sum([entry.message.body_bytes for entry in ready]) + sum([paged.body_bytes for paged in ranges])
        if body_bytes != self.ready_bytes:
            raise InvariantBroken(f"{self.ready_bytes} bytes are counted ready but {body_bytes} are held")
        deadlines = any(entry.expires_at_ms != NEVER for entry in ready) or any(paged.deadlines for paged in ranges)
        if deadlines and not self.deadlines:
            raise InvariantBroken("an entry with a deadline is ready unnoticed")
        for priority, level_above in enumerate(self._levels or []):
            if priority > self._top and level_above is not None and level_above.in_use():
                raise InvariantBroken(f"level {priority} holds entries above the top, {self._top}")
        self._check_held(sum([len(entry.message.content) + int(ENTRY_BYTES) for entry in ready]))

    def _check_held(self, held_ready_bytes: int) -> None:
        unacked_held_bytes = self.held_bytes - held_ready_bytes
        if self.unacked_count < 0 or unacked_held_bytes < self.unacked_count * ENTRY_BYTES + self.unacked_bytes:
            raise InvariantBroken(f"{self.unacked_count} unacked entries hold {unacked_held_bytes} bytes")
        if self.unacked_count == 0 and (unacked_held_bytes != 0 or self.unacked_bytes != 0):
            raise InvariantBroken(f"{unacked_held_bytes} bytes are held without an unacked entry")

    def _release(self, entry: Entry) -> None:
        cost: i64 = len(entry.message.content) + ENTRY_BYTES
        self.held_bytes -= cost
        self._turn.held_bytes -= cost

    def _clear_ready(self) -> None:
        self.ready_count = 0
        self.ready_bytes = 0
        self.paged_count = 0
        self.deadlines = False
        self._turn.discard(self._bottom.clear())
        self._levels = None
        self._top = 0

    def _levels_in_use(self) -> list[ReadyList]:
        """The levels that have entries, the highest first."""
        if self.ready_count == 0:
            return []
        levels = self._levels
        if levels is None:
            return [self._bottom]
        return [level for level in reversed(levels) if level is not None and level.in_use()]

    def _sequence(self, level: i64) -> ReadyList:
        return self._bottom if level == 0 else self._level(level)

    def _level(self, priority: i64) -> ReadyList:
        """The level of a priority above 0, created if needed; raises `_top`."""
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
        """The highest level that has entries; lowers `_top`."""
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


def first_of(paged: PositionRange) -> int:
    return paged.first
