"""The end of a stream, in memory: what is in no chunk yet, and what was put into one lately.

Entries lie by their offsets, without a gap. Of these the first ones are *archived*, then come those that are *settled*,
then those that are not: ::

    first ──────── archived ──────── settled ──────── end
          chunks have it    readers see it    in the journal, or on its way

Each message is shown to readers with its offset among its headers; that is made once, when the first one wants it.

Not here: when what is moved on (`stream.stream`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.model.message import Entry, Message
from warren.stream.chunk import ChunkBuilder
from warren.stream.offsets import offset_of
from warren.stream.shown import with_offset

CHUNK_BYTES: Final[i64] = 1 << 20
CHUNK_MESSAGES: Final[i64] = 16_384


@final
class Tail:
    """Entries from one offset to the end."""

    def __init__(self, first: i64, partition: i64 = -1) -> None:
        self.first: i64 = first
        self.archived: i64 = first
        self.settled: i64 = first
        # which one of a partitioned stream's this is; -1 if it is none
        self.partition: i64 = partition
        self.held_bytes: i64 = 0
        # of what is settled and not archived: all of it, and bodies alone
        self.settled_bytes: i64 = 0
        self.settled_body_bytes: i64 = 0
        self._entries: list[Entry] = []
        self._shown: list[Message | None] = []

    def end(self) -> i64:
        return self.first + len(self._entries)

    def add(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._shown.append(None)
        self.held_bytes += len(entry.message.content)

    def settle(self, end: i64) -> None:
        """Everything before this offset is settled."""
        while self.settled < end:
            message = self.at(self.settled).message
            self.settled_bytes += len(message.content)
            self.settled_body_bytes += message.body_bytes
            self.settled += 1

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
        while offset < self.settled and self.at(offset).expires_at_ms < arrived_ms:
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
            if offset == self.settled:
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
            self.settled_bytes -= len(entry.message.content)
            self.settled_body_bytes -= entry.message.body_bytes
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


def entry_offset(entry: Entry) -> i64:
    return offset_of(entry.position)
