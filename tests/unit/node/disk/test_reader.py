"""The journal's reader on real files: the requested bytes, or the reason of a failure."""

import os
import queue
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.node.disk.rig import DEADLINE_S
from warren.broker.journal.segment_index import ROW_BYTES, SegmentIndex, row_offset, row_position
from warren.broker.model.effects import ReadIndex, ReadJournal
from warren.broker.model.events import Event, IndexRead, JournalRead
from warren.node.disk.file_io import DescriptorReserve
from warren.node.disk.readers import GAP_BYTES_MAX, OPEN_FILES_MAX, STRETCH_BYTES_MAX, JournalReaderThread


class ReaderRig:
    """A reader, and the answers it gave."""

    def __init__(self, journal: Path) -> None:
        self.journal = journal
        self.answers: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.failures: queue.SimpleQueue[Exception] = queue.SimpleQueue()
        self.reader = JournalReaderThread(str(journal), self.answers.put, self.failures.put, DescriptorReserve())
        self._ticket = 0

    def journal_read(self, segment: int, *extents: tuple[int, int]) -> JournalRead:
        self._ticket += 1
        self.reader.order(ReadJournal(self._ticket, segment, list(extents)))
        answer = self.answers.get(timeout=DEADLINE_S)
        assert isinstance(answer, JournalRead)
        assert answer.ticket == self._ticket
        return answer

    def index_read(self, segment: int, queue_id: int) -> IndexRead:
        self._ticket += 1
        self.reader.order(ReadIndex(self._ticket, segment, queue_id))
        answer = self.answers.get(timeout=DEADLINE_S)
        assert isinstance(answer, IndexRead)
        assert answer.ticket == self._ticket
        return answer

    def segment(self, number: int, content: bytes) -> Path:
        path = self.journal / f"{number:012}.seg"
        path.write_bytes(content)
        return path

    def open_files(self) -> list[str]:
        """The journal's files this process has open, deleted ones included."""
        found = []
        for name in os.listdir("/proc/self/fd"):
            try:
                target = os.readlink(f"/proc/self/fd/{name}")
            except FileNotFoundError:
                continue
            if target.startswith(f"{self.journal}/"):
                found.append(target.removeprefix(f"{self.journal}/"))
        return sorted(found)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[ReaderRig]:
    rig = ReaderRig(tmp_path)
    yield rig
    rig.reader.close(DEADLINE_S)
    assert rig.open_files() == []
    assert rig.failures.empty()


def index_of(rows: dict[int, list[tuple[int, int]]], segment: int) -> bytes:
    """An index in which each queue has these positions at these offsets."""
    made = SegmentIndex()
    for queue_id, places in rows.items():
        for position, offset in places:
            made.add(queue_id, position, offset, 100, 50, 0, 1)
    return made.encode(segment)


def test_pieces_come_back_in_the_order_they_were_asked_for(rig: ReaderRig) -> None:
    content = bytes(i % 251 for i in range(3 * GAP_BYTES_MAX))
    rig.segment(1, content)
    far = 2 * GAP_BYTES_MAX + 7
    extents = [(64, 10), (74, 5), (100, 1), (far, 20), (70, 30), (far + 20, 3), (64, 0)]
    answer = rig.journal_read(1, *extents)
    assert answer.error == ""
    assert answer.blocks == [content[at : at + size] for at, size in extents]


def test_a_piece_longer_than_one_read_is_complete(rig: ReaderRig) -> None:
    content = os.urandom(3 * STRETCH_BYTES_MAX)
    rig.segment(1, content)
    extents = [(0, 10), (10, 2 * STRETCH_BYTES_MAX), (10 + 2 * STRETCH_BYTES_MAX, 10)]
    assert rig.journal_read(1, *extents).blocks == [content[at : at + size] for at, size in extents]


def test_the_rows_of_one_queue_are_found_in_an_index(rig: ReaderRig) -> None:
    rows = {7: [(1, 64), (2, 164)], -3: [(1, 264)], 9: [(5, 364), (6, 464), (8, 564)]}
    (rig.journal / "000000000001.idx").write_bytes(index_of(rows, 1))
    for queue_id, places in rows.items():
        answer = rig.index_read(1, queue_id)
        assert answer.error == ""
        count = len(answer.rows) // int(ROW_BYTES)
        assert [(row_position(answer.rows, i), row_offset(answer.rows, i)) for i in range(count)] == places
    assert rig.index_read(1, 8).rows == b""


def test_a_file_that_is_not_there_is_named_with_the_reason(rig: ReaderRig) -> None:
    assert rig.journal_read(4, (0, 1)).error == "000000000004.seg: No such file or directory"
    assert rig.index_read(4, 1).error == "000000000004.idx: No such file or directory"


def test_a_file_that_ends_too_early_is_named_with_the_byte(rig: ReaderRig) -> None:
    rig.segment(1, b"x" * 100)
    answer = rig.journal_read(1, (10, 10), (90, 20))
    assert (answer.blocks, answer.error) == ([], "000000000001.seg: it ends at byte 100, before 110")


def test_an_index_that_is_none_is_an_answer_with_a_reason(rig: ReaderRig) -> None:
    (rig.journal / "000000000001.idx").write_bytes(b"not an index, though long enough to hold a header")
    answer = rig.index_read(1, 1)
    assert answer.rows == b""
    assert answer.error.startswith("000000000001.idx: ")
    assert rig.index_read(2, 1).error == "000000000002.idx: No such file or directory"


def test_few_files_stay_open_although_many_are_read(rig: ReaderRig) -> None:
    count = OPEN_FILES_MAX + 5
    for number in range(1, count + 1):
        rig.segment(number, bytes([number]))
    for number in (*range(1, count + 1), *range(count, 0, -1)):
        assert rig.journal_read(number, (0, 1)).blocks == [bytes([number])]
    assert rig.open_files() == [f"{number:012}.seg" for number in range(1, OPEN_FILES_MAX + 1)]


def test_a_dropped_segment_is_let_go(rig: ReaderRig) -> None:
    path = rig.segment(1, b"old")
    (rig.journal / "000000000001.idx").write_bytes(index_of({7: [(1, 64)]}, 1))
    assert rig.journal_read(1, (0, 3)).blocks == [b"old"]
    assert rig.index_read(1, 7).error == ""
    path.unlink()
    (rig.journal / "000000000001.idx").unlink()
    rig.reader.forget(1)
    assert rig.journal_read(1, (0, 3)).error == "000000000001.seg: No such file or directory"
    assert rig.index_read(1, 7).error == "000000000001.idx: No such file or directory"
    assert rig.open_files() == []
    (rig.journal / "000000000001.idx").write_bytes(index_of({8: [(1, 64)]}, 1))
    assert len(rig.index_read(1, 8).rows) == ROW_BYTES
