"""The few files that a reading thread keeps open."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from warren.admin.ports import IoStats
from warren.errors import StoreError
from warren.node.disk.file_io import DescriptorReserve
from warren.node.disk.readers import OPEN_FILES_MAX, OpenFiles


@pytest.fixture
def reserve() -> Iterator[DescriptorReserve]:
    reserve = DescriptorReserve()
    yield reserve
    reserve.close()


@pytest.fixture
def files(reserve: DescriptorReserve) -> Iterator[OpenFiles]:
    files = OpenFiles(reserve, IoStats())
    yield files
    files.close()


def open_below(directory: Path) -> list[str]:
    """The names of files that this process has open there, deleted ones included."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue
        if target.startswith(f"{directory}/"):
            found.append(target.removeprefix(f"{directory}/"))
    return sorted(found)


def test_those_used_last_stay_open(files: OpenFiles, tmp_path: Path) -> None:
    names = [f"{number:02}" for number in range(OPEN_FILES_MAX + 1)]
    for name in names:
        (tmp_path / name).write_bytes(name.encode())
    for name in [*names[:-1], names[0], names[-1]]:
        assert files.read(str(tmp_path / name), 0, 2) == name.encode()
    assert open_below(tmp_path) == [names[0], *names[2:]]
    files.close()
    assert open_below(tmp_path) == []


def test_a_directory_is_forgotten_with_its_files_and_no_others(files: OpenFiles, tmp_path: Path) -> None:
    for name in ("1/a", "1/b", "12/a"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
        files.read(str(tmp_path / name), 0, 1)
    files.forget(str(tmp_path / "1"))
    assert open_below(tmp_path) == ["12/a"]
    files.forget(str(tmp_path / "12" / "a"))
    assert open_below(tmp_path) == []


def test_a_piece_that_is_not_whole_is_none(files: OpenFiles, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    with pytest.raises(StoreError, match="it ends at byte 3, before 5"):
        files.read(str(tmp_path / "a"), 1, 4)


def test_a_file_is_opened_with_a_descriptor_of_the_reserve(
    files: OpenFiles, reserve: DescriptorReserve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    real, kept = os.open, len(os.listdir("/proc/self/fd"))

    def crowded(path: str, flags: int) -> int:
        if len(os.listdir("/proc/self/fd")) >= kept:
            raise OSError(errno.EMFILE, "Too many open files")
        return real(path, flags)

    monkeypatch.setattr(os, "open", crowded)
    assert files.read(str(tmp_path / "a"), 0, 3) == b"abc"
