"""The files of a trace as one log, while the trace puts files aside and deletes old ones."""

import threading
from pathlib import Path

import pytest

from tests.unit.pipeline.trace.written import Written
from warren.pipeline.errors import PipelineError
from warren.pipeline.trace import files
from warren.pipeline.trace.files import TraceExtent, TracePosition

ROTATIONS = 300
DEADLINE_S = 60.0


def test_the_file_being_written_has_the_number_that_it_gets_when_it_is_put_aside(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.append(12)
    before = files.trace_extent(str(tmp_path), "orders")
    assert before is not None
    last = max(before.sizes)
    assert (tmp_path / "orders.log").stat().st_size == before.sizes[last]
    octets = (tmp_path / "orders.log").read_bytes()
    written.append(10)
    written.close()
    assert (tmp_path / f"orders.log.{last}").read_bytes().startswith(octets)


def test_lines_that_are_not_whole_are_not_there_yet(tmp_path: Path) -> None:
    (tmp_path / "orders.log").write_bytes(b'{"n":0}\n{"n":')
    assert files.trace_extent(str(tmp_path), "orders") == TraceExtent({1: 8}, 0)
    (tmp_path / "orders.log").write_bytes(b'{"n":')
    assert files.trace_extent(str(tmp_path), "orders") == TraceExtent({1: 0}, 0)


def test_a_whole_line_is_found_before_a_long_one_that_is_not(tmp_path: Path) -> None:
    (tmp_path / "orders.log").write_bytes(b"{}\n" + b"x" * (files.BLOCK_BYTES * 2 + 5))
    assert files.trace_extent(str(tmp_path), "orders") == TraceExtent({1: 3}, 0)


def test_traces_are_distinguished_by_the_names_of_their_files(tmp_path: Path) -> None:
    for name in ("a.log", "a.log.1", "b.log.7", "b.log.1.log", "a%2Fb.log", "note.txt", ".hidden.log", "c.log.0"):
        (tmp_path / name).touch()
    assert files.traces_in(str(tmp_path)) == ["a", "a%2Fb", "b", "b.log.1"]
    assert files.trace_extent(str(tmp_path), "c") is None


def test_a_folder_that_is_not_there_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"there are no trace files in .*/nowhere: No such file or directory"):
        files.traces_in(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("position", "lost", "resumed"),
    [
        (TracePosition(3, 10), "", TracePosition(3, 10)),
        (TracePosition(5, 4), "", TracePosition(5, 4)),
        (TracePosition(6, 0), "", TracePosition(6, 0)),
        (TracePosition(2, 5), "file 2 was not read to its end, and the first that is there is 3", TracePosition(3, 0)),
        (TracePosition(7, 0), "file 7 was read, and the last that is there is 6", TracePosition(3, 0)),
        (TracePosition(5, 41), "41 bytes of file 5 were read, and it has 40", TracePosition(5, 0)),
    ],
)
def test_a_position_shows_the_lost_files(position: TracePosition, lost: str, resumed: TracePosition) -> None:
    here = TraceExtent({3: 20, 4: 30, 5: 40}, 5)
    assert here.lost(position) == lost
    assert here.resumed(position) == resumed


def test_a_piece_that_is_missing_between_others_is_gone() -> None:
    here = TraceExtent({3: 20, 5: 40, 6: 10}, 5)
    assert here.lost(TracePosition(3, 20)) == "file 4 is gone"
    assert here.resumed(TracePosition(3, 20)) == TracePosition(3, 20)


def test_behind_a_finished_piece_is_the_beginning_of_the_next() -> None:
    here = TraceExtent({3: 20, 4: 30}, 3)
    assert here.settled(TracePosition(3, 20)) == TracePosition(4, 0)
    assert here.settled(TracePosition(4, 30)) == TracePosition(4, 30)
    assert here.bytes_between(TracePosition(3, 5), TracePosition(4, 12)) == 27


@pytest.mark.parametrize(("wanted", "found"), [(4, 3), (3, 3), (2, 3), (7, 6), (9, 9), (100, 9)])
def test_a_share_of_a_piece_ends_with_a_line(tmp_path: Path, wanted: int, found: int) -> None:
    (tmp_path / "lines").write_bytes(b"{}\n{}\n{}\n")
    with (tmp_path / "lines").open("rb") as file:
        assert files.line_end(file, 0, wanted, 9) == found


def test_a_line_that_is_longer_than_a_share_is_taken_whole(tmp_path: Path) -> None:
    octets = b"x" * (files.BLOCK_BYTES * 3) + b"\n{}\n"
    (tmp_path / "lines").write_bytes(octets)
    with (tmp_path / "lines").open("rb") as file:
        assert files.line_end(file, 0, 10, len(octets)) == len(octets) - 3


def test_a_piece_is_found_by_its_number_while_the_trace_is_rotated(tmp_path: Path) -> None:
    written = Written(tmp_path, piece_bytes=16)
    written.append(1)
    begun, ended = threading.Event(), threading.Event()

    def rotate() -> None:
        try:
            for rotation in range(ROTATIONS):
                # a reader may be late, and must see it in its midst and at its end
                if rotation == ROTATIONS // 2:
                    begun.wait(DEADLINE_S)
                written.append(3)
        finally:
            ended.set()

    writer = threading.Thread(target=rotate)
    writer.start()
    looked: dict[int, bytes] = {}
    is_over = False
    while not is_over:
        is_over = ended.is_set()
        here = files.trace_extent(str(tmp_path), "orders")
        assert here is not None
        last = max(here.sizes)
        file = files.open_piece(str(tmp_path), "orders", last)
        if file is not None:
            with file:
                looked[last] = file.read(here.sizes[last])
                begun.set()
    writer.join()
    written.close()
    assert len(looked) > 1
    for number, octets in looked.items():
        finished = tmp_path / f"orders.log.{number}"
        whole = (finished if finished.exists() else tmp_path / "orders.log").read_bytes()
        assert whole.startswith(octets), number


def test_a_piece_that_was_deleted_is_gone(tmp_path: Path) -> None:
    written = Written(tmp_path, pieces_max=2)
    written.append(60)
    written.close()
    assert files.open_piece(str(tmp_path), "orders", 1) is None
    here = files.trace_extent(str(tmp_path), "orders")
    assert here is not None
    assert len(here.sizes) == 3
