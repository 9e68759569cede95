"""A data directory is used if it is ours, and otherwise refused as it was found."""

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.node.disk.mounts import run_in_namespace
from warren.errors import ConfigError
from warren.node.disk.directory import DataDirectory

NAME = "hare@here"


def tree(path: Path) -> dict[str, bytes | None]:
    """Everything below a path: names and contents."""
    return {str(p.relative_to(path)): p.read_bytes() if p.is_file() else None for p in sorted(path.rglob("*"))}


def refusal(path: Path, name: str = NAME) -> str:
    """The sentence with which a directory is refused, which changed nothing."""
    before = tree(path) if path.is_dir() else {}
    with pytest.raises(ConfigError) as refused:
        DataDirectory(str(path), name)
    assert (tree(path) if path.is_dir() else {}) == before
    return str(refused.value)


def ours(path: Path, mark: str = f"warren 1\nname={NAME}\n") -> Path:
    path.mkdir()
    (path / "NODE").write_text(mark)
    return path


@pytest.mark.parametrize("below", ["data", "a/b/data"])
def test_a_directory_that_is_absent_is_made_with_its_parents(tmp_path: Path, below: str) -> None:
    directory = DataDirectory(str(tmp_path / below), NAME)
    assert tree(tmp_path / below) == {
        "NODE": b"warren 1\nname=hare@here\n",
        "LOCK": f"{os.getpid()}\n".encode(),
        "journal": None,
    }
    assert directory.journal_path == str(tmp_path / below / "journal")
    assert directory.metadata_path == str(tmp_path / below / "metadata.db")
    directory.close()


@pytest.mark.parametrize("left_over", [[], ["LOCK"], ["LOCK", "NODE.new"], ["lost+found"], ["cookie"]])
def test_a_directory_with_files_of_an_interrupted_start_or_an_operator_becomes_ours(
    tmp_path: Path, left_over: list[str]
) -> None:
    for name in left_over:
        (tmp_path / name).touch()
    DataDirectory(str(tmp_path), NAME).close()
    assert (tmp_path / "NODE").read_text() == "warren 1\nname=hare@here\n"
    assert not (tmp_path / "NODE.new").exists()


def test_a_directory_is_opened_again_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "data"
    DataDirectory(str(path), NAME).close()
    (path / "journal" / "000000000001.seg").write_bytes(b"x")
    before = tree(path)
    DataDirectory(str(path), NAME).close()
    assert tree(path) == before


def test_a_relative_path_stays_the_same_place_wherever_the_process_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    directory = DataDirectory("var", NAME)
    directory.close()
    assert directory.path == str(tmp_path / "var")


def test_a_file_is_no_directory_nor_is_anything_below_one(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    (tmp_path / "nowhere").symlink_to(tmp_path / "absent")
    for path in (file, file / "below", tmp_path / "nowhere"):
        assert refusal(path) == f"--data {path} is not a directory"


def test_a_place_where_nothing_can_be_made_is_refused() -> None:
    assert refusal(Path("/proc/self/data")).startswith("--data /proc/self/data cannot be written to: ")


@pytest.mark.parametrize("name", ["mail.txt", "journal", "metadata.db"])
def test_the_files_of_another_program_are_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert refusal(tmp_path) == (
        f"--data {tmp_path} holds files of another program; choose another directory with --data"
    )


def test_the_data_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = ours(tmp_path / "data", "warren 2\nname=hare@here\ncolour=blue\n")
    assert refusal(path) == f"--data {path} was written by a newer version (format 2); this one reads format 1"


@pytest.mark.parametrize(
    "mark", ["", "warren", "warren 1\n", "warren 1\nname=\n", "warren 0\nname=a@b\n", "warren x\nname=a@b\n", "\udcff"]
)
def test_a_damaged_mark_is_named(tmp_path: Path, mark: str) -> None:
    path = ours(tmp_path / "data", "")
    (path / "NODE").write_bytes(mark.encode(errors="surrogateescape"))
    assert refusal(path) == (f"the file {path}/NODE is damaged; it should read 'warren 1' and 'name=NAME@HOST'")


def test_the_data_of_another_node_is_refused_with_its_name(tmp_path: Path) -> None:
    DataDirectory(str(tmp_path), "hare@one").close()
    assert refusal(tmp_path, "hare@two") == (
        f"--data {tmp_path} holds the data of the node hare@one, not of hare@two; start it with --name hare@one, "
        "or choose another directory with --data"
    )


def test_a_directory_in_use_is_refused_with_the_pid_of_its_user(tmp_path: Path) -> None:
    directory = DataDirectory(str(tmp_path), NAME)
    assert refusal(tmp_path) == (
        f"--data {tmp_path} is in use by another node (pid {os.getpid()}); stop that one, or choose another directory "
        "with --data"
    )
    directory.close()
    DataDirectory(str(tmp_path), NAME).close()


def test_the_lock_goes_with_its_process_at_every_kind_of_end(tmp_path: Path) -> None:
    hold = (
        f"import sys, time; from warren.node.disk.directory import DataDirectory;"
        f"held = DataDirectory({str(tmp_path)!r}, {NAME!r}); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert f"(pid {holder.pid})" in refusal(tmp_path)
        holder.kill()
    DataDirectory(str(tmp_path), NAME).close()


def test_the_directory_of_another_user_is_refused_with_a_remedy(tmp_path: Path) -> None:
    path, owner = Path("/"), "root"
    if os.geteuid() == 0:
        path, owner = tmp_path / "data", "12345"
        path.mkdir()
        os.chown(path, 12345, 12345)
    before = os.listdir(path)
    user = pwd.getpwuid(os.geteuid()).pw_name
    with pytest.raises(ConfigError) as refused:
        DataDirectory(str(path), NAME)
    assert str(refused.value) == (
        f"--data {path} belongs to the user {owner}, and the node runs as {user}; run it as {owner}, or hand the "
        f"directory over with chown -R {user} {path}"
    )
    assert os.listdir(path) == before


READ_ONLY = """
import os, sys
from warren.errors import ConfigError
from warren.node.disk.directory import DataDirectory
try:
    DataDirectory(sys.argv[1], "hare@here")
except ConfigError as error:
    print(error)
print(os.listdir(sys.argv[1]))
"""


def test_a_read_only_file_system_is_refused(tmp_path: Path) -> None:
    printed = run_in_namespace(tmp_path, "ro,size=1m", READ_ONLY)
    assert printed == f"--data {tmp_path} cannot be written to: its file system is read-only\n[]\n"


def test_folders_become_private_and_nothing_beside_them_or_behind_a_link(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    outside = elsewhere / "file"
    path = ours(tmp_path / "data")
    inside = path / "streams" / "1" / "000000000001.chunks"
    inside.parent.mkdir(parents=True)
    for file in (outside, inside, path / "cookie"):
        file.write_text("secret")
        file.chmod(0o644)
    inside.parent.chmod(0o755)
    elsewhere.chmod(0o755)
    (path / "streams" / "link").symlink_to(outside)
    (path / "linked").symlink_to(elsewhere)
    DataDirectory(str(path), NAME).close()
    found = {
        one.name: one.stat().st_mode & 0o777 for one in (inside.parent, inside, path / "cookie", outside, elsewhere)
    }
    expected = {"1": 0o700, inside.name: 0o600, "cookie": 0o644, "file": 0o644, "elsewhere": 0o755}
    assert found == expected
