"""The contents of a replica: the messages that one member of a replica set has of one queue.

A replica of a durable queue is in the node's journal (`DiskContents`). Every message is on disk, transient ones too.
A transient message need not be flushed, and means nothing after a restart. A payload is written as it arrived; it is
decoded only if the replica is promoted. The present positions are known exactly, by level and durability
(`broker.journal.position_index`). So a removal takes the messages of its range that are present, in any segment. A
message that arrives after its removal is not stored. The master has a `DiskContents`, too, beside its queue: it knows
the present positions, and removes messages once their removal is committed.

A replica of a transient queue is in memory (`MemoryContents`). It costs as much memory as the messages in a queue, and
is counted with everything else the node holds. A master's replica shares the messages of its queue. It remembers
removals only while it catches up, because only then a message can arrive after its removal.

Both note the publishing id of every message they store, as a queue does, and drop the ids of messages that are rolled
back. A replica that caught up receives all ids from its master. These replace its own, and are written, because most
of their messages are gone.

Invariants: `check`.

Not here: the deduplication window (`broker.model.deduplication`), the records (`broker.journal.batches`,
`broker.journal.queue_state`), delivery (`broker.queues`).
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
from warren.errors import InvariantBroken, PeerFault


class IndexedContents(ReplicaContents):
    """A replica whose publishing ids and offsets are in a queue index."""

    def __init__(self, queue_index: QueueIndex, max_priority: i64) -> None:
        self.queue_index: QueueIndex = queue_index
        self.max_priority = max_priority

    def drop(self, priority: i64, position: i64) -> None:
        self.remove(min(priority, self.max_priority), position, position)

    def add_publishing_id(self, payload: bytes, persistent: bool) -> None:
        """A message with a publishing id is stored."""
        self.queue_index.seen.add(payload_identity(payload, 0), persistent and self.queue_index.durable)

    def drop_publishing_id(self, payload: bytes) -> None:
        if not payload_is_identified(payload):
            return
        queue_index, identity = self.queue_index, payload_identity(payload, 0)
        if identity != NO_IDENTITY:
            queue_index.seen.discard(identity)
            if queue_index.durable:
                row = window_row(identity, True)
                write_publishing_ids(queue_index.tail.batch, queue_index.queue_id, IDS_REMOVED, row)

    def load_publishing_ids(self, rows: bytes, anew: bool) -> bool:
        queue_index = self.queue_index
        if not rows and queue_index.seen.count == 0:
            return False
        if anew:
            queue_index.seen.clear()
        queue_index.seen.load(rows, False)
        if queue_index.durable:
            mode = IDS_REPLACED if anew else IDS_ADDED
            write_publishing_ids(queue_index.tail.batch, queue_index.queue_id, mode, rows)
        return queue_index.durable

    def store_offset(self, name: str, offset: i64) -> None:
        self.queue_index.store_offset(name, offset)

    def offset_names(self) -> list[str]:
        return list(self.queue_index.stored_offsets())


@final
class DiskContents(IndexedContents):
    """A replica of a durable queue."""

    def __init__(self, queue_index: QueueIndex) -> None:
        super().__init__(queue_index, queue_index.max_priority)
        # until the replica is complete, messages below all others may arrive
        queue_index.catching_up = True
        queue_index.mirrored_on_disk = True
        # by level
        self._durable: list[PositionIndex] = []
        self._transient: list[PositionIndex] = []
        self._rebuild: IndexRebuild | None = None

    def prepare(self, asker: ReplicaContentsWaiter) -> None:
        self._durable = []
        self._transient = []
        for level in range(int(self.queue_index.max_priority) + 1):
            self._durable.append(PositionIndex(self.queue_index, level, True))
            self._transient.append(PositionIndex(self.queue_index, level, False))
        self._rebuild = IndexRebuild(self.queue_index, self._durable, self._transient, asker)
        self._rebuild.go_on()

    def count(self) -> int:
        return int(sum([position_index.count for position_index in self.position_indexes()]))

    def body_bytes(self) -> int:
        return int(sum([position_index.body_bytes for position_index in self.position_indexes()]))

    def position_indexes(self) -> list[PositionIndex]:
        return self._durable + self._transient

    # -- storing

    def store(
        self,
        position: i64,
        priority: i64,
        expires_at_ms: i64,
        persistent: bool,
        payload: bytes,
        payload_crc: i64,
    ) -> bool:
        payload_bytes: i64 = len(payload)
        if payload_bytes < PREFIX_BYTES:
            raise PeerFault(f"a message of {payload_bytes} bytes was sent to be held")
        body_bytes: i64 = read_i64_be(payload, 0)
        content_bytes: i64 = payload_bytes - PREFIX_BYTES - payload_names_bytes(payload, 0)
        if body_bytes < 0 or body_bytes > content_bytes:
            raise PeerFault(f"a message of {payload_bytes} bytes with a body of {body_bytes} was sent to be held")
        extent = self._put(
            position, priority, expires_at_ms, persistent, body_bytes, content_bytes, payload, payload_crc
        )
        if extent is not None and payload_is_identified(payload):
            self.add_publishing_id(payload, persistent)
        return persistent

    def store_entry(self, entry: Entry, payload: bytes, payload_crc: i64) -> None:
        message = entry.message
        persistent = message.persistent
        extent = self._put(
            entry.position,
            message.priority,
            entry.expires_at_ms,
            persistent,
            message.body_bytes,
            len(message.content),
            payload,
            payload_crc,
        )
        entry.extent = extent
        if extent is not None and message.identified:
            self.add_publishing_id(payload, persistent)

    def _put(
        self,
        position: i64,
        priority: i64,
        expires_at_ms: i64,
        persistent: bool,
        body_bytes: i64,
        content_bytes: i64,
        payload: bytes,
        payload_crc: i64,
    ) -> SegmentExtent | None:
        """Store a message; its extent, or None if it was removed before or is already present."""
        queue_index = self.queue_index
        level = min(priority, queue_index.max_priority)
        position_index = self._durable[level] if persistent else self._transient[level]
        if position < queue_index.next_position and (
            queue_index.removed_at(level).has(position) or position_index.has(position)
        ):
            return None
        segment = queue_index.tail.active
        cost: i64 = content_bytes + ENTRY_COST_BYTES
        extent = position_index.add(segment, position, body_bytes, cost)
        segment.total_bytes += cost
        queue_index.put(extent, position, priority, expires_at_ms, persistent, body_bytes, payload, payload_crc)
        return extent

    def adopt(self, entry: Entry, payload: bytes, payload_crc: i64) -> None:
        """Store an entry of a queue that was not mirrored so far, unless it is on disk.

        A transient entry may count as removed on disk, because it was read back into memory.
        """
        message = entry.message
        level = self.queue_index.level_of(message.priority)
        position_index = self._durable[level] if message.persistent else self._transient[level]
        if not position_index.has(entry.position):
            self.queue_index.removed_at(level).revive(entry.position)
            self.store_entry(entry, payload, payload_crc)

    # -- removing

    def remove(self, level: i64, first: i64, last: i64) -> None:
        check_range(level, self.max_priority, first, last)
        removed = self._durable[level].take(first, last)
        self._transient[level].take(first, last)
        self.queue_index.forget_range(level, first, last, removed > 0)

    def remove_any(self, first: i64, last: i64) -> None:
        for level, position_index in enumerate(self._durable):
            if position_index.any_between(first, last) or self._transient[level].any_between(first, last):
                self.remove(level, first, last)

    # -- positions and counts

    def mark_delivered(self, position: i64) -> bool:
        return self.queue_index.watermark.follow(position)

    def delivered_up_to(self) -> i64:
        return self.queue_index.watermark.highest()

    def archived_to(self) -> i64:
        return self.queue_index.archived_to

    def archive_goes_to(self, position: i64) -> None:
        self.queue_index.archive_goes_to(position)

    def returned(self, position: i64, count: i64) -> None:
        for level, position_index in enumerate(self._durable):
            if position_index.has(position):
                self.queue_index.count_return(position, count)
            elif self._transient[level].has(position):
                self.queue_index.return_counts[int(position)] = int(count)

    def spans(self) -> list[PositionSpan]:
        return merge_spans(self.position_indexes())

    def lowest(self) -> i64:
        """The lowest position that is present; 0 if there is none."""
        spans = self.spans()
        return spans[0].first if spans else 0

    def sums_to(self, last: i64) -> tuple[i64, i64]:
        """How many messages are present up to this position, and the bytes of their bodies."""
        count: i64 = 0
        body_bytes: i64 = 0
        for position_index in self.position_indexes():
            for extent in position_index.extents.between(0, last):
                several, their_bytes = position_index.sums(extent.first, min(last, extent.last))
                count += several
                body_bytes += their_bytes
        return count, body_bytes

    def read(self, spans: list[PositionSpan], receiver: BackfillReceiver) -> BackfillReader:
        return DiskBackfillReader(self.queue_index, spans, receiver)

    def begin_catching_up(self) -> None:
        self.queue_index.catching_up = True

    def caught_up(self) -> None:
        self.queue_index.catching_up = False
        self.queue_index.raise_floors()

    # -- promotion and end

    def hand_over(self, target: PromotionTarget) -> None:
        self.caught_up()
        self.queue_index.watermark.promoted(self.queue_index.next_position - 1)
        target.recover(self.position_ranges(), self.queue_index.next_position)

    def position_ranges(self) -> list[PositionRange]:
        """All messages, as ranges of a queue that has none of them in memory."""
        ranges: list[PositionRange] = []
        for level, position_index in enumerate(self._durable):
            ranges += merge_position_ranges(position_index, self._transient[level])
        return ranges

    def queue_closed(self) -> None:
        """Nothing to do: all messages are on disk."""

    def close(self) -> None:
        if self._rebuild is not None:
            self._rebuild.cancel()
        self.queue_index.close()

    def check(self) -> None:
        """Raise `InvariantBroken` if positions, extents and sums contradict each other."""
        if self._rebuild is None or not self._rebuild.done:
            return
        for position_index in self.position_indexes():
            position_index.check()


ENTRY_MEMORY_BYTES: Final[i64] = 160
"""The memory that an entry costs besides its payload."""

ENVELOPES_MAX: Final = 1024


@final
@mypyc_attr(acyclic=True)
class MemoryEntry:
    """One message: its payload, or the message object that it shares with this node's queue."""

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
class MemoryContents(IndexedContents):
    """A replica of a transient queue. Nothing is written into its queue index."""

    def __init__(self, turn: Turn, max_priority: i64, queue_index: QueueIndex) -> None:
        super().__init__(queue_index, max_priority)
        # one above the highest position that was ever stored
        self.next_position: i64 = 1
        self._turn: Turn = turn
        self._entries: dict[int, MemoryEntry] = {}
        self._body_bytes: i64 = 0
        self._held_bytes: i64 = 0
        self._delivered_to: i64 = 0
        # by level, while the replica catches up
        self._removed: list[RemovedPositions] | None = None

    def prepare(self, asker: ReplicaContentsWaiter) -> None:
        asker.contents_prepared()

    def count(self) -> int:
        return len(self._entries)

    def body_bytes(self) -> int:
        return int(self._body_bytes)

    def entry(self, position: int) -> MemoryEntry | None:
        return self._entries.get(position)

    # -- storing

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
        if int(position) in self._entries:
            return False
        if len(payload) < PREFIX_BYTES:
            raise PeerFault(f"a message of {len(payload)} bytes was sent to be held")
        self._keep(position, MemoryEntry(priority, expires_at_ms, persistent, payload, payload_crc, None))
        if payload_is_identified(payload):
            self.add_publishing_id(payload, persistent)
        return False

    def store_entry(self, entry: Entry, payload: bytes, payload_crc: i64) -> None:
        """Share the message with the queue, which counts its content. The payload is encoded again when it is read."""
        message = entry.message
        self._keep(
            entry.position,
            MemoryEntry(message.priority, entry.expires_at_ms, message.persistent, b"", payload_crc, message),
        )
        if message.identified:
            self.add_publishing_id(payload, message.persistent)

    def _keep(self, position: i64, entry: MemoryEntry) -> None:
        self._entries[int(position)] = entry
        self.next_position = max(self.next_position, position + 1)
        self._count(entry, 1)

    def _count(self, entry: MemoryEntry, sign: i64) -> None:
        self._count_held((len(entry.payload) + ENTRY_MEMORY_BYTES) * sign)
        self._body_bytes += entry.body_bytes() * sign

    def _count_held(self, size_bytes: i64) -> None:
        self._held_bytes += size_bytes
        self._turn.held_bytes += size_bytes

    # -- removing

    def remove(self, level: i64, first: i64, last: i64) -> None:
        check_range(level, self.max_priority, first, last)
        for position in self._between(first, last):
            if min(self._entries[position].priority, self.max_priority) == level:
                self._discard(position)
        if self._removed is not None:
            self._removed[level].add_range(first, last)

    def remove_any(self, first: i64, last: i64) -> None:
        for position in self._between(first, last):
            self._discard(position)

    def _between(self, first: i64, last: i64) -> list[int]:
        if last - first < len(self._entries):
            return [position for position in range(int(first), int(last) + 1) if position in self._entries]
        return [position for position in self._entries if first <= position <= last]

    def _discard(self, position: int) -> None:
        self._count(self._entries.pop(position), -1)

    # -- positions and counts

    def mark_delivered(self, position: i64) -> bool:
        self._delivered_to = max(self._delivered_to, position)
        return False

    def delivered_up_to(self) -> i64:
        return self._delivered_to

    def returned(self, position: i64, count: i64) -> None:
        entry = self._entries.get(int(position))
        if entry is not None:
            entry.returned = count

    def spans(self) -> list[PositionSpan]:
        spans: list[PositionSpan] = []
        for position in sorted(self._entries):
            if spans and spans[-1].last + 1 == position:
                spans[-1].last = position
            else:
                spans.append(PositionSpan(position, position))
        return spans

    def read(self, spans: list[PositionSpan], receiver: BackfillReceiver) -> BackfillReader:
        wanted: list[int] = []
        for span in spans:
            wanted += sorted(self._between(span.first, span.last))
        return MemoryBackfillReader(self, wanted, receiver)

    def begin_catching_up(self) -> None:
        if self._removed is None:
            self._removed = [RemovedPositions() for _level in range(int(self.max_priority) + 1)]

    def caught_up(self) -> None:
        self._removed = None

    # -- promotion and end

    def hand_over(self, target: PromotionTarget) -> None:
        self.caught_up()
        envelopes: dict[bytes, Envelope] = {}
        entries: list[Entry] = []
        for position in sorted(self._entries):
            stored = self._entries[position]
            message = stored.message
            if message is None:
                if len(envelopes) > ENVELOPES_MAX:
                    envelopes = {}
                message = decode_message(stored.payload, stored.priority, stored.persistent, envelopes)
                stored.message = message
                self._count_held(-len(stored.payload))
                stored.payload = b""
            entry = Entry(message, position, stored.expires_at_ms)
            entry.redelivered = position <= self._delivered_to
            entry.delivery_count = i32(stored.returned)
            entries.append(entry)
        target.take_over(entries, self.next_position)

    def queue_closed(self) -> None:
        for entry in self._entries.values():
            if entry.message is not None:
                entry.payload, entry.payload_crc = message_payload(entry.message)
                entry.message = None
                self._count_held(len(entry.payload))

    def close(self) -> None:
        self._entries = {}
        self._body_bytes = 0
        self._count_held(-self._held_bytes)

    def check(self) -> None:
        """Raise `InvariantBroken` if the sums are not those of the entries."""
        entries = self._entries.values()
        held_bytes = sum([len(entry.payload) + int(ENTRY_MEMORY_BYTES) for entry in entries])
        body_bytes = sum([int(entry.body_bytes()) for entry in entries])
        if (held_bytes, body_bytes) != (self._held_bytes, self._body_bytes):
            raise InvariantBroken(f"a replica counts {self._held_bytes} bytes where {held_bytes} are held")


@final
class MemoryBackfillReader(BackfillReader):
    """Reads messages of a replica in memory."""

    def __init__(self, contents: MemoryContents, wanted: list[int], receiver: BackfillReceiver) -> None:
        self._contents: MemoryContents = contents
        self._wanted: list[int] = wanted
        self._at: int = 0
        self._receiver: BackfillReceiver = receiver

    def more(self, size_bytes: i64, count: i64 = ANY_COUNT) -> None:
        size: i64 = 0
        while self._at < len(self._wanted) and size < size_bytes and count > 0:
            position = self._wanted[self._at]
            self._at += 1
            entry = self._contents.entry(position)
            if entry is None:
                continue
            payload, crc = entry.payload, entry.payload_crc
            if entry.message is not None:
                payload, crc = message_payload(entry.message)
            size += len(payload)
            count -= 1
            self._receiver.backfill_message(
                position, entry.priority, entry.expires_at_ms, entry.persistent, entry.returned, payload, crc
            )
        if size == 0 and self._at >= len(self._wanted):
            self._receiver.backfill_done()
        else:
            self._receiver.backfill_slice_done()

    def cancel(self) -> None:
        self._wanted = []
