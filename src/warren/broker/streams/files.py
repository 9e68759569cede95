"""The archive files of a node's streams: requests to the disk, the files found at the start, and streams in memory.

A node without a disk has streams in memory alone (`MemoryLog`, `MemoryArchive`).

Invariant: writes and drops of one stream's files are carried out in the order of their requests.

Not here: the contents of the files (`broker.streams.archive_index`), the files themselves (`node.disk`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.broker.model.archive import Archive, ArchiveFiles, ArchiveReadWaiter, ArchiveWriteWaiter
from warren.broker.model.effects import DropArchive, ReadArchive, WriteArchive
from warren.broker.model.events import ArchiveRead, ArchiveWritten
from warren.broker.model.journal import PositionRange, Segment, SegmentExtent
from warren.broker.model.message import Entry, Message
from warren.broker.model.ports import FetchWaiter, QueueLog
from warren.broker.model.turn import Turn
from warren.broker.streams.archive_index import ArchiveIndex, recover_archive_index
from warren.errors import StoreError

NOWHERE: Final = Segment(0)


@final
class StreamArchives:
    """The waiters of all requests to stream files."""

    def __init__(self, turn: Turn) -> None:
        self.turn: Turn = turn
        self._last_no: int = 0
        self._write_waiters: dict[int, ArchiveWriteWaiter] = {}
        self._read_waiters: dict[int, ArchiveReadWaiter] = {}

    def open(self, stream_id: int) -> "StreamArchive":
        return StreamArchive(self, stream_id)

    def ticket(self) -> int:
        self._last_no += 1
        return self._last_no

    def await_writing(self, writer: ArchiveWriteWaiter) -> int:
        ticket = self.ticket()
        self._write_waiters[ticket] = writer
        return ticket

    def await_reading(self, asker: ArchiveReadWaiter) -> int:
        ticket = self.ticket()
        self._read_waiters[ticket] = asker
        return ticket

    def withdraw(self, asker: ArchiveReadWaiter) -> None:
        for ticket in [ticket for ticket, waiting in self._read_waiters.items() if waiting is asker]:
            del self._read_waiters[ticket]

    def written(self, event: ArchiveWritten) -> None:
        assert event.ticket <= self._last_no, "the write was asked for"
        writer = self._write_waiters.pop(event.ticket, None)
        if writer is not None:
            writer.archive_written()

    def read(self, event: ArchiveRead) -> None:
        assert event.ticket <= self._last_no, "the read was asked for"
        asker = self._read_waiters.pop(event.ticket, None)
        if asker is not None:
            asker.archive_read(event.data, event.error)


@final
class StreamArchive(Archive):
    """One stream's archive files."""

    def __init__(self, archives: StreamArchives, stream_id: int) -> None:
        self._archives: StreamArchives = archives
        self._stream_id: int = stream_id

    def write(self, segment: i64, at: i64, data: bytes, writer: ArchiveWriteWaiter) -> None:
        ticket = self._archives.await_writing(writer)
        self._order(WriteArchive(ticket, self._stream_id, int(segment), int(at), data))

    def read(self, segment: i64, at: i64, length: i64, asker: ArchiveReadWaiter) -> None:
        ticket = self._archives.await_reading(asker)
        self._order(ReadArchive(ticket, self._stream_id, int(segment), int(at), int(length)))

    def withdraw(self, asker: ArchiveReadWaiter) -> None:
        self._archives.withdraw(asker)

    def drop(self, segments: list[int]) -> None:
        self._order(DropArchive(self._stream_id, segments))

    def close(self) -> None:
        self._order(DropArchive(self._stream_id, []))

    def _order(self, effect: WriteArchive | ReadArchive | DropArchive) -> None:
        self._archives.turn.effects.append(effect)


@final
class MemoryLog(QueueLog):
    """The log of a stream in memory: stores nothing."""

    def __init__(self) -> None:
        super().__init__(False)
        self._extent: SegmentExtent = SegmentExtent(0, NOWHERE, 0, False, 0)

    def store(self, message: Message, position: i64, expires_at_ms: i64, level: i64) -> SegmentExtent:
        return self._extent

    def forget(self, entry: Entry) -> None:
        return

    def forget_unread(self, positions: PositionRange) -> None:
        return

    def returned(self, entry: Entry) -> None:
        return

    def mark_delivered(self, entry: Entry) -> bool:
        return True

    def fetch(self, positions: PositionRange, asker: FetchWaiter, entries_max: i64) -> None:
        return

    def cancel_fetch(self) -> None:
        return

    def close(self) -> None:
        return


@final
class MemoryArchive(Archive):
    """Segments in memory: each a dictionary of writes, by offset. Requests complete at once."""

    def __init__(self) -> None:
        self._segments: dict[int, dict[int, bytes]] = {}

    def write(self, segment: i64, at: i64, data: bytes, writer: ArchiveWriteWaiter) -> None:
        self._segments.setdefault(int(segment), {})[int(at)] = data
        writer.archive_written()

    def read(self, segment: i64, at: i64, length: i64, asker: ArchiveReadWaiter) -> None:
        for start, piece in self._segments.get(int(segment), {}).items():
            if start <= at < start + len(piece):
                # a chunk is in one write
                asker.archive_read(piece[at - start : at - start + length], "")
                return
        asker.archive_read(b"", f"segment {segment} of the stream is gone")

    def withdraw(self, asker: ArchiveReadWaiter) -> None:
        return

    def drop(self, segments: list[int]) -> None:
        for segment in segments:
            del self._segments[segment]

    def close(self) -> None:
        self._segments = {}


@final
class RecoveredStream:
    """The archive of a stream at the start; `damage` says why it cannot be used."""

    def __init__(self, catalog: ArchiveIndex, damage: str = "") -> None:
        self.catalog: ArchiveIndex = catalog
        self.damage: str = damage


@final
class StreamFiles:
    """The stream files of a node. Without a disk, streams are in memory alone."""

    def __init__(self, turn: Turn, kept: bool, files: ArchiveFiles | None) -> None:
        self.archives: StreamArchives = StreamArchives(turn)
        self._kept: bool = kept
        self._files: ArchiveFiles | None = files
        # streams with files that no queue has claimed yet
        self._unclaimed: dict[int, None] = {}
        if files is not None:
            self._unclaimed = dict.fromkeys(files.streams())

    def found(self, queue_id: int, segment_bytes: i64) -> RecoveredStream:
        """The archive of a stream from before the start; empty for a stream that is new."""
        if self._files is None or queue_id not in self._unclaimed:
            return RecoveredStream(ArchiveIndex(segment_bytes))
        del self._unclaimed[queue_id]
        try:
            return RecoveredStream(recover_archive_index(self._files, queue_id, segment_bytes))
        except StoreError as fault:
            return RecoveredStream(ArchiveIndex(segment_bytes), str(fault))

    def archive(self, queue_id: int) -> Archive:
        return self.archives.open(queue_id) if self._kept else MemoryArchive()

    def log_or_none(self, log: QueueLog | None) -> QueueLog:
        """The log of a stream, in memory if the node has no journal."""
        return MemoryLog() if log is None else log

    def drop(self, queue_id: int) -> None:
        """Delete the files of a stream that this node does not have any more, unless they were claimed."""
        if queue_id in self._unclaimed:
            del self._unclaimed[queue_id]
            self.archives.open(queue_id).close()

    def drop_unclaimed(self, known: list[int]) -> None:
        """Delete the unclaimed files of all streams but the known ones."""
        for queue_id in sorted(set(self._unclaimed).difference(known)):
            del self._unclaimed[queue_id]
            self.archives.open(queue_id).close()
