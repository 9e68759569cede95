"""All data of a node is removed at once, also after interruptions."""

from pathlib import Path

import pytest

from warren.node.disk import directory as reset
from warren.node.disk.directory import DataDirectory
from warren.node.disk.disk import Disk

NAME = "warren@test"


def fill(data: Path) -> None:
    Disk(str(data), NAME).close()
    (data / "cookie").write_text("a secret of this node")
    (data / "cluster.json").write_text("{}")
    (data / "journal" / "000000000001.seg").write_text("messages")
    (data / "etcd" / "data" / "member").mkdir(parents=True)
    (data / "etcd-identity").mkdir()


def test_after_a_reset_the_directory_is_that_of_a_node_without_data(tmp_path: Path) -> None:
    fill(tmp_path)
    directory = DataDirectory(str(tmp_path), NAME)
    directory.delete_everything()
    directory.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["LOCK", "NODE", "cookie", "journal"]
    assert list((tmp_path / "journal").iterdir()) == []


@pytest.mark.parametrize("interrupted_at", range(5))
def test_a_deletion_that_was_interrupted_is_finished_by_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupted_at: int
) -> None:
    fill(tmp_path)
    directory = DataDirectory(str(tmp_path), NAME)
    whole = reset._KEPT_BY_THE_NODE
    with monkeypatch.context() as cut:
        # None in place of a name raises, like the end of the process
        cut.setattr(reset, "_KEPT_BY_THE_NODE", (*whole[:interrupted_at], None))
        with pytest.raises(TypeError):
            directory.delete_everything()
    directory.close()
    DataDirectory(str(tmp_path), NAME).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["LOCK", "NODE", "cookie", "journal"]


def test_a_directory_that_changes_its_name_is_that_nodes(tmp_path: Path) -> None:
    fill(tmp_path)
    directory = DataDirectory(str(tmp_path), NAME)
    directory.rename("warren@other")
    directory.close()
    DataDirectory(str(tmp_path), "warren@other").close()
