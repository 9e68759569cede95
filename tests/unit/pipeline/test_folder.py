"""Folders of small files that are there whole or not at all."""

import subprocess
import sys
from pathlib import Path

import pytest

from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import Folder

COME_IN = """
import sys
from warren.pipeline.folder import Folder
with Folder(sys.argv[1]).alone():
    pass
"""


def test_a_put_file_is_read_again_and_replaces_the_earlier_one(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path / "a b"))
    assert folder.read_json("one") is None
    folder.put_json("one", {"b": 1, "a": [2]})
    folder.put_json("one", {"a": 3})
    assert folder.read_json("one") == {"a": 3}
    assert folder.children() == ["one"]
    assert folder.exists("one")


def test_a_folder_is_the_same_by_its_path_and_by_its_uri(tmp_path: Path) -> None:
    Folder(str(tmp_path)).child("inner").put_text("note", "here")
    same = Folder(f"file://{tmp_path}")
    assert same.uri == f"file://{tmp_path}"
    assert str(same.child("inner")) == str(tmp_path / "inner")
    assert same.child("inner").read_text("note") == "here"


def test_a_failed_write_leaves_the_earlier_file(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    folder.put_text("note", "old")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "inside").touch()
    with pytest.raises(PipelineError, match="taken cannot be written"):
        folder.put_text("taken", "new")
    with pytest.raises(PipelineError, match=r"note/deeper/x cannot be written: (Not a directory|File exists)"):
        folder.child("note/deeper").put_text("x", "new")
    assert folder.read_text("note") == "old"


def test_deleting_a_missing_file_succeeds(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path)).child("inner")
    folder.put_text("one", "1")
    folder.child("deep").put_text("two", "2")
    for name in ("one", "one", "deep"):
        folder.delete(name)
    assert folder.children() == []
    folder.delete()
    folder.delete()
    assert not folder.exists()


def test_a_name_that_spark_would_take_for_a_pattern_is_refused() -> None:
    with pytest.raises(PipelineError, match=r"Spark would take '\*' for a pattern"):
        Folder("lake*")


def test_a_file_that_is_not_json_is_reported_as_such(tmp_path: Path) -> None:
    (tmp_path / "lake.json").write_text("{")
    with pytest.raises(PipelineError, match=r"lake\.json is not JSON"):
        Folder(str(tmp_path)).read_json("lake.json")


def test_an_unknown_kind_of_address_is_refused_in_a_sentence() -> None:
    with pytest.raises(PipelineError, match="nowhere://lake cannot be used as a folder"):
        Folder("nowhere://lake")


def test_one_job_at_a_time_is_at_work_in_a_folder(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path / "state"))
    with folder.alone():
        folder.put_text("note", "mine")
        with (
            pytest.raises(PipelineError, match=r"another job is at work in .*/state: wait until it has ended"),
            folder.alone(),
        ):
            raise AssertionError("nobody gets here")
        other = subprocess.run([sys.executable, "-c", COME_IN, str(tmp_path / "state")], capture_output=True, text=True)
        assert "another job is at work" in other.stderr
    with folder.alone():
        assert folder.read_text("note") == "mine"


def test_a_job_that_comes_to_nothing_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(PipelineError), Folder(str(tmp_path / "state")).alone():
        raise PipelineError("it came to nothing")
    assert not (tmp_path / "state").exists()
