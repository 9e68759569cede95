"""The ready entries of one priority level, in the order they go out.

Entries that arrive are appended to a list with a head index, so that taking one moves an index and clears a slot.
Entries that come back go to a second list, kept sorted by position; the first entry is the lower position of the
two heads. Coming back is lazy: `give_back` only appends, and the sort happens when somebody next looks, so that a
thousand single requeues in one turn cost one sort.

What is on disk only follows behind all of these, in `backlog`; `count`, `head` and `pop` are about memory alone.

Invariants: in both lists positions grow from head to end; slots before a head are None, those after it are not;
`_returned` is None rather than empty. A backlog begins behind every entry in memory.

Not here: the levels together (`queue.contents`), what is on disk (`queue.backlog`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.errors import InvariantBroken
from warren.model.message import Entry
from warren.queue.backlog import Backlog

COMPACT_FROM: Final[i64] = 64


@final
class ReadySequence:
    """The ready entries of one priority level."""

    def __init__(self) -> None:
        self.count: i64 = 0
        # what follows on disk; None rather than empty
        self.backlog: Backlog | None = None
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
