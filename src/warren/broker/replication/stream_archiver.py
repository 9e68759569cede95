"""Moves committed messages of a stream from a member's journal to its archive, one chunk at a time.

Invariants: at most one chunk is being written. A chunk has committed messages of one epoch only. Chunks follow each
other without a gap. The journal drops the messages of a chunk when the chunk is on disk, and stores the end of the
archive in the same batch. A cleared archive is deleted only when the journal has stored that on disk.

Not here: the theory (`broker.replication.stream_contents`), commits (`broker.replication`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.journal.payloads import decode_message
from warren.broker.journal.replica_contents import DiskContents
from warren.broker.model.archive import Archive, ArchiveWriteWaiter
from warren.broker.model.message import Envelope
from warren.broker.model.replica_contents import BackfillReader, BackfillReceiver, PositionSpan, ReplicaIdleWaiter
from warren.broker.model.turn import FlushWaiter, Turn
from warren.broker.streams.archive_index import ArchiveIndex
from warren.broker.streams.chunk import ChunkBuilder, ChunkHead
from warren.broker.streams.offsets import OFFSET_MASK, offset_of
from warren.broker.streams.tail import CHUNK_BYTES, CHUNK_MESSAGES
from warren.errors import InvariantBroken

ENTRY_BYTES: Final[i64] = 64
"""About how many bytes a message needs in a chunk besides its body."""

ENVELOPES_MAX: Final = 1024


@final
class ChunkArchiver(BackfillReceiver, ArchiveWriteWaiter, FlushWaiter):
    """Writes the archive of one replica of a stream."""

    def __init__(self, disk: DiskContents, catalog: ArchiveIndex, archive: Archive, turn: Turn) -> None:
        # all messages up to this position are committed
        self.committed_to: i64 = catalog.last_position()
        # all messages up to this position count as removed
        self.removed_to: i64 = 0
        # this node is master: its stream writes the chunks
        self.is_master: bool = False
        self._disk: DiskContents = disk
        self._catalog: ArchiveIndex = catalog
        self._archive: Archive = archive
        self._turn: Turn = turn
        self._over: bool = False
        # the journal cannot be read
        self._failed: bool = False
        # the chunk that is being written, its place, and the stream that wrote it, if one did
        self._writing: ChunkHead | None = None
        self._place: tuple[i64, i64] = (0, 0)
        self._writer: ArchiveWriteWaiter | None = None
        # the chunk that is being built: its next position, and its last one at most
        self._reader: BackfillReader | None = None
        self._builder: ChunkBuilder = ChunkBuilder()
        self._next: i64 = 0
        self._last: i64 = 0
        self._envelopes: dict[bytes, Envelope] = {}
        self._idle_waiters: list[ReplicaIdleWaiter] = []
        # segments of the cleared archive, to be deleted
        self._clearing: list[int] = []

    def committed(self, position: i64) -> None:
        if position > self.committed_to:
            self.committed_to = position
            self.start_chunk()

    def removed_up_to(self, position: i64) -> None:
        """Drop the segments whose messages are all at or below this position."""
        self.removed_to = max(self.removed_to, position)
        segments = self._catalog.forget_to(self.removed_to)
        if segments:
            self._archive.drop(segments)
        self._clear_if_all_removed()

    def _clear_if_all_removed(self) -> None:
        """Clear an archive whose messages are all removed: later messages may not follow it without a gap."""
        if self.is_master or self._writing is not None or self._catalog.empty():
            return
        if self._catalog.last_position() <= self.removed_to:
            self._clearing += self._catalog.clear()
            self._disk.archive_goes_to(0)
            self._turn.await_flush(self)

    def flushed(self) -> None:
        """The journal has stored that the archive is cleared."""
        clearing, self._clearing = self._clearing, []
        if not self._over:
            self._archive.drop(clearing)
            self._notify_if_idle()
            self.start_chunk()

    def is_idle(self) -> bool:
        """Whether no chunk is being built or written."""
        return self._writing is None and self._reader is None and not self._clearing

    def await_idle(self, waiter: ReplicaIdleWaiter) -> None:
        if waiter not in self._idle_waiters:
            self._idle_waiters.append(waiter)

    def close(self) -> None:
        self._over = True
        self._idle_waiters = []
        if self._reader is not None:
            self._reader.cancel()
            self._reader = None

    # -- chunks of a master's stream

    def write(self, segment: i64, at: i64, data: bytes, writer: ArchiveWriteWaiter | None) -> None:
        """Write a chunk; the writer, if any, is told, and updates catalog and journal."""
        assert self._writing is None, "one chunk is written at a time"
        self._writing = ChunkHead(data)
        self._place = (segment, at)
        self._writer = writer
        self._archive.write(segment, at, data, self)

    def queue_closed(self) -> None:
        """This node is no longer master: the chunk that its stream wrote is completed here."""
        self.is_master = False
        self._writer = None
        self.start_chunk()

    def archive_written(self) -> None:
        head, writer = self._writing, self._writer
        self._writing = None
        self._writer = None
        if self._over or head is None:
            return
        if writer is not None:
            writer.archive_written()
        else:
            segment, at = self._place
            self._catalog.add(segment, at, head)
            self._disk.remove(0, head.first_position, head.first_position + head.count - 1)
            self._disk.archive_goes_to(self._catalog.last_position())
            self._clear_if_all_removed()
        self._notify_if_idle()
        self.start_chunk()

    def _notify_if_idle(self) -> None:
        if self.is_idle():
            waiters, self._idle_waiters = self._idle_waiters, []
            for waiter in waiters:
                waiter.contents_idle()

    # -- chunks of a mirror, from its journal

    def start_chunk(self) -> None:
        """Build the next chunk if the journal has enough committed messages."""
        if self._over or self._failed or self.is_master or not self.is_idle() or not self._has_full_chunk():
            return
        first = self._first()
        if first == 0:
            return
        self._builder = ChunkBuilder()
        self._next = first
        self._last = min(self.committed_to, first | OFFSET_MASK)
        self._reader = self._disk.read([PositionSpan(self._next, self._last)], self)
        self._reader.more(CHUNK_BYTES, CHUNK_MESSAGES)

    def _has_full_chunk(self) -> bool:
        # the cheap test first; most messages are committed, so it seldom differs from the exact one
        if not _fills_a_chunk(self._disk.count(), self._disk.body_bytes()):
            return False
        count, body_bytes = self._disk.sums_to(self.committed_to)
        return _fills_a_chunk(count, body_bytes)

    def _first(self) -> i64:
        """The first position of the next chunk; 0 if that message is not here."""
        archived_to = self._catalog.last_position()
        for span in self._disk.spans():
            if span.first > archived_to:
                break
            # the archive has no gap before its end, so these messages are duplicates or were removed
            self._disk.remove_any(span.first, min(span.last, archived_to))
        lowest = self._disk.lowest()
        if self._catalog.empty() or lowest == 0:
            return lowest
        return lowest if offset_of(lowest) == self._catalog.end() else 0

    def backfill_message(
        self,
        position: i64,
        priority: i64,
        expires_at_ms: i64,
        persistent: bool,
        returned: i64,
        payload: bytes,
        payload_crc: i64,
    ) -> None:
        if position == self._next:
            if len(self._envelopes) > ENVELOPES_MAX:
                self._envelopes = {}
            message = decode_message(payload, priority, persistent, self._envelopes)
            self._builder.add(position, expires_at_ms, message)
            self._next += 1

    def backfill_slice_done(self) -> None:
        builder, reader = self._builder, self._reader
        wanted = builder.size_bytes < CHUNK_BYTES and builder.count < CHUNK_MESSAGES and self._next <= self._last
        if wanted and reader is not None and not self._over:
            reader.more(CHUNK_BYTES - builder.size_bytes, CHUNK_MESSAGES - builder.count)
        else:
            self._finish()

    def backfill_done(self) -> None:
        self._finish()

    def backfill_failed(self, reason: str) -> None:
        """The messages stay in the journal."""
        self._reader = None
        self._failed = True
        self._turn.note("error", "stream.not_archived", {"reason": reason})
        self._notify_if_idle()

    def _finish(self) -> None:
        reader = self._reader
        self._reader = None
        if self._over or reader is None:
            return
        reader.cancel()
        # while the archive is being cleared no chunk can be added: the messages are read again later
        if self._builder.count > 0 and not self._clearing:
            segment, at = self._catalog.place()
            self.write(segment, at, self._builder.finish(), None)
            self._builder = ChunkBuilder()
        else:
            self._notify_if_idle()

    def check(self) -> None:
        """Raise `InvariantBroken` if two chunks are under way, or one while the archive is cleared."""
        if self._reader is not None and (self._writing is not None or self.is_master):
            raise InvariantBroken(f"a chunk from {self._next} is built while another one is written")
        if self._writing is not None and self._clearing:
            raise InvariantBroken(f"a chunk is written while segments {self._clearing} are cleared")


def _fills_a_chunk(count: i64, body_bytes: i64) -> bool:
    return count >= CHUNK_MESSAGES or body_bytes + count * ENTRY_BYTES >= CHUNK_BYTES
