"""The archiver of a stream: committed messages go to archive files a chunk at a time, and retention drops old segments.

One write is in flight at a time: a chunk or, if many messages wait, a few. When it is on disk, the journal drops its
messages. The last chunk stays in memory for readers that are a little behind. When memory is low, chunks are smaller
and nothing waits for long.

Invariants: `check`.

Not here: what is committed (`broker.streams.stream`), the chunks (`broker.streams.archive_index`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.archive import Archive, ArchiveWriteWaiter
from warren.broker.model.ports import QueueLog
from warren.broker.model.turn import FlushWaiter, TimerTarget, Turn
from warren.broker.streams.archive_index import CHUNKS_AT_ONCE_MAX, ArchiveIndex
from warren.broker.streams.chunk import ChunkHead
from warren.broker.streams.settings import StreamSettings
from warren.broker.streams.tail import CHUNK_BYTES, CHUNK_MESSAGES, StreamTail
from warren.errors import InvariantBroken

SMALL_CHUNK_BYTES: Final[i64] = 1 << 16
CHECK_MS: Final[i64] = 10_000
"""The interval of checks for retention and for low memory."""


@final
class StreamArchiver(ArchiveWriteWaiter, TimerTarget, FlushWaiter):
    """Archives one stream."""

    def __init__(
        self,
        tail: StreamTail,
        catalog: ArchiveIndex,
        archive: Archive,
        log: QueueLog,
        settings: StreamSettings,
        turn: Turn,
    ) -> None:
        self.log: QueueLog = log
        self._tail: StreamTail = tail
        self._catalog: ArchiveIndex = catalog
        self._archive: Archive = archive
        self._settings: StreamSettings = settings
        self._turn: Turn = turn
        # the heads of the chunks in flight, and the place of the first
        self._in_flight: list[ChunkHead] = []
        self._place: tuple[i64, i64] = (0, 0)
        self._timer_set: bool = False
        self._ended: bool = False

    def go_on(self, waited: bool = False) -> None:
        """Write the next chunk, if there are enough messages for one, and more chunks with it if there are many.

        When memory is low, fewer messages are enough; `waited`: any number is.
        """
        tail = self._tail
        if self._ended or self._in_flight or tail.committed == tail.archived:
            return
        self._set_timer()
        small = self._turn.memory_low and (waited or tail.committed_bytes >= SMALL_CHUNK_BYTES)
        if not small and not _is_enough(tail.committed_bytes, tail.committed - tail.archived):
            return
        self._place = self._catalog.place()
        segment, at = self._place
        pieces: list[bytes] = []
        offset, waiting_bytes = tail.archived, tail.committed_bytes
        while not pieces or _is_enough(waiting_bytes, tail.committed - offset):
            data = tail.chunk_from(offset).finish()
            head = ChunkHead(data)
            pieces.append(data)
            self._in_flight.append(head)
            # not the size of the chunk: without frames, a body in tiny frames is far smaller
            waiting_bytes -= tail.content_bytes(offset, head.count)
            offset += head.count
            at += head.length
            if len(pieces) == CHUNKS_AT_ONCE_MAX or at >= self._catalog.segment_bytes:
                break
        self._archive.write(segment, self._place[1], b"".join(pieces), self)

    def archive_written(self) -> None:
        heads, tail = self._in_flight, self._tail
        if self._ended or not heads:
            return
        self._in_flight = []
        segment, at = self._place
        count: i64 = 0
        for head in heads:
            self._catalog.add(segment, at, head)
            at += head.length
            count += head.count
        for entry in tail.archive(count):
            self.log.forget(entry)
        # the last chunk may still be of use to those who are a little behind
        self._drop_to(tail.archived if self._turn.memory_low else tail.archived - heads[-1].count)
        if self._place[1] == 0:
            self.expire()
        self.go_on()

    def _drop_to(self, offset: i64) -> None:
        before = self._tail.held_bytes
        self._tail.drop(offset)
        self._turn.held_bytes -= before - self._tail.held_bytes

    def mirror(self, log: QueueLog, archive: Archive) -> None:
        """The stream is mirrored from here on."""
        self.log = log
        self._archive = archive

    # -- retention

    def apply(self, settings: StreamSettings) -> None:
        self._settings = settings
        self._catalog.segment_bytes = settings.segment_bytes
        self.expire()

    def expire(self) -> None:
        if self._ended:
            return
        settings = self._settings
        before_ms = self._turn.now_ms - settings.age_max_ms if settings.age_max_ms >= 0 else 0
        gone = self._catalog.expire(settings.bytes_max, before_ms, self._turn.now_ms)
        if gone:
            self._archive.drop(gone)
        if settings.age_max_ms >= 0:
            self._set_timer()

    def _set_timer(self) -> None:
        if not self._timer_set:
            self._timer_set = True
            self._turn.set_timer(self._turn.now_ms + CHECK_MS, self)

    def timer_fired(self) -> None:
        self._timer_set = False
        self.expire()
        if self._turn.memory_low and not self._ended:
            self._drop_to(self._tail.archived)
        self.go_on(waited=True)

    def check(self) -> None:
        """Raise `InvariantBroken` if the chunks in flight do not follow those archived."""
        if not self._in_flight or self._ended:
            return
        first, count = self._in_flight[0].first_offset(), sum([int(head.count) for head in self._in_flight])
        if first != self._tail.archived or first + count > self._tail.committed:
            raise InvariantBroken(f"{count} messages from {first} go to the archive, {self._tail.archived} are there")

    def stop(self) -> None:
        """Leave the files as they are."""
        self._ended = True

    def close(self) -> None:
        """The stream is deleted. Its files go after the flush: a crash before it would bring the stream back."""
        self._ended = True
        self._turn.await_flush(self)

    def flushed(self) -> None:
        self._archive.close()


def _is_enough(size_bytes: i64, count: i64) -> bool:
    """Whether this is enough for a chunk."""
    return size_bytes >= CHUNK_BYTES or count >= CHUNK_MESSAGES
