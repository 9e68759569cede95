"""Reads messages of a stream for a joining mirror, in order, in slices, from the archive and the journal.

Chunks are read from the archive one at a time, and other messages from the journal. Meanwhile messages move from the
journal to the archive, so the reader looks up the place of the next message after each piece. Messages that are in
neither were removed, and are skipped.

Not here: what a mirror lacks (`broker.replication.backfill`), the journal (`broker.journal.backfill_reader`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.journal.payloads import message_payload
from warren.broker.journal.replica_contents import DiskContents
from warren.broker.model.archive import Archive, ArchiveReadWaiter
from warren.broker.model.message import Envelope, Message
from warren.broker.model.replica_contents import ANY_COUNT, BackfillReader, BackfillReceiver, PositionSpan
from warren.broker.streams.archive_index import ArchivedChunk, ArchiveIndex
from warren.broker.streams.chunk import Chunk
from warren.errors import StoreError
from warren.wire.frames import content_frames

FRAME_BYTES: Final = 131_072
BEYOND: Final[i64] = 1 << 62


@final
class StreamBackfillReader(BackfillReader, ArchiveReadWaiter):
    """Reads the wanted messages of one joining mirror."""

    def __init__(
        self,
        disk: DiskContents,
        catalog: ArchiveIndex,
        archive: Archive,
        spans: list[PositionSpan],
        receiver: BackfillReceiver,
    ) -> None:
        self._disk: DiskContents = disk
        self._catalog: ArchiveIndex = catalog
        self._archive: Archive = archive
        self._spans: list[PositionSpan] = spans
        self._receiver: BackfillReceiver = receiver
        # all wanted messages below this position were passed on, or are removed
        self._from: i64 = 0
        self._size_bytes: i64 = 0
        self._count: i64 = 0
        # messages passed on in this slice
        self._passed_count: i64 = 0
        # the current chunk, and the one that is being read from disk
        self._chunk: Chunk | None = None
        self._asked: ArchivedChunk | None = None
        # the open reader of the journal
        self._journal: BackfillReader | None = None
        self._over: bool = False

    def more(self, size_bytes: i64, count: i64 = ANY_COUNT) -> None:
        self._size_bytes = size_bytes
        self._count = count
        self._passed_count = 0
        self._read_next()

    def cancel(self) -> None:
        self._over = True
        self._chunk = None
        self._archive.withdraw(self)
        self._close_journal_reader()

    def _read_next(self) -> None:
        """Pass on the next messages, from the archive or the journal."""
        while not self._over:
            wanted = self._wanted_from(self._from)
            kept = None if wanted == BEYOND else self._catalog.from_position(wanted)
            if kept is None:
                self._read_journal(wanted)
                return
            wanted = self._wanted_from(max(wanted, kept.first_position))
            if wanted > kept.last_position():
                self._from = kept.last_position() + 1
            elif not self._give_chunk(kept):
                return

    def _wanted_from(self, position: i64) -> i64:
        """The first wanted position at or after this one; `BEYOND` if there is none."""
        for span in self._spans:
            if span.last >= position:
                return max(position, span.first)
        return BEYOND

    # -- the archive

    def _give_chunk(self, kept: ArchivedChunk) -> bool:
        """Pass on the wanted messages of a chunk; False if it must be read first, or the slice is complete."""
        chunk = self._chunk
        if chunk is None or chunk.head.first_position != kept.first_position:
            self._chunk = None
            self._asked = kept
            self._archive.read(kept.segment, kept.at, kept.length, self)
            return False
        position = self._wanted_from(max(self._from, kept.first_position))
        while position <= kept.last_position() and self._size_bytes > 0 and self._count > 0:
            index = position - kept.first_position
            payload, crc = message_payload(chunk_message(chunk, index))
            self._pass(position, chunk.arrived_ms(index), payload, crc)
            position = self._wanted_from(self._from)
        if position > kept.last_position():
            self._from = kept.last_position() + 1
            self._chunk = None
            if self._size_bytes > 0 and self._count > 0:
                return True
        self._receiver.backfill_slice_done()
        return False

    def archive_read(self, data: bytes, error: str) -> None:
        kept = self._asked
        self._asked = None
        if self._over or kept is None:
            return
        if not error:
            try:
                self._chunk = Chunk(data)
            except StoreError as fault:
                error = str(fault)
        if error and self._catalog.from_position(kept.first_position) is kept:
            self.fail(f"{error}: segment {kept.segment} of the stream at byte {kept.at}")
        else:
            # an error for a chunk that was dropped meanwhile does not matter
            self._read_next()

    def _pass(self, position: i64, arrived_ms: i64, payload: bytes, payload_crc: i64) -> None:
        self._from = position + 1
        self._size_bytes -= len(payload)
        self._count -= 1
        self._passed_count += 1
        self._receiver.backfill_message(position, 0, arrived_ms, True, 0, payload, payload_crc)

    # -- the journal

    def _read_journal(self, wanted: i64) -> None:
        if wanted == BEYOND:
            self._over = True
            self._close_journal_reader()
            self._receiver.backfill_done()
            return
        if self._journal is None:
            left = [PositionSpan(max(span.first, wanted), span.last) for span in self._spans if span.last >= wanted]
            self._journal = self._disk.read(left, JournalBackfill(self))
        self._journal.more(self._size_bytes, self._count)

    def _close_journal_reader(self) -> None:
        if self._journal is not None:
            self._journal.cancel()
            self._journal = None

    def found(
        self, position: i64, priority: i64, expires_at_ms: i64, persistent: bool, payload: bytes, payload_crc: i64
    ) -> None:
        """A message from the journal."""
        # messages before this one may have moved to the archive: then this one is passed on after them
        if not self._over and position == self._wanted_from(self._from):
            self._from = position + 1
            self._passed_count += 1
            self._receiver.backfill_message(position, priority, expires_at_ms, persistent, 0, payload, payload_crc)

    def journal_slice_done(self, all_it_has: bool) -> None:
        if self._over:
            return
        if all_it_has:
            self._journal = None
        if self._passed_count > 0:
            self._receiver.backfill_slice_done()
        else:
            self._skip_missing()

    def _skip_missing(self) -> None:
        """The next message was not in the journal: it is in the archive by now, or was removed."""
        self._close_journal_reader()
        wanted = self._wanted_from(self._from)
        if self._catalog.from_position(wanted) is None:
            lowest = BEYOND
            for span in self._disk.spans():
                if span.last >= wanted:
                    lowest = max(span.first, wanted)
                    break
            self._from = max(lowest, wanted)
        self._read_next()

    def fail(self, reason: str) -> None:
        if not self._over:
            self._over = True
            self._receiver.backfill_failed(reason)


@final
class JournalBackfill(BackfillReceiver):
    """Receives messages from the journal."""

    def __init__(self, reading: StreamBackfillReader) -> None:
        self._reading: StreamBackfillReader = reading

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
        self._reading.found(position, priority, expires_at_ms, persistent, payload, payload_crc)

    def backfill_slice_done(self) -> None:
        self._reading.journal_slice_done(False)

    def backfill_done(self) -> None:
        self._reading.journal_slice_done(True)

    def backfill_failed(self, reason: str) -> None:
        self._reading.fail(reason)


def chunk_message(chunk: Chunk, index: i64) -> Message:
    """A message of a chunk; only its division into frames may differ from the publish."""
    body = chunk.body(index)
    header = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + chunk.properties(index)
    exchange = chunk.exchange(index).decode("utf-8", "surrogateescape")
    key = chunk.routing_key(index).decode("utf-8", "surrogateescape")
    content = content_frames(header, body, 1, FRAME_BYTES)
    return Message(Envelope(exchange, key), content, 1, len(body), FRAME_BYTES, True)
