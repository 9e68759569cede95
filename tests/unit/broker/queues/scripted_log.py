"""A journal in memory for one queue: it stores, removes and reads entries, and answers when the test says so.

It asserts the invariants of a journal: no entry is removed twice or through a wrong extent, and there is one fetch at a
time.
"""

from dataclasses import dataclass

from mypy_extensions import i64

from warren.broker.model.journal import PositionRange, Segment, SegmentExtent
from warren.broker.model.message import NEVER, Entry, Message
from warren.broker.model.ports import FetchWaiter, QueueLog

QUEUE_ID = 7
SEGMENT_ENTRIES = 4


@dataclass
class Stored:
    """One message on the simulated disk."""

    message: Message
    position: int
    expires_at_ms: int
    level: int
    extent: SegmentExtent
    delivery_count: int = 0


class ScriptedLog(QueueLog):
    """The log of one queue; a segment is full after a few entries."""

    def __init__(self, durable: bool = True, prompt: bool = False) -> None:
        super().__init__(durable)
        # answer every fetch within the call
        self.prompt = prompt
        # positions up to this one may be delivered; None for all
        self.deliverable_to: int | None = None
        self.batch_entries = 3
        self.stored: dict[int, Stored] = {}
        self.fetches = 0
        self.cancelled = 0
        self.delivery_marks: list[int] = []
        self.returns: list[tuple[int, int]] = []
        self.closed = False
        self.fetching: PositionRange | None = None
        self._fetcher: FetchWaiter | None = None
        self.entries_max = 0
        self._segment = Segment(1)
        self._segment_entries = 0
        self._extents: dict[tuple[int, int, bool], SegmentExtent] = {}

    # -- as the queue's log

    def store(self, message: Message, position: i64, expires_at_ms: i64, level: i64) -> SegmentExtent:
        assert position not in self.stored
        if self._segment_entries == SEGMENT_ENTRIES:
            self._segment = Segment(self._segment.number + 1)
            self._segment_entries = 0
        self._segment_entries += 1
        durable = self.durable and message.persistent
        key = (int(self._segment.number), int(level), durable)
        extent = self._extents.setdefault(key, SegmentExtent(QUEUE_ID, self._segment, level, durable, position))
        extent.add(position, message.body_bytes, len(message.content))
        if expires_at_ms != NEVER:
            extent.deadlines = True
        self.stored[int(position)] = Stored(message, int(position), int(expires_at_ms), int(level), extent)
        return extent

    def forget(self, entry: Entry) -> None:
        stored = self.stored.pop(int(entry.position))
        assert entry.extent is stored.extent
        self._remove(stored)

    def forget_unread(self, positions: PositionRange) -> None:
        assert self.fetching is None
        gone = self._of(positions)
        assert len(gone) == positions.count
        for stored in gone:
            del self.stored[stored.position]
            self._remove(stored)

    def returned(self, entry: Entry) -> None:
        self.returns.append((int(entry.position), int(entry.delivery_count)))
        self.stored[int(entry.position)].delivery_count = int(entry.delivery_count)

    def mark_delivered(self, entry: Entry) -> bool:
        assert entry.extent is not None
        assert entry.extent.durable
        self.delivery_marks.append(int(entry.position))
        return self.deliverable_to is None or entry.position <= self.deliverable_to

    def fetch(self, positions: PositionRange, asker: FetchWaiter, entries_max: int) -> None:
        assert self.fetching is None
        assert positions.count > 0
        self.fetches += 1
        self.fetching = positions
        self.entries_max = entries_max
        self._fetcher = asker
        if self.prompt:
            self.answer()

    def cancel_fetch(self) -> None:
        assert self.fetching is not None
        self.cancelled += 1
        self.fetching = None

    def close(self) -> None:
        self.closed = True
        self.fetching = None

    # -- for the test

    def answer(self) -> list[int]:
        """Answer the fetch with a batch at most, and return the positions."""
        positions, asker = self.fetching, self._fetcher
        assert positions is not None
        assert asker is not None
        self.fetching = None
        entries = [self._read(stored) for stored in self._of(positions)[: min(self.batch_entries, self.entries_max)]]
        asker.paged_in(entries)
        return [int(entry.position) for entry in entries]

    def answer_nothing(self) -> None:
        asker = self._fetcher
        assert asker is not None
        self.fetching = None
        asker.paged_in([])

    def allow_delivery(self, position: int | None = None) -> None:
        """Allow deliveries up to this position; None for all."""
        self.deliverable_to = position
        assert self.asker is not None
        self.asker.delivery_allowed()

    def position_ranges(self) -> list[PositionRange]:
        """The durable entries, as a queue finds them after a restart."""
        ranges: dict[int, PositionRange] = {}
        for stored in self.stored.values():
            if stored.extent.durable:
                extent = stored.extent
                positions = ranges.setdefault(id(extent), PositionRange(extent.segment, extent.level, stored.position))
                positions.add(stored.position, stored.message.body_bytes)
                positions.deadlines = extent.deadlines
        return list(ranges.values())

    def restart(self) -> "ScriptedLog":
        """The log of the same disk after a restart of the node."""
        found = ScriptedLog(self.durable, self.prompt)
        for stored in self.stored.values():
            if stored.extent.durable:
                found.store(stored.message, stored.position, stored.expires_at_ms, stored.level)
                found.stored[stored.position].delivery_count = stored.delivery_count
        found._segment_entries = SEGMENT_ENTRIES
        return found

    def positions(self) -> list[int]:
        return sorted(self.stored)

    def live_count(self) -> int:
        """The live entries that the segments count."""
        segments = {id(extent.segment): extent.segment for extent in self._extents.values()}
        return sum(int(segment.live_count) for segment in segments.values())

    def _of(self, positions: PositionRange) -> list[Stored]:
        found = [
            stored
            for stored in self.stored.values()
            if stored.extent.segment is positions.segment
            and stored.level == positions.level
            and positions.first <= stored.position <= positions.last
        ]
        return sorted(found, key=lambda stored: stored.position)

    def _read(self, stored: Stored) -> Entry:
        entry = Entry(stored.message, stored.position, stored.expires_at_ms)
        entry.delivery_count = stored.delivery_count
        if stored.extent.durable:
            entry.extent = stored.extent
        else:
            # a message that was paged only for lack of memory leaves the disk
            del self.stored[stored.position]
            self._remove(stored)
        return entry

    def _remove(self, stored: Stored) -> None:
        stored.extent.remove(1, stored.message.body_bytes, len(stored.message.content))
