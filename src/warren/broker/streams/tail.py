"""The end of a stream, in memory: what is in no chunk yet, and what was put into one lately.

Entries lie by their offsets, without a gap. Of these the first ones are *archived*, then come those that are *settled*,
then those that are not: ::

    first ──────── archived ──────── settled ──────── end
          chunks have it    readers see it    in the journal, or on its way

Each message is shown to readers with its offset among its headers; that is made once, when the first one wants it.

Not here: when what is moved on (`broker.streams.stream`).

What of a stream is in the journal when its node starts: read once, into the tail, before anybody sees anything.

What arrives meanwhile stands behind it. What is in the files, too, is forgotten in the journal. Files and journal
together must have every offset up to the end: what is missing was there once, so that is damage.

Not here: the files (`broker.streams.archive_index`), what comes later (`broker.streams.stream`).
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

CHUNK_BYTES: Final[i64] = 1 << 20
CHUNK_MESSAGES: Final[i64] = 16_384


@final
class StreamTail:
    """Entries from one offset to the end."""

    def __init__(self, first: i64, partition: i64 = -1) -> None:
        self.first: i64 = first
        self.archived: i64 = first
        self.committed: i64 = first
        # which one of a partitioned stream's this is; -1 if it is none
        self.partition: i64 = partition
        self.held_bytes: i64 = 0
        # of what is settled and not archived: all of it, and bodies alone
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
        """Everything before this offset is settled."""
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
        """The offset of the first settled entry that arrived then or later; that of the next one if none did."""
        offset = self.first
        while offset < self.committed and self.at(offset).expires_at_ms < arrived_ms:
            offset += 1
        return offset

    def chunk_from(self, offset: i64) -> ChunkBuilder:
        """What is settled from this offset on, which is, as much of it as fits into a chunk."""
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
        """What so many from this offset on take here."""
        size_bytes: i64 = 0
        for entry in self._entries[offset - self.first : offset - self.first + count]:
            size_bytes += len(entry.message.content)
        return size_bytes

    def archive(self, count: i64) -> list[Entry]:
        """So many more are in a chunk: these."""
        start = self.archived - self.first
        moved = self._entries[start : start + count]
        for entry in moved:
            self.committed_bytes -= len(entry.message.content)
            self.committed_body_bytes -= entry.message.body_bytes
        self.archived += count
        return moved

    def drop(self, end: i64) -> None:
        """Keep nothing from before this offset, which is archived."""
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
    """One stream's."""

    def __init__(self, tail: StreamTail, catalog: ArchiveIndex, turn: Turn) -> None:
        self._tail: StreamTail = tail
        self._catalog: ArchiveIndex = catalog
        self._turn: Turn = turn
        self._unread: list[PositionRange] = []
        self._later: list[Entry] = []
        self._reading: bool = False
        # where what was there ended
        self._end: i64 = 0

    def unread(self) -> bool:
        """Whether the tail is not all there yet."""
        return len(self._unread) > 0

    def begin(self, runs: list[PositionRange], end: i64, log: QueueLog) -> str:
        """The journal has this, and the stream ended there; why that cannot be, if it cannot."""
        self._end = end
        for run in runs:
            if offset_of(run.last) < self._catalog.end():
                log.forget_run(run)
            else:
                self._unread.append(run)
        return "" if self._unread else self._lack(end)

    def add(self, entry: Entry) -> None:
        """An entry has come in."""
        if self._unread:
            self._later.append(entry)
        else:
            self._tail.add(entry)

    def read_on(self, log: QueueLog, asker: FetchWaiter) -> None:
        """Ask for more, one piece at a time."""
        if not self._reading:
            self._reading = True
            log.fetch(self._unread[0], asker, FETCHED_MAX)

    def take(self, entries: list[Entry], log: QueueLog) -> str:
        """What was asked for; what is missing, if something is."""
        self._reading = False
        if not self._unread:
            return ""
        archived = self._catalog.end()
        for entry in entries:
            offset = offset_of(entry.position)
            if offset < archived:
                log.forget(entry)
                continue
            lack = self._lack(offset)
            if lack:
                return lack
            self._turn.held_bytes += len(entry.message.content)
            self._tail.add(entry)
        run = self._unread[0]
        run.first = entries[-1].position + 1
        run.count -= len(entries)
        # it may end with positions that nobody has any more
        if run.count == 0:
            self._unread.pop(0)
        return "" if self._unread else self._all_read(log)

    def _all_read(self, log: QueueLog) -> str:
        log.all_is_read()
        lack = self._lack(self._end)
        for entry in self._later:
            self._tail.add(entry)
        self._later = []
        return lack

    def _lack(self, offset: i64) -> str:
        """What is missing before an offset, in words; empty if nothing is."""
        end = self._tail.end()
        return "" if end >= offset else self._catalog.lack(end)
