"""Starting from whatever bytes survived.

The checkpoint says what was alive when the last segment was sealed; the segments after it are read from end to end.
Sealed segments before it are not looked at: what is in them is read when somebody wants it.

A batch counts as a whole. Where the last segment stops making sense, the question is whether that was flushed once.
Every batch says how far the journal was known to be on disk when it was written, so any such word from behind the
damage answers it:

- Nothing behind says so: a *torn tail*. The batch was never confirmed, and is cut off with all that follows.
- It was flushed, and the record's header is whole: one message is damaged. The queues it is in are stopped and
  reported; all others go on.
- It was flushed, and the header is damaged: what is lost, nobody knows. The node does not start; `warren journal
  salvage` reads what can be read.

Removals name positions, not places. So what they leave of each holding is counted at the end, once, with the rows of
its segment's index, and only where some of it, but not all, is gone.

Not here: the files (`JournalFiles` is implemented by the shells), what a queue does with what is found (`broker`).
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, final

from librt.strings import read_i32_be
from mypy_extensions import i64, mypyc_attr

from warren.errors import ConfigError, StoreError
from warren.model.journal import ENTRY_COST_BYTES, Segment
from warren.store.checkpoint import CheckpointState, decode_checkpoint
from warren.store.index import SegmentRows
from warren.store.metadata import Snapshot
from warren.store.records import (
    COPY,
    COPY_PAGED,
    HORIZON,
    MESSAGE,
    MOVED,
    PREFIX_BYTES,
    REMOVED,
    RETURNED,
    SEGMENT_HEADER_BYTES,
    STOPPED,
    SYNCED,
    Scanner,
    payload_body_bytes,
    segment_header_fault,
    synced_after,
)
from warren.store.recount import Recount
from warren.store.salvage import rebuild_holdings

if TYPE_CHECKING:
    from warren.store.journal import Journal
    from warren.store.queue_book import QueueBook

END: Final[i64] = 1 << 62
"""Where nothing more is to be read."""

SALVAGE: Final = "'warren journal salvage DIR' reads what can be read"


@mypyc_attr(allow_interpreted_subclasses=True)
class JournalFiles(ABC):
    """The journal's files, as they are found."""

    @abstractmethod
    def checkpoint(self) -> bytes | None: ...

    @abstractmethod
    def segments(self) -> list[int]:
        """The numbers of those that are there, in order."""

    @abstractmethod
    def segment(self, number: int) -> bytes: ...

    @abstractmethod
    def index(self, number: int) -> bytes | None: ...


@final
class Found:
    """What a node finds when it starts."""

    def __init__(self, revision: int, values: Snapshot, files: JournalFiles, incarnation: int, now_ms: int = 0) -> None:
        # the metadata's last revision, and its values by key with the revisions that created them
        self.revision: int = revision
        self.values: Snapshot = values
        self.files: JournalFiles = files
        self.incarnation: int = incarnation
        # what time it is: idle queues that are found count from here
        self.now_ms: int = now_ms


@final
class Recovery:
    """Fills a journal's books, which must be open, from files. Lenient: whatever is damaged is left out and told."""

    def __init__(self, journal: "Journal", files: JournalFiles, revision: int, lenient: bool = False) -> None:
        self._journal: Journal = journal
        self._files: JournalFiles = files
        self._revision: int = revision
        self._lenient: bool = lenient
        self._segments: dict[int, Segment] = {}
        # of the segments that were read
        self._rows: dict[int, SegmentRows] = {}
        self._recount: Recount = Recount(journal, files, self._rows)
        # why queues must not go on, by id
        self.stopped: dict[int, str] = {}
        # what was found wrong, in sentences
        self.faults: list[str] = []
        self.clean: bool = False
        self.messages: int = 0
        # messages that were left out, one for each queue they were in
        self.lost: int = 0

    def run(self) -> None:
        """Read everything that must be read, and let the journal go on from there."""
        numbers = self._files.segments()
        replay_from = self._load_checkpoint(numbers)
        replayed = [number for number in numbers if self._lenient or number >= replay_from]
        for expected, number in enumerate(replayed, replayed[0] if self._lenient and replayed else replay_from):
            if number != expected:
                self._refuse(f"segment {expected} of the journal is missing")
                break
        for number in replayed:
            self._replay(number, number == numbers[-1])
        if self._lenient:
            rebuild_holdings(self._journal, self._segments, self._rows)
        else:
            self._recount.run()
        for segment in self._segments.values():
            segment.live_count = 0
            segment.live_bytes = 0
        for book in self._journal.books.values():
            book.recovered()
            for holding in book.holdings:
                holding.segment.live_count += holding.count
                holding.segment.live_bytes += holding.cost_bytes
                self.messages += int(holding.count)
        self._journal.begin(list(self._segments.values()), self._rows)

    # -- the checkpoint

    def _load_checkpoint(self, numbers: list[int]) -> int:
        """What was alive at the last checkpoint; the first segment it does not speak of."""
        data = self._files.checkpoint()
        if data is None:
            if numbers and numbers[0] != 1:
                self._refuse(f"the journal begins with segment {numbers[0]} and has no checkpoint")
            return 1
        try:
            state = decode_checkpoint(data)
        except StoreError as fault:
            self._refuse(f"the journal's checkpoint cannot be used: it is {fault}")
            return numbers[0] if numbers else 1
        for segment in state.segments:
            self._segments[int(segment.number)] = segment
            if segment.live_count > 0 and int(segment.number) not in numbers:
                self._miss(segment, state)
        for number in numbers:
            if number < state.replay_from and number not in self._segments:
                # it was to be dropped when the node died
                self._segments[number] = Segment(number)
        for mark in state.queues:
            book = self._book(mark.queue_id)
            if book is not None:
                book.load(mark)
        return state.replay_from

    def _miss(self, segment: Segment, state: CheckpointState) -> None:
        reason = f"segment {segment.number} of the journal is missing"
        self.faults.append(reason)
        for mark in state.queues:
            if any(holding.segment is segment and holding.count > 0 for holding in mark.holdings):
                self.stopped[int(mark.queue_id)] = reason

    def _book(self, queue_id: i64) -> "QueueBook | None":
        """The book of a queue that records speak of; None if it was deleted."""
        book = self._journal.books.get(int(queue_id))
        if book is None and queue_id > self._revision:
            self._refuse(
                f"the journal holds messages of queue number {queue_id}, but the metadata ends at {self._revision}: "
                "it is older than the journal"
            )
        return book

    def _refuse(self, sentence: str) -> None:
        if not self._lenient:
            raise StoreError(f"{sentence}; {SALVAGE}")
        self.faults.append(sentence)

    # -- one segment

    def _replay(self, number: int, is_last: bool) -> None:
        data = self._files.segment(number)
        segment = self._segments.get(number)
        if segment is None:
            segment = Segment(number)
            self._segments[number] = segment
        self._rows[number] = SegmentRows()
        self.clean = False
        fault = segment_header_fault(data, number)
        if fault.startswith("of another version"):
            raise ConfigError(f"segment {number} of the journal is {fault}; this version of Warren reads version 1")
        if fault:
            if not is_last or synced_after(data, number, 0) > 0:
                self._refuse(f"segment {number} of the journal is {fault}")
            if not self._lenient or len(data) < SEGMENT_HEADER_BYTES:
                return
        at: i64 = SEGMENT_HEADER_BYTES
        synced: i64 = 0
        while at < len(data):
            opening = Scanner(data, number, at)
            if not opening.next() or opening.kind != SYNCED or opening.count != 2:
                at = self._damaged(segment, data, at, at, at, synced, is_last)
                continue
            if opening.a(0) == number:
                synced = max(synced, opening.b(0))
            end: i64 = at + opening.a(1)
            at = self._batch(segment, data, at, opening.end, end, synced, is_last)

    def _batch(self, segment: Segment, data: bytes, start: i64, at: i64, end: i64, synced: i64, is_last: bool) -> i64:
        """Take a batch if it is whole; where the next one begins, or `END`."""
        bad_payloads: list[int] = []
        scanner = Scanner(data, segment.number, at)
        while scanner.end < end and scanner.next():
            if not scanner.intact():
                bad_payloads.append(int(scanner.at))
        if scanner.end != end or scanner.short:
            return self._damaged(segment, data, start, scanner.at, start, synced, is_last)
        if bad_payloads and not self._was_flushed(segment, data, start, bad_payloads[0], synced, is_last):
            return END
        taking = Scanner(data, segment.number, at)
        while taking.end < end and taking.next():
            self._take(segment, taking, int(taking.at) in bad_payloads)
        segment.size_bytes = end
        return end

    def _was_flushed(self, segment: Segment, data: bytes, start: i64, bad: i64, synced: i64, is_last: bool) -> bool:
        if not is_last or self._lenient:
            return True
        return max(synced, synced_after(data, segment.number, bad)) > start

    def _damaged(
        self, segment: Segment, data: bytes, start: i64, bad: i64, resume: i64, synced: i64, is_last: bool
    ) -> i64:
        """Something that is no record at `bad`, in a batch that begins at `start`: where to go on, or `END`."""
        flushed = max(synced, synced_after(data, segment.number, bad))
        if is_last and flushed <= start:
            return END
        if not is_last and not _anything_from(data, start):
            # written ahead, never used
            return END
        self._refuse(f"segment {segment.number} of the journal is damaged at byte {bad}")
        return self._salvage(segment, data, start)

    def _salvage(self, segment: Segment, data: bytes, start: i64) -> i64:
        """Take every record that is whole from here to the next opening of a batch; where that is."""
        at = start
        scanner = Scanner(data, segment.number, at)
        while at < len(data):
            if not scanner.next():
                at += 1
                scanner = Scanner(data, segment.number, at)
                continue
            if scanner.kind == SYNCED and scanner.at > start:
                return scanner.at
            if scanner.intact():
                self._take(segment, scanner, False)
            at = scanner.end
            segment.size_bytes = max(segment.size_bytes, at)
        return END

    # -- one record

    def _take(self, segment: Segment, scanner: Scanner, damaged: bool) -> None:
        kind = scanner.kind
        self.clean = kind == STOPPED
        if kind <= COPY_PAGED:
            if kind in (MESSAGE, COPY):
                self._take_message(segment, scanner, damaged)
            return
        index: i64 = 0
        while index < scanner.count and kind != SYNCED and kind != STOPPED:
            if kind == MOVED:
                self._take_move(segment, int(scanner.a(index)))
            else:
                self._take_mark(scanner, index)
            index += 1

    def _take_message(self, segment: Segment, scanner: Scanner, damaged: bool) -> None:
        names_bytes: i64 = i64(read_i32_be(scanner.data, scanner.payload_start + 24))
        cost: i64 = scanner.payload_bytes - PREFIX_BYTES - names_bytes + ENTRY_COST_BYTES
        body_bytes = payload_body_bytes(scanner.data, scanner.payload_start)
        rows = self._rows[int(segment.number)]
        length: i64 = scanner.end - scanner.at
        index: i64 = 0
        while index < scanner.count:
            queue_id, position = scanner.a(index), scanner.b(index)
            book = self._book(queue_id) if queue_id > 0 else None
            index += 1
            if book is None:
                continue
            if self._lenient and damaged:
                self.lost += 1
                continue
            if not self._lenient:
                segment.total_bytes += cost
            rows.add(queue_id, position, scanner.at, length, body_bytes, scanner.priority, scanner.kind)
            if damaged:
                self._stop_queue(int(queue_id), segment, scanner.at)
            if self._lenient:
                book.next_position = max(book.next_position, position + 1)
            elif scanner.kind == MESSAGE:
                level = book.level_of(scanner.priority)
                book.restore(segment, level, position, body_bytes, cost, scanner.c(index - 1))

    def _stop_queue(self, queue_id: int, segment: Segment, offset: i64) -> None:
        reason = f"segment {segment.number} of the journal is damaged at byte {offset}"
        self.stopped.setdefault(queue_id, reason)
        self.faults.append(reason)

    def _take_mark(self, scanner: Scanner, index: i64) -> None:
        book = self._book(scanner.a(index))
        if book is None:
            return
        if scanner.kind == REMOVED:
            first, last = scanner.b(index), scanner.c(index)
            book.removed_at(scanner.priority).add_range(first, last)
            book.next_position = max(book.next_position, last + 1)
            self._recount.removed(book, scanner.priority, first, last)
        elif scanner.kind == HORIZON:
            book.horizon = scanner.b(index)
        elif scanner.kind == RETURNED:
            book.return_counts[int(scanner.b(index))] = int(scanner.c(index))

    def _take_move(self, home: Segment, from_number: int) -> None:
        segment = self._segments.get(from_number)
        if segment is None or self._lenient:
            return
        for book in self._journal.books.values():
            book.move(segment, home)


def _anything_from(data: bytes, at: i64) -> bool:
    """Whether there is anything but zeros."""
    return len(data[at:].lstrip(b"\0")) > 0
