"""The tail of a stream, in memory: the messages that are in no chunk yet, and those archived lately.

Entries are in the order of their offsets, without a gap. The first ones are *archived*, the next *committed*, the last
neither: ::

    first ──────── archived ──────── committed ──────── end
          in chunks         readers see it     in the journal, or on its way

Readers get each message with its offset among its headers. This version is made once, for the first reader.

At the start the journal's messages of the stream are read into the tail before readers see anything (`TailRecovery`).
Messages published meanwhile follow behind them. Messages that are in chunks, too, are removed from the journal. Chunks
and journal together must have every offset up to the end; a gap is damage.

Not here: when messages are committed and archived (`broker.streams.stream`, `broker.streams.archiver`), the files
(`broker.streams.archive_index`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.journal import PositionRange
from warren.broker.model.message import Entry, Message
from warren.broker.model.ports import FetchWaiter, QueueLog
from warren.broker.model.turn import Turn
from warren.broker.streams.archive_index import ArchiveIndex
from warren.broker.streams.chunk import ChunkBuilder, with_offset
from warren.broker.streams.offsets import offset_of
from warren.errors import InvariantBroken

CHUNK_BYTES: Final[i64] = 1 << 20
CHUNK_MESSAGES: Final[i64] = 16_384


@final
class StreamTail:
    """The entries from one offset to the end."""

    def __init__(self, first: i64, partition: i64 = -1) -> None:
        self.first: i64 = first
        self.archived: i64 = first
        self.committed: i64 = first
        # the partition's number; -1 if the stream is not a partition
        self.partition: i64 = partition
        self.held_bytes: i64 = 0
        # the bytes of committed entries that are not archived: contents, and bodies alone
        self.committed_bytes: i64 = 0
        self.committed_body_bytes: i64 = 0
        self._entries: list[Entry] = []
        self._shown: list[Message | None] = []

    def end(self) -> i64:
        return self.first + len(self._entries)

    def add(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._shown.append(None)
        self.held_bytes += len(entry.message.content)

    def commit(self, end: i64) -> None:
        """Everything before this offset is committed."""
        assert end <= self.end()
        while self.committed < end:
            message = self.at(self.committed).message
            self.committed_bytes += len(message.content)
            self.committed_body_bytes += message.body_bytes
            self.committed += 1

    def at(self, offset: i64) -> Entry:
        return self._entries[offset - self.first]

    def shown(self, offset: i64) -> Message:
        index = offset - self.first
        message = self._shown[index]
        if message is None:
            message = with_offset(self._entries[index].message, offset, self.partition)
            self._shown[index] = message
        return message

    def arrived_from(self, arrived_ms: i64) -> i64:
        """The offset of the first committed entry that arrived at this time or later; the next offset if none did."""
        offset = self.first
        while offset < self.committed and self.at(offset).expires_at_ms < arrived_ms:
            offset += 1
        return offset

    def chunk_from(self, offset: i64) -> ChunkBuilder:
        """A chunk of committed entries from this offset on, as many as fit."""
        builder = ChunkBuilder()
        entry = self.at(offset)
        position = entry.position
        # positions of one epoch follow each other
        while entry.position == position and builder.size_bytes < CHUNK_BYTES and builder.count < CHUNK_MESSAGES:
            builder.add(position, entry.expires_at_ms, entry.message)
            position += 1
            offset += 1
            if offset == self.committed:
                break
            entry = self.at(offset)
        return builder

    def content_bytes(self, offset: i64, count: i64) -> i64:
        """The bytes of so many entries from this offset on."""
        size_bytes: i64 = 0
        for entry in self._entries[offset - self.first : offset - self.first + count]:
            size_bytes += len(entry.message.content)
        return size_bytes

    def archive(self, count: i64) -> list[Entry]:
        """Mark so many more entries as archived; these entries."""
        assert self.archived + count <= self.committed
        start = self.archived - self.first
        moved = self._entries[start : start + count]
        for entry in moved:
            self.committed_bytes -= len(entry.message.content)
            self.committed_body_bytes -= entry.message.body_bytes
        self.archived += count
        return moved

    def check(self) -> None:
        """Raise `InvariantBroken` if the marks are out of order or the counts are wrong."""
        if not self.first <= self.archived <= self.committed <= self.end():
            marks = f"{self.first}, {self.archived}, {self.committed}, {self.end()}"
            raise InvariantBroken(f"the tail of a stream is out of order: {marks}")
        if len(self._shown) != len(self._entries) or self.committed_bytes < self.committed_body_bytes:
            raise InvariantBroken(f"{self.committed_bytes} bytes with {self.committed_body_bytes} of bodies in a tail")

    def drop(self, end: i64) -> None:
        """Drop the entries before this offset, which are archived."""
        assert end <= self.archived
        count = end - self.first
        if count <= 0:
            return
        for entry in self._entries[:count]:
            self.held_bytes -= len(entry.message.content)
        del self._entries[:count]
        del self._shown[:count]
        self.first = end


FETCHED_MAX: Final[i64] = 4096


@final
class TailRecovery:
    """Reads one stream's tail from the journal."""

    def __init__(self, tail: StreamTail, catalog: ArchiveIndex, turn: Turn) -> None:
        self._tail: StreamTail = tail
        self._catalog: ArchiveIndex = catalog
        self._turn: Turn = turn
        self._unread: list[PositionRange] = []
        self._later: list[Entry] = []
        self._reading: bool = False
        # the end of the stream at the start
        self._end: i64 = 0

    def unread(self) -> bool:
        """Whether the tail is incomplete."""
        return len(self._unread) > 0

    def begin(self, ranges: list[PositionRange], end: i64, log: QueueLog) -> str:
        """Begin with the journal's ranges and the end of the stream; the damage, if offsets are missing."""
        self._end = end
        for positions in ranges:
            if offset_of(positions.last) < self._catalog.end():
                log.forget_unread(positions)
            else:
                self._unread.append(positions)
        return "" if self._unread else self._describe_gap(end)

    def add(self, entry: Entry) -> None:
        """An entry was published."""
        if self._unread:
            self._later.append(entry)
        else:
            self._tail.add(entry)

    def read_on(self, log: QueueLog, asker: FetchWaiter) -> None:
        """Read the next entries, one request at a time."""
        if not self._reading:
            self._reading = True
            log.fetch(self._unread[0], asker, FETCHED_MAX)

    def take(self, entries: list[Entry], log: QueueLog) -> str:
        """Add entries that were read; the damage, if offsets are missing."""
        self._reading = False
        if not self._unread:
            return ""
        archived = self._catalog.end()
        for entry in entries:
            offset = offset_of(entry.position)
            if offset < archived:
                log.forget(entry)
                continue
            gap = self._describe_gap(offset)
            if gap:
                return gap
            self._turn.held_bytes += len(entry.message.content)
            self._tail.add(entry)
        positions = self._unread[0]
        positions.first = entries[-1].position + 1
        positions.count -= len(entries)
        # its last positions may be removed
        if positions.count == 0:
            self._unread.pop(0)
        return "" if self._unread else self._all_read(log)

    def _all_read(self, log: QueueLog) -> str:
        log.all_is_read()
        gap = self._describe_gap(self._end)
        for entry in self._later:
            self._tail.add(entry)
        self._later = []
        return gap

    def check(self) -> None:
        """Raise `InvariantBroken` if published entries wait, and the tail is complete."""
        if self._later and not self._unread:
            raise InvariantBroken(f"{len(self._later)} published entries wait for a tail that is complete")

    def _describe_gap(self, offset: i64) -> str:
        """The damage if an offset before this one is missing; else empty."""
        end = self._tail.end()
        return "" if end >= offset else self._catalog.describe_gap(end)
