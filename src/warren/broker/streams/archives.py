"""The files of all streams of a node: who waits for what of them.

Invariant: what is ordered of one stream's files is carried out in that order, reads aside.

Not here: what is in the files (`stream`), the files (`node.disk`).
"""

from typing import final

from mypy_extensions import i64

from warren.broker.model.archive import Archive, ArchiveReadWaiter, ArchiveWriteWaiter
from warren.broker.model.effects import DropArchive, ReadArchive, WriteArchive
from warren.broker.model.events import ArchiveRead, ArchiveWritten
from warren.broker.model.turn import Turn


@final
class StreamArchives:
    """All of one node's."""

    def __init__(self, turn: Turn) -> None:
        self.turn: Turn = turn
        self._last_no: int = 0
        self._writers: dict[int, ArchiveWriteWaiter] = {}
        self._askers: dict[int, ArchiveReadWaiter] = {}

    def open(self, stream_id: int) -> "StreamArchive":
        return StreamArchive(self, stream_id)

    def ticket(self) -> int:
        self._last_no += 1
        return self._last_no

    def await_writing(self, writer: ArchiveWriteWaiter) -> int:
        ticket = self.ticket()
        self._writers[ticket] = writer
        return ticket

    def await_reading(self, asker: ArchiveReadWaiter) -> int:
        ticket = self.ticket()
        self._askers[ticket] = asker
        return ticket

    def withdraw(self, asker: ArchiveReadWaiter) -> None:
        for ticket in [ticket for ticket, waiting in self._askers.items() if waiting is asker]:
            del self._askers[ticket]

    def written(self, event: ArchiveWritten) -> None:
        writer = self._writers.pop(event.ticket, None)
        if writer is not None:
            writer.archive_written()

    def read(self, event: ArchiveRead) -> None:
        asker = self._askers.pop(event.ticket, None)
        if asker is not None:
            asker.archive_read(event.data, event.error)


@final
class StreamArchive(Archive):
    """One stream's part of them."""

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
