"""The facts about sources that a lake keeps; without Spark."""

from pathlib import Path

import pytest

from warren.pipeline.errors import PipelineError
from warren.pipeline.folder import Folder
from warren.pipeline.trace import lake
from warren.pipeline.trace.sources import FileSource

WRONG, RIGHT = FileSource("/traces/wrong"), FileSource("/traces/right")


@pytest.fixture
def claimed(tmp_path: Path) -> Folder:
    """A lake that a run began to fill from the wrong folder, with a checkpoint of Spark."""
    folder = Folder(str(tmp_path / "lake"))
    lake.claim(folder, WRONG.source, WRONG.facts())
    lake.checkpoint_folder(folder, WRONG.source).child("offsets").put_text("0", "v1\n{}\n")
    return folder


def sink_log(folder: Folder) -> Folder:
    return lake.event_folder(folder, WRONG.source).child(lake.COMMITTED)


def test_a_source_of_which_nothing_was_read_may_be_elsewhere(claimed: Folder, tmp_path: Path) -> None:
    (tmp_path / "lake" / "events" / WRONG.source / lake.COMMITTED).mkdir(parents=True)
    lake.claim(claimed, RIGHT.source, RIGHT.facts())
    assert not lake.checkpoint_folder(claimed, RIGHT.source).exists()
    assert claimed.child(lake.SOURCES).read_json("files.json") == RIGHT.facts()


def test_a_source_of_which_something_was_read_keeps_its_place(claimed: Folder) -> None:
    sink_log(claimed).put_text("0", "v1\n")
    with pytest.raises(
        PipelineError, match=r"is files in /traces/wrong, and not files in /traces/right; give it anoth"
    ):
        lake.claim(claimed, RIGHT.source, RIGHT.facts())
    assert lake.checkpoint_folder(claimed, WRONG.source).child("offsets").children() == ["0"]


def test_a_repeated_run_keeps_the_checkpoint(claimed: Folder) -> None:
    lake.claim(claimed, WRONG.source, WRONG.facts())
    assert lake.checkpoint_folder(claimed, WRONG.source).child("offsets").children() == ["0"]


def test_lines_in_quarantine_are_reported_once(claimed: Folder) -> None:
    assert lake.unreported(claimed, 3) == 3
    lake.mark_reported(claimed, 3)
    assert (lake.unreported(claimed, 3), lake.unreported(claimed, 5)) == (0, 2)
