"""Trace files: append, rotate, start again."""

import os
from contextlib import suppress
from pathlib import Path

import pytest

from warren.admin.tracing.files import TraceFile, TraceRotation


def names(directory: Path) -> list[str]:
    """Without hidden files."""
    return sorted(path.name for path in directory.glob("[!.]*"))


def opened(directory: Path, opening: bytes = b"{", rotation: TraceRotation | None = None) -> TraceFile:
    return TraceFile(str(directory), "t.log", opening, rotation or TraceRotation())


def test_records_are_never_split_and_old_pieces_go(tmp_path: Path) -> None:
    file = opened(tmp_path, rotation=TraceRotation(piece_bytes=25, pieces_max=2))
    records = [b'{"no":%02d}\n' % number for number in range(10)]
    file.append(records[:7])
    file.append(records[7:])
    file.close()
    assert names(tmp_path) == ["t.log", "t.log.3", "t.log.4"]
    kept = [(tmp_path / name).read_bytes() for name in ("t.log.3", "t.log.4", "t.log")]
    assert kept == [b"".join(records[at : at + 2]) for at in (4, 6, 8)]


def test_a_record_larger_than_a_piece_has_one_to_itself(tmp_path: Path) -> None:
    file = opened(tmp_path, rotation=TraceRotation(piece_bytes=10))
    file.append([b"{1}\n", b"{" + b"2" * 20 + b"}\n", b"{3}\n"])
    file.close()
    assert [(tmp_path / name).stat().st_size for name in ("t.log.1", "t.log.2", "t.log")] == [4, 23, 4]


def test_numbers_go_on_and_the_names_of_other_files_mean_nothing(tmp_path: Path) -> None:
    for name in ("t.log.9", "t.log.10", "t.log.x", "t.log.011", "other.log.40"):
        (tmp_path / name).write_bytes(b"{}\n")
    file = opened(tmp_path, rotation=TraceRotation(piece_bytes=1, pieces_max=2))
    file.append([b"{1}\n", b"{2}\n"])
    file.close()
    assert names(tmp_path) == ["other.log.40", "t.log", "t.log.011", "t.log.10", "t.log.11", "t.log.x"]


@pytest.mark.parametrize("kept", ["", "nonsense"])
def test_numbers_are_given_once_though_finished_pieces_are_deleted(tmp_path: Path, kept: str) -> None:
    if kept:
        (tmp_path / ".t.log.last").write_text(kept)
    for number in (1, 2, 3):
        file = opened(tmp_path, rotation=TraceRotation(piece_bytes=1))
        file.append([b"{%d}\n" % number])
        file.append([b"{}\n"] if number == 1 else [])
        file.close()
        assert names(tmp_path) == ["t.log", f"t.log.{number}"]
        (tmp_path / f"t.log.{number}").unlink()
    assert (tmp_path / ".t.log.last").read_text() == "3\n"


def test_a_trace_goes_on_where_another_stopped(tmp_path: Path) -> None:
    for record in (b"{1}\n", b"{2}\n"):
        file = opened(tmp_path / "made")
        file.append([record])
        file.close()
    assert (tmp_path / "made" / "t.log").read_bytes() == b"{1}\n{2}\n"
    assert oct((tmp_path / "made" / "t.log").stat().st_mode & 0o777) == "0o600"


def test_a_line_that_was_cut_off_does_not_spoil_the_next(tmp_path: Path) -> None:
    (tmp_path / "t.log").write_bytes(b'{1}\n{"torn')
    file = opened(tmp_path)
    file.append([b"{2}\n"])
    file.close()
    assert (tmp_path / "t.log").read_bytes() == b'{1}\n{"torn\n{2}\n'


def test_a_piece_holds_one_format(tmp_path: Path) -> None:
    (tmp_path / "t.log").write_bytes(b"\n====\n")
    file = opened(tmp_path)
    file.append([b"{1}\n"])
    file.close()
    assert (tmp_path / "t.log.1").read_bytes() == b"\n====\n"
    assert (tmp_path / "t.log").read_bytes() == b"{1}\n"


def test_a_file_that_was_deleted_is_begun_anew(tmp_path: Path) -> None:
    file = opened(tmp_path)
    file.append([b"{1}\n"])
    os.unlink(tmp_path / "t.log")
    file.append([b"{2}\n"])
    file.close()
    assert (tmp_path / "t.log").read_bytes() == b"{2}\n"


def test_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"untouched")
    (tmp_path / "t.log").symlink_to("victim")
    with pytest.raises(OSError):
        opened(tmp_path)
    assert (tmp_path / "victim").read_bytes() == b"untouched"


@pytest.mark.parametrize("name", ["t.log", ".t.log.last", ".t.log.last.new"])
def test_a_pipe_keeps_no_trace_waiting(tmp_path: Path, name: str) -> None:
    """The thread that writes would wait for a reader, and the node for the thread."""
    os.mkfifo(tmp_path / name)
    with suppress(OSError):
        file = opened(tmp_path, rotation=TraceRotation(piece_bytes=25, pieces_max=2))
        assert name != "t.log"
        try:
            file.append([b"{1}\n" * 40] * 3)
        finally:
            file.close()
