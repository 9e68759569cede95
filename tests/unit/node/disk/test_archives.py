"""The threads that write and read the files of streams."""

import queue
from pathlib import Path

import pytest

from tests.unit.node.disk.rig import DEADLINE_S
from warren.admin.ports import IoStats
from warren.broker.model.effects import DropArchive, ReadArchive, WriteArchive
from warren.broker.model.events import ArchiveRead, ArchiveWritten, Event
from warren.node.disk import archives, file_io
from warren.node.disk.archives import ArchiveWriterThread, FoundArchives
from warren.node.disk.file_io import DescriptorReserve
from warren.node.disk.readers import ArchiveReaderThread


class Rig:
    """Both threads, and everything they reported."""

    def __init__(self, directory: Path) -> None:
        self.streams = directory / "streams"
        self.reports: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.failures: queue.SimpleQueue[Exception] = queue.SimpleQueue()
        self.reserve = DescriptorReserve()
        self.io = IoStats()
        path = str(self.streams)
        self.reader = ArchiveReaderThread(path, self.reports.put, self.failures.put, self.reserve, self.io)
        self.writer = ArchiveWriterThread(path, self.reports.put, self.failures.put, self.reader.forget, self.reserve)

    def write(self, ticket: int, segment: int, at: int, data: bytes) -> None:
        self.writer.order(WriteArchive(ticket, 5, segment, at, data))
        assert self.written() == ticket

    def written(self) -> int:
        """The ticket of the next report."""
        written = self.reports.get(timeout=DEADLINE_S)
        assert isinstance(written, ArchiveWritten)
        return written.ticket

    def read(self, segment: int, at: int, length: int) -> ArchiveRead:
        self.reader.order(ReadArchive(1, 5, segment, at, length))
        read = self.reports.get(timeout=DEADLINE_S)
        assert isinstance(read, ArchiveRead)
        return read

    def close(self) -> None:
        self.writer.close(DEADLINE_S)
        self.reader.close(DEADLINE_S)
        self.reserve.close()
        assert not self.writer.thread.is_alive()
        assert not self.reader.thread.is_alive()


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_written_chunks_are_found_and_read(rig: Rig) -> None:
    rig.write(1, 1, 0, b"abc")
    rig.write(2, 1, 3, b"def")
    rig.write(3, 2, 0, b"ghi")
    found = FoundArchives(str(rig.streams))
    assert (found.streams(), found.segments(5), found.size(5, 1), found.read(5, 1, 2, 9)) == ([5], [1, 2], 6, b"cdef")
    assert rig.read(1, 2, 3).data == b"cde"
    assert rig.read(2, 0, 3).data == b"ghi"
    assert (rig.io.reads, rig.io.read_bytes) == (2, 6)
    rig.close()


def test_bytes_behind_a_written_piece_are_gone(rig: Rig) -> None:
    rig.write(1, 1, 0, b"abcdefgh")
    rig.write(2, 1, 2, b"X")
    assert FoundArchives(str(rig.streams)).read(5, 1, 0, 99) == b"abX"
    rig.close()


def test_missing_bytes_and_files_are_reported(rig: Rig) -> None:
    rig.write(1, 1, 0, b"abc")
    assert rig.read(1, 0, 4).error == "segment 1 of the stream: it ends at byte 3, before 4"
    assert rig.read(2, 0, 1).error == "segment 2 of the stream: No such file or directory"
    rig.close()


def test_dropped_segments_are_gone_and_at_last_all_of_a_stream(rig: Rig) -> None:
    for segment in (1, 2, 3):
        rig.write(segment, segment, 0, b"abc")
        assert rig.read(segment, 0, 3).data == b"abc"
    rig.writer.order(DropArchive(5, [1, 2]))
    rig.write(4, 3, 3, b"def")
    assert FoundArchives(str(rig.streams)).segments(5) == [3]
    assert rig.read(1, 0, 3).error
    rig.writer.order(DropArchive(5, []))
    rig.writer.order(DropArchive(6, [7]))
    rig.close()
    assert FoundArchives(str(rig.streams)).streams() == []
    assert rig.failures.empty()


def test_a_lack_of_room_is_waited_for(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = [True, True]

    def write(descriptor: int, data: bytes, offset: int) -> None:
        if lacking:
            lacking.pop()
            raise OSError(28, "No space left on device")
        file_io.write_all(descriptor, data, offset)

    monkeypatch.setattr(archives, "write_all", write)
    monkeypatch.setattr(archives, "RETRY_EVERY_S", 0.01)
    rig.write(1, 1, 0, b"abc")
    assert (lacking, rig.read(1, 0, 3).data) == ([], b"abc")
    rig.close()


def test_a_deletion_makes_room_for_waiting_writes(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(descriptor: int, data: bytes, offset: int) -> None:
        if FoundArchives(str(rig.streams)).segments(5)[0] == 1:
            raise OSError(28, "No space left on device")
        file_io.write_all(descriptor, data, offset)

    for segment in (1, 2):
        rig.write(segment, segment, 0, b"abc")
    monkeypatch.setattr(archives, "write_all", write)
    monkeypatch.setattr(archives, "RETRY_EVERY_S", 0.01)
    rig.writer.order(WriteArchive(3, 5, 2, 3, b"def"))
    rig.writer.order(WriteArchive(4, 6, 1, 0, b"ghi"))
    rig.writer.order(DropArchive(5, [1]))
    assert rig.written() == 3
    assert rig.written() == 4
    assert rig.read(2, 0, 6).data == b"abcdef"
    rig.close()


def test_a_stream_that_is_deleted_waits_for_no_room(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(descriptor: int, data: bytes, offset: int) -> None:
        if 5 in FoundArchives(str(rig.streams)).streams():
            raise OSError(28, "No space left on device")
        file_io.write_all(descriptor, data, offset)

    rig.write(1, 1, 0, b"abc")
    monkeypatch.setattr(archives, "write_all", write)
    monkeypatch.setattr(archives, "RETRY_EVERY_S", 0.01)
    rig.writer.order(WriteArchive(2, 5, 1, 3, b"def"))
    rig.writer.order(WriteArchive(3, 6, 1, 0, b"ghi"))
    rig.writer.order(DropArchive(5, []))
    # it is held anew
    rig.writer.order(WriteArchive(4, 5, 1, 0, b"jkl"))
    assert rig.written() == 3
    monkeypatch.setattr(archives, "write_all", file_io.write_all)
    assert rig.written() == 4
    rig.close()
    assert FoundArchives(str(rig.streams)).read(5, 1, 0, 9) == b"jkl"


def test_any_other_error_is_reported(rig: Rig) -> None:
    rig.streams.write_bytes(b"no directory")
    rig.writer.order(WriteArchive(1, 5, 1, 0, b"abc"))
    assert isinstance(rig.failures.get(timeout=DEADLINE_S), OSError)
    rig.reader.close(DEADLINE_S)
    rig.reserve.close()
