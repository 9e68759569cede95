"""The unacked deliveries of one channel.

Delivery tags grow by one, so the ledger is a list indexed by `tag - first_tag`, with a head index that moves past
what is settled and a compaction when half of it is dead. Appending, finding and clearing cost a few nanoseconds each,
whatever the backlog.

Invariants: `count` entries are not None, all of them at or after `head`; `first_tag + len(entries) == next_tag`
whenever the ledger is not empty.

Not here: what an ack does to a queue (`session.settling`), how a delivery is written (`session.consumer`).
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.errors import InvariantBroken
from warren.model.message import Entry

if TYPE_CHECKING:
    from warren.session.consumer import ChannelConsumer

COMPACT_FROM: Final[i64] = 1024
MARK_EVERY_MS: Final[i64] = 1000


@final
class Unacked:
    """One delivery lifted out of the ledger."""

    def __init__(self, tag: int, entry: Entry, taker: "ChannelConsumer") -> None:
        self.tag = tag
        self.entry = entry
        self.taker = taker


@final
class Ledger:
    """Deliveries by tag."""

    def __init__(self) -> None:
        self.next_tag: i64 = 1
        self.count: i64 = 0
        self.head: i64 = 0
        self.first_tag: i64 = 1
        self.entries: list[Entry | None] = []
        self.takers: list[ChannelConsumer | None] = []
        # (tag, when): the first delivery of each second, so that the age of the oldest one is known without a clock
        # per entry
        self._marks: list[tuple[int, int]] = []
        self._last_mark_ms: i64 = 0

    def record(self, entry: Entry, taker: "ChannelConsumer", now_ms: i64) -> i64:
        """Note a delivery that awaits its ack; its tag."""
        tag = self.next_tag
        if self.count == 0:
            self._restart(tag)
        if now_ms - self._last_mark_ms >= MARK_EVERY_MS:
            self._last_mark_ms = now_ms
            self._marks.append((tag, now_ms))
        self.entries.append(entry)
        self.takers.append(taker)
        self.count += 1
        self.next_tag = tag + 1
        return tag

    def skip(self) -> i64:
        """The tag of a delivery that needs no ack."""
        tag = self.next_tag
        if self.count != 0:
            self.entries.append(None)
            self.takers.append(None)
        self.next_tag = tag + 1
        return tag

    def index_of(self, tag: i64) -> i64:
        """Where the delivery with this tag stands; -1 if it is not outstanding."""
        index: i64 = tag - self.first_tag
        if self.count == 0 or index < self.head or index >= len(self.entries) or self.entries[index] is None:
            return -1
        return index

    def clear(self, index: i64) -> None:
        """The delivery at `index` is settled."""
        self.entries[index] = None
        self.takers[index] = None
        self.count -= 1
        if index == self.head:
            self._advance()

    def ack_through(self, last: i64) -> None:
        """Every outstanding delivery up to the one at `last` was acked."""
        index: i64 = self.head
        while index <= last:
            entry = self.entries[index]
            if entry is not None:
                taker = self.takers[index]
                if taker is not None:
                    taker.unacked -= 1
                    taker.queue.ack(entry)
                self.entries[index] = None
                self.takers[index] = None
                self.count -= 1
            index += 1
        self._advance()

    def lift(self, index: i64) -> Unacked:
        """Take the delivery at `index` out, to settle it later or put it back."""
        entry, taker = self.entries[index], self.takers[index]
        if entry is None or taker is None:
            raise InvariantBroken(f"no delivery at ledger index {index}")
        self.clear(index)
        return Unacked(int(self.first_tag + index), entry, taker)

    def indexes_to(self, tag: i64) -> list[int]:
        """Where every outstanding delivery up to `tag` stands, oldest first; 0 means all of them."""
        last: i64 = len(self.entries) if tag == 0 else tag - self.first_tag + 1
        found: list[int] = []
        index: i64 = self.head
        while index < last:
            if self.entries[index] is not None:
                found.append(int(index))
            index += 1
        return found

    def lift_to(self, tag: i64) -> list[Unacked]:
        """Take out every outstanding delivery up to `tag`, oldest first; 0 means all of them."""
        first = self.first_tag
        # lifting moves the head and may compact, so the place of each is found again by its tag
        tags = [int(first + index) for index in self.indexes_to(tag)]
        return [self.lift(one - self.first_tag) for one in tags]

    def put_back(self, deliveries: list[Unacked]) -> None:
        """Undo `lift`: the deliveries are outstanding again under their old tags."""
        by_tag = {delivery.tag: delivery for delivery in deliveries + self.lift_to(0)}
        if not by_tag:
            return
        self._restart(min(by_tag))
        for tag in range(min(by_tag), int(self.next_tag)):
            delivery = by_tag.get(tag)
            self.entries.append(None if delivery is None else delivery.entry)
            self.takers.append(None if delivery is None else delivery.taker)
        self.count = len(by_tag)

    def overdue(self, before_ms: i64) -> i64:
        """The highest tag delivered before `before_ms` if something that old is outstanding, else 0."""
        if self.count == 0:
            return 0
        last: i64 = 0
        for position, (_tag, at_ms) in enumerate(self._marks):
            if at_ms >= before_ms:
                break
            # a mark speaks for the tags up to the next mark
            following = position + 1
            last = i64(self._marks[following][0]) - 1 if following < len(self._marks) else self.next_tag - 1
        return last if last >= self.first_tag + self.head else 0

    def check(self) -> None:
        alive = sum([1 for entry in self.entries if entry is not None])
        if alive != self.count:
            raise InvariantBroken(f"ledger counts {self.count} unacked but holds {alive}")
        if self.count and self.first_tag + len(self.entries) != self.next_tag:
            raise InvariantBroken("ledger indexes do not follow its tags")

    def _restart(self, first_tag: i64) -> None:
        self.entries = []
        self.takers = []
        self.head = 0
        self.first_tag = first_tag
        self._marks = []
        self._last_mark_ms = 0

    def _advance(self) -> None:
        head = self.head
        size: i64 = len(self.entries)
        while head < size and self.entries[head] is None:
            head += 1
        self.head = head
        if head >= COMPACT_FROM and head * 2 >= size:
            del self.entries[:head]
            del self.takers[:head]
            self.first_tag += head
            self.head = 0
            first = self.first_tag
            while len(self._marks) > 1 and self._marks[1][0] <= first:
                self._marks.pop(0)
