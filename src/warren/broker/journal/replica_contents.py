"""A member's copy of a durable queue, in the node's journal.

Everything of the queue is on disk, transient messages too. Those need not be flushed before they are safe, and mean
nothing after a restart. A payload is written as it came; nobody makes a message of it until the copy is promoted.

Which positions are held is known exactly, by level and by whether they last (`broker.journal.position_index`). So a
removal takes whatever of its range is there, in whatever segment, and what is not there counts for nothing. What was
removed stays away: a message that comes after its removal is not taken in.

A master has one, too, beside its queue: it tells what there is, and takes off what is settled to be gone.

Invariants: `check`.

Not here: what is where after a restart (`broker.journal.position_index`), the records (`broker.journal.batches`),
handing out (`queue`).

A member's copy of a queue that is not durable: in memory.

It costs as much memory as the messages do in a queue, and is counted with everything else the node holds. A master's
copy has the messages of its queue themselves, so that nothing is in memory twice.

What was removed is remembered only while the copy catches up: until then a message may come after its removal.

Not here: copies of durable queues (`broker.journal.replica_contents`), handing out (`queue`).

What a copy knows of a queue besides its messages: the publishing ids of those it was given.

It notes the id of whatever is stored, as a queue does, and strikes out those of messages that turn out not to count. A
copy that catches up is told all ids by its master, once it has everything else: they stand for what it knew before, and
are written down, because most of their messages are gone.

Not here: the window (`broker.model.deduplication`), the records (`broker.journal.queue_state`).
"""

from typing import Final, final

from librt.strings import read_i64_be
from mypy_extensions import i32, i64, mypyc_attr

from warren.broker.journal.backfill_reader import DiskBackfillReader
from warren.broker.journal.payloads import (
    PREFIX_BYTES,
    decode_message,
    message_payload,
    payload_body_bytes,
    payload_identity,
    payload_is_identified,
    payload_names_bytes,
)
from warren.broker.journal.position_index import IndexRebuild, PositionIndex, merge_position_ranges, merge_spans
from warren.broker.journal.queue_index import QueueIndex
from warren.broker.journal.queue_state import IDS_ADDED, IDS_REMOVED, IDS_REPLACED, write_publishing_ids
from warren.broker.journal.removed_positions import RemovedPositions
from warren.broker.model.deduplication import NO_IDENTITY, window_row
from warren.broker.model.journal import ENTRY_COST_BYTES, PositionRange, SegmentExtent
from warren.broker.model.message import Entry, Envelope, Message
from warren.broker.model.replica_contents import (
    ANY_COUNT,
    BackfillReader,
    BackfillReceiver,
    PositionSpan,
    PromotionTarget,
    ReplicaContents,
    ReplicaContentsWaiter,
    check_range,
)
from warren.broker.model.turn import Turn
from warren.errors import PeerFault


def add_publishing_id(queue_index: QueueIndex, payload: bytes, persistent: bool) -> None:
    """A message is held."""
    if payload_is_identified(payload):
        queue_index.seen.add(payload_identity(payload, 0), persistent and queue_index.durable)


def drop_publishing_id(queue_index: QueueIndex, payload: bytes) -> None:
    """It does not count after all."""
    if not payload_is_identified(payload):
        return
    identity = payload_identity(payload, 0)
    if identity != NO_IDENTITY:
        queue_index.seen.discard(identity)
        if queue_index.durable:
            write_publishing_ids(queue_index.tail.batch, queue_index.queue_id, IDS_REMOVED, window_row(identity, True))


def load_publishing_ids(queue_index: QueueIndex, rows: bytes, anew: bool) -> bool:
    """What a master knows; whether it is to be written down."""
    if not rows and queue_index.seen.count == 0:
        return False
    if anew:
        queue_index.seen.clear()
    queue_index.seen.load(rows, False)
    if queue_index.durable:
        write_publishing_ids(queue_index.tail.batch, queue_index.queue_id, IDS_REPLACED if anew else IDS_ADDED, rows)
    return queue_index.durable


@final
class DiskContents(ReplicaContents):
    """What one member holds of one durable queue."""

    def __init__(self, queue_index: QueueIndex) -> None:
        self.queue_index: QueueIndex = queue_index
        self.max_priority = queue_index.max_priority
        # until it is known to have everything, something may come that lies below all it has
        queue_index.catching_up = True
        queue_index.mirrored_on_disk = True
        # by level, twice: what lasts, and what does not
        self._lasting: list[PositionIndex] = []
        self._passing: list[PositionIndex] = []
        self._stocktaking: IndexRebuild | None = None

    def prepare(self, asker: ReplicaContentsWaiter) -> None:
        self._lasting = []
        self._passing = []
        for level in range(int(self.queue_index.max_priority) + 1):
            self._lasting.append(PositionIndex(self.queue_index, level, True))
            self._passing.append(PositionIndex(self.queue_index, level, False))
        self._stocktaking = IndexRebuild(self.queue_index, self._lasting, self._passing, asker)
        self._stocktaking.go_on()

    def count(self) -> int:
        return int(sum([position_index.count for position_index in self.position_indexes()]))

    def body_bytes(self) -> int:
        return int(sum([position_index.body_bytes for position_index in self.position_indexes()]))

    def position_indexes(self) -> list[PositionIndex]:
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
    ) -> SegmentExtent | None:
        """Hold a message; where it is counted, or None if it was removed before, or is here already."""
        queue_index = self.queue_index
        level = min(priority, queue_index.max_priority)
        position_index = self._lasting[level] if persistent else self._passing[level]
        if position < queue_index.next_position and (
            queue_index.removed_at(level).has(position) or position_index.has(position)
        ):
            return None
        payload_bytes: i64 = len(payload)
        if payload_bytes < PREFIX_BYTES:
            raise PeerFault(f"a message of {payload_bytes} bytes was sent to be held")
        body_bytes: i64 = read_i64_be(payload, 0)
        cost: i64 = payload_bytes - PREFIX_BYTES - payload_names_bytes(payload, 0) + ENTRY_COST_BYTES
        if body_bytes < 0 or body_bytes + ENTRY_COST_BYTES > cost:
            raise PeerFault(f"a message of {payload_bytes} bytes with a body of {body_bytes} was sent to be held")
        segment = queue_index.active_segment()
        extent = position_index.add(segment, position, body_bytes, cost)
        segment.total_bytes += cost
        queue_index.put(extent, position, priority, expires_at_ms, persistent, body_bytes, payload, payload_crc)
        add_publishing_id(queue_index, payload, persistent)
        return extent

    def hold(self, entry: Entry, payload: bytes, payload_crc: i64) -> None:
        message = entry.message
        entry.extent = self.put(
            entry.position, message.priority, entry.expires_at_ms, message.persistent, payload, payload_crc
        )

    def adopt(self, entry: Entry, payload: bytes, payload_crc: i64) -> None:
        """Hold an entry of a queue that nobody else held so far, unless it is on disk.

        A transient one may count as removed there: it was, when it was read back into memory.
        """
        message = entry.message
        level = self.queue_index.level_of(message.priority)
        position_index = self._lasting[level] if message.persistent else self._passing[level]
        if not position_index.has(entry.position):
            self.queue_index.removed_at(level).revive(entry.position)
            self.hold(entry, payload, payload_crc)

    # -- what goes

    def remove(self, level: i64, first: i64, last: i64) -> None:
        check_range(level, self.max_priority, first, last)
        lasting = self._lasting[level].take(first, last)
        self._passing[level].take(first, last)
        self.queue_index.forget_range(level, first, last, lasting > 0)

    def remove_any(self, first: i64, last: i64) -> None:
        for level, position_index in enumerate(self._lasting):
            if position_index.any_between(first, last) or self._passing[level].any_between(first, last):
                self.remove(level, first, last)

    def drop(self, priority: i64, position: i64) -> None:
        self.remove(self.queue_index.level_of(priority), position, position)

    # -- what is known

    def drop_publishing_id(self, payload: bytes) -> None:
        drop_publishing_id(self.queue_index, payload)

    def load_publishing_ids(self, rows: bytes, anew: bool) -> bool:
        return load_publishing_ids(self.queue_index, rows, anew)

    def remember(self, name: str, offset: i64) -> None:
        self.queue_index.remember(name, offset)

    def names(self) -> list[str]:
        return list(self.queue_index.remembered())

    def mark_delivered(self, position: i64) -> bool:
        return self.queue_index.watermark.follow(position)

    def delivered_up_to(self) -> i64:
        return self.queue_index.watermark.highest()

    def archived_to(self) -> i64:
        return self.queue_index.archived_to

    def archive_goes_to(self, position: i64) -> None:
        self.queue_index.archive_goes_to(position)

    def returned(self, position: i64, count: i64) -> None:
        for level, position_index in enumerate(self._lasting):
            if position_index.has(position):
                self.queue_index.count_return(position, count)
            elif self._passing[level].has(position):
                self.queue_index.return_counts[int(position)] = int(count)

    def spans(self) -> list[PositionSpan]:
        return merge_spans(self.position_indexes())

    def lowest(self) -> i64:
        """The lowest position that is held; 0 if there is none."""
        spans = self.spans()
        return spans[0].first if spans else 0

    def sums_to(self, last: i64) -> tuple[i64, i64]:
        """How many are held up to this position, and the bytes of their bodies."""
        count: i64 = 0
        body_bytes: i64 = 0
        for position_index in self.position_indexes():
            for extent in position_index.row.between(0, last):
                several, their_bytes = position_index.sums(extent.first, min(last, extent.last))
                count += several
                body_bytes += their_bytes
        return count, body_bytes

    def read(self, spans: list[PositionSpan], taker: BackfillReceiver) -> BackfillReader:
        return DiskBackfillReader(self.queue_index, spans, taker)

    def begin_catching_up(self) -> None:
        self.queue_index.catching_up = True

    def caught_up(self) -> None:
        self.queue_index.catching_up = False
        self.queue_index.raise_floors()

    # -- its end

    def hand_over(self, target: PromotionTarget) -> None:
        self.caught_up()
        self.queue_index.watermark.promoted(self.queue_index.next_position - 1)
        target.recover(self.runs(), self.queue_index.next_position)

    def runs(self) -> list[PositionRange]:
        """Everything that is held, as a queue that has none of it in memory sees it."""
        runs: list[PositionRange] = []
        for level, position_index in enumerate(self._lasting):
            runs += merge_position_ranges(position_index, self._passing[level])
        return runs

    def left_alone(self) -> None:
        """All of it is on disk."""

    def close(self) -> None:
        if self._stocktaking is not None:
            self._stocktaking.cancel()
        self.queue_index.close()

    def check(self) -> None:
        """Raise `InvariantBroken` if it contradicts itself."""
        for position_index in self.position_indexes():
            position_index.check()


KEPT_BYTES: Final[i64] = 160
"""What a message costs besides its payload."""

ENVELOPES_MAX: Final = 1024


@final
@mypyc_attr(acyclic=True)
class MemoryEntry:
    """One message: its payload, or what this node's own queue has of it."""

    def __init__(
        self,
        priority: i64,
        expires_at_ms: i64,
        persistent: bool,
        payload: bytes,
        payload_crc: i64,
        message: Message | None,
    ) -> None:
        self.priority: i64 = priority
        self.expires_at_ms: i64 = expires_at_ms
        self.persistent: bool = persistent
        self.payload: bytes = payload
        self.payload_crc: i64 = payload_crc
        self.message: Message | None = message
        self.returned: i64 = 0

    def body_bytes(self) -> i64:
        return payload_body_bytes(self.payload, 0) if self.message is None else self.message.body_bytes


@final
class MemoryContents(ReplicaContents):
    """What one member holds of one queue that is not durable."""

    def __init__(self, turn: Turn, max_priority: i64, queue_index: QueueIndex) -> None:
        # one above the highest position that ever came
        self.next_position: i64 = 1
        self._turn: Turn = turn
        # nothing is written into it
        self._queue_index: QueueIndex = queue_index
        self.max_priority = max_priority
        self._kept: dict[int, MemoryEntry] = {}
        self._body_bytes: i64 = 0
        self._held_bytes: i64 = 0
        self._lent_to: i64 = 0
        # by level, while it catches up
        self._removed: list[RemovedPositions] | None = None

    def prepare(self, asker: ReplicaContentsWaiter) -> None:
        asker.contents_prepared()

    def count(self) -> int:
        return len(self._kept)

    def body_bytes(self) -> int:
        return int(self._body_bytes)

    def kept(self, position: int) -> MemoryEntry | None:
        return self._kept.get(position)

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
        removed = self._removed
        if removed is not None and removed[min(priority, self.max_priority)].has(position):
            return False
        if int(position) in self._kept:
            return False
        if len(payload) < PREFIX_BYTES:
            raise PeerFault(f"a message of {len(payload)} bytes was sent to be held")
        self._keep(position, MemoryEntry(priority, expires_at_ms, persistent, payload, payload_crc, None))
        add_publishing_id(self._queue_index, payload, persistent)
        return False

    def hold(self, entry: Entry, payload: bytes, payload_crc: i64) -> None:
        """The queue has its content, and counts it: the payload is made again when somebody asks."""
        message = entry.message
        self._keep(
            entry.position,
            MemoryEntry(message.priority, entry.expires_at_ms, message.persistent, b"", payload_crc, message),
        )
        add_publishing_id(self._queue_index, payload, message.persistent)

    def _keep(self, position: i64, kept: MemoryEntry) -> None:
        self._kept[int(position)] = kept
        self.next_position = max(self.next_position, position + 1)
        self._count(kept, 1)

    def _count(self, kept: MemoryEntry, sign: i64) -> None:
        self._count_held((len(kept.payload) + KEPT_BYTES) * sign)
        self._body_bytes += kept.body_bytes() * sign

    def _count_held(self, size_bytes: i64) -> None:
        self._held_bytes += size_bytes
        self._turn.held_bytes += size_bytes

    # -- what goes

    def remove(self, level: i64, first: i64, last: i64) -> None:
        check_range(level, self.max_priority, first, last)
        for position in self._between(first, last):
            if min(self._kept[position].priority, self.max_priority) == level:
                self._take_off(position)
        if self._removed is not None:
            self._removed[level].add_range(first, last)

    def remove_any(self, first: i64, last: i64) -> None:
        for position in self._between(first, last):
            self._take_off(position)

    def drop(self, priority: i64, position: i64) -> None:
        self.remove(min(priority, self.max_priority), position, position)

    def _between(self, first: i64, last: i64) -> list[int]:
        if last - first < len(self._kept):
            return [position for position in range(int(first), int(last) + 1) if position in self._kept]
        return [position for position in self._kept if first <= position <= last]

    def _take_off(self, position: int) -> None:
        self._count(self._kept.pop(position), -1)

    # -- what is known

    def drop_publishing_id(self, payload: bytes) -> None:
        drop_publishing_id(self._queue_index, payload)

    def load_publishing_ids(self, rows: bytes, anew: bool) -> bool:
        return load_publishing_ids(self._queue_index, rows, anew)

    def remember(self, name: str, offset: i64) -> None:
        self._queue_index.remember(name, offset)

    def names(self) -> list[str]:
        return list(self._queue_index.remembered())

    def mark_delivered(self, position: i64) -> bool:
        self._lent_to = max(self._lent_to, position)
        return False

    def delivered_up_to(self) -> i64:
        return self._lent_to

    def returned(self, position: i64, count: i64) -> None:
        kept = self._kept.get(int(position))
        if kept is not None:
            kept.returned = count

    def spans(self) -> list[PositionSpan]:
        spans: list[PositionSpan] = []
        for position in sorted(self._kept):
            if spans and spans[-1].last + 1 == position:
                spans[-1].last = position
            else:
                spans.append(PositionSpan(position, position))
        return spans

    def read(self, spans: list[PositionSpan], taker: BackfillReceiver) -> BackfillReader:
        wanted: list[int] = []
        for span in spans:
            wanted += sorted(self._between(span.first, span.last))
        return MemoryBackfillReader(self, wanted, taker)

    def begin_catching_up(self) -> None:
        if self._removed is None:
            self._removed = [RemovedPositions() for _level in range(int(self.max_priority) + 1)]

    def caught_up(self) -> None:
        self._removed = None

    # -- its end

    def hand_over(self, target: PromotionTarget) -> None:
        self.caught_up()
        envelopes: dict[bytes, Envelope] = {}
        entries: list[Entry] = []
        for position in sorted(self._kept):
            kept = self._kept[position]
            message = kept.message
            if message is None:
                if len(envelopes) > ENVELOPES_MAX:
                    envelopes = {}
                message = decode_message(kept.payload, kept.priority, kept.persistent, envelopes)
                kept.message = message
                self._count_held(-len(kept.payload))
                kept.payload = b""
            entry = Entry(message, position, kept.expires_at_ms)
            entry.redelivered = position <= self._lent_to
            entry.delivery_count = i32(kept.returned)
            entries.append(entry)
        target.take_over(entries, self.next_position)

    def left_alone(self) -> None:
        for kept in self._kept.values():
            if kept.message is not None:
                kept.payload, kept.payload_crc = message_payload(kept.message)
                kept.message = None
                self._count_held(len(kept.payload))

    def close(self) -> None:
        self._kept = {}
        self._body_bytes = 0
        self._count_held(-self._held_bytes)


@final
class MemoryBackfillReader(BackfillReader):
    """Reads some of what a copy in memory holds."""

    def __init__(self, copy: MemoryContents, wanted: list[int], taker: BackfillReceiver) -> None:
        self._copy: MemoryContents = copy
        self._wanted: list[int] = wanted
        self._at: int = 0
        self._taker: BackfillReceiver = taker

    def more(self, size_bytes: i64, count: i64 = ANY_COUNT) -> None:
        size: i64 = 0
        while self._at < len(self._wanted) and size < size_bytes and count > 0:
            position = self._wanted[self._at]
            self._at += 1
            kept = self._copy.kept(position)
            if kept is None:
                continue
            payload, crc = kept.payload, kept.payload_crc
            if kept.message is not None:
                payload, crc = message_payload(kept.message)
            size += len(payload)
            count -= 1
            self._taker.backfill_message(
                position, kept.priority, kept.expires_at_ms, kept.persistent, kept.returned, payload, crc
            )
        if size == 0 and self._at >= len(self._wanted):
            self._taker.backfill_done()
        else:
            self._taker.backfill_slice_done()

    def cancel(self) -> None:
        self._wanted = []
