"""The files that a start finds in the journal's directory."""

from pathlib import Path

import pytest

from warren.errors import StoreError
from warren.node.disk.directory import FoundJournalFiles


def journal(path: Path, **contents: bytes) -> Path:
    for name, content in contents.items():
        (path / name).write_bytes(content)
    return path


def test_an_empty_journal_has_nothing(tmp_path: Path) -> None:
    files = FoundJournalFiles(str(tmp_path))
    assert (files.checkpoint(), files.segments(), files.strangers) == (None, [], [])


def test_segments_are_found_in_order_with_their_indexes_and_the_checkpoint(tmp_path: Path) -> None:
    contents = {
        "000000000010.seg": b"ten",
        "000000000009.seg": b"nine",
        "000000000009.idx": b"index of nine",
        "checkpoint": b"state",
        "spare": b"stale",
    }
    files = FoundJournalFiles(str(journal(tmp_path, **contents)))
    assert files.segments() == [9, 10]
    assert [files.segment(number) for number in (9, 10)] == [b"nine", b"ten"]
    assert [files.index(number) for number in (9, 10)] == [b"index of nine", None]
    assert files.checkpoint() == b"state"
    assert files.strangers == []
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(contents)


def test_files_that_were_never_finished_go_and_so_does_the_index_of_a_segment_that_is_gone(tmp_path: Path) -> None:
    unfinished = {"checkpoint.new": b"", "000000000003.seg.new": b"x", "000000000002.idx.new": b"x"}
    kept = {"000000000002.seg": b"two"}
    files = FoundJournalFiles(str(journal(tmp_path, **unfinished, **kept, **{"000000000001.idx": b"lone"})))
    assert files.segments() == [2]
    assert [path.name for path in tmp_path.iterdir()] == ["000000000002.seg"]


def test_files_of_others_are_named_and_left_alone(tmp_path: Path) -> None:
    strangers = ["1.seg", "0000000000001.seg", "backup.tar", "checkpoint.old"]
    files = FoundJournalFiles(str(journal(tmp_path, **dict.fromkeys(strangers, b"theirs"))))
    assert files.strangers == sorted(strangers)
    assert files.segments() == []
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(strangers)


def test_an_unreadable_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "000000000001.seg").mkdir()
    files = FoundJournalFiles(str(tmp_path))
    with pytest.raises(StoreError) as refused:
        files.segment(1)
    assert str(refused.value) == f"{tmp_path}/000000000001.seg cannot be used: Is a directory"
    with pytest.raises(StoreError) as refused:
        files.segment(2)
    assert str(refused.value) == f"{tmp_path}/000000000002.seg is missing"
