"""Starting from whatever bytes survived.

The checkpoint says what was alive when the last segment was sealed; the segments after it are read from end to end.
Sealed segments before it are not looked at: what is in them is read when somebody wants it. Only an index that is
missing is made again.

Where the last segment stops making sense (`store.batches` judges that):

- A torn tail is cut off with all that follows. Nothing of it was ever confirmed.
- A batch that was flushed, with every header whole: one message is damaged. The queues that still have it are stopped
  and reported; all others go on.
- A batch that was flushed, with a damaged header: what is lost, nobody knows. The node does not start; `warren journal
  salvage` reads what can be read.

Removals name positions, not places. So what they leave of each holding is counted at the end, once, with the rows of
its segment's index, and only where some of it, but not all, is gone.

Lenient, for salvage: every segment is read, and whatever is damaged is left out and told.

Not here: the files (`JournalFiles` is implemented by the shells), what a queue does with what is found (`broker`).
"""

from abc import abstractmethod
from typing import TYPE_CHECKING, final

from mypy_extensions import i64, mypyc_attr

from warren.errors import ConfigError, StoreError
from warren.model.archive import ArchiveFiles
from warren.model.events import SharedSnapshot
from warren.model.journal import Segment
from warren.store.batches import DAMAGED, TORN, Batches, next_record
from warren.store.checkpoint import decode_checkpoint
from warren.store.found_rows import SALVAGE, FoundRows, sizes_of
from warren.store.metadata import Snapshot
from warren.store.records import (
    COPY,
    COPY_PAGED,
    HORIZON,
    MESSAGE,
    MOVED,
    REMEMBERED,
    REMOVED,
    RETURNED,
    SEEN,
    SEGMENT_HEADER_BYTES,
    STOPPED,
    SYNCED,
    Scanner,
    next_opening,
    segment_header_fault,
)
from warren.store.recount import Recount
from warren.store.remembrance import replay
from warren.store.salvage import rebuild_holdings

if TYPE_CHECKING:
    from warren.store.journal import Journal
    from warren.store.queue_book import QueueBook


@mypyc_attr(allow_interpreted_subclasses=True)
class JournalFiles:
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

    @abstractmethod
    def has_index(self, number: int) -> bool: ...


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
        # the files of streams; none if whoever starts the node keeps none
        self.archives: ArchiveFiles | None = None
        # of a node in a cluster: what the store holds that it shares with others
        self.shared: SharedSnapshot | None = None

    def share(self, revision: int, snapshot: SharedSnapshot) -> None:
        """Definitions are those of a cluster, and not what is recorded here."""
        self.revision = revision
        self.values = {key: (created, value) for key, (created, _modified, value) in snapshot.items()}
        self.shared = snapshot


@final
class Recovery:
    """Fills a journal's books, which must be open, from files."""

    def __init__(self, journal: "Journal", files: JournalFiles, revision: int, lenient: bool = False) -> None:
        self._journal: Journal = journal
        self._files: JournalFiles = files
        self._revision: int = revision
        self._lenient: bool = lenient
        self._segments: dict[int, Segment] = {}
        self._rows: FoundRows = FoundRows(journal, files)
        self._recount: Recount = Recount(journal, self._rows)
        # segments that should be there
        self._missing: list[Segment] = []
        # messages that were not whole: book, segment, level, position, offset
        self._doubtful: list[tuple[QueueBook, Segment, int, int, int]] = []
        # the first segment the checkpoint does not speak of
        self._replay_from: int = 1
        # the same, or the first there is: older ones tell nothing of what queues remember besides their messages
        self._remembrance_from: int = 1
        # why queues must not go on, by id
        self.stopped: dict[int, str] = {}
        # what was found wrong, in sentences
        self.faults: list[str] = []
        self.clean: bool = False
        self.messages: int = 0
        # messages that are known to be left out, by queue
        self.lost: dict[int, int] = {}
        # what could not be read: segment, first byte, byte after the last
        self.left_out: list[tuple[int, int, int]] = []
        # messages of queues that the metadata is too old to know, by queue, if any, and the segments they are in
        self.unknown: dict[int, int] = {}
        self.unknown_in: dict[int, bool] = {}

    def run(self) -> None:
        """Read everything that must be read, and let the journal go on from there."""
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
            self._tell_lacking()
            self._tell_unknown()
            rebuild_holdings(self._journal, self._segments, self._rows.read)
        else:
            self._recount.run()
            self._stop_lacking()
            self._stop_damaged()
        self._count_living()
        self._rows.replace_missing([self._segments[number] for number in numbers])
        self._journal.begin(list(self._segments.values()), self._rows.read, self._replay_from)

    def _count_living(self) -> None:
        for segment in self._segments.values():
            segment.live_count = 0
            segment.live_bytes = 0
        for book in self._journal.books.values():
            book.recovered()
            for holding in book.holdings:
                holding.segment.live_count += holding.count
                holding.segment.live_bytes += holding.cost_bytes
                self.messages += int(holding.count)

    # -- the checkpoint

    def _load_checkpoint(self, numbers: list[int]) -> None:
        """What was alive at the last checkpoint."""
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
        self._replay_from = self._remembrance_from = state.replay_from
        for segment in state.segments:
            self._segments[int(segment.number)] = segment
            if segment.live_count > 0 and int(segment.number) not in numbers:
                self._missing.append(segment)
        for number in numbers:
            if number < state.replay_from and number not in self._segments:
                # it was to be dropped when the node died
                self._segments[number] = Segment(number)
        for mark in state.queues:
            book = self._book(mark.queue_id)
            if book is not None:
                book.load(mark)

    def _stop_lacking(self) -> None:
        """Queues that still have messages in a segment that is not there must not go on."""
        for book in self._journal.books.values():
            for holding in book.holdings:
                if holding.segment in self._missing and holding.count > 0:
                    self._stop_queue(book, f"segment {holding.segment.number} of the journal is missing")

    def _stop_queue(self, book: "QueueBook", reason: str) -> None:
        self.stopped.setdefault(int(book.queue_id), reason)
        if reason not in self.faults:
            self.faults.append(reason)

    def _book(self, queue_id: i64) -> "QueueBook | None":
        """The book of a queue that records speak of; None if it was deleted."""
        book = self._journal.books.get(int(queue_id))
        if book is None and queue_id > self._revision:
            self.unknown.setdefault(int(queue_id), 0)
            if not self._lenient:
                self._refuse(
                    f"the journal holds messages of queue number {queue_id}, but the metadata ends at "
                    f"{self._revision}: it is older than the journal"
                )
        return book

    def _tell_lacking(self) -> None:
        """Before what is left is counted anew: how much was in segments that are not there."""
        self._stop_lacking()
        self.stopped = {}
        for book in self._journal.books.values():
            for holding in book.holdings:
                if holding.segment in self._missing and holding.count > 0:
                    self._lose(book, int(holding.count))

    def _lose(self, book: "QueueBook", count: int) -> None:
        self.lost[int(book.queue_id)] = self.lost.get(int(book.queue_id), 0) + count

    def _tell_unknown(self) -> None:
        if self.unknown:
            self.faults.append(
                f"the journal holds messages of {len(self.unknown)} queues that the metadata, which ends at "
                f"{self._revision}, does not know: it is older than the journal"
            )

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
        batches = Batches(data, number, known_end)
        while self._take_batches(segment, batches):
            self._refuse(f"segment {number} of the journal is damaged at byte {batches.bad}")
            batches.step_over()
            self._take_what_is_whole(segment, data, batches.start, batches.end)
        if batches.ending == TORN and not is_last:
            self._refuse(f"segment {number} of the journal is damaged at byte {batches.bad}")

    def _take_batches(self, segment: Segment, batches: Batches) -> bool:
        """Take every batch up to the next damage; whether there is any."""
        while batches.next():
            scanner = Scanner(batches.data, segment.number, batches.records)
            message_bytes: i64 = 0
            while scanner.end < batches.end and scanner.next():
                self._take(segment, scanner, int(scanner.at) in batches.bad_payloads)
                if scanner.kind <= COPY_PAGED:
                    message_bytes += scanner.end - scanner.at
            segment.total_bytes += batches.end - batches.start - message_bytes
            segment.size_bytes = batches.end
        return batches.ending == DAMAGED

    def _take_what_is_whole(self, segment: Segment, data: bytes, start: i64, end: i64) -> None:
        """Take the records of a damaged stretch that can be read, and say what lies between them."""
        at = start
        scanner = next_record(data, segment.number, at, end)
        while scanner is not None:
            if scanner.at > at:
                self.left_out.append((int(segment.number), int(at), int(scanner.at)))
            self._take(segment, scanner, not scanner.intact())
            at = scanner.end
            segment.size_bytes = max(segment.size_bytes, at)
            scanner = next_record(data, segment.number, at, end)
        if end > at:
            self.left_out.append((int(segment.number), int(at), int(end)))

    # -- one record

    def _take(self, segment: Segment, scanner: Scanner, damaged: bool) -> None:
        kind = scanner.kind
        self.clean = kind == STOPPED
        if kind <= COPY_PAGED:
            _body_bytes, cost = sizes_of(scanner, damaged)
            segment.total_bytes += cost * scanner.count
            if kind in (MESSAGE, COPY):
                self._take_message(segment, scanner, damaged)
            return
        index: i64 = 0
        while index < scanner.count and kind != SYNCED and kind != STOPPED:
            if kind == MOVED:
                self._take_move(segment, int(scanner.a(index)))
            elif kind in (REMEMBERED, SEEN):
                self._take_remembrance(segment, scanner, index, damaged)
            else:
                self._take_mark(scanner, index)
            index += 1

    def _take_message(self, segment: Segment, scanner: Scanner, damaged: bool) -> None:
        if self._lenient and damaged:
            self.left_out.append((int(segment.number), int(scanner.at), int(scanner.end)))
        else:
            self._rows.add(int(segment.number), scanner, damaged)
        body_bytes, cost = sizes_of(scanner, damaged)
        index: i64 = -1
        while index + 1 < scanner.count:
            index += 1
            queue_id, position = scanner.a(index), scanner.b(index)
            book = self._book(queue_id) if queue_id > 0 else None
            if book is None:
                if queue_id > self._revision:
                    self.unknown[int(queue_id)] = self.unknown.get(int(queue_id), 0) + 1
                    self.unknown_in[int(segment.number)] = True
                continue
            level = book.level_of(scanner.priority)
            if scanner.kind == MESSAGE and not damaged and segment.number >= self._remembrance_from:
                replay(book, scanner, index)
            if self._lenient:
                book.next_position = max(book.next_position, position + 1)
                if damaged:
                    self._lose(book, 1)
                    book.removed_at(level).add(position)
                continue
            if damaged:
                self._doubtful.append((book, segment, int(level), int(position), int(scanner.at)))
            if scanner.kind == MESSAGE:
                book.restore(segment, level, position, body_bytes, cost, scanner.c(index))

    def _stop_damaged(self) -> None:
        """Queues that still have a damaged message must not go on."""
        for book, segment, level, position, offset in self._doubtful:
            if book.removed_at(level).has(position) or book.holding_at(segment, level, True, position) is None:
                continue
            self._stop_queue(book, f"segment {segment.number} of the journal is damaged at byte {offset}")

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
            # what a lenient recovery reads may be older than the checkpoint
            position = scanner.b(index)
            book.horizon.position = max(book.horizon.position, position) if self._lenient else position
        elif scanner.kind == RETURNED:
            returned, count = int(scanner.b(index)), int(scanner.c(index))
            book.return_counts[returned] = max(book.return_counts.get(returned, 0), count)

    def _take_remembrance(self, segment: Segment, scanner: Scanner, index: i64, damaged: bool) -> None:
        book = self._book(scanner.a(index))
        if book is None:
            return
        if damaged and self._lenient:
            self.left_out.append((int(segment.number), int(scanner.at), int(scanner.end)))
        elif damaged:
            self._stop_queue(book, f"segment {segment.number} of the journal is damaged at byte {scanner.at}")
        elif segment.number >= self._remembrance_from:
            replay(book, scanner, index)

    def _take_move(self, home: Segment, from_number: int) -> None:
        segment = self._segments.get(from_number)
        if segment is None or self._lenient:
            return
        for book in self._journal.books.values():
            book.move(segment, home)
