"""What stands in for journal and files where a node has no disk: a stream in memory alone.

Not here: real ones (`store.journal`, `store.archives`).
"""

from typing import Final, final

from mypy_extensions import i64

from warren.model.archive import Archive, ArchiveAsker, ArchiveWriter
from warren.model.journal import Holding, Run, Segment
from warren.model.message import Entry, Message
from warren.model.ports import PagedIn, QueueLog

NOWHERE: Final = Segment(0)


@final
class UnkeptLog(QueueLog):
    """Remembers nothing: a stream has all that is in no chunk yet in memory."""

    def __init__(self) -> None:
        super().__init__(False)
        self._holding: Holding = Holding(0, NOWHERE, 0, False, 0)

    def store(self, message: Message, position: i64, expires_at_ms: i64, level: i64) -> Holding:
        return self._holding

    def forget(self, entry: Entry) -> None:
        return

    def forget_run(self, run: Run) -> None:
        return

    def returned(self, entry: Entry) -> None:
        return

    def lend(self, entry: Entry) -> bool:
        return True

    def fetch(self, run: Run, asker: PagedIn, entries_max: i64) -> None:
        return

    def cancel_fetch(self) -> None:
        return

    def close(self) -> None:
        return


@final
class UnkeptArchive(Archive):
    """Segments as rows of what was written, by where each piece begins; what is asked of it is done at once."""

    def __init__(self) -> None:
        self._segments: dict[int, dict[int, bytes]] = {}

    def write(self, segment: i64, at: i64, data: bytes, writer: ArchiveWriter) -> None:
        self._segments.setdefault(int(segment), {})[int(at)] = data
        writer.archive_written()

    def read(self, segment: i64, at: i64, length: i64, asker: ArchiveAsker) -> None:
        for start, piece in self._segments.get(int(segment), {}).items():
            if start <= at < start + len(piece):
                # a chunk is in one piece
                asker.archive_read(piece[at - start : at - start + length], "")
                return
        asker.archive_read(b"", f"segment {segment} of the stream is gone")

    def withdraw(self, asker: ArchiveAsker) -> None:
        return

    def drop(self, segments: list[int]) -> None:
        for segment in segments:
            del self._segments[segment]

    def close(self) -> None:
        self._segments = {}
