"""Rendered files take their places all together, or none does."""

import os
from pathlib import Path

import pytest

from warren.cli.ha.bundle import RenderedFile, write_all
from warren.errors import WarrenError

FILES = [RenderedFile("a/one", "new one"), RenderedFile("b/c/two", "new two"), RenderedFile("three", "new three")]


def texts_in(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_everything_takes_its_place(tmp_path: Path) -> None:
    (tmp_path / "three").write_text("old three")
    write_all(tmp_path, FILES)
    assert texts_in(tmp_path) == {"a/one": "new one", "b/c/two": "new two", "three": "new three"}


def test_a_folder_where_a_file_belongs_leaves_everything_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/one").write_text("old one")
    (tmp_path / "three").mkdir()
    with pytest.raises(WarrenError, match=r"nothing was written: .*/three is a folder, and a file belongs there"):
        write_all(tmp_path, FILES)
    assert texts_in(tmp_path) == {"a/one": "old one"}
    assert not (tmp_path / "b").exists()


def test_a_file_where_a_folder_belongs_leaves_everything_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b/c").write_text("mine")
    with pytest.raises(WarrenError, match="nothing was written"):
        write_all(tmp_path, FILES)
    assert texts_in(tmp_path) == {"b/c": "mine"}
    assert not (tmp_path / "a").exists()


def test_files_already_replaced_are_restored_if_another_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails between two renames is hard to come by."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a/one").write_text("old one")
    real = os.replace

    def replace(source: Path, target: Path) -> None:
        if target == tmp_path / "three":
            raise OSError(5, "Input/output error", str(target))
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(WarrenError, match=r"nothing was written: .*/three: Input/output error"):
        write_all(tmp_path, FILES)
    assert texts_in(tmp_path) == {"a/one": "old one"}
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("path", ["../out", "/etc/out", "a/../../out"])
def test_nothing_is_written_outside_of_the_folder(tmp_path: Path, path: str) -> None:
    with pytest.raises(WarrenError, match="would not be in"):
        write_all(tmp_path / "in", [RenderedFile(path, "text")])
    assert texts_in(tmp_path) == {}
