"""A member's copy of a queue that is not durable: in memory.

It costs as much memory as the messages do in a queue, and is counted with everything else the node holds. A master's
copy has the messages of its queue themselves, so that nothing is in memory twice.

What was removed is remembered only while the copy catches up: until then a message may come after its removal.

Not here: copies of durable queues (`store.copies.disk_copy`), handing out (`queue`).
"""

from typing import Final, final

from mypy_extensions import i32, i64, mypyc_attr

from warren.errors import PeerFault
from warren.model.copies import ANY_COUNT, Copy, CopyAsker, Heir, PastReader, PastTaker, Span, check_range
from warren.model.message import Entry, Envelope, Message
from warren.model.turn import Turn
from warren.store.copies.remembering import see, take_seen, unsee
from warren.store.payloads import PREFIX_BYTES, decode_message, message_payload, payload_body_bytes
from warren.store.queue_book import QueueBook
from warren.store.removed import RemovedSet

KEPT_BYTES: Final[i64] = 160
"""What a message costs besides its payload."""

ENVELOPES_MAX: Final = 1024


@final
@mypyc_attr(acyclic=True)
class Kept:
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
class MemoryCopy(Copy):
    """What one member holds of one queue that is not durable."""

    def __init__(self, turn: Turn, max_priority: i64, book: QueueBook) -> None:
        # one above the highest position that ever came
        self.next_position: i64 = 1
        self._turn: Turn = turn
        # nothing is written into it
        self._book: QueueBook = book
        self.max_priority = max_priority
        self._kept: dict[int, Kept] = {}
        self._body_bytes: i64 = 0
        self._held_bytes: i64 = 0
        self._lent_to: i64 = 0
        # by level, while it catches up
        self._removed: list[RemovedSet] | None = None

    def prepare(self, asker: CopyAsker) -> None:
        asker.copy_prepared()

    def count(self) -> int:
        return len(self._kept)

    def body_bytes(self) -> int:
        return int(self._body_bytes)

    def kept(self, position: int) -> Kept | None:
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
        self._keep(position, Kept(priority, expires_at_ms, persistent, payload, payload_crc, None))
        see(self._book, payload, persistent)
        return False

    def hold(self, entry: Entry, payload: bytes, payload_crc: i64) -> None:
        """The queue has its content, and counts it: the payload is made again when somebody asks."""
        message = entry.message
        self._keep(
            entry.position, Kept(message.priority, entry.expires_at_ms, message.persistent, b"", payload_crc, message)
        )
        see(self._book, payload, message.persistent)

    def _keep(self, position: i64, kept: Kept) -> None:
        self._kept[int(position)] = kept
        self.next_position = max(self.next_position, position + 1)
        self._count(kept, 1)

    def _count(self, kept: Kept, sign: i64) -> None:
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

    def unsee(self, payload: bytes) -> None:
        unsee(self._book, payload)

    def take_seen(self, rows: bytes, anew: bool) -> bool:
        return take_seen(self._book, rows, anew)

    def remember(self, name: str, offset: i64) -> None:
        self._book.remember(name, offset)

    def names(self) -> list[str]:
        return list(self._book.remembered())

    def lend(self, position: i64) -> bool:
        self._lent_to = max(self._lent_to, position)
        return False

    def lent_to(self) -> i64:
        return self._lent_to

    def returned(self, position: i64, count: i64) -> None:
        kept = self._kept.get(int(position))
        if kept is not None:
            kept.returned = count

    def spans(self) -> list[Span]:
        spans: list[Span] = []
        for position in sorted(self._kept):
            if spans and spans[-1].last + 1 == position:
                spans[-1].last = position
            else:
                spans.append(Span(position, position))
        return spans

    def read(self, spans: list[Span], taker: PastTaker) -> PastReader:
        wanted: list[int] = []
        for span in spans:
            wanted += sorted(self._between(span.first, span.last))
        return MemoryReading(self, wanted, taker)

    def begin_catching_up(self) -> None:
        if self._removed is None:
            self._removed = [RemovedSet() for _level in range(int(self.max_priority) + 1)]

    def caught_up(self) -> None:
        self._removed = None

    # -- its end

    def hand_over(self, heir: Heir) -> None:
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
        heir.take_over(entries, self.next_position)

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
class MemoryReading(PastReader):
    """Reads some of what a copy in memory holds."""

    def __init__(self, copy: MemoryCopy, wanted: list[int], taker: PastTaker) -> None:
        self._copy: MemoryCopy = copy
        self._wanted: list[int] = wanted
        self._at: int = 0
        self._taker: PastTaker = taker

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
            self._taker.past(position, kept.priority, kept.expires_at_ms, kept.persistent, kept.returned, payload, crc)
        if size == 0 and self._at >= len(self._wanted):
            self._taker.past_is_over()
        else:
            self._taker.past_given()

    def cancel(self) -> None:
        self._wanted = []
