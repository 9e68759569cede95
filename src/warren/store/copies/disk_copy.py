"""A member's copy of a durable queue, in the node's journal.

Everything of the queue is on disk, transient messages too. Those need not be flushed before they are safe, and mean
nothing after a restart. A payload is written as it came; nobody makes a message of it until the copy is promoted.

Which positions are held is known exactly, by level and by whether they last (`store.copies.shelf`). So a removal takes
whatever of its range is there, in whatever segment, and what is not there counts for nothing. What was removed stays
away: a message that comes after its removal is not taken in.

A master has one, too, beside its queue: it tells what there is, and takes off what is settled to be gone.

Invariants: `check`.

Not here: what is where after a restart (`store.copies.stocktaking`), the records (`store.batch`), handing out
(`queue`).
"""

from typing import final

from librt.strings import read_i64_be
from mypy_extensions import i64

from warren.errors import PeerFault
from warren.model.copies import Copy, CopyAsker, Heir, PastReader, PastTaker, Span, check_range
from warren.model.journal import ENTRY_COST_BYTES, Holding, Run
from warren.model.message import Entry
from warren.store.copies.merging import joined_spans, merged_runs
from warren.store.copies.reading_past import ReadingPast
from warren.store.copies.remembering import see, take_seen, unsee
from warren.store.copies.shelf import Shelf
from warren.store.copies.stocktaking import Stocktaking
from warren.store.payloads import PREFIX_BYTES, payload_names_bytes
from warren.store.queue_book import QueueBook
from warren.store.tidying import raise_floors


@final
class DiskCopy(Copy):
    """What one member holds of one durable queue."""

    def __init__(self, book: QueueBook) -> None:
        self.book: QueueBook = book
        self.max_priority = book.max_priority
        # until it is known to have everything, something may come that lies below all it has
        book.catching_up = True
        book.whole = True
        # by level, twice: what lasts, and what does not
        self._lasting: list[Shelf] = []
        self._passing: list[Shelf] = []
        self._stocktaking: Stocktaking | None = None

    def prepare(self, asker: CopyAsker) -> None:
        self._lasting = []
        self._passing = []
        for level in range(int(self.book.max_priority) + 1):
            self._lasting.append(Shelf(self.book, level, True))
            self._passing.append(Shelf(self.book, level, False))
        self._stocktaking = Stocktaking(self.book, self._lasting, self._passing, asker)
        self._stocktaking.go_on()

    def count(self) -> int:
        return int(sum([shelf.count for shelf in self.shelves()]))

    def body_bytes(self) -> int:
        return int(sum([shelf.body_bytes for shelf in self.shelves()]))

    def shelves(self) -> list[Shelf]:
        return self._lasting + self._passing

    # -- what comes

    def store(
        self,
        position: i64,
        priority: i64,
        expires_at_ms: i64,
        persistent: bool,
        payload: bytes,
        payload_crc: i64,
    ) -> bool:
        self.put(position, priority, expires_at_ms, persistent, payload, payload_crc)
        return persistent

    def put(
        self,
        position: i64,
        priority: i64,
        expires_at_ms: i64,
        persistent: bool,
        payload: bytes,
        payload_crc: i64,
    ) -> Holding | None:
        """Hold a message; where it is counted, or None if it was removed before, or is here already."""
        book = self.book
        level = min(priority, book.max_priority)
        shelf = self._lasting[level] if persistent else self._passing[level]
        if position < book.next_position and (book.removed_at(level).has(position) or shelf.has(position)):
            return None
        payload_bytes: i64 = len(payload)
        if payload_bytes < PREFIX_BYTES:
            raise PeerFault(f"a message of {payload_bytes} bytes was sent to be held")
        body_bytes: i64 = read_i64_be(payload, 0)
        cost: i64 = payload_bytes - PREFIX_BYTES - payload_names_bytes(payload, 0) + ENTRY_COST_BYTES
        if body_bytes < 0 or body_bytes + ENTRY_COST_BYTES > cost:
            raise PeerFault(f"a message of {payload_bytes} bytes with a body of {body_bytes} was sent to be held")
        segment = book.active_segment()
        holding = shelf.add(segment, position, body_bytes, cost)
        segment.total_bytes += cost
        book.put(holding, position, priority, expires_at_ms, persistent, body_bytes, payload, payload_crc)
        see(book, payload, persistent)
        return holding

    def hold(self, entry: Entry, payload: bytes, payload_crc: i64) -> None:
        message = entry.message
        entry.holding = self.put(
            entry.position, message.priority, entry.expires_at_ms, message.persistent, payload, payload_crc
        )

    def adopt(self, entry: Entry, payload: bytes, payload_crc: i64) -> None:
        """Hold an entry of a queue that nobody else held so far, unless it is on disk.

        A transient one may count as removed there: it was, when it was read back into memory.
        """
        message = entry.message
        level = self.book.level_of(message.priority)
        shelf = self._lasting[level] if message.persistent else self._passing[level]
        if not shelf.has(entry.position):
            self.book.removed_at(level).revive(entry.position)
            self.hold(entry, payload, payload_crc)

    # -- what goes

    def remove(self, level: i64, first: i64, last: i64) -> None:
        check_range(level, self.max_priority, first, last)
        lasting = self._lasting[level].take(first, last)
        self._passing[level].take(first, last)
        self.book.forget_range(level, first, last, lasting > 0)

    def remove_any(self, first: i64, last: i64) -> None:
        for level, shelf in enumerate(self._lasting):
            if shelf.any_between(first, last) or self._passing[level].any_between(first, last):
                self.remove(level, first, last)

    def drop(self, priority: i64, position: i64) -> None:
        self.remove(self.book.level_of(priority), position, position)

    # -- what is known

    def unsee(self, payload: bytes) -> None:
        unsee(self.book, payload)

    def take_seen(self, rows: bytes, anew: bool) -> bool:
        return take_seen(self.book, rows, anew)

    def remember(self, name: str, offset: i64) -> None:
        self.book.remember(name, offset)

    def names(self) -> list[str]:
        return list(self.book.remembered())

    def lend(self, position: i64) -> bool:
        return self.book.horizon.follow(position)

    def lent_to(self) -> i64:
        return self.book.horizon.highest()

    def archived_to(self) -> i64:
        return self.book.archived_to

    def archive_goes_to(self, position: i64) -> None:
        self.book.archive_goes_to(position)

    def returned(self, position: i64, count: i64) -> None:
        for level, shelf in enumerate(self._lasting):
            if shelf.has(position):
                self.book.count_return(position, count)
            elif self._passing[level].has(position):
                self.book.return_counts[int(position)] = int(count)

    def spans(self) -> list[Span]:
        return joined_spans(self.shelves())

    def lowest(self) -> i64:
        """The lowest position that is held; 0 if there is none."""
        spans = self.spans()
        return spans[0].first if spans else 0

    def sums_to(self, last: i64) -> tuple[i64, i64]:
        """How many are held up to this position, and the bytes of their bodies."""
        count: i64 = 0
        body_bytes: i64 = 0
        for shelf in self.shelves():
            for holding in shelf.row.between(0, last):
                several, their_bytes = shelf.sums(holding.first, min(last, holding.last))
                count += several
                body_bytes += their_bytes
        return count, body_bytes

    def read(self, spans: list[Span], taker: PastTaker) -> PastReader:
        return ReadingPast(self.book, spans, taker)

    def begin_catching_up(self) -> None:
        self.book.catching_up = True

    def caught_up(self) -> None:
        self.book.catching_up = False
        raise_floors(self.book)

    # -- its end

    def hand_over(self, heir: Heir) -> None:
        self.caught_up()
        self.book.horizon.promoted(self.book.next_position - 1)
        heir.recover(self.runs(), self.book.next_position)

    def runs(self) -> list[Run]:
        """Everything that is held, as a queue that has none of it in memory sees it."""
        runs: list[Run] = []
        for level, shelf in enumerate(self._lasting):
            runs += merged_runs(shelf, self._passing[level])
        return runs

    def left_alone(self) -> None:
        """All of it is on disk."""

    def close(self) -> None:
        if self._stocktaking is not None:
            self._stocktaking.cancel()
        self.book.close()

    def check(self) -> None:
        """Raise `InvariantBroken` if it contradicts itself."""
        for shelf in self.shelves():
            shelf.check()
